//! The labels a cloud gives to a node.

use std::collections::BTreeMap;

use crate::{Instance, StringMap};

/// A fact about a machine and the two labels that carry it, the older one first.
pub(crate) struct LabelPair {
    pub(crate) beta: &'static str,
    pub(crate) stable: &'static str,
}

pub(crate) const INSTANCE_TYPE: LabelPair = LabelPair {
    beta: "beta.kubernetes.io/instance-type",
    stable: "node.kubernetes.io/instance-type",
};
pub(crate) const ZONE: LabelPair = LabelPair {
    beta: "failure-domain.beta.kubernetes.io/zone",
    stable: "topology.kubernetes.io/zone",
};
pub(crate) const REGION: LabelPair = LabelPair {
    beta: "failure-domain.beta.kubernetes.io/region",
    stable: "topology.kubernetes.io/region",
};

/// A label the cloud gave and the node does not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedLabel {
    /// Its key.
    pub key: String,
    /// The cloud's value.
    pub value: String,
    /// Why not.
    pub why: SkipReason,
}

/// Why a label of the cloud is not put on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Keys under `kubernetes.io` and `k8s.io` are not a cloud's to give.
    Reserved,
    /// The node has it with another value.
    Present(String),
    /// The API server would refuse it.
    Malformed,
}

/// All labels of the pairs.
const PAIRS: [&LabelPair; 3] = [&INSTANCE_TYPE, &ZONE, &REGION];

/// Labels to set on a node when it is initialised, and those left out.
///
/// Type, zone and region overwrite; an empty one removes nothing. Extra labels only add. What marks name is
/// theirs.
pub fn labels_of(
    instance: &Instance,
    on_node: &StringMap,
) -> (BTreeMap<String, String>, Vec<SkippedLabel>) {
    let mut labels = BTreeMap::new();
    let mut skipped = Vec::new();
    for (pair, value) in [
        (INSTANCE_TYPE, &instance.instance_type),
        (ZONE, &instance.zone),
        (REGION, &instance.region),
    ] {
        let marked = |key| instance.marks.labels.contains_key(key);
        if marked(pair.beta) || marked(pair.stable) {
            continue;
        }
        for key in [pair.beta, pair.stable].map(str::to_owned) {
            if !is_label_value(value) {
                let why = SkipReason::Malformed;
                skipped.push(SkippedLabel {
                    key,
                    value: value.clone(),
                    why,
                });
            } else if !value.is_empty() {
                labels.insert(key, value.clone());
            }
        }
    }
    for (key, value) in &instance.extra_labels {
        if instance.marks.labels.contains_key(key) {
            continue;
        }
        match (skip_extra(key, value), on_node.get(key)) {
            (Some(why), _) => {
                skipped.push(SkippedLabel {
                    key: key.clone(),
                    value: value.clone(),
                    why,
                });
            }
            (None, Some(present)) if present != value => skipped.push(SkippedLabel {
                key: key.clone(),
                value: value.clone(),
                why: SkipReason::Present(present.to_owned()),
            }),
            (None, Some(_)) => {}
            (None, None) => {
                labels.insert(key.clone(), value.clone());
            }
        }
    }
    (labels, skipped)
}

/// The stable labels that differ from their older twins, which win.
pub fn stable_labels_to_repair(on_node: &StringMap) -> BTreeMap<String, String> {
    PAIRS
        .iter()
        .filter_map(|pair| {
            let value = on_node.get(pair.beta)?;
            (on_node.get(pair.stable) != Some(value)).then(|| (pair.stable.into(), value.into()))
        })
        .collect()
}

/// These labels, and beside one of a pair that stands alone its twin: the controllers keep both equal.
pub(crate) fn with_twins(labels: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all = labels.clone();
    for pair in PAIRS {
        let twin = match (labels.get(pair.beta), labels.get(pair.stable)) {
            (Some(value), None) => (pair.stable, value),
            (None, Some(value)) => (pair.beta, value),
            (None, None) | (Some(_), Some(_)) => continue,
        };
        all.insert(twin.0.to_owned(), twin.1.clone());
    }
    all
}

/// Why an extra label cannot be put on a node, whatever the node has.
pub(crate) fn skip_extra(key: &str, value: &str) -> Option<SkipReason> {
    if is_reserved(key) {
        Some(SkipReason::Reserved)
    } else if !is_label_key(key) || !is_label_value(value) {
        Some(SkipReason::Malformed)
    } else {
        None
    }
}

/// Whether `kubernetes.io/` or `k8s.io/` stands at the start or after a dot.
pub(crate) fn is_reserved(key: &str) -> bool {
    ["kubernetes.io/", "k8s.io/"].iter().any(|domain| {
        key.match_indices(domain)
            .any(|(at, _)| at == 0 || key.as_bytes()[at - 1] == b'.')
    })
}

/// Whether the API server accepts this as the value of a label.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_qualified_part(value)
}

/// Whether the API server accepts this as the key of a label.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        None => is_qualified_part(key),
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_qualified_part(name),
    }
}

fn is_qualified_part(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && ends(text.chars().next())
        && ends(text.chars().last())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn is_dns_subdomain(text: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Power;

    fn instance() -> Instance {
        Instance {
            provider_id: None,
            instance_type: "c2".into(),
            zone: "z1".into(),
            region: "r1".into(),
            addresses: Vec::new(),
            power: Power::On,
            extra_labels: BTreeMap::new(),
            marks: crate::NodeMetadata::default(),
        }
    }

    fn map<T: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> T {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn type_zone_and_region_come_in_both_forms() {
        let (labels, skipped) = labels_of(&instance(), &map(&[(ZONE.stable, "hand")]));
        assert_eq!(
            labels,
            map(&[
                (INSTANCE_TYPE.beta, "c2"),
                (INSTANCE_TYPE.stable, "c2"),
                (ZONE.beta, "z1"),
                (ZONE.stable, "z1"),
                (REGION.beta, "r1"),
                (REGION.stable, "r1"),
            ])
        );
        assert_eq!(skipped, []);
    }

    #[test]
    fn a_value_the_server_would_refuse_concerns_that_label_only() {
        let (labels, skipped) = labels_of(
            &Instance {
                zone: "rack 7".into(),
                ..instance()
            },
            &map(&[]),
        );
        assert_eq!(labels.len(), 4);
        assert!(
            skipped
                .iter()
                .all(|s| s.why == SkipReason::Malformed && s.value == "rack 7")
        );
    }

    #[test]
    fn extra_labels_only_add_and_never_touch_kubernetes_own_domains() {
        let mut with_extra = instance();
        with_extra.extra_labels = map(&[
            ("topology.kubernetes.io/rack", "a"),
            ("kubernetes.io/x", "a"),
            ("k8s.io/y", "a"),
            ("sub.k8s.io/z", "a"),
            ("app.k8snio/q", "b"),
            ("vendor.test/rack", "r7"),
            ("vendor.test/host", "h1"),
            ("bad key", "v"),
        ]);
        let (labels, skipped) = labels_of(&with_extra, &map(&[("vendor.test/host", "h0")]));
        let extra: Vec<&str> = labels
            .keys()
            .map(String::as_str)
            .filter(|key| !key.contains("kubernetes.io"))
            .collect();
        assert_eq!(extra, ["app.k8snio/q", "vendor.test/rack"]);
        assert_eq!(skipped.len(), 6);
        assert!(
            skipped
                .iter()
                .any(|s| s.why == SkipReason::Present("h0".into()))
        );
    }

    #[test]
    fn what_marks_name_is_theirs() {
        let mut marked = instance();
        marked.marks.labels = map(&[(ZONE.stable, "z9"), ("vendor.test/rack", "r9")]);
        marked.extra_labels = map(&[("vendor.test/rack", "r7")]);
        let (labels, skipped) = labels_of(&marked, &map(&[]));
        assert_eq!(labels.len(), 4);
        assert!(labels.keys().all(|key| !key.ends_with("/zone")));
        assert_eq!(skipped, []);
    }

    #[test]
    fn the_older_label_wins_and_the_newer_alone_is_left() {
        let only_old = map(&[
            (ZONE.beta, "foo"),
            (REGION.beta, "bar"),
            (INSTANCE_TYPE.beta, "t"),
        ]);
        assert_eq!(
            stable_labels_to_repair(&only_old),
            map(&[
                (ZONE.stable, "foo"),
                (REGION.stable, "bar"),
                (INSTANCE_TYPE.stable, "t")
            ])
        );
        let differing = map(&[(ZONE.beta, "foo"), (ZONE.stable, "wrong")]);
        assert_eq!(
            stable_labels_to_repair(&differing),
            map(&[(ZONE.stable, "foo")])
        );
        let equal = map(&[(ZONE.beta, "foo"), (ZONE.stable, "foo")]);
        assert_eq!(stable_labels_to_repair(&equal), map(&[]));
        assert_eq!(
            stable_labels_to_repair(&map(&[(ZONE.stable, "foo")])),
            map(&[])
        );
    }

    #[test]
    fn label_syntax_is_the_servers() {
        for right in ["", "a", "a-b_c.d", "A1"] {
            assert!(is_label_value(right), "{right:?}");
        }
        for wrong in ["-a", "a-", "a b", "ä", &"x".repeat(64)] {
            assert!(!is_label_value(wrong), "{wrong:?}");
        }
        for right in ["a", "vendor.test/rack", "x.y.z/A_b"] {
            assert!(is_label_key(right), "{right:?}");
        }
        for wrong in ["", "/a", "a/", "A.b/c", "a//b", "a/b/c"] {
            assert!(!is_label_key(wrong), "{wrong:?}");
        }
    }
}
