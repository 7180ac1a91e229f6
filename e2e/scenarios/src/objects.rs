//! Node objects as kubelets make them, Services, and short forms of what is read from them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The taint of nodes that wait for their cloud.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The taint of nodes whose machine is off.
pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";
/// The taint that admission gives every new node.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The annotation with the kubelet's `--node-ip`.
pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";

/// Where the Services of scenarios are, unless they say another namespace.
pub const NAMESPACE: &str = "shop";

/// A node as a kubelet with an external cloud provider registers it; Ready, so that only the
/// initialiser cares about it.
pub fn fresh(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "spec": { "taints": [{ "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" }] },
        "status": {
            "addresses": [{ "type": "Hostname", "address": name }],
            "conditions": [ready("True")],
        },
    })
}

/// An initialised node of machine `id` with these addresses (`Type:value`).
pub fn known(name: &str, id: &str, status: &str, addresses: &[&str]) -> Value {
    let mut node = fresh(name);
    node["spec"] = json!({ "providerID": id });
    node["status"]["conditions"] = json!([ready(status)]);
    let list: Vec<Value> = addresses
        .iter()
        .map(|text| text.split_once(':').unwrap())
        .map(|(kind, address)| json!({ "type": kind, "address": address }))
        .collect();
    node["status"]["addresses"] = json!(list);
    node
}

/// What a kubelet says about its machine, as `status.nodeInfo`.
pub fn node_info(system_uuid: &str, os_image: &str) -> Value {
    let empty = "";
    json!({
        "systemUUID": system_uuid, "machineID": empty, "bootID": empty, "kernelVersion": empty,
        "osImage": os_image, "containerRuntimeVersion": empty, "kubeletVersion": empty,
        "kubeProxyVersion": empty, "operatingSystem": empty, "architecture": empty,
    })
}

/// A Node that is initialised and not Ready, without a provider id if it has none.
pub fn silent(name: &str, provider_id: Option<&str>) -> Value {
    let host = format!("Hostname:{name}");
    let mut node = known(name, provider_id.unwrap_or_default(), "False", &[&host]);
    if provider_id.is_none() {
        node["spec"] = json!({});
    }
    node
}

/// A Service that wants a load balancer for its port `http`: 80 of TCP. The node port is the server's
/// choice.
pub fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "namespace": NAMESPACE, "name": name, "annotations": {} },
        "spec": {
            "type": "LoadBalancer",
            "selector": { "app": name },
            "ports": [{ "name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080 }],
        },
    })
}

/// The same with annotations.
pub fn annotated(name: &str, annotations: &[(&str, &str)]) -> Value {
    let mut service = service(name);
    for (key, value) in annotations {
        service["metadata"]["annotations"][*key] = (*value).into();
    }
    service
}

/// The addresses and host names in a Service's status, each with its mode: `203.0.113.5 Proxy`.
pub fn entrances(service: &Value) -> Vec<String> {
    let list = service["status"]["loadBalancer"]["ingress"].as_array();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = list.into_iter().flatten();
    list.map(|it| {
        let shown = text(&it["ip"]) + &text(&it["hostname"]);
        format!("{shown} {}", text(&it["ipMode"]))
            .trim_end()
            .to_owned()
    })
    .collect()
}

pub fn finalizers(object: &Value) -> Vec<String> {
    let list = object["metadata"]["finalizers"].as_array();
    let list = list.into_iter().flatten();
    list.filter_map(|it| it.as_str().map(str::to_owned))
        .collect()
}

/// The condition `Ready` of that status.
pub fn ready(status: &str) -> Value {
    json!({ "type": "Ready", "status": status, "reason": "Test", "message": "",
            "lastHeartbeatTime": "2026-10-26T00:00:00Z",
            "lastTransitionTime": "2026-10-26T00:00:00Z" })
}

/// `key=value:effect`, without `=` where there is no value.
pub fn taint(text: &str) -> Value {
    let (rest, effect) = text.rsplit_once(':').unwrap();
    match rest.split_once('=') {
        Some((key, value)) => json!({ "key": key, "value": value, "effect": effect }),
        None => json!({ "key": rest, "effect": effect }),
    }
}

/// Several taints in the form of [`taint`].
pub fn taint_list<T: AsRef<str>>(texts: &[T]) -> Value {
    texts.iter().map(|text| taint(text.as_ref())).collect()
}

/// The taints in the form of [`taint`].
pub fn taints(node: &Value) -> Vec<String> {
    let list = node["spec"]["taints"].as_array().into_iter().flatten();
    list.map(|taint| {
        let text = |field: &str| taint[field].as_str().unwrap_or_default().to_owned();
        match text("value") {
            value if value.is_empty() => format!("{}:{}", text("key"), text("effect")),
            value => format!("{}={value}:{}", text("key"), text("effect")),
        }
    })
    .collect()
}

/// The addresses as `Type:value`.
pub fn addresses(node: &Value) -> Vec<String> {
    let list = node["status"]["addresses"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.map(|one| format!("{}:{}", text(&one["type"]), text(&one["address"])))
        .collect()
}

pub fn labels(node: &Value) -> BTreeMap<String, String> {
    let all = node["metadata"]["labels"].as_object().into_iter().flatten();
    all.map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned()))
        .collect()
}

/// Whether a node waits for its cloud.
pub fn is_uninitialized(node: &Value) -> bool {
    taints(node)
        .iter()
        .any(|taint| taint.starts_with(UNINITIALIZED))
}

pub fn has_taint(node: &Value, key: &str) -> bool {
    let taints = taints(node);
    let is = |taint: &String| {
        taint
            .strip_prefix(key)
            .is_some_and(|it| it.starts_with([':', '=']))
    };
    taints.iter().any(is)
}

/// The status of a node's Ready condition; empty if it has none.
pub fn readiness(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    ready.map_or("", |condition| text(&condition["status"]))
}

/// A JSON text; empty if it is none.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
