use super::*;
use crate::kube::nodes::Nodes;
use crate::kube::objects::NodeObject;
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
        // Another one of that name is older, too.
        ("b", "5", "11"),
        ("b", "12", "12"),
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

/// A list of one node with that uid and version, or of none.
fn list(version: &str, objects: &[(&str, &str)]) -> Listed<Node> {
    let objects = objects.iter();
    Listed {
        objects: objects
            .map(|(uid, version)| ("n1".to_owned(), node(uid, version)))
            .collect(),
        version: version.to_owned(),
        ..Listed::default()
    }
}

#[test]
fn a_list_replaces_whatever_was_known_but_what_was_written_since() {
    let nodes = Nodes::default();
    nodes.see(node("a", "9"));
    nodes.note(node("a", "11"));
    nodes.replace(list("10", &[("a", "9")]), ListStanding::Current);
    assert_eq!(version(&nodes).as_deref(), Some("11"));
    nodes.replace(list("12", &[("b", "12")]), ListStanding::Current);
    assert_eq!(version(&nodes).as_deref(), Some("12"));
    nodes.replace(list("13", &[]), ListStanding::Current);
    assert_eq!(version(&nodes), None);
    assert!(matches!(nodes.find(&"n1".to_owned()), Found::Nothing));
}

#[test]
fn a_list_is_older_by_its_version_or_by_an_object() {
    let nodes = Nodes::default();
    nodes.see(node("a", "10"));
    nodes.note(node("a", "12"));
    let seen = nodes.view();
    // (version of the list, of its node, the newest that was known when it was asked for, older)
    for (version, object, newest, older) in [
        ("10", "10", 10, false),
        ("9", "9", 10, true),
        ("12", "12", 12, false),
        ("11", "10", 10, false),
        ("13", "10", 12, true),
        ("of another kind", "12", 12, false),
        ("13", "of another kind", 12, false),
    ] {
        let listed = list(version, &[("a", object)]);
        let row = format!("{version} {object} {newest}");
        assert_eq!(listed.is_older_than(&seen, newest), older, "{row}");
    }
}

#[test]
fn what_a_restored_server_lacks_is_neither_there_nor_gone() {
    let nodes = Nodes::default();
    let key = "n1".to_owned();
    nodes.see(node("b", "11"));
    nodes.replace(list("5", &[]), ListStanding::Restored);
    assert!(matches!(nodes.find(&key), Found::Lost));
    let seen = nodes.view();
    assert!(seen.unreadable["n1"].is_some() && !seen.has_unreadable());
    // Lists of the restored server lack it, which is no news and no doubt.
    assert_eq!(list("6", &[]).lacks(&seen), [""; 0]);
    nodes.replace(list("6", &[]), ListStanding::Current);
    assert!(matches!(nodes.find(&key), Found::Lost));
    // Another one comes: the first is lost all the same.
    nodes.see(node("c", "7"));
    assert!(matches!(nodes.find(&key), Found::Object(_)));
    assert!(nodes.is_lost("b") && !nodes.is_lost("c"));
    nodes.remove(&key, "c", "8");
    assert!(matches!(nodes.find(&key), Found::Nothing));
    // The very same comes back.
    nodes.see(node("b", "9"));
    assert!(!nodes.is_lost("b"));
}

#[test]
fn an_older_namesake_that_a_restore_brings_back_does_not_make_the_newer_one_gone() {
    let nodes = Nodes::default();
    nodes.see(node("b", "11"));
    nodes.replace(list("5", &[("a", "4")]), ListStanding::Restored);
    assert_eq!(version(&nodes).as_deref(), Some("4"));
    assert!(nodes.is_lost("b"));
    assert!(nodes.view().unreadable.is_empty());
    nodes.see(node("a", "6"));
    assert_eq!(
        version(&nodes).as_deref(),
        Some("6"),
        "time goes on from there"
    );
}

#[test]
fn a_deletion_is_of_one_uid() {
    let nodes = Nodes::default();
    nodes.see(node("b", "11"));
    nodes.remove(&"n1".to_owned(), "a", "10");
    assert_eq!(version(&nodes).as_deref(), Some("11"));
    nodes.remove(&"n1".to_owned(), "b", "12");
    assert_eq!(version(&nodes), None);
}

/// As the watch brings it: readable or not.
fn brought(uid: &str, readable: bool) -> DeserializeGuard<NodeObject> {
    let taints = if readable { json!([]) } else { json!("odd") };
    let object = json!({ "metadata": { "name": "n1", "uid": uid }, "spec": { "taints": taints } });
    serde_json::from_value(object).unwrap()
}

#[test]
fn what_can_no_longer_be_read_is_neither_there_nor_gone_and_its_last_form_is_kept() {
    let heard_changes = Arc::new(Mutex::new(Vec::new()));
    let nodes = Nodes::default();
    let heard = heard_changes.clone();
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
        nodes.take(event);
        let seen = nodes.view();
        let last = seen.unreadable.get("n1").map(Option::is_some);
        assert_eq!(last, known, "{number}");
        assert_eq!(seen.objects.is_empty(), known.is_some(), "{number}");
        let found = nodes.find(&"n1".to_owned());
        assert_eq!(
            matches!(found, Found::Unreadable),
            known.is_some(),
            "{number}"
        );
        assert_eq!(*heard_changes.lock().unwrap(), changes, "{number}");
        heard_changes.lock().unwrap().clear();
    }
}

#[test]
fn a_list_keeps_the_last_form_of_what_it_cannot_read_and_tells_of_its_end() {
    let nodes = Nodes::default();
    nodes.see(node("a", "11"));
    let odd = |uid: &str| Listed {
        unreadable: BTreeMap::from([("n1".to_owned(), uid.to_owned())]),
        ..Listed::default()
    };
    for (listed, known) in [(odd("a"), true), (odd("a"), true), (odd("b"), false)] {
        nodes.replace(listed, ListStanding::Current);
        let seen = nodes.view();
        assert_eq!(seen.unreadable["n1"].is_some(), known);
        assert!(seen.objects.is_empty());
    }
    let heard_changes = Arc::new(Mutex::new(Vec::new()));
    let heard = heard_changes.clone();
    nodes.on_change(move |it| heard.lock().unwrap().push(it.key.clone()));
    nodes.replace(Listed::default(), ListStanding::Current);
    assert!(matches!(nodes.find(&"n1".to_owned()), Found::Nothing));
    assert_eq!(*heard_changes.lock().unwrap(), ["n1"]);
}

/// A million changes of Nodes and of Services in quick succession, as a watch brings them, and queues that nobody
/// empties meanwhile: what is kept is one object and one key for each that there is. What is measured are counts: other
/// tests share the memory of this process.
#[test]
fn a_million_watch_events_leave_one_object_and_one_key_for_each_that_there_is() {
    use crate::kube::services::Services;
    use crate::metrics::Metrics;
    use crate::queue::{Backoff, WorkQueue};
    use bowline_core::{Service, ServiceKey};

    const EVENTS: usize = 1_000_000;
    const OBJECTS: usize = 5_000;
    let metrics = Metrics::new();
    let nodes = Nodes::default();
    let queue = WorkQueue::new("nodes", Backoff::nodes(), &metrics.queues);
    let line = queue.clone();
    nodes.on_change(move |change| {
        line.add(change.key.clone());
    });
    let services = Services::default();
    let service_queue = WorkQueue::new("services", Backoff::nodes(), &metrics.queues);
    let line = service_queue.clone();
    services.on_change(move |change| {
        line.add(change.key.clone());
    });
    let plain = Node::clone(&node("a", "1"));
    let service = json!({ "metadata": { "namespace": "shop", "name": "web", "uid": "u" } });
    let service: crate::kube::objects::ServiceObject = serde_json::from_value(service).unwrap();
    let service = Service::from(service);
    for number in 1..=EVENTS / 2 {
        let name = format!("n{}", number % OBJECTS);
        let version = number.to_string();
        nodes.see(Arc::new(Node {
            uid: name.clone(),
            resource_version: version.clone(),
            labels: std::iter::once(("changed", version.as_str())).collect(),
            name: name.clone(),
            ..plain.clone()
        }));
        services.see(Arc::new(Service {
            uid: name.clone(),
            resource_version: version,
            key: ServiceKey {
                namespace: "shop".to_owned(),
                name,
            },
            ..service.clone()
        }));
    }
    let kept = [nodes.all().len(), services.all().len()];
    let waiting = [queue.len(), service_queue.len()];
    println!(
        "{EVENTS} watch events: {kept:?} objects kept, {waiting:?} keys wait, bound {OBJECTS} each"
    );
    assert_eq!((kept, waiting), ([OBJECTS; 2], [OBJECTS; 2]));
    let newest = nodes.get("n0").map(|it| it.resource_version.clone());
    assert_eq!(newest, Some((EVENTS / 2).to_string()));
    drop((queue, service_queue));
}

/// The same with a name for each: whoever makes a million objects is shown a million, and the queue takes only so many.
#[test]
fn a_queue_takes_no_more_keys_than_its_limit() {
    use crate::metrics::Metrics;
    use crate::queue::{Backoff, KEYS_LIMIT, WorkQueue};

    let queue = WorkQueue::new("nodes", Backoff::nodes(), &Metrics::new().queues);
    let taken = (0..1_000_000_u32).filter(|key| queue.add(*key)).count();
    println!("1000000 keys: {} wait, bound {KEYS_LIMIT}", queue.len());
    assert_eq!((taken, queue.len()), (KEYS_LIMIT, KEYS_LIMIT));
}

#[tokio::test(start_paused = true)]
async fn a_list_without_an_end_is_given_up() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = asked.clone();
    let answer = move |request: http::Request<kube::client::Body>| {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Streamed lists are refused, as by an old server.
        let is_streamed = request.uri().to_string().contains("sendInitialEvents");
        let (code, body) = if is_streamed {
            (
                400,
                r#"{"kind": "Status", "status": "Failure", "code": 400}"#,
            )
        } else {
            (
                200,
                r#"{"metadata": {"resourceVersion": "1", "continue": "again"}, "items": []}"#,
            )
        };
        let body = kube::client::Body::from(body.as_bytes().to_vec());
        std::future::ready(http::Response::builder().status(code).body(body))
    };
    let client = kube::Client::new(tower::service_fn(answer), "default");
    let (nodes, metrics) = (Nodes::default(), crate::metrics::Metrics::new());
    let stop = CancellationToken::new();
    let restored = tokio::sync::Notify::new();
    let following = nodes.follow(client, Random::seeded(1), &metrics.stores, &restored, stop);
    let first_round = std::time::Duration::from_millis(100);
    assert!(tokio::time::timeout(first_round, following).await.is_err());
    assert!(!nodes.is_synced());
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1001);
}
