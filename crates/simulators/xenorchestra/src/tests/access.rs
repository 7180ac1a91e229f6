//! Who may do what: tokens, passwords, rights, releases.

use base64::Engine as _;

use super::*;

const TOKENS: &str = "/rest/v0/users/me/authentication_tokens";

fn basic(pair: &str) -> String {
    format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(pair)
    )
}

/// The list of VMs, with that header of authorization.
async fn vms_as(sim: &Harness, header: &str) -> Reply {
    let headers = [("authorization", header)];
    sim.raw("GET", "/rest/v0/vms", "", &headers).await
}

async fn status_with(sim: &Harness, token: &str) -> u16 {
    let reply = sim.call_with(token, "GET", "/vms", Value::Null);
    reply.await.status
}

type Row<'a> = (&'a [(&'a str, &'a str)], u16);

fn unknown() -> Value {
    json!({ "error": "invalid credentials" })
}

#[tokio::test(start_paused = true)]
async fn a_caller_is_known_by_exactly_one_thing() {
    let sim = Harness::new();
    let good = basic("admin@admin.net:admin");
    let cookie = format!("authenticationToken={DEFAULT_TOKEN}");
    let second = format!("other=1; token={DEFAULT_TOKEN}");
    let first = format!("token=bad; authenticationToken={DEFAULT_TOKEN}");
    let rows: [Row<'_>; 8] = [
        (&[], 401),
        (&[("cookie", &cookie)], 200),
        (&[("cookie", &second)], 200),
        (&[("cookie", &first)], 200),
        (&[("cookie", "authenticationToken=bad")], 401),
        (&[("authorization", &good)], 200),
        (&[("authorization", "Bearer x")], 401),
        (&[("authorization", "Basic"), ("x-other", "1")], 400),
    ];
    for (headers, wanted) in rows {
        let reply = sim.raw("GET", "/rest/v0/vms", "", headers).await;
        assert_eq!(reply.status, wanted, "{headers:?}: {}", reply.text());
        if wanted == 401 {
            assert_answer(&reply, 401, &unknown());
            assert_eq!(reply.headers["www-authenticate"], "Basic realm=\"xo\"");
        }
    }
    let reply = vms_as(&sim, "Basic").await;
    answers!(reply, 400, { "error": "Malformed Authorization header" });
    let both = [
        ("authorization", good.as_str()),
        ("cookie", cookie.as_str()),
    ];
    let reply = sim.raw("GET", "/rest/v0/vms", "", &both).await;
    let text = "Having multiple authentication methods is not supported, please choose one";
    answers!(reply, 400, { "error": text });
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_closes_the_door_for_two_seconds() {
    let sim = Harness::new();
    let wrong = basic("admin@admin.net:wrong");
    let right = basic("admin@admin.net:admin");
    let reply = vms_as(&sim, &wrong).await;
    assert_answer(&reply, 401, &unknown());
    for _ in 0..2 {
        let reply = vms_as(&sim, &right).await;
        answers!(reply, 500, { "error": "too fast authentication tries" });
        tokio::time::sleep(Duration::from_millis(900)).await;
    }
    pass(1).await;
    let reply = vms_as(&sim, &right).await;
    assert_eq!(reply.status, 200);
    let empty = basic("admin@admin.net:");
    let reply = vms_as(&sim, &empty).await;
    answers!(reply, 500, { "error": "empty password" });
}

#[tokio::test(start_paused = true)]
async fn a_password_with_a_colon_never_works() {
    let sim = Harness::new();
    sim.orchestra
        .set_user("svc-k8s@corp.lan", User::admin("s3cret:x"));
    let header = basic("svc-k8s@corp.lan:s3cret:x");
    let reply = vms_as(&sim, &header).await;
    assert_answer(&reply, 401, &unknown());
}

#[tokio::test(start_paused = true)]
async fn a_second_factor_is_asked_for() {
    let sim = Harness::new();
    let user = User {
        otp: Some("123456".to_owned()),
        ..User::admin("pass")
    };
    sim.orchestra.set_user("careful", user);
    let header = basic("careful:pass");
    let reply = vms_as(&sim, &header).await;
    assert_eq!(reply.status, 401);
    pass(2).await;
    let target = "/rest/v0/vms?otp=123456";
    let reply = sim
        .raw("GET", target, "", &[("authorization", &header)])
        .await;
    assert_eq!(reply.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_token_is_made_through_a_redirect_and_prolonged_by_its_client() {
    let sim = Harness::new();
    let header = basic("admin@admin.net:admin");
    let sent = [("authorization", header.as_str())];
    let body = json!({ "client": { "id": "bowline-c1552cb29880" }, "description": "d", "expiresIn": "30 days" });
    let body = body.to_string();
    let reply = sim
        .raw("POST", &format!("{TOKENS}?a=b"), &body, &sent)
        .await;
    assert_eq!(reply.status, 307);
    let place = reply.headers["location"].to_str().unwrap().to_owned();
    assert!(
        place.starts_with("/rest/v0/users/") && place.ends_with("/authentication_tokens?a=b"),
        "{place}"
    );
    let reply = sim.raw("POST", &place, &body, &sent).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let token = reply.json()["token"].clone();
    let id = token["id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 43);
    let life = token["expiration"].as_i64().unwrap() - token["created_at"].as_i64().unwrap();
    assert_eq!(life, 30 * 86_400_000);
    assert_eq!(token["client"]["id"], "bowline-c1552cb29880");
    assert_eq!(status_with(&sim, &id).await, 200);
    pass(3_600).await;
    let again = sim.raw("POST", &place, &body, &sent).await.json();
    assert_eq!(again["token"]["id"], id);
    assert!(again["token"]["expiration"].as_i64() > token["expiration"].as_i64());
    let own = sim
        .call_with(
            &id,
            "GET",
            place.trim_start_matches("/rest/v0"),
            Value::Null,
        )
        .await;
    assert_eq!(own.json().as_array().unwrap().len(), 2, "{}", own.text());
    pass(31 * 86_400).await;
    assert_eq!(status_with(&sim, &id).await, 401);
}

#[tokio::test(start_paused = true)]
async fn the_life_of_a_token_has_limits() {
    let sim = Harness::new();
    let user = sim.get("/users?fields=id").await[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/users/{user}/authentication_tokens");
    for (life, text) in [
        (json!("10 s"), "invalid expiresIn duration: 10 s"),
        (json!("soon"), "invalid expiresIn duration: soon"),
        (json!(5), "invalid expiresIn duration: 5"),
        (json!("1 year"), "too high expiresIn duration: 1 year"),
    ] {
        let reply = sim.call("POST", &path, json!({ "expiresIn": life })).await;
        answers!(reply, 500, { "error": text });
    }
    let other = format!("/users/{UNKNOWN}/authentication_tokens");
    let reply = sim.call("POST", &other, json!({})).await;
    assert_eq!(
        (reply.status, &reply.json()["error"]),
        (
            403,
            &json!("forbidden operation: create authentication token")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn an_old_server_takes_passwords_in_one_place_only() {
    let sim = Harness::new();
    sim.orchestra
        .set_quirks(|quirks| quirks.release = Release::Old);
    let header = basic("admin@admin.net:admin");
    let sent = [("authorization", header.as_str())];
    assert_eq!(sim.raw("GET", "/rest/v0/ping", "", &[]).await.status, 401);
    assert_eq!(sim.raw("POST", TOKENS, "{}", &sent).await.status, 401);
    assert_eq!(sim.raw("GET", "/rest/v0/vms", "", &sent).await.status, 401);
    let place = "/rest/v0/users/authentication_tokens";
    let reply = sim.raw("POST", place, "{}", &sent).await;
    assert_eq!(reply.status, 200);
    let token = reply.json()["token"]["id"].as_str().unwrap().to_owned();
    assert_eq!(status_with(&sim, &token).await, 200);
    assert_eq!(sim.status("/events").await, 404);
    let reply = sim
        .raw("POST", place, "{\"expiresIn\":\"1s\"}", &sent)
        .await;
    answers!(reply, 400, "invalid expiresIn duration: 1s");
    let wrong = basic("admin@admin.net:x");
    let reply = sim
        .raw("POST", place, "{}", &[("authorization", &wrong)])
        .await;
    answers!(reply, 401, "invalid credentials");
}

#[tokio::test(start_paused = true)]
async fn an_ancient_server_does_not_speak_json_about_errors() {
    let sim = Harness::new();
    sim.orchestra
        .set_quirks(|quirks| quirks.release = Release::Ancient);
    let reply = sim
        .call("GET", &format!("/vms/{UNKNOWN}"), Value::Null)
        .await;
    assert_eq!(reply.status, 404);
    assert!(reply.text().starts_with("<!DOCTYPE html>"));
    let reply = sim.raw("GET", "/rest/v0/vms", "", &[]).await;
    assert_eq!((reply.status, reply.text().as_str()), (401, "Unauthorized"));
}

#[tokio::test(start_paused = true)]
async fn the_deprecated_route_is_for_administrators() {
    let sim = Harness::new();
    let path = "/users/authentication_tokens";
    assert_eq!(sim.call("POST", path, json!({})).await.status, 201);
    sim.orchestra.set_user("reader", User::with("p", &[]));
    sim.orchestra.set_token("reader-token", "reader");
    let reply = sim.call_with("reader-token", "POST", path, json!({})).await;
    answers!(reply, 403, { "error": "not enough permissions", "data": { "object": {} } });
    sim.orchestra
        .set_quirks(|quirks| quirks.no_deprecated_tokens = true);
    assert_eq!(sim.call("POST", path, json!({})).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn rights_decide_what_is_seen() {
    let sim = Harness::new();
    let orchestra = &sim.orchestra;
    orchestra.set_user("reader", User::with("p", &[Privilege::read("vm")]));
    orchestra.set_token("reader-token", "reader");
    let call = async |path: &str| {
        sim.call_with("reader-token", "GET", path, Value::Null)
            .await
    };
    assert_eq!(call("/vms").await.json().as_array().unwrap().len(), 2);
    answers!(call("/pools").await, 200, []);
    answers!(call("/servers").await, 200, []);
    let missing = json!([{ "objectId": H1, "action": "read", "resource": "host" }]);
    let body =
        json!({ "error": "not enough privileges", "data": { "missingPrivileges": missing } });
    answers!(call(&format!("/hosts/{H1}")).await, 403, body);
    assert_eq!(call(&format!("/hosts/{UNKNOWN}")).await.status, 404);
    let start = format!("/vms/{VM1}/actions/hard_shutdown");
    let reply = sim
        .call_with("reader-token", "POST", &start, json!({}))
        .await;
    shows!(reply.json(), {"/data/missingPrivileges/0/action": "shutdown:hard"});
    let only = Privilege {
        objects: Some([VM2.to_owned()].into()),
        ..Privilege::read("vm")
    };
    orchestra.set_user("reader", User::with("p", &[only]));
    answers!(call("/vms").await, 200, [format!("/rest/v0/vms/{VM2}")]);
    assert_eq!(call(&format!("/vms/{VM1}")).await.status, 403);
    orchestra.set_quirks(|quirks| quirks.unlicensed = true);
    for path in ["/vms", "/pools", &format!("/vms/{VM2}")] {
        let reply = call(path).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]),
            (403, &json!("feature Unauthorized")),
            "{path}"
        );
        assert_eq!(reply.json()["data"]["featureCode"], "RBAC");
    }
    assert_eq!(sim.status("/vms").await, 200);
}

#[tokio::test(start_paused = true)]
async fn everybody_may_ask_whether_it_lives() {
    let sim = Harness::new();
    let reply = sim.raw("GET", "/rest/v0/ping", "", &[]).await;
    assert_eq!(
        (reply.status, &reply.json()["result"]),
        (200, &json!("pong"))
    );
    assert!(reply.json()["timestamp"].is_i64());
}

#[tokio::test(start_paused = true)]
async fn everything_else_leads_to_the_sign_in() {
    let sim = Harness::new();
    let body = json!({ "username": "admin@admin.net", "password": "admin" }).to_string();
    let reply = sim.raw("POST", "/auth/login", &body, &[]).await;
    assert_eq!(
        (reply.status, reply.headers["location"].to_str().unwrap()),
        (302, "/signin")
    );
    let reply = sim.raw("GET", "/signin", "", &[]).await;
    assert_eq!(
        (
            reply.status,
            reply.headers["content-type"].to_str().unwrap()
        ),
        (200, "text/html; charset=utf-8")
    );
    sim.orchestra.set_quirks(|quirks| quirks.login_works = true);
    let reply = sim.raw("POST", "/auth/login", &body, &[]).await;
    let cookie = reply.headers["set-cookie"].to_str().unwrap();
    let token = cookie
        .strip_prefix("authenticationToken=")
        .unwrap()
        .split(';')
        .next()
        .unwrap();
    assert_eq!(status_with(&sim, token).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_proxy_in_front_hides_its_path() {
    let sim = Harness::new();
    sim.orchestra
        .set_quirks(|quirks| quirks.path_prefix = Some("/base/".to_owned()));
    assert_eq!(sim.status("/vms").await, 404);
    let cookie = format!("authenticationToken={DEFAULT_TOKEN}");
    let sent = [("cookie", cookie.as_str())];
    let reply = sim.raw("GET", "/base/rest/v0/pools", "", &sent).await;
    assert_eq!(reply.json()[0], format!("/rest/v0/pools/{PA}"));
    let reply = sim.raw("GET", "/base/rest/v0/users/me", "", &sent).await;
    assert!(
        reply.headers["location"]
            .to_str()
            .unwrap()
            .starts_with("/rest/v0/users/")
    );
}

#[tokio::test(start_paused = true)]
async fn plain_requests_can_be_sent_to_tls() {
    let sim = Harness::new();
    sim.orchestra
        .set_quirks(|quirks| quirks.redirect_to_https = Some(8443));
    let reply = sim.call("GET", "/vms?limit=1", Value::Null).await;
    let place = reply.headers["location"].to_str().unwrap();
    assert_eq!(
        (reply.status, place),
        (302, "https://xo.sim:8443/rest/v0/vms?limit=1")
    );
}

#[tokio::test(start_paused = true)]
async fn the_heads_of_requests_are_kept() {
    let sim = Harness::new();
    sim.get("/vms?limit=1").await;
    let heard = sim.orchestra.heard();
    assert_eq!(
        (heard[0].method.as_str(), heard[0].target.as_str()),
        ("GET", "/rest/v0/vms?limit=1")
    );
    let cookie = format!("authenticationToken={DEFAULT_TOKEN}");
    assert_eq!(heard[0].header("cookie"), Some(cookie.as_str()));
    assert_eq!(heard[0].header("authorization"), None);
    assert_eq!(sim.world.journal.entries()[0].operation, "GetVms");
    assert_eq!(sim.world.journal.entries()[0].caller, DEFAULT_USER);
}
