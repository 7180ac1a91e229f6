use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::BuildError;
use crate::settings::{CloudConfig, Settings};

fn findings(text: &str) -> Vec<String> {
    let config = Config::read(text).unwrap();
    config.findings.iter().map(ToString::to_string).collect()
}

/// The labels that the file's rules give to a machine.
fn labels(config: &Config) -> Vec<String> {
    let metadata = crate::instances::machine::PlatformMetadata::default();
    let matching = config.rules.matching(&metadata).unwrap();
    let system = crate::instances::machine::SystemInformation::default();
    let labels = matching.apply(&metadata, &system).unwrap().labels;
    labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

#[test]
fn talos_case_82_which_files_can_be_read() {
    for empty in [
        "",
        "# nothing\n",
        "global:\n",
        "---\n",
        "null\n",
        "---\n---\n",
        "transformations: ~\n",
    ] {
        let config = Config::read(empty).unwrap();
        assert!(config.rules.is_empty() && !config.prefer_ipv6, "{empty:?}");
        assert_eq!(config.findings, [], "{empty:?}");
    }
    for wrong in [
        "global: {}\nglobal: {}\n",
        "global: {preferIPv6: \"true\"}\n",
        "global: {preferIPv6: 1}\n",
        "transformations: [{nodeSelector: {}}]\n",
        "transformations: [{labels: {a: [x]}}]\n",
        "transformations: [{labels: {a: 1, a: 2}}]\n",
        "transformations: {}\n",
        "global: [\n",
    ] {
        let error = Config::read(wrong).unwrap_err();
        assert!(matches!(error, ConfigError::Decode(_)), "{wrong:?}");
        assert!(
            error.to_string().contains("line "),
            "{error} does not say where"
        );
    }
    let second = Config::read("global: {preferIPv6: yes}\n---\nglobal: [\n").unwrap();
    assert!(second.prefer_ipv6);
    let texts =
        "transformations: [{labels: {a: 1.50, b: yes, c: null, d: 0x10, e: 2020-01-01, 1: ~}}]\n";
    assert_eq!(
        labels(&Config::read(texts).unwrap()),
        ["1=", "a=1.50", "b=yes", "c=", "d=0x10", "e=2020-01-01"]
    );
}

#[test]
fn truth_has_the_usual_spellings() {
    for (text, wanted) in [
        ("true", true),
        ("True", true),
        ("YES", true),
        ("on", true),
        ("no", false),
        ("Off", false),
        ("~", false),
    ] {
        let config = Config::read(&format!("global: {{preferIPv6: {text}}}")).unwrap();
        assert_eq!(config.prefer_ipv6, wanted, "{text}");
    }
}

#[test]
fn rules_only_add_unless_the_file_says_that_they_own() {
    assert!(!Config::read("").unwrap().enforce);
    let config = Config::read("global: {enforceTransformations: true}").unwrap();
    assert!(config.enforce);
    assert_eq!(config.findings, []);
    assert!(Config::read("global: {enforceTransformations: \"true\"}").is_err());
}

#[test]
fn talos_case_83_unknown_keys_are_told_with_their_path() {
    let text = "
global:
  endpoints: [10.0.0.2, 10.0.0.3]
  PreferIPv6: true
transformations:
- name: a
  nodeSelector:
  - name: fine
    matchExpressions:
    - {key: platform, operator: Exists}
  labels: {any.example/key: v}
  features: {publicIPPredict: true}
  platformmetadata: {}
";
    let config = Config::read(text).unwrap();
    assert!(config.prefer_ipv6);
    assert_eq!(config.endpoints, ["10.0.0.2", "10.0.0.3"]);
    assert!(
        config
            .findings
            .iter()
            .all(|it| it.severity == Severity::Warning)
    );
    let paths: Vec<&str> = config.findings.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "global.endpoints",
            "global.PreferIPv6",
            "transformations[0].features.publicIPPredict",
            "transformations[0].platformmetadata",
        ]
    );
    assert_eq!(
        findings("global: {approveNodeCSR: true}\nextra: {a: {b: c}}"),
        [
            "global.approveNodeCSR: is no longer a key; the controller node-csr-approval does this",
            "extra: is no known key and has no effect",
        ]
    );
    // The right spelling counts where both are there.
    let both = Config::read("global: {PreferIPv6: true, preferIPv6: false}").unwrap();
    assert!(!both.prefer_ipv6);
}

#[test]
fn talos_case_84_a_name_that_is_no_label_value_is_left_out() {
    let config = Config::read("global: {clusterName: \"my cluster\"}").unwrap();
    assert_eq!(config.cluster_name(None), None);
    assert_eq!(config.cluster_name(Some("other")), None);
    assert_eq!(
        findings("global: {clusterName: \"my cluster\"}"),
        ["global.clusterName: \"my cluster\" is no value of a label: nodes get no label with it"]
    );
}

#[test]
fn talos_case_22_the_files_name_before_that_of_the_credentials() {
    let silent = Config::read("").unwrap();
    assert_eq!(
        silent.cluster_name(Some("prod-eu")).as_deref(),
        Some("prod-eu")
    );
    assert_eq!(silent.cluster_name(Some("prod eu")), None);
    assert_eq!(silent.cluster_name(None), None);
    let named = Config::read("global: {clusterName: blue}").unwrap();
    assert_eq!(named.cluster_name(Some("prod-eu")).as_deref(), Some("blue"));
}

#[tokio::test]
async fn talos_case_87_a_bad_file_leaves_the_old_rules_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud.yaml");
    let write = |text: &str| std::fs::write(&path, text).unwrap();
    write("transformations: [{labels: {a: one}}]");
    let settings = Settings::begin(CloudConfig {
        path: path.display().to_string(),
        text: None,
        metrics: None,
    });
    let settings = settings.unwrap();
    let in_force = || labels(&settings.now().unwrap());
    for bad in [
        "transformations: [",
        "transformations: [{labels: {a: \"{{ nofunc }}\"}}]",
        "transformations: [{nodeSelector: [{matchExpressions: [{key: hostname, operator: Regexp, values: [\"[\"]}]}]}]",
    ] {
        write(bad);
        settings.look().await;
        let wrong = settings.wrong().unwrap();
        assert!(matches!(*wrong, BuildError::Config { .. }), "{bad}");
        assert_eq!(in_force(), ["a=one"]);
        settings.look().await;
        // Checked once, and so said once.
        assert!(Arc::ptr_eq(&wrong, &settings.wrong().unwrap()));
    }
    write("transformations: [{labels: {a: two}}]");
    settings.look().await;
    assert!(settings.wrong().is_none());
    assert_eq!(in_force(), ["a=two"]);
}

#[test]
fn a_file_is_refused_with_all_that_is_wrong() {
    let text = "
transformations:
- labels: {\"-a\": b, c: \"{{ end }}\"}
- name: zone
  nodeSelector: [{matchExpressions: [{key: zone, operator: is}]}]
";
    let Err(ConfigError::Rules(findings)) = Config::read(text) else {
        panic!("was not refused");
    };
    let paths: Vec<&str> = findings.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "transformations[0].labels[\"-a\"]",
            "transformations[0].labels[\"c\"]",
            "transformations[1] (zone).nodeSelector[0].matchExpressions[0]",
        ]
    );
}

#[test]
fn a_file_larger_than_any_config_map_is_refused() {
    assert!(Config::read(&"#".repeat(LARGEST_FILE + 1)).is_err());
}

fn environment(pairs: &[(&str, &str)]) -> Environment {
    let find = |name: &str| pairs.iter().find(|(key, _)| *key == name);
    Environment::read(|name| find(name).map(|(_, value)| (*value).to_owned()))
}

fn candidates(pairs: &[(&str, &str)]) -> Vec<String> {
    let found = environment(pairs).candidates;
    found
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}

const MOUNTED: &str = "/var/run/secrets/talos.dev/config";

#[test]
fn talos_case_89_without_a_home_the_other_places_count() {
    assert_eq!(
        candidates(&[("TALOSCONFIG", "/etc/t")]),
        ["/etc/t", MOUNTED]
    );
    assert_eq!(candidates(&[]), [MOUNTED]);
}

#[test]
fn the_talosconfig_is_looked_for_in_order() {
    let all = [
        ("TALOSCONFIG", "/etc/t"),
        ("TALOS_HOME", "/th"),
        ("HOME", "/h"),
    ];
    assert_eq!(candidates(&all), ["/etc/t", "/th/config", MOUNTED]);
    let relative = [("TALOSCONFIG", ""), ("TALOS_HOME", "th"), ("HOME", "/h")];
    assert_eq!(candidates(&relative), ["/h/.talos/config", MOUNTED]);
}

#[test]
fn endpoints_are_cut_at_commas_as_they_are() {
    assert_eq!(
        environment(&[("TALOS_ENDPOINTS", "")]).endpoints,
        Vec::<String>::new()
    );
    assert_eq!(
        environment(&[("TALOS_ENDPOINTS", "10.0.0.2, b:1")]).endpoints,
        ["10.0.0.2", " b:1"]
    );
}

#[test]
fn the_reference_page_has_every_variable() {
    let page = reference();
    assert!(
        VARIABLES
            .iter()
            .all(|variable| page.contains(variable.name))
    );
}

/// Lines of files, whole or not, in any order.
fn lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("global:"),
        Just("  preferIPv6: yes"),
        Just("  clusterName: a b"),
        Just("  endpoints: [a]"),
        Just("transformations:"),
        Just("- name: a"),
        Just("  nodeSelector:"),
        Just("  - matchExpressions:"),
        Just("    - {key: zone, operator: Regexp, values: [\"[\"]}"),
        Just("    - {key: zone, operator: Gt, values: [x]}"),
        Just("  labels: {a: \"{{ .Zone }}\", \"-b\": \"{{\"}"),
        Just("  taints: {a: v:NoSchedule, b: ~}"),
        Just("  platformMetadata: {ProviderID: \"{{ .UUID }}\", tags: x}"),
        Just("  features: {publicIPDiscovery: on}"),
        Just("---"),
        Just("&a *a"),
        Just("\t- ["),
    ];
    proptest::collection::vec(line, 0..14).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn any_file_is_read_or_refused_and_its_rules_apply_or_not(text in lines()) {
        let metadata = crate::instances::machine::PlatformMetadata::default();
        let system = crate::instances::machine::SystemInformation::default();
        match Config::read(&text) {
            Ok(config) => {
                let matching = config.rules.matching(&metadata);
                let _ = matching.and_then(|matching| matching.apply(&metadata, &system));
            }
            Err(ConfigError::Rules(findings)) => prop_assert!(!findings.is_empty()),
            Err(ConfigError::Decode(reason)) => prop_assert!(!reason.is_empty()),
        }
    }

    #[test]
    fn any_text_is_a_file_or_none(text in "\\PC{0,80}") {
        let _ = Config::read(&text);
    }
}

#[test]
fn the_reference_page_tells_of_every_key() {
    let documented: Vec<&str> = super::environment::KEYS
        .iter()
        .flat_map(|key| key.name.split("`, `"))
        .map(|name| name.rsplit('.').next().unwrap())
        .collect();
    for key in [
        "clusterName",
        "preferIPv6",
        "enforceTransformations",
        "name",
        "nodeSelector",
        "annotations",
        "labels",
        "taints",
        "platformMetadata",
        "matchExpressions",
        "key",
        "operator",
        "values",
        "publicIPDiscovery",
    ] {
        assert!(documented.contains(&key), "{key}");
    }
}
