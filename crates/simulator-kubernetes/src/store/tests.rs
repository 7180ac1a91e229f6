//! Revisions, history and order.

use super::*;
use crate::auth::Objects;

fn nodes() -> &'static Kind {
    kinds::by_path("", "v1", "nodes").unwrap()
}

fn store() -> Store {
    Store::new(Clock::system(), Random::seeded(1))
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

#[test]
fn every_write_gets_the_next_revision() {
    let store = store();
    let a = store.put(nodes(), named("a"));
    let b = store.put(nodes(), named("b"));
    assert_eq!(a["metadata"]["resourceVersion"], "2");
    assert_eq!(b["metadata"]["resourceVersion"], "3");
    assert!(store.remove(nodes(), "", "a"));
    assert_eq!(store.revision(), 4);
}

#[test]
fn a_restore_goes_back_to_an_earlier_revision_and_on_from_there() {
    let store = store();
    let mut pulse = store.subscribe();
    store.put(nodes(), named("a"));
    store.put(nodes(), named("b"));
    let mut changed = named("a");
    changed["spec"] = json!({ "unschedulable": true });
    store.put(nodes(), changed);
    store.remove(nodes(), "", "b");
    store.put(nodes(), named("c"));
    assert!(!store.restore(7), "there was none yet");
    pulse.mark_unchanged();
    assert!(store.restore(3));
    assert_eq!(store.revision(), 3);
    assert_eq!((pulse.current().revision, pulse.current().breaks), (3, 1));
    let listed = Objects::list(&store, nodes(), None);
    let names: Vec<&str> = listed.iter().map(|it| text(it, "/metadata/name")).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(listed[0].get("spec"), None);
    let next = store.put(nodes(), named("d"));
    assert_eq!(next["metadata"]["resourceVersion"], "4");
    store.compact();
    assert!(!store.restore(3), "it is forgotten");
}

#[test]
fn the_past_can_be_listed_until_it_is_compacted() {
    let store = store();
    store.put(nodes(), named("a"));
    store.put(nodes(), named("b"));
    store.remove(nodes(), "", "a");
    store.put(nodes(), named("c"));
    let at = |revision| -> Vec<String> {
        store.with(|state| state.list_at(nodes(), None, revision).into_keys().collect())
    };
    assert_eq!(at(2), ["a"]);
    assert_eq!(at(3), ["a", "b"]);
    assert_eq!(at(4), ["b"]);
    assert_eq!(at(5), ["b", "c"]);
    store.compact();
    assert_eq!(store.with(|state| state.floor(nodes())), 5);
    assert!(store.with(|state| state.changes(nodes(), 0, 9).is_empty()));
}

#[test]
fn the_history_is_bounded_and_the_floor_rises() {
    let store = store();
    for _ in 0..HISTORY_LIMIT + 2 {
        store.put(nodes(), named("a"));
    }
    assert_eq!(store.with(|state| state.floor(nodes())), 3);
}

#[test]
fn keys_sort_like_etcd_keys() {
    let pods = kinds::by_path("", "v1", "pods").unwrap();
    let store = store();
    for namespace in ["a", "a-b"] {
        store.put(
            pods,
            json!({ "metadata": { "name": "x", "namespace": namespace } }),
        );
    }
    let order: Vec<String> = store
        .list(pods, None)
        .iter()
        .map(|pod| text(pod, "/metadata/namespace").to_owned())
        .collect();
    assert_eq!(order, ["a-b", "a"], "`-` sorts before `/`");
    assert_eq!(store.list(pods, Some("a")).len(), 1);
}
