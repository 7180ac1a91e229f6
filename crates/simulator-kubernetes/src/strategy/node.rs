//! Nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::metadata::{entries, strings};
use super::problem::Problem;
use super::{drop_empty, drop_field, fill, names};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub fn defaults(node: &mut Value) {
    fill(node, "spec", json!({}));
    fill(node, "status", json!({}));
    // The old singular and the plural say the same.
    let first = node["spec"]["podCIDRs"][0].clone();
    let single = node["spec"]["podCIDR"].clone();
    if single.as_str().is_some_and(|text| !text.is_empty()) {
        if first.is_null() {
            node["spec"]["podCIDRs"] = json!([single]);
        }
    } else if first.is_string() {
        node["spec"]["podCIDR"] = first;
    }
    drop_empty(
        &mut node["spec"],
        &[
            "podCIDR",
            "podCIDRs",
            "providerID",
            "taints",
            "unschedulable",
        ],
    );
    if node["spec"]["unschedulable"] == false {
        drop_field(&mut node["spec"], "unschedulable");
    }
    drop_empty(
        &mut node["status"],
        &[
            "addresses",
            "conditions",
            "capacity",
            "allocatable",
            "images",
        ],
    );
    if node["status"]["allocatable"].is_null()
        && let Some(capacity) = node["status"].get("capacity").cloned()
    {
        node["status"]["allocatable"] = capacity;
    }
    drop_empty(&mut node["status"], &["allocatable"]);
    fill(
        &mut node["status"],
        "daemonEndpoints",
        json!({ "kubeletEndpoint": { "Port": 0 } }),
    );
    fill(&mut node["status"], "nodeInfo", json!({}));
    let blank = "machineID systemUUID bootID kernelVersion osImage containerRuntimeVersion \
                 kubeletVersion kubeProxyVersion operatingSystem architecture";
    for field in blank.split_whitespace() {
        fill(&mut node["status"]["nodeInfo"], field, "");
    }
}

/// Admission: a new node is not ready until somebody says so.
pub fn prepare_create(node: &mut Value) {
    drop_field(&mut node["spec"], "configSource");
    let taint = json!({ "key": NOT_READY, "effect": "NoSchedule" });
    match node["spec"]["taints"].as_array_mut() {
        Some(taints) => {
            let there = taints
                .iter()
                .any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule");
            if !there {
                taints.push(taint);
            }
        }
        None => node["spec"]["taints"] = json!([taint]),
    }
}

pub fn validate(node: &Value) -> Vec<Problem> {
    let mut problems = validate_taints(&node["spec"]["taints"]);
    let cidrs: Vec<&str> = strings(&node["spec"]["podCIDRs"]).collect();
    for (index, cidr) in cidrs.iter().enumerate() {
        let field = format!("spec.podCIDRs[{index}]");
        problems.extend(Problem::unless_range(&field, cidr));
    }
    for list in ["capacity", "allocatable"] {
        for (resource, amount) in entries(&node["status"][list]) {
            // These are counted, not measured.
            if resource == "pods" && amount.parse::<i64>().is_err() && !amount.ends_with(['k', 'M'])
            {
                let field = format!("status.{list}.{resource}");
                let detail = "must be an integer";
                problems.push(Problem::invalid(&field, &json!(amount), detail));
            }
        }
    }
    let families: BTreeSet<bool> = cidrs.iter().map(|cidr| cidr.contains(':')).collect();
    if cidrs.len() > 1 && (cidrs.len() > 2 || families.len() < 2) {
        let detail = "may specify no more than one CIDR for each IP family";
        problems.push(Problem::invalid("spec.podCIDRs", &json!(cidrs), detail));
    }
    problems
}

// The API server reports taints under `metadata`; we say the same.
fn validate_taints(taints: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.as_array().into_iter().flatten().enumerate() {
        let at = |field: &str| format!("metadata.taints[{index}].{field}");
        let key = taint["key"].as_str().unwrap_or_default();
        problems.extend(Problem::faults(&at("key"), key, names::qualified_name(key)));
        let value = taint["value"].as_str().unwrap_or_default();
        let faults = names::label_value(value);
        if !faults.is_empty() {
            let detail = faults.join(";");
            problems.push(Problem::invalid(&at("value"), &json!(value), &detail));
        }
        let effect = taint["effect"].as_str().unwrap_or_default();
        problems.extend(match effect {
            "" => Some(Problem::required(&at("effect"), "")),
            effect => Problem::unless_known(&at("effect"), &json!(effect), &EFFECTS),
        });
        if !seen.insert((key, effect)) {
            let detail = "taints must be unique by key and effect pair";
            let field = format!("metadata.taints[{index}]");
            let shown = format!(
                r#"{{"Key":{},"Value":{},"Effect":{},"TimeAdded":{}}}"#,
                json!(key),
                json!(value),
                json!(effect),
                taint["timeAdded"]
            );
            problems.push(Problem::duplicate(&field, &shown, detail));
        }
    }
    problems
}

pub fn validate_update(node: &Value, old: &Value) -> Vec<Problem> {
    let mut problems = validate(node);
    // The server looks at the taints of a changed node twice.
    problems.extend(validate_taints(&node["spec"]["taints"]));
    let mut seen = BTreeSet::new();
    let addresses = node["status"]["addresses"].as_array();
    for (index, address) in addresses.into_iter().flatten().enumerate() {
        if !seen.insert((address["type"].as_str(), address["address"].as_str())) {
            let field = format!("status.addresses[{index}]");
            let (kind, text) = (&address["type"], &address["address"]);
            let shown = format!(r#"{{"Type":{kind},"Address":{text}}}"#);
            problems.push(Problem::duplicate(&field, &shown, ""));
        }
    }
    let before: Vec<&str> = strings(&old["spec"]["podCIDRs"]).collect();
    let after: Vec<&str> = strings(&node["spec"]["podCIDRs"]).collect();
    if !before.is_empty() && before != after {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        problems.push(Problem::forbidden("spec.podCIDRs", detail));
    }
    let before = old["spec"]["providerID"].as_str().unwrap_or_default();
    let after = node["spec"]["providerID"].as_str().unwrap_or_default();
    if !before.is_empty() && before != after {
        let detail = "node updates may not change providerID except from \"\" to valid";
        problems.push(Problem::forbidden("spec.providerID", detail));
    }
    problems
}
