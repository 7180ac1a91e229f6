use super::*;
use crate::nodes::Nodes;
use crate::objects::NodeObject;
use bowline_core::Node;
use serde_json::json;

fn node(uid: &str, version: &str) -> Arc<Node> {
    let object = json!({ "metadata": { "name": "n1", "uid": uid, "resourceVersion": version } });
    Arc::new(serde_json::from_value::<NodeObject>(object).unwrap().into())
}

fn version(nodes: &Nodes) -> Option<String> {
    let node = nodes.get("n1");
    node.map(|it| it.resource_version.clone())
}

#[test]
fn an_older_version_does_not_replace_a_newer_one() {
    let nodes = Nodes::default();
    for (uid, seen, kept) in [
        ("a", "9", "9"),
        ("a", "11", "11"),
        ("a", "10", "11"),
        ("b", "5", "5"),
        ("b", "not a number", "not a number"),
        ("b", "4", "4"),
    ] {
        nodes.see(node(uid, seen));
        assert_eq!(version(&nodes).as_deref(), Some(kept));
    }
}

#[test]
fn the_answer_to_a_write_brings_nothing_back_that_is_gone() {
    let nodes = Nodes::default();
    nodes.note(node("a", "9"));
    assert_eq!(version(&nodes), None);
    nodes.see(node("a", "9"));
    nodes.note(node("a", "10"));
    assert_eq!(version(&nodes).as_deref(), Some("10"));
    nodes.note(node("a", "8"));
    nodes.note(node("another", "12"));
    assert_eq!(version(&nodes).as_deref(), Some("10"));
}

#[test]
fn a_list_replaces_whatever_was_known() {
    let nodes = Nodes::default();
    nodes.see(node("a", "11"));
    nodes.replace(Arriving {
        objects: BTreeMap::from([("n1".to_owned(), node("a", "10"))]),
        ..Arriving::default()
    });
    assert_eq!(version(&nodes).as_deref(), Some("10"));
    nodes.replace(Arriving::default());
    assert_eq!(version(&nodes), None);
}

/// As the watch brings it: readable or not.
fn brought(uid: &str, readable: bool) -> Event<DeserializeGuard<NodeObject>> {
    let taints = if readable { json!([]) } else { json!("odd") };
    let object = json!({ "metadata": { "name": "n1", "uid": uid }, "spec": { "taints": taints } });
    Event::Apply(serde_json::from_value(object).unwrap())
}

#[test]
fn what_can_no_longer_be_read_is_neither_there_nor_gone_and_its_last_form_is_kept() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let nodes = Nodes::default();
    let heard = told.clone();
    nodes.on_change(move |it| {
        let change = (it.before.is_some(), it.after.is_some());
        heard.lock().unwrap().push(change);
    });
    // (what the watch brings, whether something is known of it, what listeners hear)
    let rows = [
        (brought("a", false), Some(false), vec![(false, false)]),
        (brought("a", false), Some(false), vec![]),
        (brought("a", true), None, vec![(false, true)]),
        (brought("a", false), Some(true), vec![(true, false)]),
        (brought("a", false), Some(true), vec![]),
        (brought("b", false), Some(false), vec![(false, false)]),
        (brought("b", true), None, vec![(false, true)]),
    ];
    for (number, (event, known, changes)) in rows.into_iter().enumerate() {
        nodes.take(event, &mut Arriving::default());
        let seen = nodes.sighting();
        let last = seen.unreadable.get("n1").map(Option::is_some);
        assert_eq!(last, known, "{number}");
        assert_eq!(seen.objects.is_empty(), known.is_some(), "{number}");
        let found = nodes.find(&"n1".to_owned());
        assert_eq!(
            matches!(found, Found::Unreadable),
            known.is_some(),
            "{number}"
        );
        assert_eq!(*told.lock().unwrap(), changes, "{number}");
        told.lock().unwrap().clear();
    }
}

#[test]
fn a_list_keeps_the_last_form_of_what_it_cannot_read_and_tells_of_its_end() {
    let nodes = Nodes::default();
    nodes.see(node("a", "11"));
    let odd = |uid: &str| Arriving {
        unreadable: BTreeMap::from([("n1".to_owned(), uid.to_owned())]),
        ..Arriving::default()
    };
    for (listed, known) in [(odd("a"), true), (odd("a"), true), (odd("b"), false)] {
        nodes.replace(listed);
        let seen = nodes.sighting();
        assert_eq!(seen.unreadable["n1"].is_some(), known);
        assert!(seen.objects.is_empty());
    }
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = told.clone();
    nodes.on_change(move |it| heard.lock().unwrap().push(it.key.clone()));
    nodes.replace(Arriving::default());
    assert!(matches!(nodes.find(&"n1".to_owned()), Found::Nothing));
    assert_eq!(*told.lock().unwrap(), ["n1"]);
}
