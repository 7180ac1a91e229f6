//! Rules that own what they set.

use std::collections::BTreeMap;

use bowline_core::Taint;

use crate::testing::node;
use crate::transform::enforce::*;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

/// Carries an enforcement out as an API server would.
fn carry_out(node: &mut bowline_core::Node, owned: &mut Owned, enforcement: &Enforcement) {
    let apply = |found: &mut BTreeMap<String, String>,
                 owned: &mut Vec<String>,
                 wanted: &BTreeMap<String, String>| {
        found.retain(|key, _| !owned.contains(key) || wanted.contains_key(key));
        found.extend(wanted.clone());
        *owned = wanted.keys().cloned().collect();
    };
    apply(&mut node.labels, &mut owned.labels, &enforcement.labels);
    apply(
        &mut node.annotations,
        &mut owned.annotations,
        &enforcement.annotations,
    );
    if let Some(taints) = &enforcement.taints {
        node.taints.clone_from(taints);
    }
}

#[test]
fn what_rules_no_longer_say_goes_and_the_rest_stays() {
    let mut node = node("n1", "10.0.0.5");
    node.labels = map(&[("theirs", "1")]);
    node.taints.push(Taint::new("theirs", "", "NoSchedule"));
    let before = node.clone();
    let mut owned = Owned::default();
    let (labels, annotations) = (
        map(&[("a", "1"), ("b", "2")]),
        map(&[("x.example/id", "7")]),
    );
    let taints = [Taint::new("rack", "z1", "NoExecute")];
    let first = Wanted {
        labels: &labels,
        annotations: &annotations,
        taints: &taints,
    };
    let none = (map(&[]), map(&[]));
    let nothing = Wanted {
        labels: &none.0,
        annotations: &none.1,
        taints: &[],
    };
    for _ in 0..2 {
        let step = enforcement(&node, first);
        carry_out(&mut node, &mut owned, &step);
    }
    assert_eq!(node.annotations[TAINTS_ANNOTATION], "rack:NoExecute");
    assert_eq!(node.taints.len(), 3);
    let again = enforcement(&node, first);
    assert!(!again.is_needed(&node, &owned) && again.taints.is_none());

    // The taints are remembered until they are gone.
    let step = enforcement(&node, nothing);
    assert_eq!(
        step.annotations,
        map(&[(TAINTS_ANNOTATION, "rack:NoExecute")])
    );
    carry_out(&mut node, &mut owned, &step);
    let step = enforcement(&node, nothing);
    assert!(step.is_needed(&node, &owned) && step.taints.is_none());
    carry_out(&mut node, &mut owned, &step);
    assert_eq!(node, before);
}

#[test]
fn a_changed_value_is_put_right() {
    let mut node = node("n1", "10.0.0.5");
    let mut owned = Owned::default();
    let (labels, none) = (map(&[("a", "1")]), map(&[]));
    let wanted = Wanted {
        labels: &labels,
        annotations: &none,
        taints: &[],
    };
    let step = enforcement(&node, wanted);
    carry_out(&mut node, &mut owned, &step);
    node.labels.insert("a".into(), "by hand".into());
    assert!(enforcement(&node, wanted).is_needed(&node, &owned));
}

#[test]
fn what_is_owned_is_read_from_managed_fields() {
    let fields = serde_json::json!({"f:metadata": {
        "f:labels": {"f:node-role.kubernetes.io/web": {}, "f:a": {}},
        "f:annotations": {".": {}, "f:x.example/id": {}},
    }});
    let owned = Owned::read(&fields);
    assert_eq!(owned.labels, ["a", "node-role.kubernetes.io/web"]);
    assert_eq!(owned.annotations, ["x.example/id"]);
    assert_eq!(Owned::read(&serde_json::json!({})), Owned::default());
}
