//! What the account of a manifest may do, and what it should be allowed.

use serde_json::{Value, json};

use super::SYSTEM;
use super::shipped::{Duty, Shipped, file};

const GROUP: &str = "rbac.authorization.k8s.io/v1";

/// Everything that says what an account may do, by kind and name.
pub(super) fn rights(objects: &[Value]) -> Vec<Value> {
    let is_right = |it: &&Value| {
        it["apiVersion"] == GROUP || it["apiVersion"] == "v1" && it["kind"] == "ServiceAccount"
    };
    sorted(objects.iter().filter(is_right).cloned().collect())
}

fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|it| format!("{} {}", it["kind"], it["metadata"]["name"]));
    objects
}

/// What the manifest's account needs: deploy/rbac.yaml, which the scenarios of rights run under, with the
/// manifest's names, without what it does not do, and with what only it does.
pub(super) fn wanted(shipped: &Shipped) -> Vec<Value> {
    let does = |duty: Duty| shipped.duties.contains(&duty);
    let mut text = file("deploy/rbac.yaml");
    if does(Duty::Certificates) {
        text += "\n---\n";
        text += &file("deploy/rbac-certificates.yaml");
    }
    let lease = "[cloud-controller-manager]";
    assert!(text.contains(lease));
    let text = text
        .replace("name: bowline", &format!("name: {}", shipped.original))
        .replace(lease, &format!("[{}]", shipped.lease));
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    if does(Duty::PodEvents) {
        objects.extend(pod_events(shipped));
    }
    if does(Duty::Triton) {
        objects.extend(role(shipped, "credentials", &of_triton()[1]));
    }
    for object in &mut objects {
        if object["kind"] == "ServiceAccount" {
            object["metadata"]["name"] = json!(shipped.account);
        }
        for subject in list(object, "subjects").into_iter().flatten() {
            subject["name"] = json!(shipped.account);
        }
        let Some(rules) = list(object, "rules") else {
            continue;
        };
        if !does(Duty::LoadBalancers) {
            let services = [["services"], ["services/status"], ["namespaces"]];
            let services = services.map(|it| json!(it));
            rules.retain(|rule| !services.contains(&rule["resources"]));
        }
        if does(Duty::Triton)
            && let Some(at) = rules
                .iter()
                .position(|it| it["resources"] == json!(["events"]))
        {
            let [endpoints, _] = of_triton();
            rules.insert(at, endpoints);
        }
        for rule in rules {
            if rule["resources"] == json!(["nodes"]) && !does(Duty::DeletedNodes) {
                list(rule, "verbs").unwrap().retain(|verb| verb != "delete");
            }
        }
    }
    sorted(objects)
}

fn list<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Vec<Value>> {
    object.get_mut(key).and_then(Value::as_array_mut)
}

/// New-style events where the pod is.
fn pod_events(shipped: &Shipped) -> [Value; 2] {
    let rule = json!({
        "apiGroups": ["events.k8s.io"], "resources": ["events"],
        "verbs": ["get", "create", "update"],
    });
    role(shipped, "events", &rule)
}

/// What Triton needs besides: endpoints, and the credentials.
fn of_triton() -> [Value; 2] {
    [
        json!({
            "apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
            "verbs": ["list", "watch"],
        }),
        json!({
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["triton-credentials"],
            "verbs": ["list", "watch"],
        }),
    ]
}

/// A role with one rule where the pod is.
fn role(shipped: &Shipped, name: &str, rule: &Value) -> [Value; 2] {
    let name = format!("{}:{name}", shipped.original);
    let metadata = json!({ "name": name, "namespace": SYSTEM });
    [
        json!({
            "apiVersion": GROUP, "kind": "Role", "metadata": metadata,
            "rules": [rule],
        }),
        json!({
            "apiVersion": GROUP, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
            "subjects": [{
                "kind": "ServiceAccount", "name": shipped.account, "namespace": SYSTEM,
            }],
        }),
    ]
}
