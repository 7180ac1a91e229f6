//! What exists and what is wanted, as states that a preview compares. Pure.
//!
//! Attributes have the API's names on both sides, and only those that are compared are shown.

use std::collections::BTreeMap;

use bowline_core::{ResourceRef, ResourceState};
use serde_json::{Map, Value, json};

use super::desire::{Wanted, WantedMember, WantedPool, ZoneWish};
use super::plan::{BALANCER, FLOATING_IP, LISTENER, MEMBER, MONITOR, POOL, Seen, SeenPool};
use super::plan::{in_pool, new, seen};
use crate::api::{FloatingIp, Listener, LoadBalancer, Member, Monitor};

fn state_of(object: ResourceRef, attributes: Value) -> ResourceState {
    let mut attributes = match attributes {
        Value::Object(attributes) => attributes,
        _ => Map::new(),
    };
    // It is part of the object.
    attributes.remove("name");
    ResourceState { object, attributes }
}

pub(crate) fn found_balancer(it: &LoadBalancer) -> ResourceState {
    let addresses: Vec<Value> = it
        .vip_addresses
        .iter()
        .map(|vip| json!({"address": vip.address, "subnet": vip.subnet}))
        .collect();
    let attributes = json!({"zone": it.zone, "flavor": it.flavor, "tags": it.tags,
                            "vip_addresses": addresses});
    state_of(seen(BALANCER, &it.name, it.uuid), attributes)
}

pub(crate) fn found(there: &Seen, floating_ips: &[FloatingIp]) -> Vec<ResourceState> {
    let balancer = &there.balancer;
    let mut states = vec![found_balancer(balancer)];
    for pool in &there.pools {
        found_pool(pool, &mut states);
    }
    states.extend(there.loose.iter().map(found_listener));
    for one in floating_ips {
        if one.load_balancer == Some(balancer.uuid)
            && let Some(address) = one.address()
        {
            let attributes = json!({"load_balancer": balancer.name});
            states.push(state_of(new(FLOATING_IP, address.to_string()), attributes));
        }
    }
    states
}

fn found_pool(there: &SeenPool, states: &mut Vec<ResourceState>) {
    let pool = &there.pool;
    states.push(state_of(
        seen(POOL, &pool.name, pool.uuid),
        json!({"algorithm": pool.algorithm, "protocol": pool.protocol}),
    ));
    states.extend(there.listeners.iter().map(found_listener));
    let monitors = there.monitors.iter();
    states.extend(monitors.map(|it| found_monitor(&pool.name, it)));
    let members = there.members.iter();
    states.extend(members.map(|it| found_member(&pool.name, it)));
}

fn found_listener(it: &Listener) -> ResourceState {
    let attributes = json!({"protocol": it.protocol, "protocol_port": it.protocol_port,
                            "allowed_cidrs": it.allowed_cidrs,
                            "timeout_client_data_ms": it.timeout_client_data_ms,
                            "timeout_member_connect_ms": it.timeout_member_connect_ms,
                            "timeout_member_data_ms": it.timeout_member_data_ms});
    state_of(seen(LISTENER, &it.name, it.uuid), attributes)
}

fn found_monitor(pool: &str, it: &Monitor) -> ResourceState {
    let mut attributes = json!({"type": it.kind, "delay_s": it.delay_s,
                                "timeout_s": it.timeout_s, "up_threshold": it.up_threshold,
                                "down_threshold": it.down_threshold});
    if let Some(http) = &it.http {
        attributes["http"] = json!({"expected_codes": http.expected_codes, "method": http.method,
                                    "url_path": http.url_path, "version": http.version,
                                    "host": http.host});
    }
    state_of(seen(MONITOR, pool, it.uuid), attributes)
}

fn found_member(pool: &str, it: &Member) -> ResourceState {
    let mut attributes = json!({"protocol_port": it.protocol_port,
                                "monitor_port": it.monitor_port, "address": it.address,
                                "subnet": it.subnet});
    if it.enabled == Some(false) {
        attributes["enabled"] = json!(false);
    }
    state_of(seen(MEMBER, in_pool(&it.name, pool), it.uuid), attributes)
}

pub(crate) fn wanted(wanted: &Wanted) -> Vec<ResourceState> {
    let zone = match &wanted.zone {
        ZoneWish::Chosen(zone) | ZoneWish::Common(zone) => zone.as_str(),
        ZoneWish::Several(_) | ZoneWish::Unknown => "",
    };
    let mut balancer = wanted.body(zone);
    // What is left to the cloud, or to what exists, is not wanted in any way.
    if zone.is_empty() {
        balancer.remove("zone");
    }
    if wanted.vips.is_empty() {
        balancer.remove("vip_addresses");
    }
    let object = new(BALANCER, &wanted.name);
    let mut states = vec![state_of(object, Value::Object(balancer))];
    for pool in &wanted.pools {
        wanted_pool(pool, &mut states);
    }
    for address in &wanted.floating_ips {
        let attributes = json!({"load_balancer": wanted.name});
        states.push(state_of(new(FLOATING_IP, address.to_string()), attributes));
    }
    states
}

fn wanted_pool(pool: &WantedPool, states: &mut Vec<ResourceState>) {
    let tags = BTreeMap::new();
    let name = &pool.name;
    let mut push = |object, body| states.push(state_of(object, Value::Object(body)));
    push(new(POOL, name), pool.body(&tags));
    let listener = &pool.listener;
    push(new(LISTENER, &listener.name), listener.body(&tags));
    push(new(MONITOR, name), pool.monitor.body(&tags));
    let member = |it: &WantedMember| new(MEMBER, in_pool(&it.name, name));
    for one in &pool.members {
        push(member(one), one.body(&tags));
    }
}
