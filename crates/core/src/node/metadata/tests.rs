use super::*;
use crate::node::examples::fresh_node;
use proptest::prelude::*;

fn map<T: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> T {
    pairs
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn owned() -> NodeMetadata {
    NodeMetadata {
        keeping: MetadataPolicy::Own,
        ..NodeMetadata::default()
    }
}

/// Carries an enforcement out as an API server would; `last` is what the manager named last.
fn carry_out(node: &mut Node, last: &mut Option<Applied>, step: &Enforcement) {
    let apply = |found: &mut StringMap,
                 last: &BTreeMap<String, String>,
                 wanted: &BTreeMap<String, String>| {
        let kept = found.iter();
        let kept = kept.filter(|(key, _)| !last.contains_key(*key) || wanted.contains_key(*key));
        *found = kept.collect();
        found.extend(wanted.clone());
    };
    let before = last.clone().unwrap_or_default();
    apply(&mut node.labels, &before.labels, &step.applied.labels);
    let annotations = &step.applied.annotations;
    apply(&mut node.annotations, &before.annotations, annotations);
    *last = Some(step.applied.clone());
    if let Some(taints) = &step.taints {
        node.taints.clone_from(taints);
    }
}

#[test]
fn only_what_differs_is_added() {
    let marks = NodeMetadata {
        labels: map(&[("a", "1"), ("b", "2"), ("node-role.kubernetes.io/web", "")]),
        annotations: map(&[("x.example/id", "7"), ("y", "8")]),
        ..NodeMetadata::default()
    };
    let mut node = fresh_node();
    node.labels = map(&[("a", "1"), ("b", "by hand"), ("theirs", "3")]);
    node.annotations = map(&[("y", "8")]);
    let added = additions(&node, &marks);
    assert_eq!(
        added.labels,
        map(&[("b", "2"), ("node-role.kubernetes.io/web", "")])
    );
    assert_eq!(added.annotations, map(&[("x.example/id", "7")]));
    assert_eq!(added.taints, None);
}

#[test]
fn taints_are_added_only_while_a_node_waits() {
    let rack = Taint::new("rack", "z1", "NoExecute");
    let marks = NodeMetadata {
        taints: vec![rack.clone()],
        ..NodeMetadata::default()
    };
    let mut node = fresh_node();
    let waiting = node.taints.clone();
    node.taints
        .insert(0, Taint::new("rack", "old", "NoExecute"));
    node.taints.push(Taint::new("rack", "old", "NoSchedule"));
    // One of the same key and effect is replaced where it stands, another effect is another taint.
    let with = additions(&node, &marks).taints.unwrap();
    assert_eq!(with[0], rack);
    assert_eq!((&with[1], with[2].value.as_str()), (&waiting[0], "old"));
    node.taints = with;
    assert_eq!(additions(&node, &marks), Additions::default());
    node.taints.clear();
    assert_eq!(additions(&node, &marks), Additions::default());
}

#[test]
fn one_label_of_a_pair_stands_for_both() {
    let (old, new) = (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    );
    for (named, both) in [
        (map(&[(old, "z")]), map(&[(old, "z"), (new, "z")])),
        (map(&[(new, "z")]), map(&[(old, "z"), (new, "z")])),
        (
            map(&[(old, "y"), (new, "z")]),
            map(&[(old, "y"), (new, "z")]),
        ),
    ] {
        let marks = NodeMetadata {
            labels: named,
            ..owned()
        };
        assert_eq!(additions(&fresh_node(), &marks).labels, both);
        assert_eq!(enforcement(&fresh_node(), &marks).applied.labels, both);
    }
}

#[test]
fn what_marks_no_longer_say_goes_and_the_rest_stays() {
    let mut node = fresh_node();
    node.labels = map(&[("theirs", "1")]);
    node.taints.push(Taint::new("theirs", "", "NoSchedule"));
    let before = node.clone();
    let mut last = None;
    let first = NodeMetadata {
        labels: map(&[("a", "1"), ("b", "2")]),
        annotations: map(&[("x.example/id", "7")]),
        taints: vec![Taint::new("rack", "z1", "NoExecute")],
        ..owned()
    };
    for _ in 0..2 {
        let step = enforcement(&node, &first);
        carry_out(&mut node, &mut last, &step);
    }
    assert_eq!(
        node.annotations.get(TAINTS_ANNOTATION).unwrap(),
        "rack:NoExecute"
    );
    assert_eq!(node.taints.len(), 3);
    let again = enforcement(&node, &first);
    assert!(!again.applied.is_needed(&node, last.as_ref()) && again.taints.is_none());

    // The taints are remembered until they are gone.
    let step = enforcement(&node, &owned());
    assert_eq!(
        step.applied.annotations,
        map(&[(TAINTS_ANNOTATION, "rack:NoExecute")])
    );
    carry_out(&mut node, &mut last, &step);
    let step = enforcement(&node, &owned());
    assert!(step.applied.is_needed(&node, last.as_ref()) && step.taints.is_none());
    carry_out(&mut node, &mut last, &step);
    assert_eq!(node, before);
}

#[test]
fn a_changed_value_is_put_right_and_a_first_apply_is_always_made() {
    let mut node = fresh_node();
    let marks = NodeMetadata {
        labels: map(&[("a", "1")]),
        ..owned()
    };
    let mut last = None;
    let step = enforcement(&node, &marks);
    carry_out(&mut node, &mut last, &step);
    let again = enforcement(&node, &marks).applied;
    assert!(!again.is_needed(&node, last.as_ref()));
    assert!(again.is_needed(&node, None));
    node.labels.insert("a".into(), "by hand".into());
    assert!(again.is_needed(&node, last.as_ref()));
}

/// Marks out of few keys, so that they meet.
fn some_marks() -> impl Strategy<Value = NodeMetadata> {
    let keys = || proptest::collection::btree_map("[a-c]", "[x-z]", 0..4);
    let taints = proptest::collection::btree_map("[a-c]", "[x-z]", 0..4);
    (keys(), keys(), taints).prop_map(|(labels, annotations, taints)| NodeMetadata {
        labels,
        annotations,
        taints: taints
            .iter()
            .map(|(key, value)| Taint::new(key, value, "NoSchedule"))
            .collect(),
        keeping: MetadataPolicy::Own,
    })
}

proptest! {
    /// Whatever was owned before: in the end a node has exactly the last marks and what others gave it.
    #[test]
    fn a_node_ends_with_the_last_marks_and_what_is_not_theirs(
        all in proptest::collection::vec(some_marks(), 1..5)
    ) {
        let mut node = fresh_node();
        node.labels = map(&[("theirs", "1")]);
        node.taints.push(Taint::new("theirs", "", "NoSchedule"));
        let (before, mut last) = (node.clone(), None);
        for marks in &all {
            // The second one forgets taints that the first took away; then nothing is left to do.
            for _ in 0..2 {
                let step = enforcement(&node, marks);
                carry_out(&mut node, &mut last, &step);
            }
            let settled = enforcement(&node, marks);
            prop_assert!(settled.taints.is_none());
            prop_assert!(!settled.applied.is_needed(&node, last.as_ref()));
        }
        let marks = all.last().unwrap();
        let mut labels = before.labels.clone();
        labels.extend(marks.labels.clone());
        prop_assert_eq!(&node.labels, &labels);
        node.annotations.remove(TAINTS_ANNOTATION);
        prop_assert_eq!(node.annotations, StringMap::from_iter(marks.annotations.clone()));
        let ours: Vec<&Taint> =
            node.taints.iter().filter(|it| !before.taints.contains(it)).collect();
        prop_assert_eq!(ours.len(), marks.taints.len());
        prop_assert!(marks.taints.iter().all(|it| ours.contains(&it)));
        prop_assert!(before.taints.iter().all(|it| node.taints.contains(it)));
    }

    /// Adding makes the next addition empty, and touches nothing that is not named.
    #[test]
    fn what_was_added_is_not_added_again(marks in some_marks()) {
        let mut node = fresh_node();
        node.labels = map(&[("theirs", "1")]);
        let added = additions(&node, &marks);
        node.labels.extend(added.labels);
        node.annotations.extend(added.annotations);
        if let Some(taints) = added.taints {
            node.taints = taints;
        }
        prop_assert_eq!(additions(&node, &marks), Additions::default());
        prop_assert_eq!(node.labels.get("theirs").unwrap(), "1");
        prop_assert!(node.is_uninitialized());
    }
}
