use super::*;
use crate::node::examples::fresh_node;
use crate::{NodeMetadata, Power};
use proptest::prelude::*;

const FIRST: &str = "vm.test/original_zone";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const STABLE_ZONE: &str = "topology.kubernetes.io/zone";
const STABLE_TYPE: &str = "node.kubernetes.io/instance-type";

/// Holds `vm.test/`, whole under `tag.vm.test/`.
struct Demo;

impl LabelSync for Demo {
    fn holds(&self, key: &str) -> LabelHold {
        match key.split_once('/') {
            Some(("vm.test", _)) => LabelHold::Value,
            Some(("tag.vm.test", _)) => LabelHold::Whole,
            _ => LabelHold::Not,
        }
    }

    fn follows(&self, fact: InstanceProperty) -> Option<LabelRule> {
        let (first, reason, words) = match fact {
            InstanceProperty::Zone => (Some(FIRST), "ZoneChanged", "zone changed (host changed)"),
            InstanceProperty::InstanceType => (None, "TypeChanged", "type has changed"),
            InstanceProperty::Region => return None,
        };
        Some(LabelRule {
            first,
            is_warning: fact == InstanceProperty::Zone,
            reason,
            words,
        })
    }
}

fn map<T: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> T {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn machine(extra: &[(&str, &str)]) -> Instance {
    Instance {
        provider_id: None,
        instance_type: "c2".into(),
        zone: "z2".into(),
        region: "r2".into(),
        addresses: Vec::new(),
        power: Power::On,
        extra_labels: map(extra),
        marks: NodeMetadata::default(),
    }
}

fn node(labels: &[(&str, &str)]) -> Node {
    Node {
        labels: map(labels),
        ..fresh_node()
    }
}

/// The changes as `key=value`, and `key-` for those that go.
fn shown(change: &LabelChange) -> Vec<String> {
    let all = change.labels.iter();
    all.map(|(key, value)| match value {
        Some(value) => format!("{key}={value}"),
        None => format!("{key}-"),
    })
    .collect()
}

#[test]
fn own_keys_are_added_changed_and_removed_and_others_never_touched() {
    let found = machine(&[
        ("vm.test/name", "new"),
        ("vm.test/same", "s"),
        ("vm.test/empty", ""),
        ("tag.vm.test/a", "1"),
        ("other.test/x", "theirs"),
    ]);
    let before = node(&[
        ("vm.test/name", "old"),
        ("vm.test/same", "s"),
        // Not said now: it stays, and so does what others gave.
        ("vm.test/host", "h1"),
        ("tag.vm.test/b", "2"),
        ("other.test/x", "mine"),
        ("other.test/y", "mine"),
    ]);
    let change = follow_labels(&Demo, &before, &found);
    let wanted = [
        "tag.vm.test/a=1",
        "tag.vm.test/b-",
        "vm.test/empty=",
        "vm.test/name=new",
    ];
    assert_eq!(shown(&change), wanted);
    assert_eq!((change.events, change.skipped), (vec![], vec![]));
}

#[test]
fn what_the_server_would_refuse_is_left_out() {
    let found = Instance {
        zone: "rack 7".into(),
        ..machine(&[("vm.test/name", "b c"), ("vm.test/ok", "1")])
    };
    let change = follow_labels(&Demo, &node(&[(STABLE_ZONE, "z1")]), &found);
    assert_eq!(shown(&change), ["vm.test/ok=1"]);
    let skipped: Vec<&str> = change.skipped.iter().map(|it| it.key.as_str()).collect();
    assert_eq!(skipped, ["vm.test/name", STABLE_ZONE]);
    assert_eq!(change.events, []);
}

#[test]
fn a_changed_fact_changes_both_labels_keeps_the_first_value_and_is_told() {
    let before = node(&[(BETA_ZONE, "z1"), (STABLE_ZONE, "z1"), (STABLE_TYPE, "c1")]);
    let change = follow_labels(&Demo, &before, &machine(&[]));
    let wanted = [
        "beta.kubernetes.io/instance-type=c2".to_owned(),
        format!("{BETA_ZONE}=z2"),
        format!("{STABLE_TYPE}=c2"),
        format!("{STABLE_ZONE}=z2"),
        format!("{FIRST}=z1"),
    ];
    assert_eq!(shown(&change), wanted);
    let reported: Vec<(&str, bool, &str)> = change
        .events
        .iter()
        .map(|it| (it.reason, it.is_warning, it.message.as_str()))
        .collect();
    assert_eq!(
        reported,
        [
            (
                "ZoneChanged",
                true,
                "Node n1 zone changed (host changed): old=z1, new=z2"
            ),
            (
                "TypeChanged",
                false,
                "Node n1 type has changed: old=c1, new=c2"
            ),
        ]
    );
}

#[test]
fn facts_that_do_not_change_or_are_not_there_stay() {
    let unknown = Instance {
        zone: String::new(),
        instance_type: String::new(),
        ..machine(&[])
    };
    let mut marked = machine(&[]);
    marked.marks.labels = map(&[(BETA_ZONE, "own")]);
    let elsewhere = [(STABLE_ZONE, "z1"), (STABLE_TYPE, "c2")];
    for (labels, found) in [
        // Nothing is made that is not there, from the older label alone neither.
        (&[][..], machine(&[])),
        (&[(BETA_ZONE, "z1")], machine(&[])),
        // Equal, by the newer label.
        (&[(STABLE_ZONE, "z2"), (BETA_ZONE, "z1")], machine(&[])),
        // An empty value says nothing.
        (&elsewhere, unknown),
        // What marks name is theirs.
        (&elsewhere, marked),
        // The region does not follow here.
        (&[("topology.kubernetes.io/region", "r1")], machine(&[])),
    ] {
        let change = follow_labels(&Demo, &node(labels), &found);
        assert_eq!(change, LabelChange::default(), "{labels:?} {found:?}");
    }
}

/// Holds everything whole.
struct Greedy;

impl LabelSync for Greedy {
    fn holds(&self, _: &str) -> LabelHold {
        LabelHold::Whole
    }

    fn follows(&self, fact: InstanceProperty) -> Option<LabelRule> {
        Demo.follows(fact)
    }
}

#[test]
fn nobody_takes_away_first_values_and_what_is_kubernetes_own() {
    let before = node(&[(STABLE_ZONE, "z2"), (FIRST, "z0"), ("vm.test/a", "1")]);
    let change = follow_labels(&Greedy, &before, &machine(&[("kubernetes.io/x", "1")]));
    assert_eq!(shown(&change), ["vm.test/a-"]);
}

#[test]
fn the_first_value_is_kept_for_good() {
    let before = node(&[(STABLE_ZONE, "z1"), (FIRST, "z0")]);
    let change = follow_labels(&Demo, &before, &machine(&[]));
    assert!(!change.labels.contains_key(FIRST));
    assert_eq!(change.events.len(), 1);
}

proptest! {
    /// What was written is not written again, and only own keys and pairs that were there change.
    #[test]
    fn following_ends_and_touches_nothing_foreign(
        on_node in proptest::collection::btree_map(key(), "[a-c]", 0..8),
        extra in proptest::collection::btree_map(key(), "[a-c]", 0..8),
        zone in "[a-c]?",
    ) {
        let found = Instance { zone, extra_labels: extra, ..machine(&[]) };
        let mut node = Node { labels: on_node.clone().into_iter().collect(), ..fresh_node() };
        for (key, value) in follow_labels(&Demo, &node, &found).labels {
            let is_zone = [BETA_ZONE, STABLE_ZONE, FIRST].contains(&key.as_str());
            let is_pair = is_zone && on_node.contains_key(STABLE_ZONE);
            prop_assert!(is_pair || Demo.holds(&key) != LabelHold::Not, "{}", key);
            match value {
                Some(value) => node.labels.insert(key, value),
                None => node.labels.remove(&key),
            }
        }
        prop_assert_eq!(follow_labels(&Demo, &node, &found), LabelChange::default());
    }
}

fn key() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "vm.test/a",
        "vm.test/b",
        "tag.vm.test/a",
        "tag.vm.test/b",
        "other.test/a",
        BETA_ZONE,
        STABLE_ZONE,
    ])
    .prop_map(str::to_owned)
}
