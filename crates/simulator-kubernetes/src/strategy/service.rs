//! Services: the kind with the most rules of its own.

mod allocate;
mod validate;

use serde_json::{Value, json};

use super::{Context, drop_empty, drop_field, fill};
use crate::kinds::Kind;
use crate::object::{list, text};
use crate::status::Refusal;
pub use validate::{validate, validate_status};

/// How long a client sticks to its endpoint unless the Service says otherwise.
const STICKY_SECONDS: i64 = 10_800;

fn kind_of(service: &Value) -> &str {
    text(service, "/spec/type")
}

fn needs_cluster_ip(service: &Value) -> bool {
    kind_of(service) != "ExternalName"
}

fn needs_node_port(service: &Value) -> bool {
    matches!(kind_of(service), "NodePort" | "LoadBalancer")
}

fn needs_health_port(service: &Value) -> bool {
    kind_of(service) == "LoadBalancer" && text(service, "/spec/externalTrafficPolicy") == "Local"
}

fn is_headless(service: &Value) -> bool {
    service["spec"]["clusterIPs"] == json!(["None"])
}

/// Whether traffic from outside the cluster can reach it.
fn is_external(service: &Value) -> bool {
    needs_node_port(service)
        || (kind_of(service) == "ClusterIP"
            && service["spec"]["externalIPs"]
                .as_array()
                .is_some_and(|list| !list.is_empty()))
}

pub fn defaults(service: &mut Value) {
    fill(service, "spec", json!({}));
    fill(service, "status", json!({}));
    fill(&mut service["status"], "loadBalancer", json!({}));
    fill(&mut service["spec"], "type", "ClusterIP");
    let external = is_external(service);
    let balanced = kind_of(service) == "LoadBalancer";
    let inside = needs_cluster_ip(service);
    let spec = &mut service["spec"];
    drop_empty(
        spec,
        &[
            "selector",
            "ports",
            "externalIPs",
            "clusterIPs",
            "ipFamilies",
            "clusterIP",
            "externalTrafficPolicy",
            "healthCheckNodePort",
            "loadBalancerIP",
            "ipFamilyPolicy",
            "loadBalancerSourceRanges",
            "externalName",
        ],
    );
    fill(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        drop_field(spec, "sessionAffinityConfig");
    } else if spec["sessionAffinity"] == "ClientIP"
        && spec
            .pointer("/sessionAffinityConfig/clientIP/timeoutSeconds")
            .is_none()
    {
        spec["sessionAffinityConfig"] = json!({ "clientIP": { "timeoutSeconds": STICKY_SECONDS } });
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        fill(port, "protocol", "TCP");
        drop_empty(port, &["nodePort", "name", "targetPort"]);
        let number = port["port"].clone();
        fill(port, "targetPort", number);
    }
    if spec["ports"].is_null() {
        drop_field(spec, "ports");
    }
    if external {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    if inside {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        fill(spec, "allocateLoadBalancerNodePorts", true);
        default_ingress(&mut service["status"]["loadBalancer"]);
    }
    drop_empty(&mut service["status"]["loadBalancer"], &["ingress"]);
}

/// An address without a mode is a virtual address.
fn default_ingress(balancer: &mut Value) {
    for ingress in balancer["ingress"].as_array_mut().into_iter().flatten() {
        drop_empty(ingress, &["ip", "hostname", "ipMode", "ports"]);
        if ingress["ip"].is_string() {
            fill(ingress, "ipMode", "VIP");
        }
        if ingress["ip"].is_null() {
            drop_field(ingress, "ip");
        }
    }
    if balancer["ingress"].is_null() {
        drop_field(balancer, "ingress");
    }
}

/// Prepares a new Service: no status, and everything that is allocated.
pub fn prepare_create(kind: &Kind, service: &mut Value, context: &Context) -> Result<(), Refusal> {
    service["status"] = json!({ "loadBalancer": {} });
    let single = service["spec"]["clusterIP"].clone();
    if single.is_string() && service["spec"]["clusterIPs"].is_null() {
        service["spec"]["clusterIPs"] = json!([single]);
    }
    drop_empty(&mut service["spec"], &["clusterIP", "clusterIPs"]);
    allocate::allocate(kind, service, None, context)
}

/// Prepares a changed Service: carries over what was allocated, allocates what is missing, and
/// clears what the new type does not have.
pub fn prepare_update(
    kind: &Kind,
    service: &mut Value,
    old: &Value,
    context: &Context,
) -> Result<(), Refusal> {
    super::keep(service, old, &["status"]);
    carry_over(service, old);
    allocate::allocate(kind, service, Some(old), context)?;
    clear(service, old);
    Ok(())
}

/// Fixes up allocated values that the client did not send back.
fn carry_over(service: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(service) {
        for field in ["clusterIP", "clusterIPs"] {
            if service["spec"][field].is_null() {
                service["spec"][field] = old["spec"][field].clone();
            }
        }
    }
    let (before, after) = (
        &old["spec"]["clusterIP"],
        service["spec"]["clusterIP"].clone(),
    );
    if *before != after && service["spec"]["clusterIPs"] == old["spec"]["clusterIPs"] {
        // An old client that knows only the singular.
        service["spec"]["clusterIPs"] = if after.is_null() {
            Value::Null
        } else {
            json!([after])
        };
    }
    drop_empty(&mut service["spec"], &["clusterIP", "clusterIPs"]);
    if needs_node_port(old) && needs_node_port(service) {
        carry_node_ports(service, old);
    }
    if needs_health_port(old) && needs_health_port(service) {
        let port = old["spec"]["healthCheckNodePort"].clone();
        fill(&mut service["spec"], "healthCheckNodePort", port);
    }
    for field in ["ipFamilyPolicy", "ipFamilies"] {
        if needs_cluster_ip(old)
            && needs_cluster_ip(service)
            && service["spec"][field].is_null()
            && field == "ipFamilyPolicy"
        {
            service["spec"][field] = old["spec"][field].clone();
        }
    }
    drop_empty(&mut service["spec"], &["ipFamilyPolicy", "ipFamilies"]);
}

/// What the server says about a Service that it accepts.
pub fn warnings(service: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if service["spec"]["trafficDistribution"] == "PreferClose" {
        warnings.push(
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\""
                .to_owned(),
        );
    }
    if !list(service, "/spec/externalIPs").is_empty() {
        warnings.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
                .to_owned(),
        );
    }
    warnings
}

fn node_ports(service: &Value) -> Vec<i64> {
    service["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|port| port["nodePort"].as_i64())
        .collect()
}

fn carry_node_ports(service: &mut Value, old: &Value) {
    let new = node_ports(service);
    let used: Vec<i64> = node_ports(old)
        .into_iter()
        .filter(|port| new.contains(port))
        .collect();
    let named = |name: &Value| {
        old["spec"]["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|port| port["name"] == *name)
            .and_then(|port| port["nodePort"].as_i64())
    };
    for port in service["spec"]["ports"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        if port["nodePort"].is_null() {
            match named(&port["name"]) {
                Some(number) if !used.contains(&number) => port["nodePort"] = number.into(),
                _ => drop_field(port, "nodePort"),
            }
        }
        drop_empty(port, &["name", "nodePort"]);
    }
}

/// Clears what a change of type makes meaningless, unless the client changed it as well: then
/// the checks shall complain.
fn clear(service: &mut Value, old: &Value) {
    let same = |service: &Value, field: &str| service["spec"][field] == old["spec"][field];
    if needs_cluster_ip(old) && !needs_cluster_ip(service) {
        if same(service, "clusterIP") && same(service, "clusterIPs") {
            drop_field(&mut service["spec"], "clusterIP");
            drop_field(&mut service["spec"], "clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if same(service, field) {
                drop_field(&mut service["spec"], field);
            }
        }
    }
    if needs_node_port(old) && !needs_node_port(service) {
        let known = node_ports(old);
        if node_ports(service).iter().all(|port| known.contains(port)) {
            for port in service["spec"]["ports"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                drop_field(port, "nodePort");
            }
        }
    }
    if needs_health_port(old) && !needs_health_port(service) && same(service, "healthCheckNodePort")
    {
        drop_field(&mut service["spec"], "healthCheckNodePort");
    }
    if kind_of(old) == "LoadBalancer" && kind_of(service) != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(service, field) {
                drop_field(&mut service["spec"], field);
            }
        }
    }
    if is_external(old) && !is_external(service) && same(service, "externalTrafficPolicy") {
        drop_field(&mut service["spec"], "externalTrafficPolicy");
    }
    if kind_of(service) != "LoadBalancer" {
        service["status"]["loadBalancer"] = json!({});
    }
}

#[cfg(test)]
mod tests;
