//! A service that is there compared with the one that is wanted, field by field.

use bowline_core::{Change, Impact};
use serde_json::{Map, Value, json};

use super::{change, text};
use crate::api::{HealthCheck, LoadBalancerService, ServiceChange};
use crate::balancer::desire::WantedService;
use crate::balancer::resource_states::fields;

/// What is to change about a service, but for an emptied description and the pool.
pub(super) struct Difference {
    pub(super) changes: Vec<Change>,
    pub(super) body: ServiceChange,
    pub(super) impact: Impact,
}

pub(super) fn compare(wanted: &WantedService, there: &LoadBalancerService) -> Difference {
    let mut changes = Vec::new();
    let mut body = ServiceChange::default();
    if wanted.name != there.name {
        changes.push(change("name", &*there.name, &*wanted.name));
        body.name = Some(wanted.name.clone());
    }
    if !wanted.description.is_empty() && wanted.description != there.description {
        let before = text(&there.description);
        changes.push(change("description", before, &*wanted.description));
        body.description = Some(wanted.description.clone());
    }
    let words = changes.len();
    if wanted.target_port != there.target_port {
        changes.push(change("target-port", there.target_port, wanted.target_port));
        body.target_port = Some(wanted.target_port);
    }
    if wanted.strategy != there.strategy {
        changes.push(change("strategy", &*there.strategy, &*wanted.strategy));
        body.strategy = Some(wanted.strategy.clone());
    }
    let checks = checks(there.healthcheck.as_ref(), &wanted.check);
    if !checks.is_empty() {
        changes.extend(checks);
        // It is replaced as a whole.
        body.healthcheck = Some(wanted.check.clone());
    }
    let impact = if changes.len() > words {
        Impact::InPlace
    } else {
        Impact::None
    };
    Difference {
        changes,
        body,
        impact,
    }
}

/// What differs between two health checks, by the names of the API.
fn checks(there: Option<&HealthCheck>, wanted: &HealthCheck) -> Vec<Change> {
    let before: Map<String, Value> = there.map(fields).unwrap_or_default();
    let after = fields(wanted);
    let mut keys: Vec<&String> = after.keys().collect();
    keys.extend(before.keys().filter(|key| !after.contains_key(*key)));
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| {
            let value = |side: &Map<String, Value>| side.get(key).cloned().unwrap_or(json!(null));
            change(&format!("healthcheck.{key}"), value(&before), value(&after))
        })
        .collect()
}
