//! Plans: what is to be done in a cloud, as a value that people can read.
//!
//! A plan names every write before it happens: the object, what changes from what to what, and
//! what that means for traffic. The same plan is printed by `bowline plan`, logged in observe mode,
//! and carried out by the manager; see [`crate::PlanProgress`] for the order in which that happens.

mod text;

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::Known;

pub(crate) use text::section;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// It is made.
    Create,
    /// Some of it is changed.
    Update,
    /// It is removed.
    Delete,
    /// Nothing is written; the cloud has to finish something first.
    Wait,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Wait => "wait for",
        })
    }
}

/// What a step means for the traffic that flows now. Ordered: the worst of a plan is its largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Impact {
    /// Nothing is noticed.
    None,
    /// Changed where it is, without an interruption.
    InPlace,
    /// Some traffic is interrupted for a while.
    Interrupts,
    /// Something goes that does not come back as it was: an address, a load balancer.
    Destroys,
}

impl fmt::Display for Impact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no impact",
            Self::InPlace => "in place",
            Self::Interrupts => "interrupts traffic",
            Self::Destroys => "destroys",
        })
    }
}

/// An object of a cloud.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceRef {
    /// What it is, in the cloud's words: `load balancer`, `pool`, `member`.
    pub kind: &'static str,
    /// What it is called, with its parents where its own name is not unique: `tcp/http`.
    pub name: String,
    /// Its id, once it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// Something in a cloud, as it is or as it is wanted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResourceState {
    /// What it is.
    pub object: ResourceRef,
    /// Its attributes, in the cloud's words; the same words on both sides.
    pub attributes: Map<String, Value>,
}

impl ResourceState {
    /// Whether this, which exists, is as `wanted` in all that is asked for. It may have more.
    pub fn is_as(&self, wanted: &Self) -> bool {
        self.object.kind == wanted.object.kind
            && self.object.name == wanted.object.name
            && covers(&self.attributes, &wanted.attributes)
    }

    /// Whether its name or one of its attributes contains that text.
    pub fn carries(&self, text: &str) -> bool {
        let in_name = self.object.name.contains(text);
        in_name || self.attributes.values().any(|it| has_text(it, text))
    }
}

/// Whether a text is somewhere in there.
fn has_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(it) => it.contains(text),
        Value::Array(all) => all.iter().any(|it| has_text(it, text)),
        Value::Object(all) => all.values().any(|it| has_text(it, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn covers(found: &Map<String, Value>, wanted: &Map<String, Value>) -> bool {
    wanted.iter().all(|(key, wanted)| match found.get(key) {
        Some(Value::Object(found)) => wanted.as_object().is_some_and(|it| covers(found, it)),
        found => found == Some(wanted),
    })
}

/// One attribute that a step sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The attribute, in the cloud's words.
    pub field: String,
    /// What it is; null if it is not there.
    pub before: Value,
    /// What it becomes; null if it goes.
    pub after: Value,
}

/// The number of a step in its plan.
pub type StepId = usize;

/// One write to a cloud, or one wait for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What is done.
    pub verb: Verb,
    /// To what.
    pub object: ResourceRef,
    /// What that sets; for a deletion, nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// What it means for traffic.
    pub impact: Impact,
    /// Why, where the change does not say it by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The steps that must be done before it, all earlier in the plan.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<StepId>,
}

/// A setting, or something else that a person must put right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The reason of the event about it.
    pub reason: &'static str,
    /// What is wrong, with what, and what is allowed.
    pub message: String,
}

/// Something to report that stops nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Whether somebody may have to look.
    pub warning: bool,
    /// The reason of the event.
    pub reason: &'static str,
    /// What there is to know.
    pub message: String,
}

/// Everything that is to be done for one Service in one cloud.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plan {
    /// What was found in the cloud for the Service.
    pub found: Vec<ResourceState>,
    /// The cloud was not looked at, since nothing would have followed from it: `found` says nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unread: bool,
    /// What is to be there; nothing while problems leave it open.
    pub wanted: Vec<ResourceState>,
    /// The steps, in an order in which they can be carried out one by one.
    pub steps: Vec<Step>,
    /// What is wrong. The steps are what can be done in spite of it.
    pub problems: Vec<Problem>,
    /// What else there is to report.
    pub notices: Vec<Notice>,
    /// The nodes whose targets stay only because nobody knows whether they are still wanted, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
}

impl Plan {
    /// Whether nothing is to be written or waited for.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The worst that it means for traffic.
    pub fn impact(&self) -> Impact {
        let impacts = self.steps.iter().map(|step| step.impact);
        impacts.max().unwrap_or(Impact::None)
    }

    /// Whether the cloud has a load balancer of the Service.
    pub fn balancer(&self) -> Known {
        match (self.unread, self.found.is_empty()) {
            (true, _) => Known::Unclear,
            (false, true) => Known::Missing,
            (false, false) => Known::Found,
        }
    }

    /// Adds a step and says its number.
    pub fn push(&mut self, step: Step) -> StepId {
        debug_assert!(step.needs.iter().all(|&it| it < self.steps.len()));
        self.steps.push(step);
        self.steps.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn thing(name: &str, attributes: &Value) -> ResourceState {
        ResourceState {
            object: ResourceRef {
                kind: "listener",
                name: name.into(),
                id: None,
            },
            attributes: attributes.as_object().cloned().unwrap_or_default(),
        }
    }

    #[test]
    fn what_exists_may_have_more_than_is_wanted_and_not_less() {
        let found = thing("tcp/80", &json!({"port": 80, "tags": {"a": "1", "b": "2"}}));
        for (name, attributes, same) in [
            ("tcp/80", json!({}), true),
            ("tcp/80", json!({"port": 80}), true),
            ("tcp/80", json!({"tags": {"b": "2"}}), true),
            ("tcp/80", json!({"tags": {"c": "3"}}), false),
            ("tcp/80", json!({"tags": "b"}), false),
            ("tcp/80", json!({"port": 81}), false),
            ("tcp/80", json!({"timeout": null}), false),
            ("tcp/81", json!({"port": 80}), false),
        ] {
            let wanted = thing(name, &attributes);
            assert_eq!(found.is_as(&wanted), same, "{wanted:?}");
        }
    }
}
