//! What the deletion guard of a cloud insists on.

use std::time::Duration;

use bowline_core::{GuardPolicy, format_duration, parse_duration};

use super::document::Value;
use super::schema::{Field, Kind};

/// The most nodes that a budget may name: more than a cluster has.
const MOST_NODES: i64 = 100_000;

pub(super) fn fields() -> Vec<Field> {
    let usual = GuardPolicy::default();
    let duration = |name, value, meaning: &str| {
        Field::new(name, Kind::Duration, meaning).or(format_duration(value))
    };
    vec![
        duration(
            "looksApart",
            usual.looks_apart,
            "The least time between the two looks that find the machine gone.",
        ),
        duration("nodeAge", usual.node_age, "The least age of a Node."),
        duration(
            "uninitializedAge",
            usual.uninitialized_age,
            "The least age of a Node that was never initialised.",
        ),
        Field::new(
            "budgetFloor",
            Kind::Whole(0, MOST_NODES),
            "Deletions that are allowed inside one window, however few nodes the cloud has.",
        )
        .or(usual.budget_floor.to_string()),
        Field::new(
            "budgetPercent",
            Kind::Whole(0, 100),
            "The share of the cloud's nodes that may be deleted inside one window. With both at 0, \
             nothing is ever deleted.",
        )
        .or(usual.budget_percent.to_string()),
        duration(
            "budgetWindow",
            usual.budget_window,
            "The window of the budget.",
        ),
    ]
}

/// What was said, and the usual for the rest. `value` has been checked.
pub(super) fn read(value: &Value) -> GuardPolicy {
    let usual = GuardPolicy::default();
    let text = |key: &str| value.get(key).and_then(Value::text);
    let duration = |key, or: Duration| {
        text(key)
            .and_then(|it| parse_duration(it).ok())
            .unwrap_or(or)
    };
    let number = |key, or: usize| text(key).and_then(|it| it.parse().ok()).unwrap_or(or);
    GuardPolicy {
        looks_apart: duration("looksApart", usual.looks_apart),
        node_age: duration("nodeAge", usual.node_age),
        uninitialized_age: duration("uninitializedAge", usual.uninitialized_age),
        budget_floor: number("budgetFloor", usual.budget_floor),
        budget_percent: number("budgetPercent", usual.budget_percent),
        budget_window: duration("budgetWindow", usual.budget_window),
    }
}
