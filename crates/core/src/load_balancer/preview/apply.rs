//! A Service from a file, as it would be in the cluster after `kubectl apply`.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// Where `kubectl apply` remembers what it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What stands for a port that the API server will allocate, and for further ones the numbers after
/// it: outside the usual range of node ports, so that nobody takes it for a real one.
const STAND_IN: u16 = 65_001;
/// What the API server says about an object, whatever a file says.
const SERVERS_OWN: [&str; 7] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
];

/// What stands for the identity of a Service that does not exist yet.
#[derive(Clone, Debug)]
pub struct Newcomer {
    /// Its uid.
    pub uid: String,
    /// When it is made.
    pub created: Timestamp,
}

/// A Service as it would be, and what is assumed about it.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedFile {
    /// The object, as the API server would show it as far as that matters to a load balancer.
    pub object: Value,
    /// Sentences.
    pub assumptions: Vec<String>,
}

/// The Service that results when `file` is applied over `live`.
///
/// As `kubectl apply` does it: what the file says holds; what it leaves out goes if it was applied
/// before, and stays if it was not (annotations of the cloud, above all). Ports are those of the
/// file; node ports that are allocated stay. The API server's own fields and the status stay.
pub fn as_applied(file: &Value, live: Option<&Value>, newcomer: &Newcomer) -> AppliedFile {
    let mut assumptions = Vec::new();
    let mut file = file.clone();
    if let Some(metadata) = member_mut(&mut file, "metadata") {
        metadata.retain(|key, _| !SERVERS_OWN.contains(&key.as_str()));
        // `kubectl` adds one to every file, so that a file without annotations removes only those
        // that it applied before.
        let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
        if annotations.is_null() {
            *annotations = json!({});
        }
    }
    if let Some(object) = file.as_object_mut() {
        object.remove("status");
    }
    let mut object = match live {
        Some(live) => over(live, &file, &mut assumptions),
        None => create(file, newcomer, &mut assumptions),
    };
    allocate(&mut object, &mut assumptions);
    AppliedFile {
        object,
        assumptions,
    }
}

fn create(mut file: Value, newcomer: &Newcomer, assumptions: &mut Vec<String>) -> Value {
    assumptions.push(format!(
        "the Service is new: the API server will give it a uid; {} stands for it",
        newcomer.uid
    ));
    if let Some(metadata) = member_mut(&mut file, "metadata") {
        metadata.insert("uid".into(), json!(newcomer.uid));
        let created = newcomer.created.to_string();
        metadata.insert("creationTimestamp".into(), json!(created));
    }
    file
}

fn over(live: &Value, file: &Value, assumptions: &mut Vec<String>) -> Value {
    let annotation = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last = annotation.and_then(|text| serde_json::from_str::<Value>(text).ok());
    if last.is_none() {
        assumptions.push(
            "the live Service does not record what was last applied: what the file leaves out stays"
                .into(),
        );
    }
    let last = last.unwrap_or_default();
    let mut object = merged(live, file, &last);
    for list in [
        &live["metadata"]["finalizers"],
        &file["metadata"]["finalizers"],
    ] {
        keep_finalizers(&mut object, list);
    }
    keep_node_ports(&mut object, &live["spec"]["ports"]);
    object
}

/// Objects are merged, key by key; everything else is the file's.
fn merged(live: &Value, file: &Value, last: &Value) -> Value {
    let (Value::Object(live), Value::Object(file)) = (live, file) else {
        return file.clone();
    };
    let mut result: Map<String, Value> = live
        .iter()
        .filter(|(key, _)| file.contains_key(*key) || last.get(key).is_none())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    for (key, wanted) in file {
        // `key:` without a value asks for its absence.
        if wanted.is_null() {
            result.remove(key);
            continue;
        }
        let value = match live.get(key) {
            Some(live) => merged(live, wanted, &last[key.as_str()]),
            None => wanted.clone(),
        };
        result.insert(key.clone(), value);
    }
    Value::Object(result)
}

fn keep_finalizers(object: &mut Value, list: &Value) {
    let Some(metadata) = member_mut(object, "metadata") else {
        return;
    };
    let all = metadata.entry("finalizers").or_insert_with(|| json!([]));
    let (Some(all), Some(list)) = (all.as_array_mut(), list.as_array()) else {
        return;
    };
    for one in list {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

/// A port that keeps its number keeps its node port; so does, of those that are left, one that
/// keeps its name.
fn keep_node_ports(object: &mut Value, live: &Value) {
    let none = Vec::new();
    let live = live.as_array().unwrap_or(&none);
    let Some(ports) = ports_mut(object) else {
        return;
    };
    let mut used: BTreeSet<u64> = ports.iter().filter_map(node_port).collect();
    let number = |port: &Value| (port["port"].clone(), protocol(port).to_owned());
    let name = |port: &Value| (port["name"].clone(), String::new());
    for key in [&number as &dyn Fn(&Value) -> (Value, String), &name] {
        for port in &mut *ports {
            let twin = live.iter().find(|it| key(it) == key(port));
            if node_port(port).is_none()
                && let Some(allocated) = twin.and_then(node_port)
                && used.insert(allocated)
            {
                port["nodePort"] = json!(allocated);
            }
        }
    }
}

/// Replaces numbers that the API server will choose.
fn allocate(object: &mut Value, assumptions: &mut Vec<String>) {
    let spec = &object["spec"];
    let local = spec["externalTrafficPolicy"] == "Local";
    let health = spec["healthCheckNodePort"].as_u64().unwrap_or(0);
    if spec["type"] != "LoadBalancer" {
        return;
    }
    let mut numbers = STAND_IN..;
    if spec["allocateLoadBalancerNodePorts"] != false {
        for port in ports_mut(object).into_iter().flatten() {
            if node_port(port).is_none()
                && port.is_object()
                && let Some(number) = numbers.next()
            {
                assumptions.push(format!(
                    "the API server will allocate a node port for port {}/{}; {number} stands for it",
                    port["port"],
                    protocol(port)
                ));
                port["nodePort"] = json!(number);
            }
        }
    }
    if local
        && health == 0
        && let Some(number) = numbers.next()
    {
        assumptions.push(format!(
            "the API server will allocate a health check node port; {number} stands for it"
        ));
        object["spec"]["healthCheckNodePort"] = json!(number);
    }
}

fn node_port(port: &Value) -> Option<u64> {
    port["nodePort"].as_u64().filter(|number| *number != 0)
}

fn protocol(port: &Value) -> &str {
    port["protocol"].as_str().unwrap_or("TCP")
}

fn ports_mut(object: &mut Value) -> Option<&mut Vec<Value>> {
    member_mut(object, "spec")?.get_mut("ports")?.as_array_mut()
}

fn member_mut<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Map<String, Value>> {
    object.as_object_mut()?.get_mut(key)?.as_object_mut()
}
