use super::*;
use bowline_test_kit::{rows, says};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

const KEYED: [(&str, &str); 2] = [("EXOSCALE_API_KEY", "EXOk"), ("EXOSCALE_API_SECRET", "s")];

fn read(pairs: &[(&str, &str)], file: Option<&str>) -> Result<Config, ConfigErrors> {
    let map: BTreeMap<&str, &str> = pairs.iter().copied().collect();
    Config::read(|name| map.get(name).map(|value| (*value).to_owned()), file)
}

fn keyed(pairs: &[(&str, &str)], file: &str) -> Result<Config, ConfigErrors> {
    read(&[&KEYED[..], pairs].concat(), Some(file))
}

fn given(key: &str, secret: &str) -> CredentialSource {
    CredentialSource::Given(KeyPair {
        key: key.to_owned(),
        secret: Secret::new(secret),
    })
}

const FULL: &str = r#"
global:
  apiKey: "EXOfile"
  apiSecret: "hunter2"
  apiCredentialsFile: "/etc/exoscale/credentials.json"
"#;

#[test]
fn exoscale_case_01_no_credentials_is_an_error() {
    for environment in [
        &[][..],
        &[("EXOSCALE_API_KEY", "k")],
        &[("EXOSCALE_API_SECRET", "s")],
    ] {
        let with_zone = [environment, &[("EXOSCALE_API_ZONE", "ch-gva-2")]].concat();
        let errors = read(&with_zone, None).unwrap_err();
        assert_eq!(errors.0, [ConfigError::NoCredentials]);
        let text = errors.to_string();
        says(&text, "incomplete or missing Exoscale API credentials");
    }
}

#[test]
fn exoscale_case_02_the_environment_wins_over_the_file() {
    let config = keyed(&[], FULL).unwrap();
    assert_eq!(config.credentials, given("EXOk", "s"));
    let config = read(&[("EXOSCALE_API_KEY", "EXOother")], Some(FULL)).unwrap();
    assert_eq!(config.credentials, given("EXOother", "hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn exoscale_case_03_an_empty_variable_clears_the_files_value() {
    let path = CredentialSource::File("/etc/exoscale/credentials.json".into());
    let config = read(&[("EXOSCALE_API_KEY", "")], Some(FULL)).unwrap();
    assert_eq!(config.credentials, path);
    let cleared = [
        ("EXOSCALE_API_SECRET", ""),
        ("EXOSCALE_API_CREDENTIALS_FILE", ""),
    ];
    let errors = read(&cleared, Some(FULL)).unwrap_err();
    assert_eq!(errors.0, [ConfigError::NoCredentials]);
    let elsewhere = [
        ("EXOSCALE_API_SECRET", ""),
        ("EXOSCALE_API_CREDENTIALS_FILE", "x.json"),
    ];
    let config = read(&elsewhere, Some(FULL)).unwrap();
    assert_eq!(config.credentials, CredentialSource::File("x.json".into()));
}

#[test]
fn exoscale_case_04_a_complete_pair_leaves_the_file_alone() {
    let file = [("EXOSCALE_API_CREDENTIALS_FILE", "/does/not/exist")];
    assert_eq!(keyed(&file, "").unwrap().credentials, given("EXOk", "s"));
    assert_eq!(
        read(&[], Some(FULL)).unwrap().credentials,
        given("EXOfile", "hunter2")
    );
}

#[test]
fn exoscale_case_05_and_103_an_empty_file_means_the_defaults() {
    for file in [
        "---",
        "---\n",
        "",
        "# only a comment\n",
        "\n\n",
        "{}",
        "global:\ninstances:\n",
    ] {
        let config = keyed(&[], file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        assert!(!config.instances.disabled && !config.instances.external_only);
        assert!(config.instances.overrides.is_empty());
        assert_eq!(config.load_balancer, LoadBalancerConfig::default());
        assert_eq!(
            (config.zone, config.node_csr_validation, config.trace),
            (None, false, false)
        );
        assert_eq!(config.endpoint, of_zone("api"), "{file:?}");
    }
}

#[test]
fn exoscale_case_103_a_value_of_the_wrong_type_stops_the_start() {
    for file in [
        "instances:\n  overrides: all\n",
        "instances:\n  disabled: [1]\n",
        "global: text\n",
        "loadBalancer:\n  - disabled\n",
        "global:\n  apiSecret: {a: hunter2}\n",
        "- a\n",
        "global: {",
    ] {
        let text = keyed(&[], file).unwrap_err().to_string();
        assert!(
            text.contains("the cloud config file cannot be read"),
            "{file}: {text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn only_the_first_document_counts_and_unknown_keys_mean_nothing() {
    let file = "global:\n  zone: at-vie-1\n  wat: 1\ninstances:\n  Disabled: true\nnew: {}\n\
                ---\nglobal:\n  zone: de-fra-1\ninstances: nonsense\n";
    let config = keyed(&[], file).unwrap();
    assert_eq!(config.zone.unwrap().value, "at-vie-1");
    assert!(!config.instances.disabled);
    let both = "instances: {disabled: true, externalOnly: true}\nloadBalancer: {disabled: true}";
    let config = keyed(&[], both).unwrap();
    assert!(config.instances.disabled && config.instances.external_only);
    assert!(config.load_balancer.disabled);
}

#[test]
fn exoscale_case_08_the_newer_variable_of_the_zone_goes_before_the_older_one() {
    let both = [
        ("EXOSCALE_API_ZONE", "at-vie-1"),
        ("EXOSCALE_ZONE", "de-fra-1"),
    ];
    let zone = keyed(&both, "").unwrap().zone.unwrap();
    assert_eq!(zone.value, "at-vie-1");
}

#[test]
fn exoscale_case_09_the_older_variable_of_the_zone_is_enough() {
    let zone = keyed(&[("EXOSCALE_ZONE", "de-fra-1")], "").unwrap().zone;
    assert_eq!(zone.unwrap().value, "de-fra-1");
}

#[test]
fn the_zone_is_the_first_that_is_not_empty() {
    let file = "global: {zone: hr-zag-1}";
    let (new, old) = (
        ("EXOSCALE_API_ZONE", "at-vie-1"),
        ("EXOSCALE_ZONE", "de-fra-1"),
    );
    for (environment, wanted) in [
        (&[new, old][..], "at-vie-1"),
        (&[old], "de-fra-1"),
        (&[("EXOSCALE_API_ZONE", ""), old], "de-fra-1"),
        (
            &[("EXOSCALE_API_ZONE", ""), ("EXOSCALE_ZONE", "")],
            "hr-zag-1",
        ),
        (&[("EXOSCALE_DEFAULT_ZONE", "bg-sof-1")], "hr-zag-1"),
    ] {
        let zone = keyed(environment, file).unwrap().zone.unwrap();
        assert_eq!(zone.value, wanted, "{environment:?}");
    }
    let unset = keyed(&[("EXOSCALE_DEFAULT_ZONE", "bg-sof-1")], "").unwrap();
    assert_eq!((unset.zone, unset.warnings.len()), (None, 0));
    let odd = keyed(&[("EXOSCALE_API_ZONE", "ch-gva-2.evil.test/")], "").unwrap_err();
    assert!(odd.to_string().contains("EXOSCALE_API_ZONE"), "{odd}");
}

#[test]
fn exoscale_case_102_the_endpoint_has_its_precedence() {
    const FILE: &str = "global: {apiEndpoint: 'https://file.test/v2', apiEnvironment: other}";
    let variables = |text: &'static str| -> Vec<(&str, &str)> {
        let pairs = text
            .split_whitespace()
            .filter_map(|pair| pair.split_once('='));
        let names = [
            ("endpoint", "EXOSCALE_API_ENDPOINT"),
            ("env", "EXOSCALE_API_ENVIRONMENT"),
        ];
        pairs
            .map(|(key, value)| (BTreeMap::from(names)[key], value))
            .collect()
    };
    for [set, file, wanted] in rows(
        "                                   |                                | zone api
                                            | FILE                           | https://file.test/v2
         endpoint=                          | FILE                           | zone api
         endpoint= env=ppapi                | FILE                           | zone api
         endpoint=http://127.0.0.1:9000/v2  | FILE                           | http://127.0.0.1:9000/v2
         endpoint=http://127.0.0.1:9000/v2/ |                                | http://127.0.0.1:9000/v2
         env=ppapi                          | FILE                           | PPAPI
         env=beta                           | FILE                           | zone beta
         env=                               | FILE                           | https://file.test/v2
         env=api                            | FILE                           | https://file.test/v2
                                            | global: {apiEnvironment: ppapi} | PPAPI
         env=api                            | global: {apiEnvironment: ppapi} | zone api
                                            | global: {apiEnvironment: beta} | zone beta",
    ) {
        let file = if file == "FILE" { FILE } else { file };
        let wanted = match (wanted.split_once(' '), wanted) {
            (Some((_, environment)), _) => of_zone(environment),
            (None, "PPAPI") => Endpoint::Listing(BaseUrl::parse(PRE_PRODUCTION_ENDPOINT).unwrap()),
            (None, url) => Endpoint::Listing(BaseUrl::parse(url).unwrap()),
        };
        let config = keyed(&variables(set), file).unwrap();
        assert_eq!(config.endpoint, wanted, "{set} {file}");
    }
    assert_eq!(
        PRE_PRODUCTION_ENDPOINT,
        "https://ppapi-ch-gva-2.exoscale.com/v2"
    );
    for [set, file, named] in rows(
        "endpoint=https://u:hunter2@x/v2 |                                        | EXOSCALE_API_ENDPOINT
                                         | global: {apiEndpoint: 'ftp://hunter2'} | global.apiEndpoint
         env=evil.test/                  |                                        | EXOSCALE_API_ENVIRONMENT
                                         | global: {apiEnvironment: 'a b'}        | global.apiEnvironment",
    ) {
        let text = keyed(&variables(set), file).unwrap_err().to_string();
        assert!(text.contains(named) && !text.contains("hunter2"), "{text}");
    }
}

#[test]
fn exoscale_case_14_an_unknown_runner_stops_the_start() {
    let with = |list| keyed(&[("EXOSCALE_SKS_AGENT_RUNNERS", list)], "");
    assert!(with("node-csr-validation").unwrap().node_csr_validation);
    assert!(!with("").unwrap().node_csr_validation);
    for (list, item) in [
        ("node-csr-validation,foo", "foo"),
        ("node-csr-validation, foo", " foo"),
        ("node-csr-validation,", ""),
    ] {
        let text = with(list).unwrap_err().to_string();
        says(&text, &format!("unsupported runner {item:?}"));
    }
}

#[test]
fn settings_of_our_own_are_checked() {
    let id = "0f0e0d0c-0b0a-4908-8706-050403020100";
    let file =
        format!("loadBalancer: {{defaultInstancePoolID: {id}, localPolicyHealthCheck: http}}");
    let config = keyed(&[("EXOSCALE_TRACE", "1")], &file).unwrap();
    let pool = config.load_balancer.default_instance_pool.unwrap();
    assert_eq!(pool.to_string(), id);
    let check = config.load_balancer.local_policy_health_check;
    assert_eq!((check, config.trace), (LocalPolicyHealthCheck::Http, true));
    for (key, value) in [
        ("defaultInstancePoolID", "web"),
        ("localPolicyHealthCheck", "udp"),
    ] {
        let file = format!("loadBalancer: {{{key}: {value}}}");
        let text = keyed(&[], &file).unwrap_err().to_string();
        says(&text, &format!("loadBalancer.{key}"));
    }
    let odd = [
        ("EXOSCALE_API_KEY", "hunter2 x"),
        ("EXOSCALE_API_SECRET", "s"),
    ];
    let text = read(&odd, None).unwrap_err().to_string();
    assert!(
        text.contains("credentials") && !text.contains("hunter2"),
        "{text}"
    );
}

#[test]
fn every_row_is_read_and_every_read_has_its_row() {
    let asked = RefCell::new(BTreeSet::new());
    let _ = Config::read(
        |name| {
            asked.borrow_mut().insert(name.to_owned());
            None
        },
        None,
    );
    let rows: BTreeSet<String> = VARIABLES.iter().map(|row| row.name.to_owned()).collect();
    assert_eq!(*asked.borrow(), rows);
    for row in VARIABLES.iter().chain(&KEYS) {
        assert!(reference().contains(&format!("| `{}` |", row.name)));
        assert!(!format!("{}{}{}", row.meaning, row.allowed, row.default).contains('|'));
    }
}

const OVERRIDES: &str = r#"
instances:
  overrides:
    - {name: "/^edge-/", external: true}
    - name: "edge-1"
      external: true
      externalID: "rack7-u12"
      type: "baremetal-a"
      region: "onprem-zrh"
      addresses:
        - {type: InternalIP, address: "10.20.0.11"}
        - {type: ExternalIP, address: "203.0.113.11"}
    - {name: "/^gpu-.*/", external: true}
    - {name: "/([/", external: true}
    - {name: n1, type: big, region: nowhere}
    - {name: "", external: true, externalID: nameless}
    - {name: "//x+y//"}
    - {name: "edge-9", external: true}
"#;

#[test]
fn overrides_are_found_by_name_and_by_provider_id() {
    let config = keyed(&[], OVERRIDES).unwrap();
    let overrides = config.instances.overrides;
    let name = |found: Option<&Override>| found.map(|it| it.name().to_owned());
    for (node, wanted) in [
        // An exact name wins over an expression, wherever it stands.
        ("edge-1", Some("edge-1")),
        ("edge-3", Some("/^edge-/")),
        ("gpu-7", Some("/^gpu-.*/")),
        ("not-gpu-7", None),
        ("n1", Some("n1")),
        ("a-xxy-b", Some("//x+y//")),
        ("", None),
        ("other", None),
    ] {
        assert_eq!(name(overrides.by_name(node)).as_deref(), wanted, "{node}");
    }
    let gpu = "external-e98c73596beb9092d8ce21ea20b982c5e66f480aaab6160792fd4b9ff5045fbb";
    for (id, wanted) in [
        ("exoscale://rack7-u12", Some("edge-1")),
        ("rack7-u12", Some("edge-1")),
        ("exoscale://nameless", Some("")),
        (&format!("exoscale://{gpu}"), Some("/^gpu-.*/")),
        ("exoscale://nobody", None),
    ] {
        assert_eq!(
            name(overrides.by_provider_id(id)).as_deref(),
            wanted,
            "{id}"
        );
    }
    let found = overrides.find("edge-3", Some("exoscale://rack7-u12"));
    assert_eq!(name(found).as_deref(), Some("edge-1"), "the id comes first");
    let found = overrides.find("edge-3", Some("exoscale://nobody"));
    assert_eq!(name(found).as_deref(), Some("/^edge-/"));
    assert_eq!(
        name(overrides.find("gpu-1", Some(""))).as_deref(),
        Some("/^gpu-.*/")
    );
}

#[test]
fn provider_ids_of_external_nodes_are_given_or_made_from_the_name() {
    let config = keyed(&[], OVERRIDES).unwrap();
    let overrides = &config.instances.overrides;
    let id = |node| overrides.by_name(node).unwrap().provider_id();
    assert_eq!(id("edge-1"), "exoscale://rack7-u12");
    assert_eq!(
        id("gpu-7"),
        "exoscale://external-e98c73596beb9092d8ce21ea20b982c5e66f480aaab6160792fd4b9ff5045fbb"
    );
    let plain = keyed(
        &[],
        "instances: {overrides: [{name: edge-1, external: true}]}",
    )
    .unwrap();
    assert_eq!(
        plain
            .instances
            .overrides
            .by_name("edge-1")
            .unwrap()
            .provider_id(),
        "exoscale://external-df594d71a145abdc3d2b8d6c6fa910dd4bb21f63de731ecd11fe97b6ff6ce691"
    );
    let edge = overrides.by_name("edge-1").unwrap();
    assert_eq!(edge.instance_type.as_deref(), Some("baremetal-a"));
    assert_eq!(edge.region.as_deref(), Some("onprem-zrh"));
    let shown: Vec<String> = edge
        .addresses
        .iter()
        .map(|it| format!("{} {}", it.kind.as_str(), it.address))
        .collect();
    assert_eq!(shown, ["InternalIP 10.20.0.11", "ExternalIP 203.0.113.11"]);
    let warnings = config.warnings.join("\n");
    says(&warnings, "invalid regular expression: /([/");
    assert_eq!(
        warnings.matches("share one provider id").count(),
        2,
        "{warnings}"
    );
}

#[test]
fn exoscale_case_91_a_bad_override_stops_the_start_and_is_named() {
    for [text, key] in rows(
        "type: 'nuc x' | type
         region: '-a'  | region
         addresses: [{type: Hostname, address: w}, {type: Internal, address: x}] | addresses[1].type
         addresses: [{type: ExternalIP, address: here}] | addresses[0].address
         addresses: [{type: Hostname}] | addresses[0].address",
    ) {
        let file = format!("instances: {{overrides: [{{name: a}}, {{name: edge-1, {text}}}]}}");
        let error = keyed(&[], &file).unwrap_err().to_string();
        let wanted = format!("instances.overrides[1] (name \"edge-1\"): {key}: ");
        says(&error, &wanted);
    }
    for slashes in ["/", "//", "///"] {
        let file = format!("instances: {{overrides: [{{name: '{slashes}'}}]}}");
        let error = keyed(&[], &file).unwrap_err().to_string();
        assert!(
            error.contains("instances.overrides[0]") && error.contains("name: "),
            "{error}"
        );
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let environment = [
        ("EXOSCALE_API_ENDPOINT", "nonsense"),
        ("EXOSCALE_API_ZONE", "a b"),
    ];
    let errors = read(
        &environment,
        Some("loadBalancer: {localPolicyHealthCheck: x}"),
    );
    assert_eq!(errors.unwrap_err().0.len(), 4);
}
