//! What a Service may say.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::{is_external, is_headless, kind_of, needs_cluster_ip, needs_health_port};
use crate::object::text;
use crate::strategy::metadata::{entries, strings};
use crate::strategy::names;
use crate::strategy::problem::Problem;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const ONLY_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

/// Checks a Service, and its change if there is an old one.
pub fn validate(service: &Value, old: Option<&Value>) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(old) = old {
        problems.extend(address_change(service, old));
        problems.extend(class_change(service, old));
        let field = "spec.healthCheckNodePort";
        let port = |service: &Value| service["spec"]["healthCheckNodePort"].clone();
        if needs_health_port(service) && needs_health_port(old) && port(service) != port(old) {
            problems.push(Problem::forbidden(field, "field is immutable"));
        }
    }
    problems.extend(by_type(service));
    problems.extend(ports(service));
    problems.extend(selector_and_affinity(service));
    problems.extend(addresses(service));
    problems.extend(source_ranges(service));
    problems.extend(balancer(service));
    problems.extend(policies(service));
    problems
}

/// Checks a Service's status.
pub fn validate_status(service: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let ingress = service["status"]["loadBalancer"]["ingress"].as_array();
    let ingress = ingress.map(Vec::as_slice).unwrap_or_default();
    if kind_of(service) != "LoadBalancer" && !ingress.is_empty() {
        let detail = "may only be used when `spec.type` is 'LoadBalancer'";
        return vec![Problem::forbidden("status.loadBalancer.ingress", detail)];
    }
    for (index, ingress) in ingress.iter().enumerate() {
        let at = |field: &str| format!("status.loadBalancer.ingress[{index}].{field}");
        let ip = text(ingress, "/ip");
        if !ip.is_empty() {
            problems.extend(Problem::unless_address(&at("ip"), ip));
        }
        let mode = &ingress["ipMode"];
        let field = at("ipMode");
        problems.extend(match (mode.is_null(), ip.is_empty()) {
            (true, true) => None,
            (true, false) => {
                let detail = "must be specified when `ip` is set";
                Some(Problem::required(&field, detail))
            }
            (false, true) => {
                let detail = "may not be specified when `ip` is not set";
                Some(Problem::forbidden(&field, detail))
            }
            (false, false) => Problem::unless_known(&field, mode, &["Proxy", "VIP"]),
        });
        let hostname = text(ingress, "/hostname");
        if !hostname.is_empty() {
            let faults = names::subdomain(hostname);
            problems.extend(Problem::faults(&at("hostname"), hostname, faults));
            if hostname.parse::<IpAddr>().is_ok() {
                let detail = "must be a DNS name, not an IP address";
                problems.push(Problem::invalid(&at("hostname"), &json!(hostname), detail));
            }
        }
    }
    problems
}

/// The first cluster address stays; the second can come and go.
fn address_change(service: &Value, old: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    if !needs_cluster_ip(service) || !needs_cluster_ip(old) {
        return problems;
    }
    if is_headless(service) && is_headless(old) {
        return problems;
    }
    let before: Vec<&str> = strings(&old["spec"]["clusterIPs"]).collect();
    let after: Vec<&str> = strings(&service["spec"]["clusterIPs"]).collect();
    let value = json!(after);
    if after.is_empty() && !before.is_empty() {
        let detail = "primary clusterIP can not be unset";
        problems.push(Problem::invalid("spec.clusterIPs[0]", &value, detail));
    }
    let compared = if before.len() == after.len() {
        before.len()
    } else {
        1
    };
    for (index, (before, after)) in before.iter().zip(&after).take(compared).enumerate() {
        if before != after {
            let field = format!("spec.clusterIPs[{index}]");
            problems.push(Problem::invalid(&field, &value, "may not change once set"));
        }
    }
    let policy = &service["spec"]["ipFamilyPolicy"];
    if before.len() > after.len() && after.len() == 1 && policy != "SingleStack" {
        let detail = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        problems.push(Problem::invalid("spec.ipFamilyPolicy", policy, detail));
    }
    let first = |service: &Value| service["spec"]["ipFamilies"][0].clone();
    if !is_headless(service) && first(service) != first(old) && !first(old).is_null() {
        let value = &service["spec"]["ipFamilies"];
        let detail = "may not change once set";
        problems.push(Problem::invalid("spec.ipFamilies[0]", value, detail));
    }
    problems
}

fn class_change(service: &Value, old: &Value) -> Vec<Problem> {
    let class = |service: &Value| service["spec"]["loadBalancerClass"].clone();
    let both = kind_of(service) == "LoadBalancer" && kind_of(old) == "LoadBalancer";
    if both && class(service) != class(old) {
        let detail = "may not change once set";
        let value = class(service);
        return vec![Problem::invalid("spec.loadBalancerClass", &value, detail)];
    }
    Vec::new()
}

fn by_type(service: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let kind = kind_of(service);
    let no_ports = service["spec"]["ports"]
        .as_array()
        .is_none_or(Vec::is_empty);
    if no_ports && !is_headless(service) && kind != "ExternalName" {
        problems.push(Problem::required("spec.ports", ""));
    }
    if matches!(kind, "LoadBalancer" | "NodePort") && is_headless(service) {
        let detail = format!("may not be set to 'None' for {kind} services");
        let none = json!("None");
        problems.push(Problem::invalid("spec.clusterIPs[0]", &none, &detail));
    }
    if kind == "ExternalName" {
        for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if !service["spec"][field].is_null() {
                let path = format!("spec.{field}");
                let detail = "may not be set for ExternalName services";
                problems.push(Problem::forbidden(&path, detail));
            }
        }
        let name = text(service, "/spec/externalName").trim_end_matches('.');
        if name.is_empty() {
            problems.push(Problem::required("spec.externalName", ""));
        } else {
            let faults = names::subdomain(name);
            problems.extend(Problem::faults("spec.externalName", name, faults));
        }
    }
    problems.extend(Problem::unless_known("spec.type", &json!(kind), &TYPES));
    problems
}

fn ports(service: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let list = service["spec"]["ports"].as_array();
    let list = list.map(Vec::as_slice).unwrap_or_default();
    let mut seen_names = BTreeSet::new();
    let mut seen_ports = BTreeSet::new();
    let mut seen_node_ports = BTreeSet::new();
    for (index, port) in list.iter().enumerate() {
        let at = |field: &str| format!("spec.ports[{index}].{field}");
        let name = text(port, "/name");
        if name.is_empty() {
            if list.len() > 1 {
                problems.push(Problem::required(&at("name"), ""));
            }
        } else {
            problems.extend(Problem::faults(&at("name"), name, names::label(name)));
            if !seen_names.insert(name) {
                problems.push(Problem::duplicate(&at("name"), &json!(name), ""));
            }
        }
        let number = port["port"].as_i64().unwrap_or_default();
        problems.extend(Problem::unless_port(&at("port"), number));
        let protocol = text(port, "/protocol");
        let (shown, known) = (json!(protocol), ["SCTP", "TCP", "UDP"]);
        problems.extend(Problem::unless_known(&at("protocol"), &shown, &known));
        problems.extend(target_port(&at("targetPort"), &port["targetPort"]));
        if let Some(protocol) = port["appProtocol"].as_str() {
            let faults = names::qualified_name(protocol);
            problems.extend(Problem::faults(&at("appProtocol"), protocol, faults));
        }
        if let Some(node_port) = port["nodePort"].as_i64() {
            if kind_of(service) == "ClusterIP" {
                let detail = "may not be used when `type` is 'ClusterIP'";
                problems.push(Problem::forbidden(&at("nodePort"), detail));
            }
            if !seen_node_ports.insert((protocol, node_port)) {
                problems.push(Problem::duplicate(&at("nodePort"), &json!(node_port), ""));
            }
        }
        if !seen_ports.insert((protocol, number)) {
            let value = format!(
                r#"{{"Name":"","Protocol":{},"AppProtocol":null,"Port":{number},"TargetPort":0,"NodePort":0}}"#,
                json!(protocol)
            );
            let field = format!("spec.ports[{index}]");
            problems.push(Problem::duplicate(&field, &value, ""));
        }
    }
    problems
}

fn target_port(field: &str, target: &Value) -> Vec<Problem> {
    let valid = match target {
        Value::Number(number) => number
            .as_i64()
            .is_some_and(|number| (1..=65535).contains(&number)),
        Value::String(name) => {
            let letter = |letter: char| letter.is_ascii_alphabetic();
            name.len() <= 15 && names::label(name).is_empty() && name.contains(letter)
        }
        _ => false,
    };
    if valid {
        return Vec::new();
    }
    let detail = match target {
        Value::Number(_) => "must be between 1 and 65535, inclusive",
        Value::String(name) if name.len() > 15 => "must be no more than 15 characters",
        Value::String(name)
            if name
                .chars()
                .any(|one| !one.is_ascii_alphanumeric() && one != '-') =>
        {
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        }
        _ => "must contain at least one letter (a-z)",
    };
    vec![Problem::invalid(field, target, detail)]
}

fn selector_and_affinity(service: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, value) in entries(&service["spec"]["selector"]) {
        let field = "spec.selector";
        problems.extend(Problem::faults(field, key, names::qualified_name(key)));
        problems.extend(Problem::faults(field, value, names::label_value(value)));
    }
    let (field, known) = ("spec.sessionAffinity", ["ClientIP", "None"]);
    let affinity = &service["spec"]["sessionAffinity"];
    problems.extend(Problem::unless_known(field, affinity, &known));
    let timeout = &service["spec"]["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if let Some(seconds) = timeout.as_i64()
        && !(1..=86400).contains(&seconds)
    {
        let field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        let detail = "must be greater than 0 and less than 86400";
        problems.push(Problem::invalid(field, timeout, detail));
    }
    problems
}

fn addresses(service: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, ip) in strings(&service["spec"]["externalIPs"]).enumerate() {
        let field = format!("spec.externalIPs[{index}]");
        problems.extend(Problem::unless_address(&field, ip));
        if ip.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()) {
            let detail = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
            problems.push(Problem::invalid(&field, &json!(ip), detail));
        }
    }
    if !needs_cluster_ip(service) {
        return problems;
    }
    let field = "spec.clusterIPs";
    let ips: Vec<&str> = strings(&service["spec"]["clusterIPs"]).collect();
    let single = text(service, "/spec/clusterIP");
    if ips.first().is_some_and(|first| *first != single) && !single.is_empty() {
        let detail = "first value must match `clusterIP`";
        problems.push(Problem::invalid(field, &json!(ips), detail));
    }
    if single.is_empty() && !ips.is_empty() {
        let detail = "must be empty when `clusterIP` is not specified";
        problems.push(Problem::invalid(field, &json!(ips), detail));
    }
    for (index, ip) in ips.iter().enumerate() {
        if *ip == "None" && index == 0 {
            if ips.len() > 1 {
                let detail = "'None' must be the first and only value";
                problems.push(Problem::invalid(field, &json!(ips), detail));
            }
        } else {
            problems.extend(Problem::unless_address(&format!("{field}[{index}]"), ip));
        }
    }
    if ips.len() > 2 {
        let detail = "may only hold up to 2 values";
        problems.push(Problem::invalid(field, &json!(ips), detail));
    }
    problems.extend(families(service, &ips));
    problems
}

fn families(service: &Value, ips: &[&str]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let policy = &service["spec"]["ipFamilyPolicy"];
    let policies = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if !policy.is_null() {
        problems.extend(Problem::unless_known(
            "spec.ipFamilyPolicy",
            policy,
            &policies,
        ));
    }
    let mut seen = BTreeSet::new();
    for (index, family) in strings(&service["spec"]["ipFamilies"]).enumerate() {
        let field = format!("spec.ipFamilies[{index}]");
        let known = ["IPv4", "IPv6"];
        problems.extend(Problem::unless_known(&field, &json!(family), &known));
        if !seen.insert(family) {
            problems.push(Problem::duplicate(&field, &json!(family), ""));
        }
        if let Some(ip) = ips.get(index)
            && *ip != "None"
            && (family == "IPv6") != ip.contains(':')
        {
            let field = format!("spec.clusterIPs[{index}]");
            let detail =
                format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            problems.push(Problem::invalid(&field, &json!(ip), &detail));
        }
    }
    problems
}

fn source_ranges(service: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let ranges: Vec<&str> = strings(&service["spec"]["loadBalancerSourceRanges"]).collect();
    let annotation = &service["metadata"]["annotations"][SOURCE_RANGES];
    let balanced = kind_of(service) == "LoadBalancer";
    if !ranges.is_empty() {
        let field = "spec.LoadBalancerSourceRanges";
        if !balanced {
            problems.push(Problem::forbidden(field, ONLY_BALANCER));
        }
        for (index, range) in ranges.iter().enumerate() {
            let field = format!("{field}[{index}]");
            problems.extend(Problem::unless_range(&field, range.trim()));
        }
    } else if let Some(list) = annotation.as_str() {
        let field = format!("metadata.annotations[{SOURCE_RANGES}]");
        if !balanced {
            problems.push(Problem::forbidden(&field, ONLY_BALANCER));
        }
        let ranges = list
            .split(',')
            .map(str::trim)
            .filter(|_| !list.trim().is_empty());
        problems.extend(ranges.filter_map(|range| Problem::unless_range(&field, range)));
    }
    problems
}

fn balancer(service: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let spec = &service["spec"];
    if kind_of(service) == "LoadBalancer" {
        // None is fine, an empty one is not.
        if let Some(class) = spec["loadBalancerClass"].as_str() {
            let faults = names::qualified_name(class);
            problems.extend(Problem::faults("spec.loadBalancerClass", class, faults));
        }
        return problems;
    }
    for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
        if !spec[field].is_null() {
            problems.push(Problem::forbidden(&format!("spec.{field}"), ONLY_BALANCER));
        }
    }
    problems
}

fn policies(service: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let spec = &service["spec"];
    let known = ["Cluster", "Local"];
    let external = &spec["externalTrafficPolicy"];
    let field = "spec.externalTrafficPolicy";
    if is_external(service) {
        problems.extend(Problem::unless_known(field, external, &known));
    } else if !external.is_null() {
        let detail = "may only be set for externally-accessible services";
        problems.push(Problem::invalid(field, external, detail));
    }
    let health = &spec["healthCheckNodePort"];
    if !needs_health_port(service) && !health.is_null() {
        let detail =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        problems.push(Problem::invalid("spec.healthCheckNodePort", health, detail));
    }
    let distributions = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let optional: [(&str, &[&str]); 2] = [
        ("internalTrafficPolicy", &known),
        ("trafficDistribution", &distributions),
    ];
    for (field, known) in optional {
        if !spec[field].is_null() {
            let path = format!("spec.{field}");
            problems.extend(Problem::unless_known(&path, &spec[field], known));
        }
    }
    problems
}
