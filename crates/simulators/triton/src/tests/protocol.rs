//! Headers, versions, signatures and refusals.

use super::*;

#[tokio::test(start_paused = true)]
async fn ping_needs_no_signature_and_names_the_data_center() {
    let it = Harness::new();
    let reply = it.raw("GET", "/--ping", "", &[]).await;
    assert_eq!(reply.json()["cloudapi"]["versions"][5], "9.0.0");
    assert_eq!(reply.headers["triton-datacenter-name"], "eg-1");
    assert_eq!(reply.headers["api-version"], "9.0.0");
    it.cloud
        .set_quirks(|quirks| quirks.no_datacenter_header = true);
    let reply = it.raw("GET", "/--ping", "", &[]).await;
    assert!(!reply.headers.contains_key("triton-datacenter-name"));
    assert_eq!(
        it.get("/acme/datacenters").await,
        json!({ "eg-1": "http://sim.example:1234" })
    );
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_the_letterhead_but_early_refusals_do_not() {
    let it = Harness::new();
    let reply = it.call("GET", "/my", Value::Null).await;
    assert_eq!(reply.json()["login"], "acme");
    for name in [
        "date",
        "server",
        "api-version",
        "request-id",
        "response-time",
        "content-md5",
    ] {
        assert!(reply.headers.contains_key(name), "{name}");
    }
    it.cloud.set_skew(600);
    let reply = it.call("GET", "/acme", Value::Null).await;
    let problem = "Authorization header invalid: clock skew of 600s was greater than 300s";
    refused(&reply, 400, "InvalidHeader", problem);
    for name in ["server", "api-version", "request-id", "content-md5"] {
        assert!(!reply.headers.contains_key(name), "{name}");
    }
    let reported = super::super::signature::date(reply.headers["date"].to_str().unwrap()).unwrap();
    assert_eq!(reported.as_second() - it.world.clock.now().as_second(), 600);
}

#[tokio::test(start_paused = true)]
async fn versions_paths_and_methods_are_checked_before_signatures() {
    let it = Harness::new();
    let old = [("accept-version", "~6")];
    let reply = it.raw("GET", "/acme", "", &old).await;
    refused(
        &reply,
        400,
        "InvalidVersion",
        "~6 is not supported by GET /acme",
    );
    let reply = it.raw("GET", "/acme/nonsense", "", &[]).await;
    refused(
        &reply,
        404,
        "ResourceNotFound",
        "/acme/nonsense does not exist",
    );
    let reply = it.raw("PATCH", "/acme/machines", "", &[]).await;
    refused(&reply, 405, "MethodNotAllowedError", "");
    let alias = [("x-api-version", "~7.2")];
    let reply = it.raw("GET", "/acme", "", &alias).await;
    refused(
        &reply,
        401,
        "InvalidCredentials",
        "You must make authenticated requests",
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_cannot_prove_who_they_are_is_refused() {
    let mut it = Harness::with("accounts: [{login: acme, keys: [KEY]}, {login: other}]");
    assert_eq!(it.status("GET", "/acme").await, 200);
    let reply = it.call("GET", "/nobody", Value::Null).await;
    refused(&reply, 404, "ResourceNotFound", "nobody does not exist");
    let reply = it.call("GET", "/other", Value::Null).await;
    refused(&reply, 403, "NotAuthorized", "");
    for key in [
        "/acme/keys/98:e2:6b:ef:14:fb:ad:9d:7f:e6:cf:58:78:4f:d8:d5",
        "/my/keys/test",
        "/nobody/keys/test",
        "/acme/users/bob/keys/test",
        "nonsense",
    ] {
        key.clone_into(&mut it.key);
        let reply = it.call("GET", "/acme", Value::Null).await;
        refused(
            &reply,
            401,
            "InvalidCredentials",
            "Invalid authorization credentials supplied",
        );
    }
    "/acme/keys/test".clone_into(&mut it.key);
    assert_eq!(it.status("GET", "/acme").await, 200, "a key may be named");
    let date = write_date(it.world.clock.now());
    let header = sign(&seed(), &it.key, "GET", "/acme", &date);
    let headers = [("date", date.as_str()), ("authorization", header.as_str())];
    let reply = it.raw("GET", "/acme/machines", "", &headers).await;
    refused(
        &reply,
        401,
        "InvalidCredentials",
        "Invalid authorization credentials supplied",
    );
}

#[tokio::test(start_paused = true)]
async fn bodies_are_limited_and_may_be_forms_and_their_digests_are_checked() {
    let it = Harness::new();
    let big = json!({ "email": "x".repeat(100_000) });
    refused(
        &it.call("POST", "/acme", big).await,
        413,
        "PayloadTooLargeError",
        "",
    );
    let date = write_date(it.world.clock.now());
    let header = sign(&seed(), &it.key, "POST", "/acme", &date);
    let send = async |kind: &str, body: &str, digest: Option<&str>| {
        let mut headers = vec![("date", date.as_str()), ("authorization", header.as_str())];
        headers.push(("content-type", kind));
        headers.extend(digest.map(|digest| ("content-md5", digest)));
        it.raw("POST", "/acme", body, &headers).await
    };
    let form = "application/x-www-form-urlencoded";
    shows!(send(form, "email=a%40b.c", None).await.json(), {"email": "a@b.c"});
    let ignored = send("text/plain", r#"{"email":"d@e.f"}"#, None).await;
    assert_eq!(
        (ignored.status, &ignored.json()["email"]),
        (200, &json!("a@b.c"))
    );
    let bad = send("application/json", "{", None).await;
    refused(&bad, 400, "InvalidContent", "Invalid JSON");
    let bad = send("application/json", "{}", Some("nonsense")).await;
    refused(&bad, 400, "BadDigest", "");
    let good = send("application/json", "{}", Some("mZFLkyvTelC5g8XnyQrpOw==")).await;
    assert_eq!(good.status, 200);
}

#[tokio::test(start_paused = true)]
async fn calls_are_throttled_by_group() {
    let it = Harness::new();
    it.cloud.set_throttle(Some(Throttle::default()));
    for _ in 0..30 {
        assert_eq!(it.status("GET", "/acme/machines").await, 200);
    }
    let reply = it
        .call(
            "GET",
            &format!("/acme/machines/{MACHINE}/tags"),
            Value::Null,
        )
        .await;
    assert_eq!(reply.status, 429);
    assert_eq!(
        reply.text(),
        r#"{"code":"TooManyRequestsError","message":"You have exceeded your request rate of 10 r/s."}"#
    );
    assert!(!reply.headers.contains_key("retry-after"));
    assert_eq!(it.status("GET", "/acme/networks").await, 200);
    seconds(1).await;
    assert_eq!(it.status("GET", "/acme/machines").await, 200);
}

#[tokio::test(start_paused = true)]
async fn maintenance_refuses_writes_and_tells_its_end_if_it_has_one() {
    let it = Harness::new();
    it.cloud.begin_maintenance(None);
    assert_eq!(it.status("GET", "/acme/machines").await, 200);
    let reply = it.call("POST", "/acme", json!({})).await;
    refused(&reply, 503, "ServiceUnavailableError", "");
    assert!(!reply.headers.contains_key("retry-after"));
    it.cloud.begin_maintenance(Some(it.world.clock.now()));
    let reply = it.call("POST", "/acme", json!({})).await;
    assert_eq!(reply.headers["retry-after"], reply.headers["date"]);
    it.cloud.end_maintenance();
    assert_eq!(it.call("POST", "/acme", json!({})).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn keys_come_and_go() {
    let it = Harness::new();
    let key = include_str!("rsa.pub").trim();
    let reply = it
        .call("POST", "/acme/keys", json!({ "name": "new", "key": key }))
        .await;
    assert_eq!(
        (reply.status, &reply.headers["location"]),
        (201, &"/acme/keys/new".parse().unwrap())
    );
    let md5 = "98:e2:6b:ef:14:fb:ad:9d:7f:e6:cf:58:78:4f:d8:d5";
    assert_eq!(it.get(&format!("/acme/keys/{md5}")).await["name"], "new");
    assert_eq!(it.get("/acme/keys").await.as_array().unwrap().len(), 3);
    let reply = it
        .call("POST", "/acme/keys", json!({ "name": "other", "key": key }))
        .await;
    refused(&reply, 409, "InvalidArgument", "already exists");
    let reply = it
        .call("POST", "/acme/keys", json!({ "name": "other", "key": "x" }))
        .await;
    refused(&reply, 409, "InvalidArgument", "");
    assert_eq!(it.status("DELETE", &format!("/acme/keys/{md5}")).await, 204);
    assert_eq!(it.status("GET", "/acme/keys/new").await, 404);
}

#[tokio::test(start_paused = true)]
async fn a_sub_user_may_do_what_its_roles_allow_on_what_is_tagged() {
    let fixture = "
accounts:
  - login: acme
    users: [{login: bob, keys: [KEY]}]
    roles:
      - {name: reader, members: [bob], default_members: [bob], policies: [read]}
      - {name: ops, members: [bob], policies: [write]}
    policies:
      read: ['CAN getaccount, listmachines and getmachine']
      write: ['CAN stopmachine']
    role_tags: {machines: [reader], '': [reader]}
machines: [{name: a, id: 5b1e2d3c-0000-4000-8000-000000000001, role_tags: [reader, ops]}]
";
    let mut it = Harness::with(fixture);
    it.key = format!("/acme/users/bob/keys/{MD5}");
    assert_eq!(it.status("GET", "/acme/machines").await, 200);
    assert_eq!(
        it.status("GET", "/whatever/machines").await,
        200,
        "the account of the path is ignored"
    );
    assert_eq!(
        it.status("GET", &format!("/acme/machines/{MACHINE}")).await,
        200
    );
    let reply = it.call("GET", "/acme/networks", Value::Null).await;
    refused(&reply, 403, "NotAuthorized", "listnetworks");
    let stop = format!("/acme/machines/{MACHINE}?action=stop");
    assert_eq!(it.status("POST", &stop).await, 403);
    assert_eq!(it.status("POST", &format!("{stop}&as-role=ops")).await, 202);
    assert_eq!(
        it.status("POST", &format!("{stop}&as-role=admin")).await,
        409
    );
    it.key = format!("/acme/keys/{MD5}");
    it.cloud
        .set_timings(|timings| timings.rights = Duration::from_secs(5));
    let reply = it.call("DELETE", "/acme/roles/reader", Value::Null).await;
    assert_eq!(reply.status, 204);
    it.key = format!("/acme/users/bob/keys/{MD5}");
    assert_eq!(
        it.status("GET", "/acme/machines").await,
        200,
        "the change is late"
    );
    seconds(5).await;
    assert_eq!(it.status("GET", "/acme/machines").await, 403);
}
