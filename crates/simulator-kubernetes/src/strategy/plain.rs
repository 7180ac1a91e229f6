//! The kinds with few rules: leases, events, secrets, config maps, service accounts, endpoints
//! and slices, roles and bindings.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::metadata::{entries, strings};
use super::problem::Problem;
use super::{drop_empty, drop_field, fill, names};
use crate::events;
use crate::kinds::Kind;
use crate::object::{list, text};

/// All data of a Secret or ConfigMap together.
const DATA_LIMIT: usize = 1024 * 1024;
const RBAC: &str = "rbac.authorization.k8s.io";

pub fn defaults(kind: &Kind, object: &mut Value) {
    match kind.kind {
        "Secret" => {
            fill(object, "type", "Opaque");
            merge_string_data(object);
            drop_empty(object, &["data"]);
        }
        "ConfigMap" => drop_empty(object, &["data", "binaryData"]),
        "Lease" => fill(object, "spec", json!({})),
        "Event" if events::is_newer(kind) => {
            for field in ["deprecatedSource", "regarding"] {
                fill(object, field, json!({}));
            }
        }
        "Event" => {
            for field in ["source", "involvedObject"] {
                fill(object, field, json!({}));
            }
            for field in ["reportingComponent", "reportingInstance"] {
                if object[field].is_null() {
                    object[field] = "".into();
                }
            }
        }
        "EndpointSlice" => {
            for port in object["ports"].as_array_mut().into_iter().flatten() {
                fill(port, "protocol", "TCP");
                if port["name"].is_null() {
                    port["name"] = "".into();
                }
            }
        }
        "Endpoints" => {
            for subset in object["subsets"].as_array_mut().into_iter().flatten() {
                for port in subset["ports"].as_array_mut().into_iter().flatten() {
                    fill(port, "protocol", "TCP");
                }
            }
        }
        "RoleBinding" | "ClusterRoleBinding" => binding_defaults(object),
        _ => {}
    }
}

/// Puts back the fields that the API prints even if they are not set.
pub fn show_nulls(kind: &Kind, object: &mut Value) {
    let fields: &[&str] = match kind.kind {
        "Event" if events::is_newer(kind) => &[
            "eventTime",
            "deprecatedFirstTimestamp",
            "deprecatedLastTimestamp",
        ],
        "Event" => &["eventTime", "firstTimestamp", "lastTimestamp"],
        "EndpointSlice" => &["endpoints", "ports"],
        "Role" | "ClusterRole" => &["rules"],
        _ => &[],
    };
    for field in fields {
        // Storage does not tell an empty list from none.
        let empty = object[*field].as_array().is_some_and(Vec::is_empty);
        if empty || object.get(*field).is_none() {
            object[*field] = Value::Null;
        }
    }
}

fn binding_defaults(binding: &mut Value) {
    fill(&mut binding["roleRef"], "apiGroup", RBAC);
    for subject in binding["subjects"].as_array_mut().into_iter().flatten() {
        if matches!(text(subject, "/kind"), "User" | "Group") {
            fill(subject, "apiGroup", RBAC);
        }
    }
    drop_empty(binding, &["subjects"]);
}

/// `stringData` is only a way of writing `data`.
fn merge_string_data(secret: &mut Value) {
    let plain: Vec<(String, String)> = entries(&secret["stringData"])
        .map(|(key, value)| (key.to_owned(), STANDARD.encode(value)))
        .collect();
    for (key, value) in plain {
        if !secret["data"].is_object() {
            secret["data"] = json!({});
        }
        secret["data"][key] = value.into();
    }
    drop_field(secret, "stringData");
}

pub fn prepare_create(kind: &Kind, object: &mut Value) {
    if kind.kind == "EndpointSlice" {
        object["metadata"]["generation"] = json!(1);
    }
    if kind.kind == "Lease" {
        disable_candidates(object);
    }
    if kind.kind == "ServiceAccount" {
        drop_empty(object, &["secrets", "imagePullSecrets"]);
    }
}

/// Fields of coordinated leader election, which is off unless a cluster turns it on.
fn disable_candidates(lease: &mut Value) {
    for field in ["strategy", "preferredHolder"] {
        drop_field(&mut lease["spec"], field);
    }
}

/// Prepares a changed object.
pub fn prepare_update(kind: &Kind, object: &mut Value, old: &Value) {
    if kind.kind == "Lease" {
        disable_candidates(object);
    }
    if kind.kind != "EndpointSlice" {
        return;
    }
    let content = |slice: &Value| {
        let mut content = slice.clone();
        drop_field(&mut content, "metadata");
        content
    };
    let changed = content(object) != content(old)
        || object["metadata"]["labels"] != old["metadata"]["labels"];
    if changed && let Some(generation) = old["metadata"]["generation"].as_i64() {
        object["metadata"]["generation"] = (generation + 1).into();
    }
}

pub fn validate(kind: &Kind, object: &Value) -> Vec<Problem> {
    match kind.kind {
        "Lease" => validate_lease(&object["spec"]),
        "Event" if events::is_newer(kind) => {
            let event = events::kept(kind, object.clone());
            let mut problems = validate_event(&event, "reportingController");
            problems.extend(events::strict(&event));
            problems
        }
        "Event" => validate_event(object, "reportingComponent"),
        "Secret" => validate_secret(object),
        "ConfigMap" => validate_config_map(object),
        "EndpointSlice" => validate_slice(object),
        "Endpoints" => validate_endpoints(object),
        "Role" | "ClusterRole" => validate_rules(kind, &object["rules"]),
        "RoleBinding" | "ClusterRoleBinding" => validate_binding(kind, object),
        _ => Vec::new(),
    }
}

pub fn validate_update(kind: &Kind, object: &Value, old: &Value) -> Vec<Problem> {
    if events::is_newer(kind) {
        let (event, old) = [object, old]
            .map(|it| events::kept(kind, it.clone()))
            .into();
        let mut problems = validate_event(&event, "reportingController");
        problems.extend(events::strict_change(&event, &old));
        return problems;
    }
    let mut problems = Vec::new();
    match kind.kind {
        "Secret" if object["type"] != old["type"] => {
            problems.push(Problem::immutable("type", &object["type"]));
        }
        "EndpointSlice" if object["addressType"] != old["addressType"] => {
            let value = &object["addressType"];
            problems.push(Problem::immutable("addressType", value));
        }
        "RoleBinding" | "ClusterRoleBinding" if object["roleRef"] != old["roleRef"] => {
            let detail = "cannot change roleRef";
            let role = &object["roleRef"];
            let shown = format!(
                r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#,
                role["apiGroup"], role["kind"], role["name"]
            );
            problems.push(Problem::invalid("roleRef", &shown, detail));
        }
        _ => {}
    }
    if matches!(kind.kind, "Secret" | "ConfigMap") && old["immutable"] == true {
        let detail = "field is immutable when `immutable` is set";
        if object["immutable"] != true {
            problems.push(Problem::forbidden("immutable", detail));
        }
        for field in ["data", "binaryData"] {
            if object[field] != old[field] {
                problems.push(Problem::forbidden(field, detail));
            }
        }
    }
    problems.extend(validate(kind, object));
    problems
}

fn validate_lease(spec: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let duration = &spec["leaseDurationSeconds"];
    if duration.as_i64().is_some_and(|seconds| seconds <= 0) {
        let field = "spec.leaseDurationSeconds";
        problems.push(Problem::invalid(field, duration, "must be greater than 0"));
    }
    let transitions = &spec["leaseTransitions"];
    if transitions.as_i64().is_some_and(|count| count < 0) {
        let (field, detail) = (
            "spec.leaseTransitions",
            "must be greater than or equal to 0",
        );
        problems.push(Problem::invalid(field, transitions, detail));
    }
    for field in ["acquireTime", "renewTime"] {
        let value = &spec[field];
        let readable = value.is_null()
            || value
                .as_str()
                .is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok());
        if !readable {
            let path = format!("spec.{field}");
            problems.push(Problem::invalid(&path, value, "must be a time"));
        }
    }
    problems
}

fn validate_event(event: &Value, reporter_field: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let namespace = text(event, "/metadata/namespace");
    let involved = text(event, "/involvedObject/namespace");
    let mismatch = |problems: &mut Vec<Problem>| {
        let value = json!(involved);
        let detail = "does not match event.namespace";
        problems.push(Problem::invalid("involvedObject.namespace", &value, detail));
    };
    if event["eventTime"].is_null() {
        let allowed = if involved.is_empty() {
            namespace == "default"
        } else {
            involved == namespace
        };
        if !allowed {
            mismatch(&mut problems);
        }
        return problems;
    }
    if involved.is_empty() && !["default", "kube-system"].contains(&namespace) {
        mismatch(&mut problems);
    }
    let reporter = text(event, "/reportingComponent");
    problems.extend(Problem::unless_given(reporter_field, reporter));
    let faults = names::qualified_name(reporter);
    problems.extend(Problem::faults(reporter_field, reporter, faults));
    for field in ["reportingInstance", "action", "reason"] {
        let value = event[field].as_str().unwrap_or_default();
        problems.extend(Problem::unless_given(field, value));
        if value.len() > 128 {
            let detail = "can have at most 128 characters";
            problems.push(Problem::invalid(field, &json!(""), detail));
        }
    }
    if text(event, "/message").len() > 1024 {
        let detail = "can have at most 1024 characters";
        problems.push(Problem::invalid("message", &json!(""), detail));
    }
    problems
}

fn validate_keys(field: &str, data: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (key, _) in entries(data) {
        let path = format!("{field}[{key}]");
        problems.extend(Problem::faults(&path, key, names::config_key(key)));
    }
    problems
}

fn validate_secret(secret: &Value) -> Vec<Problem> {
    let data = &secret["data"];
    let mut problems = validate_keys("data", data);
    let size: usize = entries(data)
        .filter_map(|(_, value)| STANDARD.decode(value).ok())
        .map(|value| value.len())
        .sum();
    if size > DATA_LIMIT {
        problems.push(Problem::too_long("data", DATA_LIMIT));
    }
    let needed: &[&str] = match text(secret, "/type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        // One of the two would do, but the server names both.
        "kubernetes.io/basic-auth" if data["username"].is_null() && data["password"].is_null() => {
            &["username", "password"]
        }
        _ => &[],
    };
    for key in needed {
        if data[*key].is_null() {
            problems.push(Problem::required(&format!("data[{key}]"), ""));
        }
    }
    let owner = "kubernetes.io/service-account.name";
    if text(secret, "/type") == "kubernetes.io/service-account-token"
        && secret["metadata"]["annotations"][owner].is_null()
    {
        let path = format!("metadata.annotations[{owner}]");
        problems.push(Problem::required(&path, ""));
    }
    problems
}

fn validate_config_map(map: &Value) -> Vec<Problem> {
    let mut problems = validate_keys("data", &map["data"]);
    for (key, _) in entries(&map["data"]) {
        if !map["binaryData"][key].is_null() {
            let detail = "duplicate of key present in binaryData";
            let path = format!("data[{key}]");
            problems.push(Problem::invalid(&path, &json!(key), detail));
        }
    }
    problems.extend(validate_keys("binaryData", &map["binaryData"]));
    let size: usize = entries(&map["data"]).map(|(_, value)| value.len()).sum();
    if size > DATA_LIMIT {
        problems.push(Problem::too_long("", DATA_LIMIT));
    }
    problems
}

fn validate_slice(slice: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let address_type = text(slice, "/addressType");
    let types = ["FQDN", "IPv4", "IPv6"];
    if address_type.is_empty() {
        problems.push(Problem::required("addressType", ""));
    } else {
        let value = json!(address_type);
        problems.extend(Problem::unless_known("addressType", &value, &types));
    }
    for (index, endpoint) in list(slice, "/endpoints").iter().enumerate() {
        let field = format!("endpoints[{index}].addresses");
        let addresses: Vec<&str> = strings(&endpoint["addresses"]).collect();
        if addresses.is_empty() {
            let detail = "must contain at least 1 address";
            problems.push(Problem::required(&field, detail));
        }
        for (at, address) in addresses.iter().enumerate() {
            let detail = match (address_type, address.parse::<std::net::IpAddr>()) {
                ("IPv4", Ok(ip)) if !ip.is_ipv4() => "must be an IPv4 address",
                ("IPv6", Ok(ip)) if !ip.is_ipv6() => "must be an IPv6 address",
                ("IPv4" | "IPv6", Err(_)) => {
                    let one = format!("{field}[{at}]");
                    problems.extend(Problem::unless_address(&one, address));
                    continue;
                }
                _ => continue,
            };
            problems.push(Problem::invalid(&field, &json!(address), detail));
        }
    }
    let mut seen = BTreeSet::new();
    for (index, port) in list(slice, "/ports").iter().enumerate() {
        let name = text(port, "/name");
        if !seen.insert(name) {
            let field = format!("ports[{index}].name");
            problems.push(Problem::duplicate(&field, &json!(name), ""));
        }
    }
    problems
}

fn validate_endpoints(endpoints: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, subset) in list(endpoints, "/subsets").iter().enumerate() {
        for place in ["addresses", "notReadyAddresses"] {
            let addresses = list(subset, &format!("/{place}"));
            for (at, address) in addresses.iter().enumerate() {
                let ip = text(address, "/ip");
                let field = format!("subsets[{index}].{place}[{at}].ip");
                if let Some(problem) = Problem::unless_address(&field, ip) {
                    let again = Problem::invalid(&field, &json!(ip), "must be a valid IP address");
                    problems.extend([problem, again]);
                }
            }
        }
        for (at, port) in list(subset, "/ports").iter().enumerate() {
            let number = port["port"].as_i64().unwrap_or_default();
            let field = format!("subsets[{index}].ports[{at}].port");
            problems.extend(Problem::unless_port(&field, number));
        }
    }
    problems
}

fn validate_rules(kind: &Kind, rules: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, rule) in rules.as_array().into_iter().flatten().enumerate() {
        let at = |field: &str| format!("rules[{index}].{field}");
        let empty = |field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
        if empty("verbs") {
            let detail = "verbs must contain at least one value";
            problems.push(Problem::required(&at("verbs"), detail));
        }
        if !empty("nonResourceURLs") {
            let urls = &rule["nonResourceURLs"];
            if kind.namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                problems.push(Problem::invalid(&at("nonResourceURLs"), urls, detail));
            }
            if !empty("apiGroups") || !empty("resources") || !empty("resourceNames") {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                problems.push(Problem::invalid(&at("nonResourceURLs"), urls, detail));
            }
            continue;
        }
        if empty("apiGroups") {
            let detail = "resource rules must supply at least one api group";
            problems.push(Problem::required(&at("apiGroups"), detail));
        }
        if empty("resources") {
            let detail = "resource rules must supply at least one resource";
            problems.push(Problem::required(&at("resources"), detail));
        }
    }
    problems
}

fn validate_binding(kind: &Kind, binding: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let role = &binding["roleRef"];
    let group = |field: &str, of: &Value| Problem::unless_known(field, &of["apiGroup"], &[RBAC]);
    problems.extend(group("roleRef.apiGroup", role));
    let kinds: &[&str] = if kind.namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    let role_kind = json!(text(role, "/kind"));
    problems.extend(Problem::unless_known("roleRef.kind", &role_kind, kinds));
    let given = |field: &str, of: &Value, key: &str| Problem::unless_given(field, text(of, key));
    problems.extend(given("roleRef.name", role, "/name"));
    for (index, subject) in list(binding, "/subjects").iter().enumerate() {
        let at = |field: &str| format!("subjects[{index}].{field}");
        problems.extend(given(&at("name"), subject, "/name"));
        problems.extend(match text(subject, "/kind") {
            "ServiceAccount" => given(&at("namespace"), subject, "/namespace"),
            "User" | "Group" => group(&at("apiGroup"), subject),
            other => {
                let known = ["ServiceAccount", "User", "Group"];
                Problem::unless_known(&at("kind"), &json!(other), &known)
            }
        });
    }
    problems
}
