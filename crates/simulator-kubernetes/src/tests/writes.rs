use super::*;

#[tokio::test]
async fn an_object_is_created_read_changed_and_deleted() {
    let api = api();
    let created = post(
        &api,
        MAPS,
        &json!({"metadata": {"name": "a"}, "data": {"k": "v"}}),
    )
    .await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(created.headers["content-type"], "application/json");
    assert_eq!(created.headers["cache-control"], "no-cache, private");
    let metadata = &created.body["metadata"];
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert_eq!(metadata["creationTimestamp"], "2026-10-26T07:33:20Z");
    assert_eq!(created.body["kind"], "ConfigMap");

    let uri = format!("{MAPS}/a");
    let read = get(&api, &uri).await;
    assert_eq!((read.code, &read.body), (200, &created.body));

    let mut changed = read.body.clone();
    changed["data"]["k"] = "w".into();
    let updated = put(&api, &uri, &changed).await;
    assert_eq!(updated.code, 200);
    assert_ne!(updated.version(), created.version());

    let stale = put(&api, &uri, &changed).await;
    assert_eq!((stale.code, stale.reason()), (409, "Conflict"));
    assert_eq!(
        stale.message(),
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the latest version and try again"
    );

    let gone = delete(&api, &uri).await;
    assert_eq!(gone.code, 200);
    assert_eq!(gone.body["status"], "Success");
    assert_eq!(gone.body["details"]["name"], "a");
    assert_eq!(gone.body["details"]["kind"], "configmaps");
    assert_eq!(gone.body["details"]["uid"], metadata["uid"]);
    let missing = get(&api, &uri).await;
    assert_eq!(
        (missing.code, missing.message()),
        (404, "configmaps \"a\" not found")
    );
}

#[tokio::test]
async fn a_write_that_changes_nothing_makes_no_new_version() {
    let api = api();
    let created = post(&api, NODES, &named("n")).await;
    let uri = format!("{NODES}/n");
    let same = put(&api, &uri, &created.body).await;
    assert_eq!((same.code, same.version()), (200, created.version()));
    let same = patch(&api, &uri, "merge-patch+json", &json!({})).await;
    assert_eq!((same.code, same.version()), (200, created.version()));
}

#[tokio::test]
async fn creation_is_refused_in_the_servers_words() {
    let api = api();
    post(&api, NODES, &named("taken")).await;
    let rows = [
        (NODES, named("taken"), 409, "nodes \"taken\" already exists"),
        (
            "/api/v1/namespaces/nowhere/configmaps",
            named("a"),
            404,
            "namespaces \"nowhere\" not found",
        ),
        (
            MAPS,
            json!({"metadata": {"name": "a", "namespace": "other"}}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            MAPS,
            json!({"metadata": {"name": "a", "resourceVersion": "3"}}),
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            NODES,
            json!({"metadata": {}}),
            422,
            "Node \"\" is invalid: metadata.name: Required value: name or generateName is required",
        ),
        (
            NODES,
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}),
            400,
            "Pod in version \"v1\" cannot be handled as a Node: converting (v1.Pod) to (core.Node): unknown conversion",
        ),
        (
            NODES,
            json!({"kind": "Node", "apiVersion": "v9", "metadata": {"name": "a"}}),
            400,
            "Node in version \"v9\" cannot be handled as a Node: no kind \"Node\" is registered for version \"v9\" in scheme \"pkg/runtime/scheme.go:111\"",
        ),
    ];
    for (uri, body, code, message) in rows {
        let got = post(&api, uri, &body).await;
        assert_eq!((got.code, got.message()), (code, message), "{body}");
        assert_eq!(got.body["kind"], "Status");
        assert_eq!(got.body["code"], code);
    }
    let bad = post(&api, NODES, &named("Bad_Name")).await;
    assert_eq!((bad.code, bad.reason()), (422, "Invalid"));
    assert_eq!(bad.body["details"]["causes"][0]["field"], "metadata.name");
    assert_eq!(
        bad.body["details"]["causes"][0]["reason"],
        "FieldValueInvalid"
    );
}

#[tokio::test]
async fn bodies_and_methods_are_checked() {
    let api = api();
    post(&api, NODES, &named("n")).await;
    let uri = format!("{NODES}/n");
    let rows: [(&str, &str, &str, &str, u16, &str); 9] = [
        (
            "POST",
            NODES,
            "application/json",
            "not json",
            400,
            "the object provided is unrecognized (must be of type Node): couldn't get version/kind; json parse error:",
        ),
        (
            "POST",
            NODES,
            "text/plain",
            "{}",
            415,
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        ),
        (
            "POST",
            NODES,
            "application/vnd.kubernetes.protobuf",
            "k8s",
            400,
            "the object provided is unrecognized (must be of type Node): provided data does not appear to be a protobuf message",
        ),
        (
            "PATCH",
            &uri,
            "application/json",
            "{}",
            415,
            "415: Unsupported Media Type",
        ),
        (
            "PUT",
            NODES,
            "application/json",
            "{}",
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "POST",
            &uri,
            "application/json",
            "{}",
            405,
            "the server does not allow this method on the requested resource",
        ),
        (
            "PUT",
            &uri,
            "application/json",
            "{\"metadata\":{\"name\":\"m\"}}",
            400,
            "the name of the object (m) does not match the name on the URL (n)",
        ),
        (
            "GET",
            "/api/v1/unknown",
            "",
            "",
            404,
            "the server could not find the requested resource",
        ),
        (
            "PATCH",
            &uri,
            "application/merge-patch+json",
            "x",
            400,
            "error decoding patch:",
        ),
    ];
    for (method, uri, kind, body, code, message) in rows {
        let got = send(&api, method, uri, kind, Bytes::from(body.to_owned())).await;
        assert_eq!(got.code, code, "{method} {uri}: {}", got.body);
        assert!(got.message().starts_with(message), "{}", got.message());
    }
    let summary = send(&api, "POST", NODES, "application/json", "not json".into()).await;
    assert!(summary.message().ends_with("(6e6f74206a736f6e)"));
    let page = get(&api, "/apis/apps/v1/deployments").await;
    assert_eq!((page.code, page.body), (404, json!("404 page not found\n")));
}

#[tokio::test]
async fn yaml_is_read_and_written() {
    let api = api();
    let body = Bytes::from_static(b"metadata:\n  name: y\ndata:\n  a: b\n");
    let got = send(&api, "POST", MAPS, "application/yaml", body).await;
    assert_eq!((got.code, &got.body["data"]), (201, &json!({"a": "b"})));
    let request = request("GET", &format!("{MAPS}/y"))
        .header("accept", "application/yaml")
        .body(Bytes::new())
        .unwrap();
    let response = api.answer(request, &Peer::default()).await.response;
    assert_eq!(response.headers()["content-type"], "application/yaml");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&bytes).contains("kind: ConfigMap"));
}

#[tokio::test]
async fn protobuf_is_read() {
    let api = api();
    let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\x03\x0a\x01p";
    let kind = "application/vnd.kubernetes.protobuf";
    let got = send(&api, "POST", MAPS, kind, Bytes::from_static(body)).await;
    assert_eq!(got.code, 201, "{}", got.body);
    assert_eq!(got.body["metadata"]["name"], "p");
    let wrong = send(&api, "POST", NODES, kind, Bytes::from_static(body)).await;
    assert_eq!(wrong.code, 400, "a ConfigMap is no Node");
}

#[tokio::test]
async fn generated_names_follow_the_seed() {
    let body = json!({"metadata": {"generateName": "web-"}});
    let mut seen = Vec::new();
    for _ in 0..2 {
        let api = api();
        let got = post(&api, MAPS, &body).await;
        let name = got.body["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        seen.push((name, got.body["metadata"]["uid"].clone()));
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn four_kinds_of_patches_are_applied() {
    let api = api();
    post(
        &api,
        MAPS,
        &json!({"metadata": {"name": "a"}, "data": {"k": "v", "l": "w"}}),
    )
    .await;
    let uri = format!("{MAPS}/a");
    let merged = patch(
        &api,
        &uri,
        "merge-patch+json",
        &json!({"data": {"k": null, "m": "x"}}),
    )
    .await;
    assert_eq!(merged.body["data"], json!({"l": "w", "m": "x"}));
    let operations = json!([{"op": "replace", "path": "/data/l", "value": "1"}]);
    let patched = patch(&api, &uri, "json-patch+json", &operations).await;
    assert_eq!(patched.body["data"]["l"], "1");
    let strategic = patch(
        &api,
        &uri,
        "strategic-merge-patch+json",
        &json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .await;
    assert_eq!(strategic.body["metadata"]["labels"]["a"], "b");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"n": "2"}});
    let applied = patch(
        &api,
        &format!("{uri}?fieldManager=test"),
        "apply-patch+yaml",
        &config,
    )
    .await;
    assert_eq!(
        (applied.code, &applied.body["data"]["n"]),
        (200, &json!("2"))
    );
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
    let created = patch(
        &api,
        &format!("{MAPS}/new?fieldManager=test"),
        "apply-patch+yaml",
        &config,
    )
    .await;
    assert_eq!(created.code, 201);
}

#[tokio::test]
async fn bad_patches_are_refused() {
    let api = api();
    post(&api, NODES, &named("n")).await;
    let uri = format!("{NODES}/n");
    let rows = [
        (
            "apply-patch+yaml",
            "",
            json!({}),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
        ),
        (
            "merge-patch+json",
            "?force=true",
            json!({}),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
        ),
        (
            "json-patch+json",
            "",
            json!([{"op": "test", "path": "/metadata/name", "value": "x"}]),
            422,
            "the server rejected our request due to an error in our request",
        ),
        (
            "merge-patch+json",
            "",
            json!({"metadata": {"resourceVersion": "1"}}),
            409,
            "Operation cannot be fulfilled on nodes \"n\": the object has been modified; please apply your changes to the latest version and try again",
        ),
        (
            "merge-patch+json",
            "",
            json!({"metadata": {"uid": "x"}}),
            422,
            "Node \"n\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable",
        ),
        (
            "merge-patch+json",
            "?dryRun=Some",
            json!({}),
            422,
            "PatchOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
        ),
    ];
    for (style, query, body, code, message) in rows {
        let got = patch(&api, &format!("{uri}{query}"), style, &body).await;
        assert_eq!((got.code, got.message()), (code, message), "{body}");
    }
    let missing = patch(&api, &format!("{NODES}/x"), "merge-patch+json", &json!({})).await;
    assert_eq!(missing.code, 404);
}

#[tokio::test]
async fn a_dry_run_answers_and_writes_nothing() {
    let api = api();
    let before = api.store().revision();
    let dry = post(&api, &format!("{NODES}?dryRun=All"), &named("n")).await;
    assert_eq!((dry.code, dry.version()), (201, ""));
    assert_eq!(api.store().revision(), before);
    post(&api, NODES, &named("n")).await;
    let uri = format!("{NODES}/n?dryRun=All");
    let patched = patch(
        &api,
        &uri,
        "merge-patch+json",
        &json!({"spec": {"unschedulable": true}}),
    )
    .await;
    assert_eq!(patched.body["spec"]["unschedulable"], true);
    assert_eq!(delete(&api, &uri).await.code, 200);
    let kept = get(&api, &format!("{NODES}/n")).await;
    assert_eq!(
        (kept.code, &kept.body["spec"]["unschedulable"]),
        (200, &Value::Null)
    );
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_removed() {
    let api = api();
    post(
        &api,
        MAPS,
        &json!({"metadata": {"name": "a", "finalizers": ["x.io/one", "x.io/two"]}}),
    )
    .await;
    let uri = format!("{MAPS}/a");
    let waiting = delete(&api, &uri).await;
    assert_eq!(waiting.code, 200);
    assert_eq!(
        waiting.body["metadata"]["deletionTimestamp"],
        "2026-10-26T07:33:20Z"
    );
    assert_eq!(waiting.body["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = delete(&api, &uri).await;
    assert_eq!(again.version(), waiting.version());

    let more = json!({"metadata": {"finalizers": ["x.io/one", "x.io/two", "x.io/new"]}});
    let refused = patch(&api, &uri, "merge-patch+json", &more).await;
    assert_eq!(refused.code, 422);
    assert!(
        refused
            .message()
            .contains("no new finalizers can be added if the object is being deleted")
    );

    let one = json!({"metadata": {"finalizers": ["x.io/two"]}});
    assert_eq!(patch(&api, &uri, "merge-patch+json", &one).await.code, 200);
    assert_eq!(get(&api, &uri).await.code, 200);
    let none = json!({"metadata": {"finalizers": null}});
    assert_eq!(patch(&api, &uri, "merge-patch+json", &none).await.code, 200);
    assert_eq!(get(&api, &uri).await.code, 404);
}

#[tokio::test]
async fn deletion_has_preconditions() {
    let api = api();
    let created = post(&api, NODES, &named("n")).await;
    let uid = created.body["metadata"]["uid"].as_str().unwrap();
    let uri = format!("{NODES}/n");
    let options = |field: &str, value: &str| {
        Bytes::from(json!({"preconditions": {field: value}}).to_string())
    };
    let wrong = send(
        &api,
        "DELETE",
        &uri,
        "application/json",
        options("uid", "other"),
    )
    .await;
    assert_eq!(
        (wrong.code, wrong.message().to_owned()),
        (
            409,
            format!(
                "Operation cannot be fulfilled on Node \"n\": the UID in the precondition (other) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
            )
        )
    );
    let wrong = send(
        &api,
        "DELETE",
        &uri,
        "application/json",
        options("resourceVersion", "1"),
    )
    .await;
    assert_eq!(wrong.code, 409);
    let right = send(
        &api,
        "DELETE",
        &uri,
        "application/json",
        options("uid", uid),
    )
    .await;
    assert_eq!(right.code, 200);
    let bad = delete(&api, &format!("{uri}?propagationPolicy=Never")).await;
    assert_eq!((bad.code, bad.reason()), (422, "Invalid"));
}

#[tokio::test]
async fn the_uid_in_an_update_is_a_precondition() {
    let api = api();
    let created = post(&api, NODES, &named("n")).await;
    let uid = created.body["metadata"]["uid"].as_str().unwrap();
    let got = put(
        &api,
        &format!("{NODES}/n"),
        &json!({"metadata": {"name": "n", "uid": "other"}}),
    )
    .await;
    assert_eq!(got.code, 409);
    assert_eq!(
        got.message(),
        format!(
            "Operation cannot be fulfilled on nodes \"n\": StorageError: invalid object, Code: 4, Key: /registry/minions/n, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: {uid}"
        )
    );
}

#[tokio::test]
async fn leases_are_created_by_update_and_need_a_version_after_that() {
    let api = api();
    let uri = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    assert_eq!(put(&api, uri, &lease).await.code, 201);
    let refused = put(&api, uri, &lease).await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.message(),
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    let node = put(&api, &format!("{NODES}/n"), &named("n")).await;
    assert_eq!(node.code, 404, "nodes are not");
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let api = api();
    for (name, label) in [("a", "x"), ("b", "y"), ("c", "x")] {
        post(
            &api,
            MAPS,
            &json!({"metadata": {"name": name, "labels": {"l": label}}}),
        )
        .await;
    }
    let got = delete(&api, &format!("{MAPS}?labelSelector=l%3Dx")).await;
    assert_eq!(
        (got.code, &got.body["kind"]),
        (200, &json!("ConfigMapList"))
    );
    assert_eq!(got.body["items"].as_array().unwrap().len(), 2);
    let left = get(&api, MAPS).await;
    assert_eq!(left.body["items"][0]["metadata"]["name"], "b");
    assert_eq!(left.body["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn the_control_handle_puts_deletes_and_explains() {
    let api = api();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let stored = api.control("put", &node).unwrap();
    assert_eq!(stored["metadata"]["name"], "n");
    assert_eq!(api.state()["objects"]["nodes"]["n"]["kind"], "Node");
    assert_eq!(
        api.control("delete", &node).unwrap(),
        json!({"found": true})
    );
    assert!(
        api.control("jump", &Value::Null)
            .unwrap_err()
            .contains("break-watches")
    );
    assert!(api.control("put", &json!({"kind": "Node"})).is_err());
}

#[tokio::test]
async fn health_and_version_are_told() {
    let api = api();
    for path in ["/healthz", "/livez", "/readyz", "/livez/ping"] {
        let got = get(&api, path).await;
        assert_eq!((got.code, got.body), (200, json!("ok")), "{path}");
    }
    let verbose = get(&api, "/readyz?verbose").await;
    assert_eq!(
        verbose.body,
        json!("[+]ping ok\n[+]log ok\n[+]etcd ok\nreadyz check passed\n")
    );
    assert_eq!(get(&api, "/version").await.body["minor"], "36");
    assert_eq!(get(&api, "/nowhere").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn events_go_an_hour_after_their_last_write() {
    let api = api();
    let events = "/api/v1/namespaces/default/events";
    for name in ["old", "renewed"] {
        post(&api, events, &named(name)).await;
    }
    tokio::time::advance(std::time::Duration::from_secs(1800)).await;
    let change = json!({ "count": 2 });
    patch(
        &api,
        &format!("{events}/renewed"),
        "merge-patch+json",
        &change,
    )
    .await;
    tokio::time::advance(std::time::Duration::from_secs(1801)).await;
    post(&api, NODES, &named("n")).await;
    assert_eq!(get(&api, &format!("{events}/old")).await.code, 404);
    assert_eq!(get(&api, &format!("{events}/renewed")).await.code, 200);
}

#[tokio::test]
async fn every_use_of_endpoints_is_warned_about() {
    let api = api();
    let got = get(&api, "/api/v1/namespaces/default/endpoints").await;
    assert_eq!(
        got.headers["warning"],
        "299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""
    );
}
