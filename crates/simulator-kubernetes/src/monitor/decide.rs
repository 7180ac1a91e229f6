//! What has to change on one Node, as a plain function of what is known about it.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};

use super::Settings;
use crate::fleet::caller::{Call, MERGE, STRATEGIC};
use crate::object::seconds;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// The conditions a kubelet owns, which become unknown when it falls silent.
const OWNED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// Condition, status, and the taint that follows.
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// What is known about a Node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) version: String,
    pub(super) uid: String,
    pub(super) created: String,
    /// Type → status and time of the last heartbeat.
    pub(super) conditions: BTreeMap<String, (String, String)>,
    pub(super) taints: Vec<Taint>,
    pub(super) unschedulable: bool,
}

impl Facts {
    pub(super) fn of(node: &Node) -> Self {
        let meta = &node.metadata;
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let created = meta.creation_timestamp.as_ref();
        Self {
            version: meta.resource_version.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            created: created.map(|time| seconds(time.0)).unwrap_or_default(),
            conditions: conditions
                .into_iter()
                .flatten()
                .map(|one| {
                    let beat = one.last_heartbeat_time.as_ref();
                    let beat = beat.map(|time| seconds(time.0)).unwrap_or_default();
                    (one.type_.clone(), (one.status.clone(), beat))
                })
                .collect(),
            taints: spec.taints.unwrap_or_default(),
            unschedulable: spec.unschedulable.unwrap_or(false),
        }
    }

    fn status(&self, condition: &str) -> Option<&str> {
        let found = self.conditions.get(condition);
        found.map(|(status, _)| status.as_str())
    }

    /// Whether the newer facts show a sign of life: another Node, or a newer heartbeat.
    pub(super) fn is_new_life(&self, newer: &Self) -> bool {
        let beat = |facts: &Self| facts.conditions.get("Ready").map(|(_, beat)| beat.clone());
        self.uid != newer.uid || beat(self) != beat(newer)
    }

    /// How long this node may be silent.
    pub(super) fn patience(&self, settings: &Settings) -> Duration {
        if self.conditions.contains_key("Ready") {
            settings.grace_period
        } else {
            settings.startup_grace_period
        }
    }
}

/// The next write, if one is needed: conditions first, then taints.
pub(super) fn decide(name: &str, facts: &Facts, silent: bool, now: Timestamp) -> Option<Call> {
    if silent && let Some(conditions) = unknown(facts, now) {
        let body = json!({
            "metadata": { "resourceVersion": facts.version },
            "status": { "conditions": conditions },
        });
        let path = format!("/api/v1/nodes/{name}/status");
        return Some(Call::patch(path, STRATEGIC, body));
    }
    let taints = taints(facts, now)?;
    let body = json!({
        "metadata": { "resourceVersion": facts.version },
        "spec": { "taints": if taints.is_empty() { Value::Null } else { json!(taints) } },
    });
    Some(Call::patch(format!("/api/v1/nodes/{name}"), MERGE, body))
}

/// A time that may be unknown.
fn time(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        json!(text)
    }
}

/// The conditions of a silent node that do not say so yet.
fn unknown(facts: &Facts, now: Timestamp) -> Option<Vec<Value>> {
    let wrong: Vec<Value> = OWNED
        .iter()
        .filter(|kind| facts.status(kind) != Some("Unknown"))
        .map(|kind| match facts.conditions.get(*kind) {
            Some((_, beat)) => json!({
                "type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastHeartbeatTime": time(beat),
                "lastTransitionTime": seconds(now),
            }),
            None => json!({
                "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": time(&facts.created),
                "lastTransitionTime": seconds(now),
            }),
        })
        .collect();
    (!wrong.is_empty()).then_some(wrong)
}

/// The taints the Node should have, if it has others: those that do not follow from conditions
/// stay where they are.
fn taints(facts: &Facts, now: Timestamp) -> Option<Vec<Taint>> {
    let wanted = wanted(facts);
    let matches =
        |taint: &Taint, (key, effect): (&str, &str)| taint.key == key && taint.effect == effect;
    let mut taints: Vec<Taint> = facts
        .taints
        .iter()
        .filter(|taint| !is_managed(taint) || wanted.iter().any(|&one| matches(taint, one)))
        .cloned()
        .collect();
    for &(key, effect) in &wanted {
        if !taints.iter().any(|taint| matches(taint, (key, effect))) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                time_added: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(
                    Timestamp::from_second(now.as_second()).unwrap_or(now),
                )),
                value: None,
            });
        }
    }
    (taints != facts.taints).then_some(taints)
}

/// Keys and effects that follow from the conditions.
fn wanted(facts: &Facts) -> Vec<(&'static str, &'static str)> {
    let mut wanted: Vec<(&str, &str)> = TAINTS
        .iter()
        .filter(|(condition, status, _)| facts.status(condition) == Some(status))
        .map(|&(_, _, key)| (key, "NoSchedule"))
        .collect();
    if facts.unschedulable {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    match facts.status("Ready") {
        Some("False") => wanted.push((NOT_READY, "NoExecute")),
        Some("Unknown") => wanted.push((UNREACHABLE, "NoExecute")),
        _ => {}
    }
    wanted
}

/// Whether the taint is one that follows from conditions. Without a Ready condition nothing is
/// known about the two that follow from it, and they stay.
fn is_managed(taint: &Taint) -> bool {
    match taint.effect.as_str() {
        "NoSchedule" => {
            taint.key == UNSCHEDULABLE || TAINTS.iter().any(|(_, _, key)| *key == taint.key)
        }
        "NoExecute" => taint.key == NOT_READY || taint.key == UNREACHABLE,
        _ => false,
    }
}
