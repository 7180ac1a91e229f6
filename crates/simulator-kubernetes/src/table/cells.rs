//! The cells of a row, kind by kind.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    age::{human_duration, since},
    pod,
};
use crate::events;
use crate::kinds::Kind;
use crate::object::{list, text};

const NONE: &str = "<none>";

pub(super) fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}

fn size(object: &Value, name: &str) -> usize {
    object
        .get(name)
        .and_then(Value::as_object)
        .map_or(0, Map::len)
}

/// The cells of one object, all columns.
pub(super) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = text(object, "/metadata/name");
    let age = since(&object["metadata"]["creationTimestamp"], now);
    let texts = match kind.kind {
        "Node" => node(object, name, age),
        "Event" => return event(&events::kept(kind, object.clone()), name, now),
        "Service" => service(object, name, age),
        "Pod" => pod::cells(object, name, age, now),
        "RoleBinding" | "ClusterRoleBinding" => binding(object, name, age),
        "Namespace" => vec![
            name.to_owned(),
            text(object, "/status/phase").to_owned(),
            age,
        ],
        "Secret" => {
            let count = size(object, "data");
            return vec![
                name.into(),
                text(object, "/type").into(),
                count.into(),
                age.into(),
            ];
        }
        "ConfigMap" => {
            let count = size(object, "data") + size(object, "binaryData");
            return vec![name.into(), count.into(), age.into()];
        }
        "ServiceAccount" => vec![name.to_owned(), age],
        "Endpoints" => vec![name.to_owned(), endpoints(object), age],
        "EndpointSlice" => slice(object, name, age),
        "Lease" => {
            let holder = text(object, "/spec/holderIdentity");
            vec![name.to_owned(), holder.to_owned(), age]
        }
        "CertificateSigningRequest" => request(object, name, age),
        _ => vec![
            name.to_owned(),
            text(object, "/metadata/creationTimestamp").to_owned(),
        ],
    };
    texts.into_iter().map(Value::from).collect()
}

fn node(object: &Value, name: &str, age: String) -> Vec<String> {
    let ready = list(object, "/status/conditions")
        .iter()
        .rfind(|condition| condition["type"] == "Ready");
    let mut status = match ready {
        Some(ready) if ready["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if object.pointer("/spec/unschedulable") == Some(&true.into()) {
        status.push_str(",SchedulingDisabled");
    }
    let info = |field: &str| text(object, &format!("/status/nodeInfo/{field}"));
    let address = |kind: &str| {
        let mut addresses = list(object, "/status/addresses").iter();
        let found = addresses.find(|address| address["type"] == kind);
        found
            .map_or(NONE, |address| text(address, "/address"))
            .to_owned()
    };
    let mut kernel = or(info("kernelVersion"), "<unknown>").to_owned();
    if !info("architecture").is_empty() {
        kernel = format!("{kernel} ({})", info("architecture"));
    }
    vec![
        name.to_owned(),
        status,
        roles(object),
        age,
        info("kubeletVersion").to_owned(),
        address("InternalIP"),
        address("ExternalIP"),
        or(info("osImage"), "<unknown>").to_owned(),
        kernel,
        or(info("containerRuntimeVersion"), "<unknown>").to_owned(),
    ]
}

fn roles(object: &Value) -> String {
    let labels = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object);
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let role = match key.strip_prefix("node-role.kubernetes.io/") {
                Some(role) => role,
                None if key == "kubernetes.io/role" => value.as_str()?,
                None => return None,
            };
            (!role.is_empty()).then_some(role)
        })
        .collect();
    or(&join(roles, ","), NONE).to_owned()
}

fn join<'a>(texts: impl IntoIterator<Item = &'a str>, separator: &str) -> String {
    texts.into_iter().collect::<Vec<&str>>().join(separator)
}

fn event(object: &Value, name: &str, now: Timestamp) -> Vec<Value> {
    let given = |field: &str| Some(&object[field]).filter(|value| value.is_string());
    let first = given("firstTimestamp").unwrap_or(&object["eventTime"]);
    let series = Some(&object["series"]).filter(|series| series.is_object());
    let (last, count) = match series {
        Some(series) => (&series["lastObservedTime"], series["count"].as_i64()),
        None => (
            given("lastTimestamp").unwrap_or(first),
            object["count"]
                .as_i64()
                .filter(|count| *count != 0)
                .or(Some(1)),
        ),
    };
    let about = text(object, "/involvedObject/kind").to_lowercase();
    let target = match text(object, "/involvedObject/name") {
        "" => about,
        target => format!("{about}/{target}"),
    };
    let component = or(
        text(object, "/source/component"),
        text(object, "/reportingComponent"),
    );
    let host = or(
        text(object, "/source/host"),
        text(object, "/reportingInstance"),
    );
    let source = match host {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    };
    vec![
        since(last, now).into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        text(object, "/involvedObject/fieldPath").into(),
        source.into(),
        text(object, "/message").trim().into(),
        since(first, now).into(),
        count.unwrap_or_default().into(),
        name.into(),
    ]
}

fn service(object: &Value, name: &str, age: String) -> Vec<String> {
    let kind = text(object, "/spec/type");
    let cluster = list(object, "/spec/clusterIPs").first();
    let cluster = cluster.and_then(Value::as_str).unwrap_or(NONE);
    let ports: Vec<String> = list(object, "/spec/ports")
        .iter()
        .map(|port| {
            let (number, protocol) = (&port["port"], text(port, "/protocol"));
            match port["nodePort"].as_i64() {
                Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    vec![
        name.to_owned(),
        kind.to_owned(),
        cluster.to_owned(),
        external(object, kind),
        or(&ports.join(","), NONE).to_owned(),
        age,
        selector(object),
    ]
}

fn external(object: &Value, kind: &str) -> String {
    let given = list(object, "/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str);
    match kind {
        "ClusterIP" | "NodePort" => or(&join(given, ","), NONE).to_owned(),
        "LoadBalancer" => {
            let assigned: BTreeSet<&str> = list(object, "/status/loadBalancer/ingress")
                .iter()
                .map(|ingress| or(text(ingress, "/ip"), text(ingress, "/hostname")))
                .filter(|address| !address.is_empty())
                .collect();
            or(&join(assigned.into_iter().chain(given), ","), "<pending>").to_owned()
        }
        "ExternalName" => text(object, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn selector(object: &Value) -> String {
    let selector = object.pointer("/spec/selector").and_then(Value::as_object);
    let mut pairs: Vec<String> = selector
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort();
    or(&pairs.join(","), NONE).to_owned()
}

/// Items that a cell names before it counts the rest.
const NAMED: usize = 3;

fn some_of(items: &[String]) -> String {
    if items.len() > NAMED {
        let named = items[..NAMED].join(",");
        return format!("{named} + {} more...", items.len() - NAMED);
    }
    items.join(",")
}

fn endpoints(object: &Value) -> String {
    let subsets = list(object, "/subsets");
    if subsets.is_empty() {
        return NONE.to_owned();
    }
    let mut items = Vec::new();
    for subset in subsets {
        let addresses = || list(subset, "/addresses").iter().map(|a| text(a, "/ip"));
        let ports = list(subset, "/ports");
        if ports.is_empty() {
            items.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            items.extend(addresses().map(|address| {
                if address.contains(':') {
                    format!("[{address}]:{}", port["port"])
                } else {
                    format!("{address}:{}", port["port"])
                }
            }));
        }
    }
    some_of(&items)
}

fn slice(object: &Value, name: &str, age: String) -> Vec<String> {
    let ports: Vec<String> = list(object, "/ports")
        .iter()
        .map(
            |port| match (port["port"].as_i64(), port["name"].as_str()) {
                (Some(number), _) => number.to_string(),
                (None, Some(name)) => name.to_owned(),
                (None, None) => "*".to_owned(),
            },
        )
        .collect();
    let addresses: Vec<String> = list(object, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        name.to_owned(),
        text(object, "/addressType").to_owned(),
        or(&some_of(&ports), "<unset>").to_owned(),
        or(&some_of(&addresses), "<unset>").to_owned(),
        age,
    ]
}

fn request(object: &Value, name: &str, age: String) -> Vec<String> {
    let has = |kind: &str| {
        let mut conditions = list(object, "/status/conditions").iter();
        conditions.any(|condition| condition["type"] == kind)
    };
    let mut status = if has("Denied") {
        "Denied"
    } else if has("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if has("Failed") {
        status.push_str(",Failed");
    }
    if !text(object, "/status/certificate").is_empty() {
        status.push_str(",Issued");
    }
    let duration = object["spec"]["expirationSeconds"].as_i64();
    vec![
        name.to_owned(),
        age,
        or(text(object, "/spec/signerName"), NONE).to_owned(),
        text(object, "/spec/username").to_owned(),
        duration.map_or_else(|| NONE.to_owned(), human_duration),
        status,
    ]
}

fn binding(object: &Value, name: &str, age: String) -> Vec<String> {
    let subjects = |kind: &str| -> String {
        let subjects = list(object, "/subjects").iter();
        let named = subjects
            .filter(|subject| subject["kind"] == kind)
            .map(|subject| match text(subject, "/namespace") {
                "" => text(subject, "/name").to_owned(),
                namespace => format!("{namespace}/{}", text(subject, "/name")),
            });
        named.collect::<Vec<String>>().join(", ")
    };
    let role = format!(
        "{}/{}",
        text(object, "/roleRef/kind"),
        text(object, "/roleRef/name")
    );
    vec![
        name.to_owned(),
        role,
        age,
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
