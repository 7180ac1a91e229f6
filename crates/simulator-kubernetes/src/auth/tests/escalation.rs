//! Nobody hands out rights that they do not have.

use super::*;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn role(name: &str, rules: &Value) -> Value {
    json!({ "kind": "Role", "apiVersion": RBAC,
            "metadata": { "name": name, "namespace": "dev" }, "rules": rules })
}

fn binding(role: &str) -> Value {
    json!({ "kind": "RoleBinding", "apiVersion": RBAC,
            "metadata": { "name": "b", "namespace": "dev" },
            "roleRef": { "kind": "Role", "name": role },
            "subjects": [{ "kind": "User", "name": "jane" }] })
}

fn rule(verbs: &[&str], resource: &str) -> Value {
    json!({ "verbs": verbs, "apiGroups": [""], "resources": [resource] })
}

/// What jane is told who may read pods, and write roles and bindings, in `dev`.
fn verdict(more: &Value, object: &Value, old: Option<&Value>) -> Result<(), String> {
    let own = json!([rule(&["get", "list"], "pods"), more]);
    let (auth, objects) = cluster(vec![
        role("own", &own),
        binding("own"),
        role("secrets", &json!([rule(&["get"], "secrets")])),
    ]);
    let jane = User::new("jane", &["developers", AUTHENTICATED]);
    auth.check_grant(&jane, kind(text(object, "/kind")), object, old, &objects)
        .map_err(|refusal| refusal.message)
}

#[test]
fn rights_that_are_held_can_be_granted_and_others_cannot() {
    let nothing = json!({});
    let held = role("r", &json!([rule(&["get"], "pods")]));
    assert_eq!(verdict(&nothing, &held, None), Ok(()));

    let more = role(
        "r",
        &json!([
            rule(&["watch", "get", "delete"], "pods"),
            rule(&["*"], "nodes/status")
        ]),
    );
    let refused = "roles.rbac.authorization.k8s.io \"r\" is forbidden: user \"jane\" \
        (groups=[\"developers\" \"system:authenticated\"]) is attempting to grant RBAC permissions not \
        currently held:\n\
        {APIGroups:[\"\"], Resources:[\"nodes/status\"], Verbs:[\"*\"]}\n\
        {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}";
    assert_eq!(verdict(&nothing, &more, None), Err(refused.to_owned()));
    assert_eq!(verdict(&nothing, &more, Some(&more)), Ok(()), "nothing new");

    let escalate = json!({ "verbs": ["escalate"], "apiGroups": ["*"], "resources": ["roles"] });
    assert_eq!(verdict(&escalate, &more, None), Ok(()));
}

#[test]
fn a_role_can_be_bound_by_who_holds_it_or_may_bind_it() {
    let nothing = json!({});
    assert_eq!(verdict(&nothing, &binding("own"), None), Ok(()));
    let refused = verdict(&nothing, &binding("secrets"), None).unwrap_err();
    assert!(refused.ends_with("{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}"));
    let bind = json!({ "verbs": ["bind"], "apiGroups": ["*"], "resources": ["roles"],
                       "resourceNames": ["secrets"] });
    assert_eq!(verdict(&bind, &binding("secrets"), None), Ok(()));
    assert_eq!(
        verdict(&nothing, &binding("none"), None),
        Err("roles.rbac.authorization.k8s.io \"none\" not found".to_owned())
    );
}

#[test]
fn an_aggregated_role_may_become_anything() {
    let all = json!({ "kind": "ClusterRole", "apiVersion": RBAC, "metadata": { "name": "all" },
                      "aggregationRule": { "clusterRoleSelectors": [] } });
    let refused = verdict(&json!({}), &all, None).unwrap_err();
    assert!(
        refused.contains("{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}"),
        "{refused}"
    );
}
