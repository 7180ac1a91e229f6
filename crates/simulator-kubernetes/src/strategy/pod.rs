//! Pods: as much as `kubectl` looks at.

use serde_json::{Value, json};

use super::problem::Problem;
use super::{Context, fill, keep, names};
use crate::object::text;

pub fn defaults(pod: &mut Value) {
    fill(pod, "spec", json!({}));
    fill(pod, "status", json!({}));
    let spec = &mut pod["spec"];
    fill(spec, "restartPolicy", "Always");
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "schedulerName", "default-scheduler");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "enableServiceLinks", true);
    fill(spec, "securityContext", json!({}));
    for list in ["containers", "initContainers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            container_defaults(container);
        }
        if spec[list].is_null() {
            super::drop_field(spec, list);
        }
    }
    if spec["serviceAccountName"].is_string() {
        spec["serviceAccount"] = spec["serviceAccountName"].clone();
    }
}

fn container_defaults(container: &mut Value) {
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill(container, "resources", json!({}));
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image
        .rsplit('/')
        .next()
        .and_then(|last| last.split_once(':'));
    let policy = match tag {
        _ if image.contains('@') => "IfNotPresent",
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        _ => "Always",
    };
    fill(container, "imagePullPolicy", policy);
    for port in container["ports"].as_array_mut().into_iter().flatten() {
        fill(port, "protocol", "TCP");
    }
}

/// Admission and the state of a new pod.
pub fn prepare_create(pod: &mut Value, context: &Context) {
    pod["metadata"]["generation"] = json!(1);
    let class = quality(&pod["spec"]);
    pod["status"] = json!({ "phase": "Pending", "qosClass": class });
    let account = match pod["spec"]["serviceAccountName"].as_str() {
        Some(name) if !name.is_empty() => name.to_owned(),
        _ => "default".to_owned(),
    };
    pod["spec"]["serviceAccountName"] = account.as_str().into();
    pod["spec"]["serviceAccount"] = account.as_str().into();
    fill(&mut pod["spec"], "preemptionPolicy", "PreemptLowerPriority");
    fill(&mut pod["spec"], "priority", 0);
    let mut tolerations = pod["spec"]["tolerations"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = tolerations.iter().any(|toleration| {
            (toleration["key"] == key || toleration["key"].is_null())
                && (toleration["effect"] == "NoExecute" || toleration["effect"].is_null())
        });
        if !tolerated {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
    pod["spec"]["tolerations"] = tolerations.into();
    if context.user.name.starts_with("system:node:") {
        return;
    }
    if pod["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_null()
        && let Some(map) = pod["metadata"].as_object_mut()
        && map.get("annotations").is_some_and(Value::is_null)
    {
        map.remove("annotations");
    }
}

/// The quality-of-service class.
fn quality(spec: &Value) -> &'static str {
    let containers: Vec<&Value> = ["containers", "initContainers"]
        .iter()
        .filter_map(|list| spec[*list].as_array())
        .flatten()
        .collect();
    let given = |container: &Value, side: &str| {
        container["resources"][side]
            .as_object()
            .is_some_and(|map| !map.is_empty())
    };
    if !containers
        .iter()
        .any(|container| given(container, "requests") || given(container, "limits"))
    {
        return "BestEffort";
    }
    let guaranteed = containers.iter().all(|container| {
        let limits = &container["resources"]["limits"];
        let requests = &container["resources"]["requests"];
        ["cpu", "memory"].iter().all(|resource| {
            !limits[*resource].is_null()
                && (requests[*resource].is_null() || requests[*resource] == limits[*resource])
        })
    });
    if guaranteed {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

pub fn validate(pod: &Value) -> Vec<Problem> {
    let mut problems = Vec::new();
    let containers = pod["spec"]["containers"].as_array();
    if containers.is_none_or(Vec::is_empty) {
        problems.push(Problem::required("spec.containers", ""));
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, container) in containers.into_iter().flatten().enumerate() {
        let at = |field: &str| format!("spec.containers[{index}].{field}");
        let name = container["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            problems.push(Problem::required(&at("name"), ""));
        } else {
            problems.extend(Problem::faults(&at("name"), name, names::label(name)));
            if !seen.insert(name) {
                problems.push(Problem::duplicate(&at("name"), &json!(name), ""));
            }
        }
        problems.extend(Problem::unless_given(
            &at("image"),
            text(container, "/image"),
        ));
    }
    let (field, known) = ("spec.restartPolicy", ["Always", "OnFailure", "Never"]);
    let policy = &pod["spec"]["restartPolicy"];
    problems.extend(Problem::unless_known(field, policy, &known));
    problems
}

/// What of a pod's spec may change.
const CHANGEABLE: [&str; 5] = [
    "activeDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "tolerations",
    "schedulingGates",
    "nodeSelector",
];

/// Prepares and checks a change of the pod or of its status.
pub fn update(subresource: &str, pod: &mut Value, old: &Value) -> Vec<Problem> {
    if subresource == "status" {
        keep(pod, old, &["spec"]);
        // Owners are not for the kubelet to change.
        let owners = old["metadata"]["ownerReferences"].clone();
        pod["metadata"]["ownerReferences"] = owners;
        return Vec::new();
    }
    keep(pod, old, &["status"]);
    let mut problems = validate(pod);
    let stable = |spec: &Value| {
        let mut spec = spec.clone();
        for field in CHANGEABLE {
            super::drop_field(&mut spec, field);
        }
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                super::drop_field(container, "image");
                super::drop_field(container, "imagePullPolicy");
            }
            if spec[list].is_null() {
                super::drop_field(&mut spec, list);
            }
        }
        spec
    };
    if stable(&pod["spec"]) != stable(&old["spec"]) {
        let detail = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        problems.push(Problem::forbidden("spec", detail));
    }
    if pod["spec"] != old["spec"]
        && let Some(generation) = old["metadata"]["generation"].as_i64()
    {
        pod["metadata"]["generation"] = (generation + 1).into();
    }
    problems
}
