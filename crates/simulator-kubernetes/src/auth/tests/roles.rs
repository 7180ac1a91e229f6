//! Who may do what; `permissions` of the conformance stories asks a real server about the roles
//! of a new cluster.

use super::*;

/// An action: `get leases.coordination.k8s.io kube-system name`, with `-` for no namespace.
fn action(row: &str) -> Attributes {
    let mut words = row.split(' ');
    let mut next = || words.next().unwrap_or_default();
    let (verb, what) = (next(), next());
    let (what, sub) = what.split_once('/').unwrap_or((what, ""));
    let (resource, group) = what.split_once('.').unwrap_or((what, ""));
    ask(verb, group, &format!("{resource}/{sub}"))
        .within(next().trim_matches('-'))
        .named(next())
}

fn check(auth: &Auth, objects: &Memory, user: &User, allowed: &[&str], refused: &[&str]) {
    for (rows, expected) in [(allowed, true), (refused, false)] {
        for row in rows {
            let answer = auth.authorize(user, &action(row), objects);
            assert_eq!(answer.is_ok(), expected, "{} {row}: {answer:?}", user.name);
        }
    }
}

#[test]
fn the_role_of_an_original_allows_its_rows_and_nothing_else() {
    let (auth, objects) = cluster(original());
    check(
        &auth,
        &objects,
        &account("cloud-controller-manager"),
        &[
            "list nodes",
            "watch nodes",
            "patch nodes - n",
            "delete nodes - n",
            "patch nodes/status - n",
            "list services",
            "watch services",
            "patch services x s",
            "patch services/status x s",
            "get leases.coordination.k8s.io kube-system l",
            "create leases.coordination.k8s.io kube-system l",
            "update leases.coordination.k8s.io kube-system l",
            "create events default",
            "patch events default e",
            "create serviceaccounts kube-system",
            "get configmaps kube-system c",
            "update endpoints x e",
        ],
        &[
            "update nodes/status - n",
            "get services x s",
            "patch leases.coordination.k8s.io kube-system l",
            "delete leases.coordination.k8s.io kube-system l",
            "list leases.coordination.k8s.io kube-system",
            "watch leases.coordination.k8s.io kube-system",
            "create events.events.k8s.io default",
            "get serviceaccounts kube-system a",
            "create serviceaccounts/token kube-system a",
            "list secrets",
            "get secrets kube-system s",
            "list endpointslices.discovery.k8s.io",
            "create tokenreviews.authentication.k8s.io",
            "create subjectaccessreviews.authorization.k8s.io",
            "list certificatesigningrequests.certificates.k8s.io",
        ],
    );
}

#[test]
fn the_framework_role_allows_its_rows_and_nothing_else() {
    let of_accounts = [
        "get serviceaccounts kube-system a",
        "create serviceaccounts/token kube-system a",
    ];
    for (allowed, refused) in [(&[][..], &of_accounts[..]), (&of_accounts, &[])] {
        let (auth, objects) = cluster(framework("bowline", refused.is_empty()));
        let user = account("bowline");
        check(&auth, &objects, &user, allowed, refused);
        check(
            &auth,
            &objects,
            &user,
            &[
                "get nodes - n",
                "delete nodes - n",
                "patch nodes/status - n",
                "get services x s",
                "patch services/status x s",
                "update services/status x s",
                "create events default",
                "update leases.coordination.k8s.io kube-system l",
                "create tokenreviews.authentication.k8s.io",
                "create subjectaccessreviews.authorization.k8s.io",
                "get configmaps kube-system extension-apiserver-authentication",
                "watch certificatesigningrequests.certificates.k8s.io",
                "update certificatesigningrequests.certificates.k8s.io/approval",
                "approve signers.certificates.k8s.io - kubernetes.io/kubelet-serving",
            ],
            &[
                "create nodes",
                "update nodes/status - n",
                "patch services x s",
                "create events.events.k8s.io default",
                "patch leases.coordination.k8s.io kube-system l",
                "update leases.coordination.k8s.io default l",
                "get configmaps kube-system other",
                "update certificatesigningrequests.certificates.k8s.io",
                "approve signers.certificates.k8s.io - kubernetes.io/kube-apiserver-client",
                "create serviceaccounts/token default a",
                "list secrets",
            ],
        );
    }
}

#[test]
fn aggregated_roles_gather_what_their_labels_choose_even_in_a_circle() {
    let role = |name: &str, label: &str, rules: Value, selects: &str| {
        json!({ "kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": { "name": name, "labels": { label: "true" } }, "rules": rules,
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { selects: "true" } }] } })
    };
    let rules = json!([{ "apiGroups": ["x"], "resources": ["y"], "verbs": ["get"] }]);
    let binding = json!({ "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": { "name": "b" }, "roleRef": { "kind": "ClusterRole", "name": "one" },
        "subjects": [{ "kind": "User", "name": "ann" }] });
    let (auth, objects) = cluster(vec![
        role("one", "first", json!([]), "second"),
        role("two", "second", rules, "first"),
        binding,
    ]);
    let ann = User::new("ann", &[]);
    check(&auth, &objects, &ann, &["get y.x"], &["get z.x"]);
    let admin = json!({ "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": { "name": "a" }, "roleRef": { "kind": "ClusterRole", "name": "admin" },
        "subjects": [{ "kind": "User", "name": "bob" }] });
    let (auth, objects) = cluster(vec![admin]);
    check(
        &auth,
        &objects,
        &User::new("bob", &[]),
        &[
            "create roles.rbac.authorization.k8s.io x",
            "delete services x",
            "list services x",
        ],
        &["list nodes"],
    );
}

#[test]
fn a_missing_role_is_named_in_the_refusal() {
    let binding = |name: &str, role: &str| {
        json!({ "kind": "ClusterRoleBinding",
        "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": { "name": name },
        "roleRef": { "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "User", "name": "ann" }] })
    };
    let (auth, mut objects) = cluster(vec![binding("a", "lost")]);
    let ann = User::new("ann", &[]);
    let refuse = |objects: &Memory| {
        auth.authorize(&ann, &ask("list", "", "nodes"), objects)
            .unwrap_err()
            .message
    };
    let start = r#"nodes is forbidden: User "ann" cannot list resource "nodes" in API group "" at the cluster scope"#;
    let lost = r#"clusterrole.rbac.authorization.k8s.io "lost" not found"#;
    assert_eq!(refuse(&objects), format!("{start}: RBAC: {lost}"));
    objects.put(binding("b", "gone"));
    let gone = r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#;
    assert_eq!(refuse(&objects), format!("{start}: RBAC: [{lost}, {gone}]"));
}

#[test]
fn a_kubelet_reaches_what_its_pods_need() {
    let pod = json!({ "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": "dev", "name": "p" }, "spec": { "nodeName": "n1" } });
    let (auth, objects) = cluster(vec![pod]);
    check(
        &auth,
        &objects,
        &User::new("system:node:n1", &["system:nodes", AUTHENTICATED]),
        &[
            "watch nodes - n1",
            "update leases.coordination.k8s.io kube-node-lease n1",
            "create certificatesigningrequests.certificates.k8s.io",
            "get certificatesigningrequests.certificates.k8s.io - c",
            "get secrets dev s",
        ],
        &[
            "update leases.coordination.k8s.io kube-node-lease n2",
            "update leases.coordination.k8s.io kube-system n1",
            "get secrets kube-system s",
            "list secrets",
        ],
    );
}

#[test]
fn the_bootstrapped_objects_are_complete() {
    let (auth, objects) = cluster(vec![]);
    let found = |kind_name: &str, namespace: &str, name: &str| {
        objects.get(kind(kind_name), namespace, name).is_some()
    };
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert!(found("Namespace", "", namespace));
        assert!(found("ServiceAccount", namespace, "default"));
        assert!(found("ConfigMap", namespace, "kube-root-ca.crt"));
    }
    assert!(found("Service", "default", "kubernetes"));
    assert!(found("EndpointSlice", "default", "kubernetes"));
    let map = objects
        .get(
            kind("ConfigMap"),
            SYSTEM,
            "extension-apiserver-authentication",
        )
        .unwrap();
    assert_eq!(map["data"]["client-ca-file"], auth.authority().pem());
    // Every binding leads to a role, and every one that the real server leaves empty is known.
    for binding in objects.list(kind("ClusterRoleBinding"), None) {
        assert!(
            found("ClusterRole", "", text(&binding, "/roleRef/name")),
            "{binding}"
        );
        let empty = binding["subjects"].is_null();
        assert_eq!(empty, text(&binding, "/metadata/name") == "system:node");
    }
}
