//! Who may do what.

use super::*;

/// (user, action, allowed)
fn check(auth: &Auth, objects: &Memory, user: &User, rows: &[(Attributes, bool)]) {
    for (attributes, allowed) in rows {
        let answer = auth.authorize(user, attributes, objects);
        assert_eq!(
            answer.is_ok(),
            *allowed,
            "{} {attributes:?} {answer:?}",
            user.name
        );
    }
}

#[test]
fn the_bootstrapped_roles_do_what_they_say() {
    let (auth, objects) = cluster(vec![]);
    let rows = [
        (
            User::new("root", &["system:masters"]),
            ask("anything", "x", "y"),
            true,
        ),
        (User::anonymous(), Attributes::path("get", "/version"), true),
        (User::anonymous(), Attributes::path("get", "/healthz"), true),
        (User::anonymous(), Attributes::path("get", "/api"), false),
        (
            User::anonymous(),
            Attributes::path("get", "/metrics"),
            false,
        ),
        (User::anonymous(), ask("list", "", "nodes"), false),
        (
            User::new("ann", &[AUTHENTICATED]),
            Attributes::path("get", "/openapi/v3/api/v1"),
            true,
        ),
        (
            User::new("ann", &[AUTHENTICATED]),
            Attributes::path("post", "/api"),
            false,
        ),
        (
            User::new("ann", &[AUTHENTICATED]),
            ask("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
            true,
        ),
        (
            User::new("ann", &[AUTHENTICATED]),
            ask("create", "authorization.k8s.io", "subjectaccessreviews"),
            false,
        ),
        (
            User::new("m", &["system:monitoring"]),
            Attributes::path("get", "/metrics"),
            true,
        ),
        (
            account("service-controller"),
            ask("patch", "", "services/status").within("x"),
            true,
        ),
        (
            account("service-controller"),
            ask("patch", "", "services").within("x"),
            false,
        ),
        (
            account("service-controller"),
            ask("get", "", "nodes"),
            false,
        ),
        (
            account("route-controller"),
            ask("patch", "", "nodes/status").named("n"),
            true,
        ),
        (
            account("route-controller"),
            ask("update", "", "nodes/status").named("n"),
            false,
        ),
        (
            account("node-controller"),
            ask("update", "", "nodes/status").named("n"),
            true,
        ),
        (
            account("node-controller"),
            ask("create", "events.k8s.io", "events").within("x"),
            true,
        ),
        (account("default"), ask("list", "", "nodes"), false),
        (
            User::new("system:kube-controller-manager", &[AUTHENTICATED]),
            ask("list", "anything", "things"),
            true,
        ),
        (
            User::new("system:kube-controller-manager", &[AUTHENTICATED]),
            ask("update", COORDINATION, "leases")
                .within(SYSTEM)
                .named("other"),
            false,
        ),
        (
            User::new("system:kube-controller-manager", &[AUTHENTICATED]),
            ask("update", COORDINATION, "leases")
                .within(SYSTEM)
                .named("kube-controller-manager"),
            true,
        ),
    ];
    for (user, attributes, allowed) in rows {
        check(&auth, &objects, &user, &[(attributes, allowed)]);
    }
}

#[test]
fn the_role_of_an_original_allows_its_rows_and_nothing_else() {
    let (auth, objects) = cluster(original());
    let user = account("cloud-controller-manager");
    let lease = |verb| ask(verb, COORDINATION, "leases").within(SYSTEM).named("l");
    check(
        &auth,
        &objects,
        &user,
        &[
            (ask("list", "", "nodes"), true),
            (ask("watch", "", "nodes"), true),
            (ask("patch", "", "nodes").named("n"), true),
            (ask("delete", "", "nodes").named("n"), true),
            (ask("patch", "", "nodes/status").named("n"), true),
            (ask("update", "", "nodes/status").named("n"), false),
            (ask("get", "", "services").within("x").named("s"), false),
            (ask("list", "", "services"), true),
            (ask("watch", "", "services"), true),
            (ask("patch", "", "services").within("x").named("s"), true),
            (
                ask("patch", "", "services/status").within("x").named("s"),
                true,
            ),
            (lease("get"), true),
            (lease("create"), true),
            (lease("update"), true),
            (lease("patch"), false),
            (lease("delete"), false),
            (ask("list", COORDINATION, "leases").within(SYSTEM), false),
            (ask("watch", COORDINATION, "leases").within(SYSTEM), false),
            (ask("create", "", "events").within("default"), true),
            (
                ask("patch", "", "events").within("default").named("e"),
                true,
            ),
            (
                ask("create", "events.k8s.io", "events").within("default"),
                false,
            ),
            (ask("create", "", "serviceaccounts").within(SYSTEM), true),
            (
                ask("get", "", "serviceaccounts").within(SYSTEM).named("a"),
                false,
            ),
            (
                ask("create", "", "serviceaccounts/token")
                    .within(SYSTEM)
                    .named("a"),
                false,
            ),
            (ask("get", "", "configmaps").within(SYSTEM).named("c"), true),
            (ask("update", "", "endpoints").within("x").named("e"), true),
            (ask("list", "", "secrets"), false),
            (ask("get", "", "secrets").within(SYSTEM).named("s"), false),
            (ask("list", "discovery.k8s.io", "endpointslices"), false),
            (
                ask("create", "authentication.k8s.io", "tokenreviews"),
                false,
            ),
            (
                ask("create", "authorization.k8s.io", "subjectaccessreviews"),
                false,
            ),
            (
                ask("list", "certificates.k8s.io", "certificatesigningrequests"),
                false,
            ),
        ],
    );
}

#[test]
fn the_framework_role_allows_its_rows_and_nothing_else() {
    for accounts in [false, true] {
        let (auth, objects) = cluster(framework("bowline", accounts));
        let lease = |verb, place| ask(verb, COORDINATION, "leases").within(place).named("l");
        let csr = |verb| ask(verb, "certificates.k8s.io", "certificatesigningrequests");
        let signer = |name| ask("approve", "certificates.k8s.io", "signers").named(name);
        let configuration = |name| ask("get", "", "configmaps").within(SYSTEM).named(name);
        check(
            &auth,
            &objects,
            &account("bowline"),
            &[
                (ask("get", "", "nodes").named("n"), true),
                (ask("delete", "", "nodes").named("n"), true),
                (ask("create", "", "nodes"), false),
                (ask("patch", "", "nodes/status").named("n"), true),
                (ask("update", "", "nodes/status").named("n"), false),
                (ask("get", "", "services").within("x").named("s"), true),
                (ask("patch", "", "services").within("x").named("s"), false),
                (
                    ask("patch", "", "services/status").within("x").named("s"),
                    true,
                ),
                (
                    ask("update", "", "services/status").within("x").named("s"),
                    true,
                ),
                (ask("create", "", "events").within("default"), true),
                (
                    ask("create", "events.k8s.io", "events").within("default"),
                    false,
                ),
                (lease("update", SYSTEM), true),
                (lease("patch", SYSTEM), false),
                (lease("update", "default"), false),
                (ask("create", "authentication.k8s.io", "tokenreviews"), true),
                (
                    ask("create", "authorization.k8s.io", "subjectaccessreviews"),
                    true,
                ),
                (configuration("extension-apiserver-authentication"), true),
                (configuration("other"), false),
                (csr("watch"), true),
                (csr("update"), false),
                (
                    ask(
                        "update",
                        "certificates.k8s.io",
                        "certificatesigningrequests/approval",
                    ),
                    true,
                ),
                (signer("kubernetes.io/kubelet-serving"), true),
                (signer("kubernetes.io/kube-apiserver-client"), false),
                (
                    ask("get", "", "serviceaccounts").within(SYSTEM).named("a"),
                    accounts,
                ),
                (
                    ask("create", "", "serviceaccounts/token")
                        .within(SYSTEM)
                        .named("a"),
                    accounts,
                ),
                (
                    ask("create", "", "serviceaccounts/token")
                        .within("default")
                        .named("a"),
                    false,
                ),
                (ask("list", "", "secrets"), false),
            ],
        );
    }
}

#[test]
fn a_role_binding_reaches_only_its_namespace_and_describes_itself() {
    let binding = json!({ "kind": "RoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": { "namespace": "dev", "name": "viewers" },
        "roleRef": { "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "ServiceAccount", "name": "robot" },
            { "kind": "Group", "name": "people" }] });
    let (auth, objects) = cluster(vec![binding]);
    let robot = User::new("system:serviceaccount:dev:robot", &[]);
    let services = ask("list", "", "services");
    let decision = auth.decide(&robot, &services.clone().within("dev"), &objects);
    assert_eq!(
        decision,
        Decision {
            allowed: true,
            reason: "RBAC: allowed by RoleBinding \"viewers/dev\" of ClusterRole \"view\" \
                 to ServiceAccount \"robot/dev\""
                .to_owned(),
        }
    );
    check(
        &auth,
        &objects,
        &robot,
        &[
            (services.clone().within("prod"), false),
            (services.clone(), false),
            (ask("delete", "", "services").within("dev"), false),
        ],
    );
    let ann = User::new("ann", &["people"]);
    check(&auth, &objects, &ann, &[(services.within("dev"), true)]);
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
    check(
        &auth,
        &objects,
        &User::new("ann", &[]),
        &[(ask("get", "x", "y"), true), (ask("get", "x", "z"), false)],
    );
    let admin = json!({ "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": { "name": "a" }, "roleRef": { "kind": "ClusterRole", "name": "admin" },
        "subjects": [{ "kind": "User", "name": "bob" }] });
    let (auth, objects) = cluster(vec![admin]);
    check(
        &auth,
        &objects,
        &User::new("bob", &[]),
        &[
            (
                ask("create", "rbac.authorization.k8s.io", "roles").within("x"),
                true,
            ),
            (ask("delete", "", "services").within("x"), true),
            (ask("list", "", "services").within("x"), true),
            (ask("list", "", "nodes"), false),
        ],
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
fn a_kubelet_reaches_its_own_node_and_lease_and_what_its_pods_need() {
    let pod = json!({ "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": "dev", "name": "p" }, "spec": { "nodeName": "n1" } });
    let (auth, objects) = cluster(vec![pod]);
    let kubelet = User::new("system:node:n1", &["system:nodes", AUTHENTICATED]);
    let lease = |verb, place, name| ask(verb, COORDINATION, "leases").within(place).named(name);
    check(
        &auth,
        &objects,
        &kubelet,
        &[
            (ask("create", "", "nodes"), true),
            (ask("get", "", "nodes").named("n1"), true),
            (ask("get", "", "nodes").named("n2"), false),
            (ask("list", "", "nodes"), false),
            (ask("watch", "", "nodes").named("n1"), true),
            (ask("patch", "", "nodes/status").named("n1"), true),
            // Node restriction refuses that when it sees the object.
            (ask("patch", "", "nodes/status").named("n2"), true),
            (ask("delete", "", "nodes").named("n1"), false),
            (
                ask("create", COORDINATION, "leases").within("kube-node-lease"),
                true,
            ),
            (lease("update", "kube-node-lease", "n1"), true),
            (lease("update", "kube-node-lease", "n2"), false),
            (lease("update", SYSTEM, "n1"), false),
            (ask("create", "", "events").within("default"), true),
            (
                ask(
                    "create",
                    "certificates.k8s.io",
                    "certificatesigningrequests",
                ),
                true,
            ),
            (
                ask("get", "certificates.k8s.io", "certificatesigningrequests").named("c"),
                true,
            ),
            (ask("list", "", "services"), true),
            (ask("get", "", "secrets").within("dev").named("s"), true),
            (ask("get", "", "secrets").within(SYSTEM).named("s"), false),
            (ask("list", "", "secrets"), false),
        ],
    );
    let other = json!({ "metadata": { "name": "n2" } });
    let refusal = auth
        .restrict_node(&kubelet, kind("Node"), "", &other, Some(&other))
        .unwrap_err();
    assert_eq!(
        refusal.message,
        r#"nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2""#
    );
    let refusal = auth
        .authorize(&kubelet, &lease("get", SYSTEM, "l"), &objects)
        .unwrap_err();
    assert!(refusal.message.ends_with(
        r#"in the namespace "kube-system": can only access leases in the "kube-node-lease" system namespace"#
    ), "{}", refusal.message);
    let pretender = User::new("system:node:n1", &[AUTHENTICATED]);
    check(
        &auth,
        &objects,
        &pretender,
        &[(ask("create", "", "nodes"), false)],
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
