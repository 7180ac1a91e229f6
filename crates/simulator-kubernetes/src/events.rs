//! Events have two forms and one storage: they are kept as core/v1 has them, and shown as events.k8s.io/v1 has them to
//! those who ask for that.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::kinds::Kind;
use super::object::text;
use super::strategy::problem::Problem;

/// The group of the newer form.
pub const GROUP: &str = "events.k8s.io";

/// What fields are called in the form that is kept, and in the newer one.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];
/// Texts that the form that is kept shows even when they are empty, and the newer one does not.
const SHOWN_EMPTY: [&str; 2] = ["reportingComponent", "reportingInstance"];

/// Whether objects of that kind are kept in another form.
pub fn is_newer(kind: &Kind) -> bool {
    kind.group == GROUP
}

/// An object in the form of that kind, from the one in which it is kept.
pub fn shown(kind: &Kind, kept: &Arc<Value>) -> Arc<Value> {
    if !is_newer(kind) {
        return Arc::clone(kept);
    }
    let mut event = renamed(kept, |(old, new)| (old, new));
    event["apiVersion"] = kind.api_version().into();
    if let Some(fields) = event.as_object_mut() {
        fields.retain(|key, value| {
            let name = NAMES.iter().find(|(_, new)| key == new);
            let name = name.map_or(key.as_str(), |(old, _)| old);
            !(SHOWN_EMPTY.contains(&name) && value == "")
        });
    }
    Arc::new(event)
}

/// An object in the form in which it is kept, from that of its kind.
pub fn kept(kind: &Kind, shown: Value) -> Value {
    if !is_newer(kind) {
        return shown;
    }
    let mut event = renamed(&shown, |(old, new)| (new, old));
    event["apiVersion"] = "v1".into();
    for field in SHOWN_EMPTY {
        if event[field].is_null() {
            event[field] = "".into();
        }
    }
    event
}

fn renamed(
    event: &Value,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let name = |key: &String| {
        let mut pairs = NAMES.into_iter().map(direction);
        let pair = pairs.find(|(from, _)| from == key);
        pair.map_or_else(|| key.clone(), |(_, to)| to.to_owned())
    };
    let fields = event.as_object().into_iter().flatten();
    let fields: Map<String, Value> = fields
        .map(|(key, value)| (name(key), value.clone()))
        .collect();
    Value::Object(fields)
}

/// What the newer form asks of a new event beyond what both do. Fields have the names of the form that is kept, as in
/// the server's own messages.
pub fn strict(event: &Value) -> Vec<Problem> {
    let mut problems = series(event);
    if event["eventTime"].is_null() {
        problems.push(Problem::required("eventTime", ""));
    }
    let kind = text(event, "/type");
    if !["Normal", "Warning"].contains(&kind) {
        let detail = format!("has invalid value: {kind}");
        problems.push(Problem::invalid("type", &json!(""), &detail));
    }
    let is_set = |field: &str| match &event[field] {
        Value::Null => false,
        Value::Number(number) => number.as_i64() != Some(0),
        Value::Object(source) => source.values().any(|it| it != ""),
        _ => true,
    };
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        if is_set(field) {
            problems.push(Problem::invalid(field, &json!(""), "needs to be unset"));
        }
    }
    problems
}

/// What the newer form asks of a change beyond what both do.
pub fn strict_change(event: &Value, old: &Value) -> Vec<Problem> {
    let mut problems = if event["series"] == old["series"] {
        Vec::new()
    } else {
        series(event)
    };
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        // Twice, as the server does it.
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        if event[field] != old[field] {
            let shown = match field {
                "reportingComponent" => "reportingController",
                other => other,
            };
            problems.push(Problem::immutable(shown, &event[field]));
        }
    }
    problems
}

fn series(event: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let series = &event["series"];
    if series.is_object() {
        if series["count"].as_i64().unwrap_or_default() < 2 {
            let detail = "should be at least 2";
            problems.push(Problem::invalid("series.count", &json!(""), detail));
        }
        if series["lastObservedTime"].is_null() {
            problems.push(Problem::required("series.lastObservedTime", ""));
        }
    }
    problems
}
