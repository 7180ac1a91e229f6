//! Labels of nodes: this cloud's own keys, values that the API server takes, and tags as labels.
//! Pure.

use std::collections::BTreeMap;

use bowline_core::{InstanceProperty, LabelRule, is_label_key, is_label_value};

/// What stands in every key that label synchronisation owns.
pub const OWNED: &str = "k8s.xenorchestra";
pub const HOST_ID: &str = "topology.k8s.xenorchestra/host_id";
pub const HOST_NAME: &str = "topology.k8s.xenorchestra/host_name_label";
pub const POOL_ID: &str = "topology.k8s.xenorchestra/pool_id";
pub const POOL_NAME: &str = "topology.k8s.xenorchestra/pool_name_label";
pub const VM_NAME: &str = "vm.k8s.xenorchestra/name_label";
/// The zone before the first move that was seen.
pub const ORIGINAL_HOST_ID: &str = "topology.k8s.xenorchestra/original_host_id";
/// The region before the first move that was seen.
pub const ORIGINAL_POOL_ID: &str = "topology.k8s.xenorchestra/original_pool_id";
/// What a host or pool is called that could not be read when a node was initialised.
pub const UNKNOWN: &str = "unknown";

/// How a fact about a VM follows into its node, in the original's words.
pub(crate) const fn following(fact: InstanceProperty) -> LabelRule {
    match fact {
        InstanceProperty::Zone => LabelRule {
            first: Some(ORIGINAL_HOST_ID),
            is_warning: true,
            reason: "NodeZoneChanged",
            words: "zone changed (node VM host changed)",
        },
        InstanceProperty::Region => LabelRule {
            first: Some(ORIGINAL_POOL_ID),
            is_warning: true,
            reason: "NodeRegionChanged",
            words: "region changed (node VM pool changed)",
        },
        InstanceProperty::InstanceType => LabelRule {
            first: None,
            is_warning: false,
            reason: "NodeInstanceTypeHasChanged",
            words: "instance type has changed (node VM memory and/or CPUs changed)",
        },
    }
}

const LONGEST: usize = 63;

/// A name as the value of a label: what no label takes becomes a dash, and both ends are letters or
/// digits. Always a value that the API server accepts; empty if nothing is left.
pub fn label_value(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let is_edge = |c: char| "-_.".contains(c);
    let text: String = name.chars().map(plain).collect();
    let text = text.trim_matches(is_edge);
    // All are ASCII by now: a byte is a character.
    let text = &text[..text.len().min(LONGEST)];
    text.trim_end_matches(is_edge).to_owned()
}

/// The labels that tags ask for, by the operator's prefix: `<prefix><key>:<value>` becomes
/// `key=value`. Beside them, the tags that have the prefix and are no labels.
pub(crate) fn of_tags<'a>(
    tags: &'a [String],
    prefix: &str,
) -> (BTreeMap<String, String>, Vec<&'a str>) {
    let (mut labels, mut wrong) = (BTreeMap::new(), Vec::new());
    for tag in tags {
        let Some(rest) = tag.strip_prefix(prefix) else {
            continue;
        };
        match rest.split_once(':') {
            Some((key, value)) if may_be_given(key) && is_label_value(value) => {
                labels.insert(key.to_owned(), value.to_owned());
            }
            _ => wrong.push(tag.as_str()),
        }
    }
    (labels, wrong)
}

/// Whether a tag may give this label: nothing under Kubernetes' own names, by which a tag could
/// make a worker a control plane, and nothing that claims another location of the machine.
fn may_be_given(key: &str) -> bool {
    let domain = key.split_once('/').map_or("", |(domain, _)| domain);
    let reserved = ["kubernetes.io", "k8s.io"].iter().any(|reserved| {
        domain
            .strip_suffix(reserved)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    is_label_key(key) && !reserved && !key.contains(OWNED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn xenorchestra_case_36_a_name_that_is_cut_ends_well() {
        let a = "a".repeat(62);
        assert_eq!(label_value(&format!("{a}-b")), a);
    }

    #[test]
    fn xenorchestra_case_37_a_name_of_nothing_usable_is_an_empty_value() {
        assert_eq!(label_value("###"), "");
    }

    #[test]
    fn xenorchestra_case_35_names_become_values_as_the_table_says() {
        let x = "x".repeat(64);
        let long = "k8s worker / rack 7 [blue] (do not touch) owner: platform-team@example.com";
        let cut = "k8s-worker---rack-7--blue---do-not-touch--owner--platform-team";
        for (name, wanted) in [
            ("hello world", "hello-world"),
            ("web@prod#1", "web-prod-1"),
            ("(k8s) cp-1", "k8s--cp-1"),
            ("__x__", "x"),
            (".hidden.", "hidden"),
            ("", ""),
            ("test!@#$%^&*()node", "test----------node"),
            (&x, &x[..63]),
            (long, cut),
            ("nœud-1", "n-ud-1"),
            ("été", "t"),
        ] {
            assert_eq!(label_value(name), wanted, "{name}");
        }
    }

    #[test]
    fn tags_with_the_prefix_become_labels_unless_they_reach_too_far() {
        let tags = [
            "k8s",
            "k8s/label=team:blue",
            "k8s/label=example.com/rack:7",
            "k8s/label=empty:",
            "k8s/label=no-value",
            "k8s/label=node-role.kubernetes.io/control-plane:",
            "k8s/label=kubernetes.io/hostname:x",
            "k8s/label=vm.k8s.xenorchestra/name_label:x",
            "k8s/label=a:not a value",
            "k8s/label=a b:c",
        ]
        .map(str::to_owned);
        let (labels, wrong) = of_tags(&tags, "k8s/label=");
        let labels: Vec<_> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(labels, ["empty=", "example.com/rack=7", "team=blue"]);
        assert_eq!(wrong.len(), 6, "{wrong:?}");
    }

    proptest! {
        #[test]
        fn every_name_becomes_a_value_that_is_accepted(name in "\\PC{0,100}") {
            let value = label_value(&name);
            prop_assert!(is_label_value(&value), "{value:?}");
            prop_assert_eq!(&label_value(&value), &value, "what is right stays as it is");
        }
    }
}
