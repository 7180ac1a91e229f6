//! What exists and what is wanted, as states that a preview compares. Pure.
//!
//! Attributes have the API's names on both sides, and only those that are compared are shown.

use bowline_core::{ResourceRef, ResourceState};
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::desire::WantedService;
use super::plan::{BALANCER, Managed, SERVICE, new, seen};
use crate::api::{LoadBalancer, LoadBalancerService};

pub(crate) fn fields(body: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(body) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn state_of(object: ResourceRef, mut attributes: Map<String, Value>) -> ResourceState {
    // It is part of the object.
    attributes.remove("name");
    ResourceState { object, attributes }
}

pub(crate) fn found(balancer: &LoadBalancer) -> Vec<ResourceState> {
    let mut attributes = Map::new();
    if !balancer.description.is_empty() {
        attributes.insert("description".into(), json!(balancer.description));
    }
    if !balancer.labels.is_empty() {
        attributes.insert("labels".into(), json!(balancer.labels));
    }
    if let Some(ip) = balancer.ip {
        attributes.insert("ip".into(), json!(ip));
    }
    let mut states = vec![state_of(
        seen(BALANCER, &balancer.name, balancer.id),
        attributes,
    )];
    states.extend(balancer.services.items.iter().map(found_service));
    states
}

fn found_service(it: &LoadBalancerService) -> ResourceState {
    let mut attributes = Map::new();
    if !it.description.is_empty() {
        attributes.insert("description".into(), json!(it.description));
    }
    attributes.insert("protocol".into(), json!(it.protocol));
    attributes.insert("port".into(), json!(it.port));
    attributes.insert("target-port".into(), json!(it.target_port));
    attributes.insert("strategy".into(), json!(it.strategy));
    if let Some(pool) = it.instance_pool {
        attributes.insert("instance-pool".into(), json!({"id": pool}));
    }
    attributes.insert("healthcheck".into(), json!(it.healthcheck));
    state_of(seen(SERVICE, &it.name, it.id), attributes)
}

/// Everything that is wanted. `managed` is none for an external load balancer.
pub(crate) fn wanted(
    managed: Option<&Managed>,
    services: &[WantedService],
    pool: Uuid,
) -> Vec<ResourceState> {
    let balancer = managed.map(|it| {
        let mut attributes = Map::new();
        if !it.description.is_empty() {
            attributes.insert("description".into(), json!(it.description));
        }
        state_of(new(BALANCER, &it.name), attributes)
    });
    let services = services
        .iter()
        .map(|it| state_of(new(SERVICE, &it.name), fields(&it.body(pool))));
    balancer.into_iter().chain(services).collect()
}
