//! What is handed out to Services: cluster addresses and ports on the nodes.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use super::{kind_of, needs_cluster_ip, needs_health_port, needs_node_port};
use crate::kinds::Kind;
use crate::object::text;
use crate::status::Refusal;
use crate::store::State;
use crate::strategy::Context;
use crate::strategy::metadata::strings;
use crate::strategy::problem::{Problem, invalid};
use crate::strategy::{drop_empty, fill};

/// 10.96.0.0/12: the usual range of cluster addresses.
const IPV4_BASE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const IPV4_SIZE: u64 = 1 << 20;
/// fd00:10:96::/112.
const IPV6_BASE: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0x96, 0, 0, 0, 0, 0);
const IPV6_SIZE: u64 = 1 << 16;
/// The first address belongs to the Service of the API server itself.
const RESERVED: u64 = 2;
/// Ports on the nodes.
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Draws before the search becomes exhaustive.
const DRAWS: usize = 64;

/// Allocates what the Service needs and does not have.
pub(super) fn allocate(
    kind: &Kind,
    service: &mut Value,
    old: Option<&Value>,
    context: &Context,
) -> Result<(), Refusal> {
    let refuse = |service: &Value, problems: Vec<Problem>| {
        if problems.is_empty() {
            return Ok(());
        }
        Err(invalid(kind, text(service, "/metadata/name"), &problems))
    };
    let own = text(service, "/metadata/uid").to_owned();
    if needs_cluster_ip(service) {
        let problems = families(service, old);
        refuse(service, problems)?;
        let used = used_addresses(kind, context.state, &own);
        let problems = addresses(service, old, &used, context);
        refuse(service, problems)?;
    }
    let used = used_ports(kind, context.state, &own);
    let problems = ports(service, old, &used, context);
    refuse(service, problems)
}

fn family_of(ip: &str) -> &'static str {
    if ip.contains(':') { "IPv6" } else { "IPv4" }
}

/// Settles `ipFamilyPolicy` and `ipFamilies`. The cluster is dual-stack, IPv4 first.
fn families(service: &mut Value, old: Option<&Value>) -> Vec<Problem> {
    let spec = &mut service["spec"];
    let headless = spec["clusterIP"] == "None";
    let selectorless = spec["selector"]
        .as_object()
        .is_none_or(serde_json::Map::is_empty);
    let default = if headless && selectorless {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    fill(spec, "ipFamilyPolicy", default);
    let single = spec["ipFamilyPolicy"] == "SingleStack";
    if single && let Some(old) = old {
        // Asking for one family without saying which keeps the first.
        for field in ["clusterIPs", "ipFamilies"] {
            if spec[field] == old["spec"][field]
                && let Some(list) = spec[field].as_array_mut()
            {
                list.truncate(1);
            }
        }
    }
    let mut problems = Vec::new();
    let count = |spec: &Value, field: &str| spec[field].as_array().map_or(0, Vec::len);
    if single {
        let policy = spec["ipFamilyPolicy"].clone();
        for (field, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
            if count(spec, field) == 2 {
                let detail = format!(
                    "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                );
                problems.push(Problem::invalid("spec.ipFamilyPolicy", &policy, &detail));
            }
        }
    }
    let mut families: Vec<String> = strings(&spec["ipFamilies"]).map(str::to_owned).collect();
    for (index, ip) in strings(&spec["clusterIPs"]).enumerate() {
        if ip != "None" && index >= families.len() {
            families.push(family_of(ip).to_owned());
        }
    }
    if families.is_empty() {
        families.push("IPv4".to_owned());
    }
    if !single && families.len() == 1 {
        let other = if families[0] == "IPv4" {
            "IPv6"
        } else {
            "IPv4"
        };
        families.push(other.to_owned());
    }
    spec["ipFamilies"] = families.into();
    drop_empty(spec, &["clusterIPs"]);
    problems
}

fn used_addresses(kind: &Kind, state: &State, own: &str) -> BTreeSet<String> {
    others(kind, state, own)
        .flat_map(|service| {
            strings(&service["spec"]["clusterIPs"])
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

fn others(
    kind: &Kind,
    state: &State,
    own: &str,
) -> impl Iterator<Item = std::sync::Arc<Value>> + use<> {
    let own = own.to_owned();
    state
        .list(kind, None)
        .into_iter()
        .filter(move |service| text(service, "/metadata/uid") != own)
}

fn address(family: &str, offset: u64) -> String {
    if family == "IPv6" {
        return Ipv6Addr::from(u128::from(IPV6_BASE) + u128::from(offset)).to_string();
    }
    let offset = u32::try_from(offset).unwrap_or_default();
    Ipv4Addr::from(u32::from(IPV4_BASE) + offset).to_string()
}

fn is_in_range(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let offset = u64::from(u32::from(ip).wrapping_sub(u32::from(IPV4_BASE)));
            offset > 0 && offset < IPV4_SIZE - 1
        }
        IpAddr::V6(ip) => {
            let offset = u128::from(ip).wrapping_sub(u128::from(IPV6_BASE));
            offset > 0 && offset < u128::from(IPV6_SIZE)
        }
    }
}

/// Hands out the cluster addresses.
fn addresses(
    service: &mut Value,
    old: Option<&Value>,
    used: &BTreeSet<String>,
    context: &Context,
) -> Vec<Problem> {
    if service["spec"]["clusterIPs"][0] == "None" {
        return Vec::new();
    }
    let before: Vec<&str> = old
        .map(|old| strings(&old["spec"]["clusterIPs"]).collect())
        .unwrap_or_default();
    let mut ips: Vec<String> = strings(&service["spec"]["clusterIPs"])
        .map(str::to_owned)
        .collect();
    let value = json!(ips);
    for ip in &ips {
        if before.contains(&ip.as_str()) {
            continue;
        }
        let why = match ip.parse::<IpAddr>() {
            // The checks will say so.
            Err(_) => return Vec::new(),
            Ok(_) if used.contains(ip) => "provided IP is already allocated".to_owned(),
            Ok(parsed) if !is_in_range(parsed) => {
                "the provided network does not match the current range".to_owned()
            }
            Ok(_) => continue,
        };
        let detail = format!("failed to allocate IP {ip}: {why}");
        return vec![Problem::invalid("spec.clusterIPs", &value, &detail)];
    }
    let families: Vec<String> = strings(&service["spec"]["ipFamilies"])
        .map(str::to_owned)
        .collect();
    for family in families.iter().skip(ips.len()) {
        let Some(ip) = free_address(family, used, context) else {
            let detail = "failed to allocate IP: range is full";
            return vec![Problem::invalid("spec.clusterIPs", &value, detail)];
        };
        ips.push(ip);
    }
    if let Some(first) = ips.first() {
        service["spec"]["clusterIP"] = first.as_str().into();
    }
    service["spec"]["clusterIPs"] = ips.into();
    Vec::new()
}

fn free_address(family: &str, used: &BTreeSet<String>, context: &Context) -> Option<String> {
    let size = if family == "IPv6" {
        IPV6_SIZE
    } else {
        IPV4_SIZE
    };
    // Neither the network, nor the API server's, nor the broadcast address.
    let room = size - RESERVED - 1;
    let drawn = (0..DRAWS).map(|_| context.random.below(room));
    drawn
        .chain(0..room)
        .map(|offset| address(family, offset + RESERVED))
        .find(|ip| !used.contains(ip))
}

fn used_ports(kind: &Kind, state: &State, own: &str) -> BTreeSet<i64> {
    others(kind, state, own)
        .flat_map(|service| {
            let mut ports = super::node_ports(&service);
            ports.extend(service["spec"]["healthCheckNodePort"].as_i64());
            ports
        })
        .collect()
}

fn wants_node_ports(service: &Value) -> bool {
    match kind_of(service) {
        "NodePort" => true,
        "LoadBalancer" => service["spec"]["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

/// Hands out ports on the nodes, and the port of the health check.
fn ports(
    service: &mut Value,
    old: Option<&Value>,
    used: &BTreeSet<i64>,
    context: &Context,
) -> Vec<Problem> {
    let mut taken = used.clone();
    let before = old.map(super::node_ports).unwrap_or_default();
    let mut problems = Vec::new();
    if needs_node_port(service) {
        for (index, number) in given_ports(service) {
            let field = format!("spec.ports[{index}].nodePort");
            if !before.contains(&number)
                && let Some(why) = port_fault(number, used)
            {
                problems.push(Problem::invalid(&field, &json!(number), why));
            }
            taken.insert(number);
        }
    }
    if !problems.is_empty() {
        return problems;
    }
    if wants_node_ports(service) {
        hand_out(service, &mut taken, context);
    }
    if needs_health_port(service) {
        let given = service["spec"]["healthCheckNodePort"].as_i64();
        let known = old.and_then(|old| old["spec"]["healthCheckNodePort"].as_i64());
        match given {
            Some(number) if known != given => {
                if let Some(why) = port_fault(number, &taken) {
                    let field = "spec.healthCheckNodePort";
                    let detail = format!(
                        "failed to allocate requested HealthCheck NodePort {number}: {why}"
                    );
                    return vec![Problem::invalid(field, &json!(number), &detail)];
                }
            }
            Some(_) => {}
            None => {
                if let Some(number) = free_port(&taken, context) {
                    service["spec"]["healthCheckNodePort"] = number.into();
                }
            }
        }
    }
    Vec::new()
}

fn given_ports(service: &Value) -> Vec<(usize, i64)> {
    service["spec"]["ports"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(index, port)| Some((index, port["nodePort"].as_i64()?)))
        .collect()
}

fn port_fault(number: i64, used: &BTreeSet<i64>) -> Option<&'static str> {
    if !PORTS.contains(&number) {
        return Some(
            "provided port is not in the valid range. The range of valid ports is 30000-32767",
        );
    }
    used.contains(&number)
        .then_some("provided port is already allocated")
}

/// Gives every port without one a port on the nodes. The same port of another protocol shares
/// its number.
fn hand_out(service: &mut Value, taken: &mut BTreeSet<i64>, context: &Context) {
    let mut shared: Vec<(i64, String, i64)> = Vec::new();
    let ports = service["spec"]["ports"].as_array_mut();
    for port in ports.into_iter().flatten() {
        let number = port["port"].as_i64().unwrap_or_default();
        let protocol = text(port, "/protocol").to_owned();
        if let Some(known) = port["nodePort"].as_i64() {
            shared.push((number, protocol, known));
            continue;
        }
        drop_empty(port, &["nodePort"]);
        let twin = shared
            .iter()
            .find(|(known, _, node)| {
                *known == number
                    && !shared
                        .iter()
                        .any(|(_, other, port)| port == node && *other == protocol)
            })
            .map(|(_, _, node)| *node);
        if let Some(chosen) = twin.or_else(|| free_port(taken, context)) {
            taken.insert(chosen);
            port["nodePort"] = chosen.into();
            shared.push((number, protocol, chosen));
        }
    }
}

fn free_port(taken: &BTreeSet<i64>, context: &Context) -> Option<i64> {
    let room = u64::try_from(PORTS.end() - PORTS.start() + 1).unwrap_or(1);
    let drawn = (0..DRAWS)
        .map(|_| PORTS.start() + i64::try_from(context.random.below(room)).unwrap_or_default());
    drawn.chain(PORTS).find(|port| !taken.contains(port))
}
