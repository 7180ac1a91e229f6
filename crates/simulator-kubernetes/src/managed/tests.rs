use serde_json::{Value, json};

use super::*;
use crate::kinds::KINDS;

/// One story per line: `kind` and `steps`, each an `apply` or `update` with what the reference
/// implementation made of it (`result`, or `error` and `causes`).
const VECTORS: &str = include_str!("vectors.jsonl");

fn kind(name: &str) -> &'static Kind {
    KINDS.iter().find(|kind| kind.kind == name).unwrap()
}

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
fn a_created_object_has_an_entry_for_what_was_sent_and_nothing_else() {
    let kind = kind("Service");
    let sent = service(&json!({ "ports": [{ "port": 80, "targetPort": 80 }] }));
    let (sent, _) = schema::check_fields(kind, sent, schema::FieldValidation::Strict).unwrap();
    let created = record_update(kind, None, sent, &writer("kubectl-create", 7));
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "kubectl-create", "operation": "Update", "apiVersion": "v1",
            "time": "2023-11-14T22:13:27Z", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { "f:ports": {
                ".": {},
                "k:{\"port\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {}, "f:targetPort": {} },
            } } },
        }])
    );
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
fn conflicts_say_who_owns_what() {
    let kind = kind("Service");
    let live = record_update(
        kind,
        None,
        service(&json!({ "type": "ClusterIP" })),
        &writer("kubectl", 0),
    );
    let config = service(&json!({ "type": "LoadBalancer" }));
    let refusal = apply(kind, Some(&live), &config, &writer("me", 0), false).unwrap_err();
    assert_eq!((refusal.code, refusal.reason), (409, "Conflict"));
    assert_eq!(
        refusal.message,
        "Apply failed with 1 conflict: conflict with \"kubectl\" using v1: .spec.type"
    );
    assert_eq!(
        refusal.details,
        json!({ "causes": [{
            "reason": "FieldManagerConflict", "field": ".spec.type",
            "message": "conflict with \"kubectl\" using v1",
        }] })
    );
    let forced = apply(kind, Some(&live), &config, &writer("me", 0), true).unwrap();
    assert_eq!(forced["spec"]["type"], "LoadBalancer");
    assert_eq!(
        entry(&forced, "me")["fieldsV1"],
        json!({ "f:spec": { "f:type": {} } })
    );
}

#[test]
fn fields_of_an_object_without_entries_belong_to_the_time_before() {
    let kind = kind("ConfigMap");
    let live = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "c", "uid": "1" }, "data": { "a": "1" } });
    let untracked = record_update(kind, Some(&live), live.clone(), &writer("u", 0));
    assert_eq!(untracked, live);
    let config = json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "c" }, "data": { "a": "2" } });
    let refusal = apply(kind, Some(&live), &config, &writer("a", 0), false).unwrap_err();
    assert!(
        refusal
            .message
            .contains("\"before-first-apply\" using v1: .data.a")
    );
}

#[test]
fn an_applied_object_keeps_no_trace_of_what_was_withdrawn() {
    let kind = kind("Node");
    let node = |labels: Value| json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n", "labels": labels } });
    let one = apply(
        kind,
        None,
        &node(json!({ "a": "1" })),
        &writer("a", 0),
        false,
    )
    .unwrap();
    let none = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
    let gone = apply(kind, Some(&one), &none, &writer("a", 1), false).unwrap();
    assert!(gone["metadata"].get("labels").is_none());
    assert!(gone["metadata"].get("managedFields").is_none());
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
