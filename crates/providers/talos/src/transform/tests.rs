//! The numbered cases about rules.

mod vectors;

use super::*;
use crate::config::{Config, ConfigError};
use crate::testing::node;
use bowline_core::metadata::{Additions, additions};
use bowline_core::{MetadataPolicy, NodeMetadata};
use bowline_test_kit::{begins, ends, rows, says};

fn metadata() -> PlatformMetadata {
    PlatformMetadata {
        platform: "hcloud".into(),
        hostname: "web-1".into(),
        provider_id: "hcloud://1".into(),
        ..PlatformMetadata::default()
    }
}

fn config(rules: &str) -> Config {
    Config::read(&format!("transformations:\n{rules}")).unwrap()
}

fn apply_with(
    rules: &str,
    metadata: &PlatformMetadata,
    system: &SystemInformation,
) -> Result<Transformed, String> {
    let config = config(rules);
    let matching = config
        .rules
        .matching(metadata)
        .map_err(|error| error.to_string())?;
    matching
        .apply(metadata, system)
        .map_err(|error| error.to_string())
}

fn apply(rules: &str, metadata: &PlatformMetadata) -> Result<Transformed, String> {
    apply_with(rules, metadata, &SystemInformation::default())
}

/// The label `hit` of a rule with that selector, or the error.
fn hits(selector: &str, metadata: &PlatformMetadata) -> Result<bool, String> {
    let rules = format!("- nodeSelector: {selector}\n  labels: {{hit: \"yes\"}}\n");
    apply(&rules, metadata).map(|result| result.labels.contains_key("hit"))
}

fn requirement(key: &str, operator: &str, values: &str) -> String {
    let inner = format!("{{key: {key}, operator: {operator}, values: {values}}}");
    format!("[{{matchExpressions: [{inner}]}}]")
}

fn refused(rules: &str) -> String {
    match Config::read(&format!("transformations:\n{rules}")) {
        Err(error @ ConfigError::Rules(_)) => error.to_string(),
        other => panic!("{rules} gave {other:?}"),
    }
}

fn pairs(map: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    map.iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect()
}

#[test]
fn talos_case_28_without_rules_the_firmware_is_not_asked() {
    let none = Config::default();
    let matching = none.rules.matching(&metadata()).unwrap();
    assert!(!matching.need_system_information());
    // Nor with rules that do not look at it.
    for (rules, needed) in [
        ("- labels: {a: b}", false),
        ("- labels: {a: \"{{ .Zone }}\"}", false),
        ("- labels: {a: \"{{ .UUID }}\"}", true),
        ("- labels: {a: \"{{ .SystemInformationSpec.UUID }}\"}", true),
        (
            "- labels: {a: \"{{ with .Zone }}{{ $.BIOSVersion }}{{ end }}\"}",
            true,
        ),
        ("- platformMetadata: {hostname: \"{{ .UUID }}\"}", false),
        (
            "- nodeSelector: [{matchExpressions: [{key: platform, operator: In, values: [gcp]}]}]\n  labels: {a: \"{{ .UUID }}\"}",
            false,
        ),
    ] {
        let config = config(rules);
        let matching = config.rules.matching(&metadata()).unwrap();
        assert_eq!(matching.need_system_information(), needed, "{rules}");
    }
}

#[test]
fn talos_case_29_no_selector_matches_all_and_an_empty_term_nothing() {
    let all = apply("- labels: {a: b}", &metadata()).unwrap();
    assert_eq!(pairs(&all.labels), [("a", "b")]);
    assert!(!hits("[{}]", &metadata()).unwrap());
    assert!(!hits("[{matchExpressions: []}]", &metadata()).unwrap());
    assert!(hits("[]", &metadata()).unwrap());
}

#[test]
fn talos_case_30_one_term_is_enough() {
    let selector = "[{matchExpressions: [{key: platform, operator: In, values: [metal]}]}, \
                    {matchExpressions: [{key: hostname, operator: Regexp, values: [\"^db-\"]}]}]";
    for (hostname, hit) in [("db-1", true), ("web-1", false)] {
        let machine = PlatformMetadata {
            hostname: hostname.into(),
            ..metadata()
        };
        assert_eq!(hits(selector, &machine), Ok(hit), "{hostname}");
    }
}

#[test]
fn talos_case_31_keys_in_any_case_and_values_in_theirs() {
    let machine = PlatformMetadata {
        instance_type: "c2".into(),
        ..metadata()
    };
    for (key, value, hit) in [
        ("InstanceType", "c2", true),
        ("instancetype", "c2", true),
        ("INSTANCETYPE", "C2", false),
    ] {
        let selector = requirement(key, "In", &format!("[{value}]"));
        assert_eq!(hits(&selector, &machine), Ok(hit), "{key} {value}");
    }
}

#[test]
fn talos_case_32_what_is_missing_is_in_no_list() {
    for (key, operator, values, hit) in [
        ("zone", "NotIn", "[x]", false),
        ("zone", "In", "[x]", false),
        ("zone", "DoesNotExist", "[]", true),
        ("zone", "Exists", "[]", false),
        ("spot", "DoesNotExist", "[]", false),
        ("spot", "In", "[\"false\"]", true),
        ("platform", "NotIn", "[metal]", true),
        ("platform", "NotIn", "[metal, hcloud]", false),
        ("tags", "Exists", "[]", false),
        ("uuid", "Exists", "[]", false),
        ("providerid", "Exists", "[]", true),
    ] {
        let selector = requirement(key, operator, values);
        assert_eq!(
            hits(&selector, &metadata()),
            Ok(hit),
            "{key} {operator} {values}"
        );
    }
}

#[test]
fn talos_case_33_numbers_are_compared_as_numbers() {
    let machine = |id: &str| PlatformMetadata {
        instance_id: id.into(),
        ..metadata()
    };
    let greater = requirement("instanceid", "Gt", "[5]");
    assert_eq!(hits(&greater, &machine("10")), Ok(true));
    assert_eq!(hits(&greater, &machine("5")), Ok(false));
    assert_eq!(hits(&greater, &machine("-10")), Ok(false));
    assert_eq!(
        hits(&requirement("instanceid", "Lt", "[5]"), &machine("-10")),
        Ok(true)
    );
    let error = hits(&greater, &machine("i-1")).unwrap_err();
    assert_eq!(
        error,
        "transformations[0]: failed to parse value i-1 as int"
    );
    assert_eq!(
        hits(&requirement("zone", "Gt", "[abc]"), &metadata()),
        Ok(false)
    );
}

#[test]
fn talos_case_34_the_number_of_values_is_checked_at_load() {
    for [operator, values, why] in rows(
        "In           | []     | values must be non-empty for operator 'In'
         NotIn        | []     | values must be non-empty for operator 'NotIn'
         Exists       | [a]    | values must be empty for operator Exists
         DoesNotExist | [a]    | values must be empty for operator DoesNotExist
         Gt           | []     | values must have a single element for operator Gt
         Lt           | [1, 2] | values must have a single element for operator Lt
         Regexp       | [a, b] | values must have a single element for operator Regexp",
    ) {
        let selector = requirement("zone", operator, values);
        let error = refused(&format!("- name: r\n  nodeSelector: {selector}\n"));
        ends(
            &error,
            &format!("transformations[0] (r).nodeSelector[0].matchExpressions[0]: {why}"),
        );
    }
}

#[test]
fn talos_case_35_operators_have_one_spelling() {
    let error = refused(&format!(
        "- nodeSelector: {}\n",
        requirement("zone", "in", "[a]")
    ));
    ends(&error, "in not a valid selector operator");
}

#[test]
fn talos_case_36_rules_see_the_machine_as_it_was() {
    let machine = PlatformMetadata {
        zone: "z-old".into(),
        ..metadata()
    };
    let result = apply(
        "- platformMetadata: {Zone: z-new}
- nodeSelector: [{matchExpressions: [{key: zone, operator: In, values: [z-new]}]}]
  labels: {hit: \"yes\"}
- labels: {zone-copy: \"{{ .Zone }}\"}",
        &machine,
    )
    .unwrap();
    assert_eq!(result.metadata.zone, "z-new");
    assert_eq!(pairs(&result.labels), [("zone-copy", "z-old")]);
}

#[test]
fn talos_case_37_the_later_rule_wins() {
    let result = apply("- labels: {tier: a}\n- labels: {tier: b}", &metadata()).unwrap();
    assert_eq!(pairs(&result.labels), [("tier", "b")]);
}

#[test]
fn talos_case_38_fields_that_cannot_be_set() {
    let wrong = "platformMetadata: {hostname: x, Platform: y, wrong: \"{{ .Nope }}\"}";
    // For every machine it is found when the rules are read.
    let error = refused(&format!("- {wrong}"));
    says(&error, "can't evaluate field Nope");
    let selector = "nodeSelector: [{matchExpressions: [{key: platform, operator: Exists}]}]";
    let error = apply(&format!("- {selector}\n  {wrong}"), &metadata()).unwrap_err();
    says(&error, "failed to transformer platform metadata \"wrong\"");
    says(&error, "can't evaluate field Nope");
    let idle = apply(
        "- platformMetadata: {hostname: x, Platform: \"{{ .Nope }}\"}",
        &metadata(),
    );
    assert_eq!(idle.unwrap().metadata, metadata());
    let error = refused("- platformMetadata: {tAgs: x}");
    ends(&error, "unsupported platform metadata field tAgs");
}

#[test]
fn talos_case_39_texts_are_trimmed_and_spot_is_exact() {
    for (text, spot) in [
        ("True", false),
        ("true ", false),
        ("true", true),
        ("", false),
    ] {
        let rules = format!("- platformMetadata: {{spot: \"{text}\"}}");
        let machine = PlatformMetadata {
            spot: !spot,
            ..metadata()
        };
        assert_eq!(
            apply(&rules, &machine).unwrap().metadata.spot,
            spot,
            "{text:?}"
        );
    }
    let zone = apply("- platformMetadata: {zoNe: \"  z1 \\n\"}", &metadata()).unwrap();
    assert_eq!(zone.metadata.zone, "z1");
}

#[test]
fn talos_case_42_labels_in_kubernetes_name_spaces_are_set() {
    let result = apply("- labels: {node-role.kubernetes.io/web: \"\"}", &metadata()).unwrap();
    assert_eq!(pairs(&result.labels), [("node-role.kubernetes.io/web", "")]);
}

#[test]
fn talos_case_43_bad_keys_and_values_of_labels() {
    let error = refused("- labels: {\"-bad\": v}");
    ends(&error, "labels[\"-bad\"]: invalid label name \"-bad\"");
    let selector = requirement("platform", "Exists", "[]");
    let rules = format!("- nodeSelector: {selector}\n  labels: {{\"-bad\": v}}");
    let error = apply(&rules, &metadata()).unwrap_err();
    assert_eq!(error, "transformations[0]: invalid label name \"-bad\"");
    let long = "- labels: {a: \"{{ printf \\\"%064d\\\" 1 }}\"}";
    let error = apply(long, &metadata()).unwrap_err();
    says(&error, "invalid label value \"000");
    let error = refused("- annotations: {\"a b\": v}");
    ends(&error, "invalid annotation name \"a b\"");
}

fn marks_of(result: Transformed) -> NodeMetadata {
    NodeMetadata {
        labels: result.labels,
        annotations: result.annotations,
        taints: result.taints,
        keeping: MetadataPolicy::Add,
    }
}

#[test]
fn talos_case_44_an_annotation_that_is_there_is_not_written() {
    let machine = PlatformMetadata {
        instance_id: "7".into(),
        ..metadata()
    };
    let result = apply(
        "- annotations: {x.example/id: \"id-{{ .InstanceID }}\"}",
        &machine,
    )
    .unwrap();
    assert_eq!(pairs(&result.annotations), [("x.example/id", "id-7")]);
    let mut node = node("n1", "10.0.0.5");
    let wanted = marks_of(result.clone());
    assert_eq!(
        pairs(&additions(&node, &wanted).annotations),
        [("x.example/id", "id-7")]
    );
    node.annotations
        .insert("x.example/id".into(), "id-7".into());
    assert_eq!(additions(&node, &wanted), Additions::default());
}

#[test]
fn talos_case_45_taints_are_set_once() {
    let key = "node.cloudprovider.kubernetes.io/storage-type";
    let result = apply(
        &format!("- taints: {{{key}: \"ceph:NoSchedule\"}}"),
        &metadata(),
    )
    .unwrap();
    let taint = Taint::new(key, "ceph", "NoSchedule");
    assert_eq!(result.taints, std::slice::from_ref(&taint));
    let wanted = marks_of(result.clone());
    let mut node = node("n1", "10.0.0.5");
    let uninitialized = node.taints[0].clone();
    assert_eq!(
        additions(&node, &wanted).taints,
        Some(vec![uninitialized, taint])
    );
    // Initialised, and an admin removed it.
    node.taints.clear();
    assert_eq!(additions(&node, &wanted).taints, None);
}

#[test]
fn talos_case_46_which_texts_are_taints() {
    let read = |text: &str| apply(&format!("- taints: {{k: \"{text}\"}}"), &metadata());
    for (text, value, effect) in [
        ("NoSchedule", "", "NoSchedule"),
        (":NoSchedule", "", "NoSchedule"),
        ("v:PreferNoSchedule", "v", "PreferNoSchedule"),
    ] {
        assert_eq!(read(text).unwrap().taints, [Taint::new("k", value, effect)]);
    }
    for [text, why] in rows(
        r#"a:b:NoSchedule | invalid taint value "a:b:NoSchedule": [taint value is not valid]
           v:Later        | invalid taint value "v:Later": [taint effect "Later" is not valid]
                          | [taint effect "" is not valid]"#,
    ) {
        let error = read(text).unwrap_err();
        says(&error, why);
    }
    for [key, why] in rows(
        "node.kubernetes.io/pid-pressure           | taint in kubernetes namespace
         node.cloudprovider.kubernetes.io/shutdown | taint in cloud provider namespace",
    ) {
        let error = refused(&format!("- taints: {{{key}: NoSchedule}}"));
        ends(&error, &format!("invalid taint name \"{key}\": [{why}]"));
    }
    assert!(
        apply(
            "- taints: {node.kubernetes.io/unschedulable: NoSchedule}",
            &metadata()
        )
        .is_ok()
    );
}

#[test]
fn talos_case_47_taints_are_rendered() {
    let machine = PlatformMetadata {
        zone: "z1".into(),
        ..metadata()
    };
    let result = apply("- taints: {rack: \"{{ .Zone }}:NoExecute\"}", &machine).unwrap();
    assert_eq!(result.taints, [Taint::new("rack", "z1", "NoExecute")]);
}

#[test]
fn talos_case_48_one_matching_rule_switches_discovery_on() {
    let on = "- features: {publicIPDiscovery: true}\n- features: {publicIPDiscovery: false}";
    assert!(apply(on, &metadata()).unwrap().public_ip_discovery);
    assert!(
        !apply("- features: {}", &metadata())
            .unwrap()
            .public_ip_discovery
    );
}

#[test]
fn talos_case_49_without_firmware_its_facts_are_empty() {
    let result = apply("- labels: {id: \"x{{ .UUID }}\"}", &metadata()).unwrap();
    assert_eq!(pairs(&result.labels), [("id", "x")]);
}

#[test]
fn talos_case_50_a_bad_template_concerns_those_that_match() {
    let selector = requirement("platform", "In", "[metal]");
    let rules =
        format!("- name: gpu\n  nodeSelector: {selector}\n  labels: {{a: \"{{{{ if }}}}\"}}");
    let config = config(&rules);
    let found: Vec<String> = config.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "transformations[0] (gpu).labels[\"a\"]: failed to transformer label \"a\": failed to \
          parse template \"{{ if }}\": template: transformer:1: missing value for if"
        ]
    );
    assert!(apply(&rules, &metadata()).is_ok());
    let metal = PlatformMetadata {
        platform: "metal".into(),
        ..metadata()
    };
    let error = apply(&rules, &metal).unwrap_err();
    begins(&error, "transformations[0] (gpu): failed to transformer");
    let error = refused("- labels: {a: \"{{ if }}\"}");
    says(&error, "transformations[0].labels[\"a\"]");
}

#[test]
fn talos_case_85_a_bad_second_term_concerns_those_that_reach_it() {
    let selector = "[{matchExpressions: [{key: platform, operator: In, values: [metal]}]}, \
                    {matchExpressions: [{key: x, operator: bad}]}]";
    let metal = PlatformMetadata {
        platform: "metal".into(),
        ..metadata()
    };
    assert_eq!(hits(selector, &metal), Ok(true));
    let error = hits(selector, &metadata()).unwrap_err();
    assert_eq!(
        error,
        "transformations[0]: bad not a valid selector operator"
    );
    let config = config(&format!("- nodeSelector: {selector}"));
    assert_eq!(config.findings.len(), 1);
    assert_eq!(
        config.findings[0].path,
        "transformations[0].nodeSelector[1].matchExpressions[0]"
    );
}

#[test]
fn talos_case_86_a_bad_expression_is_refused_in_any_term() {
    let bad = "{matchExpressions: [{key: hostname, operator: Regexp, values: [\"[\"]}]}";
    for selector in [format!("[{bad}]"), format!("[{{}}, {bad}]")] {
        let error = refused(&format!("- nodeSelector: {selector}"));
        says(
            &error,
            "\"[\" is no regular expression: error parsing regexp",
        );
    }
}

#[test]
fn a_bad_expression_on_a_field_that_no_machine_has_is_reported_and_stops_nobody() {
    for key in ["x", "zone"] {
        let bad =
            format!("[{{matchExpressions: [{{key: {key}, operator: Regexp, values: [\"[\"]}}]}}]");
        let config = config(&format!("- nodeSelector: {bad}"));
        assert_eq!(config.findings.len(), 1, "{key}");
        let without = PlatformMetadata {
            zone: String::new(),
            ..metadata()
        };
        assert_eq!(hits(&bad, &without), Ok(false), "{key}");
    }
}

#[test]
fn a_field_that_does_not_exist_is_found_when_the_rules_are_read() {
    let error = refused("- labels: {a: \"{{ .Nope }}\"}");
    says(&error, "Nope");
    let rule = "- nodeSelector: [{matchExpressions: [{key: platform, operator: Exists}]}]\n  labels: {a: \"{{ .Nope }}\"}";
    let found = config(rule).findings;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].path, "transformations[0].labels[\"a\"]");
    // Only some machines come there.
    let some = "- labels: {a: \"{{ if .Spot }}{{ .Nope }}{{ end }}\"}";
    assert_eq!(config(some).findings.len(), 1);
    for fine in [
        "{{ .Tags.nope }}",
        "{{ slice .UUID 0 8 }}",
        "{{ .PlatformMetadataSpec.Zone }}",
    ] {
        let text = format!("- labels: {{a: \"{fine}\"}}");
        assert_eq!(config(&text).findings, [], "{fine}");
    }
}

#[test]
fn errors_of_later_requirements_show_although_earlier_ones_fail() {
    let selector = "[{matchExpressions: [{key: platform, operator: In, values: [gcp]}, \
                    {key: hostname, operator: Gt, values: [1]}]}]";
    assert!(hits(selector, &metadata()).is_err());
}

#[test]
fn a_constant_that_cannot_be_a_value_is_found_but_stops_nothing() {
    let config = config(
        "- labels: {a: \"b c\"}\n  taints: {\"k k\": NoSchedule}\n  platformMetadata: {zon: x}",
    );
    let found: Vec<String> = config.findings.iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        [
            "transformations[0].labels[\"a\"]: invalid label value \"b c\"",
            "transformations[0].taints[\"k k\"]: invalid taint name \"k k\": [taint key is not a \
             qualified name]",
            "transformations[0].platformMetadata[\"zon\"]: no such field: it has no effect",
        ]
    );
}
