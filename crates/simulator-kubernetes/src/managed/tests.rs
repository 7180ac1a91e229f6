use serde_json::{Value, json};

use super::*;
use crate::kinds::{KINDS, named as kind};

/// One story per line: `kind` and `steps`, each an `apply` or `update` with what Kubernetes makes of
/// it (`result`, or `error` and `causes`; `e2e/control-plane/facts` asks it).
const VECTORS: &str = include_str!("vectors.jsonl");

fn writer(manager: &str, second: i64) -> Writer {
    Writer {
        manager: manager.to_owned(),
        time: jiff::Timestamp::from_second(1_700_000_000 + second).unwrap(),
        subresource: None,
    }
}

fn run_step(kind: &Kind, live: &Value, step: &Value) -> Result<Value, Refusal> {
    let mut writer = writer(step["manager"].as_str().unwrap(), 0);
    writer.subresource = step["subresource"].as_str().map(str::to_owned);
    if step["op"] == "apply" {
        let force = step["force"] == true;
        return merge(kind, Some(live), &step["object"], &writer, force);
    }
    Ok(record_update(
        kind,
        Some(live),
        step["object"].clone(),
        &writer,
    ))
}

#[test]
fn stories_of_applies_and_updates_go_as_in_the_reference_implementation() {
    let mut seen = 0;
    for (number, line) in VECTORS.lines().enumerate() {
        let story: Value = serde_json::from_str(line).unwrap();
        let kind = kind(story["kind"].as_str().unwrap());
        let mut live = json!({ "apiVersion": kind.api_version(), "kind": kind.kind });
        for step in story["steps"].as_array().unwrap() {
            let place = format!("story {number}: {step:#}\nlive: {live:#}");
            match (run_step(kind, &live, step), step["error"].as_str()) {
                (Ok(result), None) => {
                    assert_eq!(
                        without_nulls(result),
                        without_nulls(step["result"].clone()),
                        "{place}"
                    );
                    live = step["result"].clone();
                }
                (Err(refusal), Some(error)) => {
                    assert_eq!(refusal.message, error, "{place}");
                    let count = |causes: &Value| causes.as_array().map_or(0, Vec::len);
                    assert_eq!(count(&refusal.details["causes"]), count(&step["causes"]));
                }
                (outcome, error) => panic!("{place}\n{outcome:?}\n{error:?}"),
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen}");
}

fn service(spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" }, "spec": spec })
}

fn entry<'a>(object: &'a Value, manager: &str) -> &'a Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    entries
        .iter()
        .find(|entry| entry["manager"] == manager)
        .unwrap()
}

#[test]
fn entries_keep_their_time_while_their_manager_changes_nothing() {
    let kind = kind("ConfigMap");
    let config = |data: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c" }, "data": data });
    let first = apply(
        kind,
        None,
        &config(json!({ "a": "1" })),
        &writer("a", 0),
        false,
    )
    .unwrap();
    let again = apply(
        kind,
        Some(&first),
        &config(json!({ "a": "1" })),
        &writer("a", 60),
        false,
    )
    .unwrap();
    assert_eq!(first, again);
    let mut other = again.clone();
    other["data"]["b"] = "2".into();
    let other = record_update(kind, Some(&again), other, &writer("u", 120));
    assert_eq!(entry(&other, "a")["time"], "2023-11-14T22:13:20Z");
    assert_eq!(entry(&other, "u")["time"], "2023-11-14T22:15:20Z");
    let same = record_update(kind, Some(&other), other.clone(), &writer("u", 180));
    assert_eq!(same, other);
    let later = apply(
        kind,
        Some(&other),
        &config(json!({ "a": "2" })),
        &writer("a", 240),
        false,
    )
    .unwrap();
    assert_eq!(entry(&later, "a")["time"], "2023-11-14T22:17:20Z");
}

#[test]
fn an_apply_that_changes_nothing_gives_the_stored_object_back() {
    for kind in KINDS {
        let config = json!({ "apiVersion": kind.api_version(), "kind": kind.kind,
            "metadata": { "name": "x", "labels": { "a": "b" } } });
        let created = apply(kind, None, &config, &writer("a", 0), false).unwrap();
        let again = apply(kind, Some(&created), &config, &writer("a", 9), false).unwrap();
        assert_eq!(created, again, "{}", kind.kind);
        assert_eq!(
            created["metadata"]["managedFields"][0]["fieldsV1"],
            json!({ "f:metadata": { "f:labels": { "f:a": {} } } })
        );
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn config() -> impl Strategy<Value = Value> {
        let ports = prop::collection::btree_map(1..6_u16, "[xy]", 0..4);
        let labels = prop::collection::btree_map("[abc]", "[12]", 0..3);
        (ports, labels, prop::option::of("[AB]")).prop_map(|(ports, labels, kind)| {
            let ports: Vec<Value> = ports
                .into_iter()
                .map(|(port, name)| json!({ "port": port, "name": name }))
                .collect();
            let mut object = service(&json!({ "ports": ports, "type": kind }));
            object["metadata"]["labels"] = json!(labels);
            without_nulls(object)
        })
    }

    proptest! {
        #[test]
        fn applying_twice_is_applying_once(first in config(), second in config()) {
            let kind = kind("Service");
            let live = apply(kind, None, &first, &writer("a", 0), false).unwrap();
            let once = apply(kind, Some(&live), &second, &writer("b", 1), true).unwrap();
            let twice = apply(kind, Some(&once), &second, &writer("b", 2), false).unwrap();
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn a_lone_manager_gets_exactly_what_it_applies(first in config(), second in config()) {
            let kind = kind("Service");
            let live = apply(kind, None, &first, &writer("a", 0), false).unwrap();
            let next = apply(kind, Some(&live), &second, &writer("a", 1), false).unwrap();
            let fresh = apply(kind, None, &second, &writer("a", 1), false).unwrap();
            prop_assert_eq!(&next["spec"]["ports"].as_array().map_or(0, Vec::len),
                &fresh["spec"]["ports"].as_array().map_or(0, Vec::len));
            prop_assert_eq!(&next["spec"]["type"], &fresh["spec"]["type"]);
            prop_assert_eq!(&entry_or_null(&next), &entry_or_null(&fresh));
        }

        #[test]
        fn sets_survive_their_json(first in config()) {
            let set = walk::fields(root(kind("Service")), &first);
            prop_assert_eq!(Set::from_json(&set.to_json()), set);
        }
    }

    fn entry_or_null(object: &Value) -> Value {
        object["metadata"]["managedFields"][0]["fieldsV1"].clone()
    }
}
