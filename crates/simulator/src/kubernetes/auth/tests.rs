//! Who is who and who may do what, in a bootstrapped cluster.

use std::net::SocketAddr;

use bowline_http::Random;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::objects::tests::Memory;
use super::*;
use crate::kubernetes::bootstrap;

const SYSTEM: &str = "kube-system";
const COORDINATION: &str = "coordination.k8s.io";

fn now() -> Timestamp {
    "2026-10-01T12:00:00Z".parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    now()
        .checked_add(SignedDuration::from_secs(seconds))
        .unwrap()
}

/// A new cluster whose objects all have uids.
fn cluster(more: Vec<Value>) -> (Auth, Memory) {
    let random = Random::seeded(1);
    let auth = Auth::new(&Keys::seeded(&random)).unwrap();
    let endpoint: SocketAddr = "127.0.0.1:6443".parse().unwrap();
    let mut objects = bootstrap::objects(&auth, endpoint);
    objects.extend(more);
    for object in &mut objects {
        object["metadata"]["uid"] = random.uuid().into();
    }
    (auth, Memory::with(objects))
}

fn headers(rows: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in rows {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn account(name: &str) -> User {
    User::new(
        &format!("system:serviceaccount:{SYSTEM}:{name}"),
        &[
            "system:serviceaccounts",
            "system:serviceaccounts:kube-system",
            AUTHENTICATED,
        ],
    )
}

fn ask(verb: &str, group: &str, resource: &str) -> Attributes {
    Attributes::resource(verb, group, resource)
}

fn token_for(auth: &Auth, objects: &Memory, name: &str, spec: &Value) -> Value {
    let account = objects.get(kind("ServiceAccount"), SYSTEM, name).unwrap();
    auth.issue_token(SYSTEM, &account, spec, objects, now())
        .unwrap()
}

fn login(auth: &Auth, objects: &Memory, token: &str, when: Timestamp) -> Result<User, Refusal> {
    let headers = headers(&[("authorization", &format!("Bearer {token}"))]);
    auth.authenticate(&headers, &Peer::default(), objects, when)
}

#[test]
fn nobody_is_anonymous_and_a_wrong_token_is_refused() {
    let (auth, objects) = cluster(vec![]);
    let known = User::new("ann", &["people"]);
    auth.add_token("right", known);
    let user = |rows: &[(&str, &str)]| {
        auth.authenticate(&headers(rows), &Peer::default(), &objects, now())
    };
    assert_eq!(user(&[]).unwrap(), User::anonymous());
    assert_eq!(
        user(&[("authorization", "Basic eDp5")]).unwrap(),
        User::anonymous()
    );
    let ann = user(&[("authorization", "bearer right")]).unwrap();
    assert_eq!(ann, User::new("ann", &["people", AUTHENTICATED]));
    let refusal = user(&[("authorization", "Bearer wrong")]).unwrap_err();
    assert_eq!(
        refusal.to_status(),
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized", "reason": "Unauthorized", "code": 401 })
    );
}

#[test]
fn a_certificate_of_the_authority_is_an_identity_and_a_foreign_one_is_not() {
    let (auth, objects) = cluster(vec![]);
    let own = auth
        .authority()
        .client("admin", &["system:masters"])
        .unwrap();
    let foreign = Auth::new(&Keys::System).unwrap();
    let foreign = foreign
        .authority()
        .client("admin", &["system:masters"])
        .unwrap();
    let login = |certificate: &[u8], rows: &[(&str, &str)]| {
        let peer = Peer {
            certificate: Some(certificate.to_vec()),
        };
        auth.authenticate(&headers(rows), &peer, &objects, now())
    };
    let admin = login(&own.certificate, &[]).unwrap();
    assert_eq!(
        admin,
        User::new("admin", &["system:masters", AUTHENTICATED])
    );
    assert_eq!(login(&foreign.certificate, &[]).unwrap_err().code, 401);
    auth.add_token("t", User::new("ann", &[]));
    let ann = login(&foreign.certificate, &[("authorization", "Bearer t")]).unwrap();
    assert_eq!(ann.name, "ann");
}

#[test]
fn a_service_account_token_lives_as_long_as_its_account_and_its_time() {
    let (auth, mut objects) = cluster(vec![]);
    let spec = json!({ "expirationSeconds": 600 });
    let answer = token_for(&auth, &objects, "default", &spec);
    assert_eq!(answer["kind"], "TokenRequest");
    assert_eq!(
        answer["status"]["expirationTimestamp"],
        "2026-10-01T12:10:00Z"
    );
    assert_eq!(answer["spec"]["audiences"], json!([AUDIENCE]));
    let token = text(&answer, "/status/token");
    let user = login(&auth, &objects, token, now()).unwrap();
    assert_eq!(user.name, "system:serviceaccount:kube-system:default");
    assert_eq!(
        user.groups,
        [
            "system:serviceaccounts",
            "system:serviceaccounts:kube-system",
            AUTHENTICATED
        ]
    );
    let stored = objects
        .get(kind("ServiceAccount"), SYSTEM, "default")
        .unwrap();
    assert_eq!(user.uid, text(&stored, "/metadata/uid"));

    assert!(login(&auth, &objects, token, later(660)).is_ok());
    assert_eq!(
        login(&auth, &objects, token, later(661)).unwrap_err().code,
        401
    );
    let mut forged = token.to_owned();
    let last = forged.pop();
    forged.push(if last == Some('A') { 'Q' } else { 'A' });
    assert_eq!(
        login(&auth, &objects, &forged, now()).unwrap_err().code,
        401
    );

    let mut other = stored.clone();
    other["metadata"]["uid"] = json!("another");
    objects.put(other);
    assert_eq!(login(&auth, &objects, token, now()).unwrap_err().code, 401);
    objects.remove(&stored);
    assert_eq!(login(&auth, &objects, token, now()).unwrap_err().code, 401);
    objects.put(stored);
    assert!(login(&auth, &objects, token, now()).is_ok());
}

#[test]
fn a_token_of_another_cluster_or_audience_is_refused() {
    let (auth, objects) = cluster(vec![]);
    let foreign = Auth::new(&Keys::System).unwrap();
    let token = token_for(&foreign, &objects, "default", &json!({}));
    let token = text(&token, "/status/token");
    assert_eq!(login(&auth, &objects, token, now()).unwrap_err().code, 401);
    let vault = token_for(
        &auth,
        &objects,
        "default",
        &json!({ "audiences": ["vault"] }),
    );
    let vault = text(&vault, "/status/token");
    assert_eq!(login(&auth, &objects, vault, now()).unwrap_err().code, 401);
}

#[test]
fn a_token_bound_to_a_pod_ends_with_it() {
    let pod = json!({ "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": SYSTEM, "name": "p", "uid": "u" } });
    let (auth, mut objects) = cluster(vec![pod]);
    let spec = json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": "p" } });
    let answer = token_for(&auth, &objects, "default", &spec);
    let token = text(&answer, "/status/token");
    let user = login(&auth, &objects, token, now()).unwrap();
    assert_eq!(user.extra["authentication.kubernetes.io/pod-name"], ["p"]);
    let stored = objects.get(kind("Pod"), SYSTEM, "p").unwrap();
    objects.remove(&stored);
    assert_eq!(login(&auth, &objects, token, now()).unwrap_err().code, 401);
    let stored = objects
        .get(kind("ServiceAccount"), SYSTEM, "default")
        .unwrap();
    let refusal = auth
        .issue_token(SYSTEM, &stored, &spec, &objects, now())
        .unwrap_err();
    assert_eq!(refusal.code, 404);
}

#[test]
fn a_token_for_less_than_ten_minutes_is_invalid() {
    let (auth, objects) = cluster(vec![]);
    let account = objects
        .get(kind("ServiceAccount"), SYSTEM, "default")
        .unwrap();
    let spec = json!({ "expirationSeconds": 599 });
    let refusal = auth
        .issue_token(SYSTEM, &account, &spec, &objects, now())
        .unwrap_err();
    assert_eq!(refusal.code, 422);
    assert_eq!(
        refusal.message,
        "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: \
         Invalid value: 599: may not specify a duration less than 10 minutes"
    );
}

#[test]
fn the_same_seed_gives_the_same_tokens() {
    let make = || {
        let (auth, objects) = cluster(vec![]);
        token_for(&auth, &objects, "default", &json!({}))
    };
    assert_eq!(make(), make());
}

#[test]
fn impersonation_needs_permission_for_every_part() {
    let role = |rules: Value| {
        vec![
            json!({ "kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
                "metadata": { "name": "actor" }, "rules": rules }),
            json!({ "kind": "ClusterRoleBinding", "apiVersion": "rbac.authorization.k8s.io/v1",
                "metadata": { "name": "actor" },
                "roleRef": { "kind": "ClusterRole", "name": "actor" },
                "subjects": [{ "kind": "User", "name": "ann" }] }),
        ]
    };
    let (auth, objects) = cluster(role(json!([
        { "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"] },
        { "apiGroups": [""], "resources": ["groups"], "resourceNames": ["dev"], "verbs": ["impersonate"] },
        { "apiGroups": ["authentication.k8s.io"], "resources": ["userextras/scopes"], "verbs": ["impersonate"] },
    ])));
    auth.add_token("t", User::new("ann", &[]));
    let act = |rows: &[(&str, &str)]| {
        let mut headers = headers(rows);
        headers.insert("authorization", HeaderValue::from_static("Bearer t"));
        auth.authenticate(&headers, &Peer::default(), &objects, now())
    };
    let bob = act(&[
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "dev"),
        ("Impersonate-Extra-Scopes", "view"),
    ]);
    let mut expected = User::new("bob", &["dev", AUTHENTICATED]);
    expected
        .extra
        .insert("scopes".to_owned(), vec!["view".to_owned()]);
    assert_eq!(bob.unwrap(), expected);
    let rows: [(&[(&str, &str)], u16, &str); 4] = [
        (
            &[
                ("Impersonate-User", "bob"),
                ("Impersonate-Group", "system:masters"),
            ],
            403,
            r#"groups "system:masters" is forbidden: User "ann" cannot impersonate resource "groups" in API group "" at the cluster scope"#,
        ),
        (
            &[(
                "Impersonate-User",
                "system:serviceaccount:kube-system:default",
            )],
            403,
            r#"serviceaccounts "default" is forbidden: User "ann" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "kube-system""#,
        ),
        (
            &[("Impersonate-User", "bob"), ("Impersonate-Uid", "7")],
            403,
            r#"uids.authentication.k8s.io "7" is forbidden: User "ann" cannot impersonate resource "uids" in API group "authentication.k8s.io" at the cluster scope"#,
        ),
        (
            &[("Impersonate-Group", "dev")],
            500,
            "Internal error occurred: requested impersonation of groups, uid or extra without impersonating a user",
        ),
    ];
    for (rows, code, message) in rows {
        let refusal = act(rows).unwrap_err();
        assert_eq!((refusal.code, refusal.message.as_str()), (code, message));
    }
}

#[test]
fn an_impersonated_service_account_gets_its_groups() {
    let (auth, objects) = cluster(vec![]);
    auth.add_token("root", User::new("root", &["system:masters"]));
    let headers = headers(&[
        ("authorization", "Bearer root"),
        (
            "impersonate-user",
            "system:serviceaccount:kube-system:node-controller",
        ),
    ]);
    let user = auth
        .authenticate(&headers, &Peer::default(), &objects, now())
        .unwrap();
    assert_eq!(user, account("node-controller"));
    assert!(
        auth.authorize(&user, &ask("delete", "", "nodes").named("n"), &objects)
            .is_ok()
    );
    assert!(
        auth.authorize(&user, &ask("list", "", "secrets"), &objects)
            .is_err()
    );
}

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
fn the_cloudscale_role_allows_its_rows_and_nothing_else() {
    let (auth, objects) = cluster(originals::cloudscale());
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
        let (auth, objects) = cluster(originals::framework("bowline", accounts));
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
            (ask("patch", "", "nodes/status").named("n2"), false),
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
    let refusal = auth
        .authorize(&kubelet, &ask("patch", "", "nodes").named("n2"), &objects)
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

fn review(auth: &Auth, objects: &Memory, name: &str, namespace: &str, spec: Value) -> Value {
    let body = json!({ "spec": spec });
    let caller = User::new("ann", &[AUTHENTICATED]);
    auth.answer_review(kind(name), namespace, &body, &caller, objects, now())
        .unwrap_or_else(|refusal| refusal.to_status())
}

#[test]
fn a_token_review_tells_the_user_and_the_audiences() {
    let (auth, objects) = cluster(vec![]);
    let answer = token_for(
        &auth,
        &objects,
        "default",
        &json!({ "audiences": ["a", "b"] }),
    );
    let token = text(&answer, "/status/token");
    let ask = |spec| review(&auth, &objects, "TokenReview", "", spec);
    let told = ask(json!({ "token": token, "audiences": ["b", "c"] }));
    assert_eq!(told["kind"], "TokenReview");
    assert_eq!(told["apiVersion"], "authentication.k8s.io/v1");
    assert_eq!(told["status"]["authenticated"], true);
    assert_eq!(told["status"]["audiences"], json!(["b"]));
    let user = &told["status"]["user"];
    assert_eq!(
        user["username"],
        "system:serviceaccount:kube-system:default"
    );
    assert_eq!(user["groups"][2], AUTHENTICATED);
    assert!(
        text(
            &user["extra"],
            "/authentication.kubernetes.io~1credential-id/0"
        )
        .starts_with("JTI=")
    );
    let failed = json!({ "user": {}, "error": "invalid bearer token" });
    assert_eq!(ask(json!({ "token": token }))["status"], failed);
    assert_eq!(ask(json!({ "token": "nonsense" }))["status"], failed);
    assert_eq!(ask(json!({}))["code"], 400);
}

#[test]
fn access_reviews_answer_for_others_and_for_oneself() {
    let (auth, objects) = cluster(vec![]);
    let ask = |name: &str, namespace: &str, spec| review(&auth, &objects, name, namespace, spec);
    let told = ask(
        "SubjectAccessReview",
        "",
        json!({ "user": "x", "groups": ["system:masters"],
        "resourceAttributes": { "verb": "list", "resource": "nodes" } }),
    );
    assert_eq!(told["status"], json!({ "allowed": true }));
    let told = ask(
        "SubjectAccessReview",
        "",
        json!({
        "user": "system:serviceaccount:kube-system:node-controller",
        "resourceAttributes": { "verb": "patch", "resource": "nodes", "subresource": "status" } }),
    );
    assert_eq!(
        told["status"],
        json!({ "allowed": true, "reason":
        "RBAC: allowed by ClusterRoleBinding \"system:controller:node-controller\" of ClusterRole \
         \"system:controller:node-controller\" to ServiceAccount \"node-controller/kube-system\"" })
    );
    let told = ask(
        "SubjectAccessReview",
        "",
        json!({ "user": "x",
        "nonResourceAttributes": { "verb": "get", "path": "/metrics" } }),
    );
    assert_eq!(told["status"], json!({ "allowed": false }));
    assert_eq!(told["spec"]["nonResourceAttributes"]["path"], "/metrics");
    let told = ask(
        "SelfSubjectAccessReview",
        "",
        json!({
        "nonResourceAttributes": { "verb": "get", "path": "/api" } }),
    );
    assert_eq!(told["status"]["allowed"], true);
    let local = |namespace: &str| {
        json!({ "user": "x", "resourceAttributes":
        { "verb": "get", "resource": "pods", "namespace": namespace } })
    };
    let told = ask("LocalSubjectAccessReview", "dev", local("dev"));
    assert_eq!(told["status"]["allowed"], false);
    assert_eq!(told["metadata"]["namespace"], "dev");
    assert_eq!(
        ask("LocalSubjectAccessReview", "dev", local("prod"))["code"],
        400
    );
    assert_eq!(
        ask("SubjectAccessReview", "", json!({ "user": "x" }))["code"],
        422
    );
    let nobody = json!({ "nonResourceAttributes": { "verb": "get", "path": "/" } });
    assert_eq!(ask("SubjectAccessReview", "", nobody)["code"], 422);
}

#[test]
fn one_can_ask_who_one_is_and_what_one_may() {
    let (auth, objects) = cluster(vec![]);
    let told = review(&auth, &objects, "SelfSubjectReview", "", json!(null));
    assert_eq!(
        told,
        json!({ "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
            "metadata": { "creationTimestamp": "2026-10-01T12:00:00Z" },
            "status": { "userInfo": { "username": "ann", "groups": [AUTHENTICATED] } } })
    );
    let told = review(
        &auth,
        &objects,
        "SelfSubjectRulesReview",
        "",
        json!({ "namespace": "x" }),
    );
    let status = &told["status"];
    assert_eq!(status["incomplete"], false);
    let rules = status["resourceRules"].as_array().unwrap();
    assert!(
        rules.contains(&json!({ "apiGroups": ["authentication.k8s.io"],
        "resources": ["selfsubjectreviews"], "verbs": ["create"] })),
        "{status:#}"
    );
    assert_eq!(status["nonResourceRules"].as_array().unwrap().len(), 2);
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
