//! Who is who.

use super::*;

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
    assert_eq!(admin.name, "admin");
    assert_eq!(admin.groups, ["system:masters", AUTHENTICATED]);
    let credential = &admin.extra["authentication.kubernetes.io/credential-id"];
    assert!(credential[0].starts_with("X509SHA256="), "{credential:?}");
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
    assert_eq!(
        answer["status"]["expirationTimestamp"],
        "2026-10-01T12:10:00Z"
    );
    let token = text(&answer, "/status/token");
    let user = login(&auth, &objects, token, now()).unwrap();
    assert_eq!(user.name, "system:serviceaccount:kube-system:default");
    let credential = &user.extra["authentication.kubernetes.io/credential-id"];
    assert!(credential[0].starts_with("JTI="), "{credential:?}");
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
fn a_token_of_another_cluster_is_refused() {
    let (auth, objects) = cluster(vec![]);
    let foreign = Auth::new(&Keys::System).unwrap();
    let token = token_for(&foreign, &objects, "default", &json!({}));
    let token = text(&token, "/status/token");
    assert_eq!(login(&auth, &objects, token, now()).unwrap_err().code, 401);
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
fn the_same_seed_gives_the_same_tokens() {
    let make = || {
        let (auth, objects) = cluster(vec![]);
        token_for(&auth, &objects, "default", &json!({}))
    };
    assert_eq!(make(), make());
}

/// Headers, and the refusal's code and message.
type Refused<'a> = (&'a [(&'a str, &'a str)], u16, &'a str);

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
    let rows: [Refused; 4] = [
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
