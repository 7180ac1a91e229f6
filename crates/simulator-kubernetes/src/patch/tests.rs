use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kinds::named;

/// One case per line: `kind`, `object`, `patch`, and what Kubernetes makes of them (`result` or
/// `error`; `e2e/control-plane/facts` asks it).
const VECTORS: &str = include_str!("vectors.jsonl");

#[test]
fn strategic_patches_give_what_the_reference_implementation_gives() {
    let mut seen = 0;
    for line in VECTORS.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let kind = named(case["kind"].as_str().unwrap());
        let outcome = strategic_patch(kind, &case["object"], &case["patch"]);
        match (outcome, case.get("error").and_then(Value::as_str)) {
            (Ok(result), None) => assert_eq!(result, case["result"], "{line}"),
            // A patch wrong in two places is refused for either: only named cases fix the words.
            (Err(_), Some(_)) if case.get("note").is_none() => {}
            (Err(refusal), Some(error)) => assert_eq!(refusal.message, error, "{line}"),
            (outcome, error) => panic!("{line}\n{outcome:?}\n{error:?}"),
        }
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn a_json_patch_has_a_limit() {
    let many = vec![json!({ "op": "add", "path": "/x", "value": 1 }); OPERATIONS + 1];
    let refusal = json_patch(&json!({}), &many.into()).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.reason),
        (413, "RequestEntityTooLarge")
    );
}

#[test]
fn values_print_as_the_servers_language_prints_them() {
    let value = json!({ "b": [1, "x", null], "a": { "c": true } });
    assert_eq!(go_text(&value), "map[a:map[c:true] b:[1 x <nil>]]");
}

/// JSON without nulls, because a merge patch cannot write them.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..5_i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn json_object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", json_value(), 0..4)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// The merge patch from one value to another.
fn difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        return to.clone();
    };
    let removed = from.keys().filter(|key| !to.contains_key(*key));
    let mut patch: serde_json::Map<String, Value> =
        removed.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in to {
        match from.get(key) {
            Some(before) if before == value => {}
            // An object over something else would be merged into nothing: nulls are not needed.
            Some(before) => drop(patch.insert(key.clone(), difference(before, value))),
            None => drop(patch.insert(key.clone(), value.clone())),
        }
    }
    patch.into()
}

proptest! {
    #[test]
    fn a_merge_patch_made_from_a_difference_gives_the_wanted_object(
        from in json_object(), to in json_object()
    ) {
        let patch = difference(&from, &to);
        let patched = merge_patch(&from, &patch);
        prop_assert_eq!(&patched, &to);
        prop_assert_eq!(merge_patch(&patched, &patch), to);
    }

    #[test]
    fn a_strategic_patch_of_conditions_and_finalizers_applied_twice_changes_nothing_more(
        before in prop::collection::btree_set("[a-f]", 0..5),
        patch in prop::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..6).prop_shuffle(),
    ) {
        let node = named("Node");
        let conditions = |names: &[&str], status: &str| -> Value {
            names.iter().map(|name| json!({ "type": name, "status": status })).collect()
        };
        let before: Vec<&str> = before.iter().map(String::as_str).collect();
        let object = json!({
            "metadata": { "finalizers": before }, "status": { "conditions": conditions(&before, "1") }
        });
        let patch = json!({
            "metadata": { "finalizers": patch }, "status": { "conditions": conditions(&patch, "2") }
        });
        let once = strategic_patch(node, &object, &patch).unwrap();
        let twice = strategic_patch(node, &once, &patch).unwrap();
        prop_assert_eq!(&once, &twice);
        let count = once["metadata"]["finalizers"].as_array().map_or(0, Vec::len);
        prop_assert_eq!(once["status"]["conditions"].as_array().map_or(0, Vec::len), count);
    }
}
