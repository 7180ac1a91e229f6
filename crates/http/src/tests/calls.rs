//! Calls over pipes with a paused clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, Secret};
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use prometheus_client::registry::Registry;
use serde::Deserialize;
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;

use super::server::{Answer, Server, answer};
use crate::{
    AuthError, Authenticate, BaseUrl, Bearer, CallError, CallMetrics, ClientBuilder, Clock,
    Connector, Cookie, HttpClient, Pipes, Random, Rate, Reply, RetryPolicy, Route, Signing,
};

const START: &str = "2026-08-04T10:20:30Z";

fn builder(pipes: &Pipes) -> ClientBuilder {
    let base = BaseUrl::parse("https://cloud.test/api/").unwrap();
    HttpClient::builder("cloudscale", base, Connector::simulated(pipes.clone()))
        .clock(Clock::simulated(START.parse().unwrap()))
        .random(Random::seeded(1))
        .auth(Bearer(Secret::new("t0ken-t0ken")))
}

fn serve(server: &Server) -> ClientBuilder {
    let pipes = Pipes::default();
    server.listen(&pipes, "cloud.test:443");
    builder(&pipes)
}

fn with_header(mut answer: Answer, name: &'static str, value: &str) -> Answer {
    answer.headers_mut().insert(name, value.parse().unwrap());
    answer
}

fn encoded(registry: &Registry) -> String {
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, registry).unwrap();
    text
}

async fn failure(client: &HttpClient, route: Route) -> CallError {
    client.get(route).send().await.unwrap_err()
}

fn server_route() -> Route {
    Route::new("v1/servers/:id").with("id", "7")
}

#[derive(Debug, Deserialize, PartialEq)]
struct Machine {
    name: String,
}

#[tokio::test(start_paused = true)]
async fn a_call_sends_path_query_headers_and_body_and_reads_json() {
    let server = Server::new(|_| answer(201, r#"{"name": "a", "unknown": [1]}"#));
    let client = serve(&server).build();
    let reply = client
        .post(Route::new("v1/pools/:pool/members").with("pool", "p/1"))
        .query("tag:env", "a b&c")
        .query("tag:c", "")
        .json(&serde_json::json!({"name": "a"}))
        .send()
        .await
        .unwrap();
    assert_eq!(reply.status(), 201);
    let machine: Machine = reply.json().unwrap();
    assert_eq!(machine.name, "a");
    let seen = &server.seen()[0];
    assert_eq!(
        server.lines(),
        ["POST /api/v1/pools/p%2F1/members?tag%3Aenv=a+b%26c&tag%3Ac="]
    );
    assert_eq!(seen.body().as_ref(), br#"{"name":"a"}"#);
    let version = concat!("bowline/", env!("CARGO_PKG_VERSION"));
    for (name, wanted) in [
        ("host", "cloud.test"),
        ("authorization", "Bearer t0ken-t0ken"),
        ("content-type", "application/json"),
        ("accept", "application/json"),
        ("user-agent", version),
    ] {
        assert_eq!(seen.headers()[name], wanted, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn connections_are_reused() {
    let server = Server::new(|_| answer(200, "[]"));
    let pipes = Pipes::default();
    let mut listener = pipes.listen("cloud.test:443");
    let client = builder(&pipes).build();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener.accept().await.unwrap()).await });
    for _ in 0..5 {
        client.get(Route::new("v1/servers")).send().await.unwrap();
    }
    assert_eq!(
        server.seen().len(),
        5,
        "all over the one connection that was accepted"
    );
}

#[tokio::test(start_paused = true)]
async fn reads_are_tried_again_and_the_waits_grow() {
    let server = Server::script(vec![
        answer(500, ""),
        answer(502, "<html>"),
        answer(200, "{}"),
    ]);
    let client = serve(&server).build();
    let start = Instant::now();
    client.get(server_route()).send().await.unwrap();
    assert_eq!(server.seen().len(), 3);
    let waited = start.elapsed();
    let (least, most) = (Duration::from_millis(1500), Duration::from_millis(2260));
    assert!(waited >= least && waited <= most, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn writes_are_tried_again_only_where_nothing_can_have_happened() {
    // (answer, requests for a write, for a repeatable write)
    for (status, write, repeatable) in [(500, 1, 3), (504, 1, 3), (503, 3, 3), (429, 3, 3)] {
        let server = Server::new(move |_| answer(status, ""));
        let client = serve(&server).build();
        client.post(server_route()).send().await.unwrap_err();
        assert_eq!(server.seen().len(), write, "POST {status}");
        client
            .post(server_route())
            .repeatable()
            .send()
            .await
            .unwrap_err();
        assert_eq!(server.seen().len(), write + repeatable, "again {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_cloud_says_will_stay_so_is_not_tried_again() {
    for (body, requests) in [("name service down", 1), ("down", 3)] {
        let server = Server::new(move |_| answer(500, body));
        let client = serve(&server)
            .settled(|status, body| status == 500 && body.starts_with(b"name service"))
            .build();
        let error = failure(&client, server_route()).await;
        assert_eq!(error.status(), Some(500));
        assert_eq!(server.lines().len(), requests, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_is_tried_again_for_every_method() {
    let pipes = Pipes::default();
    let client = builder(&pipes).build();
    let error = client.post(server_route()).send().await.unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    assert_eq!(
        CloudError::from(error).chain(),
        "cloudscale: POST v1/servers/:id (id=7) was not sent: \
         cannot connect to cloud.test:443: connection refused"
    );
    let server = Server::new(|_| answer(204, ""));
    let listening = server.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(700)).await;
        listening.listen(&pipes, "cloud.test:443");
    });
    client.post(server_route()).send().await.unwrap();
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honoured_in_both_forms_and_reported() {
    for value in ["20", "Tue, 04 Aug 2026 10:20:50 GMT"] {
        let busy = with_header(answer(503, ""), "retry-after", value);
        let server = Server::script(vec![busy, answer(204, "")]);
        let client = serve(&server).build();
        let start = Instant::now();
        client.delete(server_route()).send().await.unwrap();
        let waited = start.elapsed();
        let (least, most) = (Duration::from_secs(20), Duration::from_secs(30));
        assert!(waited >= least && waited <= most, "{value}: {waited:?}");
    }
    let busy = with_header(answer(429, ""), "retry-after", "3600");
    let server = Server::script(vec![busy]);
    let start = Instant::now();
    let error = failure(&serve(&server).build(), server_route()).await;
    assert_eq!((server.seen().len(), start.elapsed()), (1, Duration::ZERO));
    assert_eq!(error.kind(), CloudErrorKind::Throttled);
    let hint = CloudError::from(error).retry_hint();
    assert_eq!(hint, Some(Duration::from_secs(3600)));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_costs_the_timeout_per_attempt() {
    let server = Server::slow(|_| Box::pin(std::future::pending()));
    let client = serve(&server)
        .request_timeout(Duration::from_secs(20))
        .build();
    let error = failure(&client, server_route()).await;
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    assert_eq!(server.seen().len(), 3);
    assert_eq!(
        error.to_string(),
        "cloudscale: GET v1/servers/:id (id=7) got no complete answer within 20 s"
    );
    let error = client.post(server_route()).send().await.unwrap_err();
    assert_eq!(
        error.kind(),
        CloudErrorKind::Unknown,
        "it may have been done"
    );
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_whole_call_has_a_deadline() {
    let server = Server::new(|_| answer(503, ""));
    let policy = RetryPolicy {
        attempts: 1000,
        ..RetryPolicy::default()
    };
    let client = serve(&server).retry(policy).build();
    let start = Instant::now();
    let call = client
        .get(server_route())
        .deadline(Duration::from_secs(100));
    let error = call.send().await.unwrap_err();
    assert_eq!(
        error.status(),
        Some(503),
        "the last answer, not the lack of time"
    );
    assert!(start.elapsed() <= Duration::from_secs(100));
    assert!(server.seen().len() > 5);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_leaves_the_outcome_of_a_write_open() {
    let pipes = Pipes::default();
    let mut listener = pipes.listen("cloud.test:443");
    let reads = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&reads);
    tokio::spawn(async move {
        while let Some(mut pipe) = listener.accept().await {
            pipe.read_u8().await.unwrap();
            *counted.lock().unwrap() += 1;
        }
    });
    let client = builder(&pipes).build();
    let error = client.delete(server_route()).send().await.unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unknown);
    assert_eq!(*reads.lock().unwrap(), 1);
    let error = failure(&client, server_route()).await;
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    assert_eq!(*reads.lock().unwrap(), 4);
}

#[tokio::test(start_paused = true)]
async fn errors_say_what_was_asked_about_what_and_what_the_cloud_said() {
    let rows = [
        (
            404,
            r#"{"detail": "Not found."}"#,
            "answered 404 Not Found: Not found.",
        ),
        (
            400,
            r#"{"name": "blank", "zone": "bad"}"#,
            "answered 400 Bad Request: name: blank; zone: bad",
        ),
        (
            404,
            "<html>lost</html>",
            "answered 404 Not Found: a page of 17 bytes",
        ),
        (
            404,
            "<!DOCTYPE html>\n<HTML><head><Title lang=en>\n  Not\there\n</title></head><body>token=a</body>",
            "answered 404 Not Found: a page of 90 bytes titled \"Not here\"",
        ),
        (403, "", "answered 403 Forbidden"),
        (
            422,
            r#"{"error": {"limit": 1}}"#,
            r#"answered 422 Unprocessable Entity: {"error":{"limit":1}}"#,
        ),
    ];
    for (status, body, wanted) in rows {
        let server = Server::new(move |_| answer(status, body));
        let client = serve(&server).build();
        let error = failure(&client, server_route()).await;
        let wanted = format!("cloudscale: GET v1/servers/:id (id=7) {wanted}");
        assert_eq!(error.to_string(), wanted);
        assert_eq!(
            (error.status(), error.body()),
            (Some(status), body.as_bytes())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_reads_its_own_error_text() {
    let server = Server::new(|_| answer(409, r#"{"code": "InUse", "message": "busy"}"#));
    let extract = |body: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(body).ok()?;
        Some(format!("[{}]", value["code"].as_str()?))
    };
    let client = serve(&server).error_text(extract).build();
    let error = failure(&client, Route::new("v1/servers")).await;
    assert_eq!(
        error.to_string(),
        "cloudscale: GET v1/servers answered 409 Conflict: [InUse]"
    );
}

#[tokio::test(start_paused = true)]
async fn a_success_that_is_not_the_expected_json_is_an_error() {
    let server = Server::new(|_| answer(200, &"<html>".repeat(100)));
    let client = serve(&server).build();
    let reply = client.get(Route::new("v1/servers")).send().await.unwrap();
    let error = reply.json::<Vec<Machine>>().unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unknown);
    let message = error.to_string();
    let wanted =
        "cloudscale: GET v1/servers answered 200 with what is not understood: a page of 600 bytes";
    assert_eq!(message, wanted);
}

#[tokio::test(start_paused = true)]
async fn one_broken_item_concerns_that_item_only() {
    let list = r#"[{"name": "a"}, {"uuid": "u7", "name": 3}, {"name": "b"}]"#;
    let server = Server::new(move |request| {
        let wrapped = request.uri().path().ends_with("wrapped");
        answer(
            200,
            &if wrapped {
                format!(r#"{{"vms": {list}}}"#)
            } else {
                list.to_owned()
            },
        )
    });
    let client = serve(&server).build();
    let bare = client.get(Route::new("bare")).send().await.unwrap();
    let wrapped = client.get(Route::new("wrapped")).send().await.unwrap();
    let wrapped_items = wrapped.items_if_any::<Machine, Vec<_>>("vms");
    for items in [bare.items::<Machine>(), wrapped_items] {
        let items = items.unwrap();
        assert_eq!(items[0].as_ref().unwrap().name, "a");
        assert_eq!(items[2].as_ref().unwrap().name, "b");
        let bad = items[1].as_ref().unwrap_err();
        assert_eq!((bad.position, bad.object.as_deref()), (1, Some("u7")));
    }
    let missing = wrapped.items_if_any::<Machine, Vec<_>>("instances");
    assert!(missing.unwrap().is_empty());
    assert!(bare.items_if_any::<Machine, Vec<_>>("vms").is_err());
    let error = wrapped.items::<Machine>().unwrap_err();
    let kind = CloudErrorKind::Unknown;
    assert_eq!(error.kind(), kind, "no list is not an empty list");
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_end_is_cut_off() {
    let server = Server::new(|_| answer(200, &"x".repeat(5000)));
    let client = serve(&server).body_limit(4096).build();
    let error = failure(&client, Route::new("v1/servers")).await;
    assert_eq!(
        error.to_string(),
        "cloudscale: GET v1/servers answered with more than 4096 bytes"
    );
    assert_eq!(error.kind(), CloudErrorKind::Unknown);
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn links_are_followed_on_the_same_host_and_never_elsewhere() {
    let elsewhere = Server::new(|_| answer(200, "{}"));
    let server = Server::new(|request| {
        let redirect = |status, to: &str| with_header(answer(status, ""), "location", to);
        match request.uri().path() {
            "/api/me" => redirect(307, "/api/users/7"),
            "/api/old" => redirect(302, "https://cloud.test/api/users/7"),
            "/api/away" => redirect(307, "https://evil.test/api/users/7"),
            "/api/loop" => redirect(302, "/api/loop"),
            _ => answer(200, "{}"),
        }
    });
    let pipes = Pipes::default();
    server.listen(&pipes, "cloud.test:443");
    elsewhere.listen(&pipes, "evil.test:443");
    let client = builder(&pipes).build();
    client.get(Route::new("old")).send().await.unwrap();
    let body = serde_json::json!({"a": 1});
    client
        .post(Route::new("me"))
        .json(&body)
        .send()
        .await
        .unwrap();
    let last = server.seen().pop().unwrap();
    assert_eq!(
        (last.method().as_str(), last.uri().path()),
        ("POST", "/api/users/7")
    );
    assert_eq!(last.body().as_ref(), br#"{"a":1}"#);
    assert_eq!(last.headers()["authorization"], "Bearer t0ken-t0ken");

    let error = client.post(Route::new("old")).send().await.unwrap_err();
    assert_eq!(
        (error.status(), error.kind()),
        (Some(302), CloudErrorKind::Unknown)
    );
    let error = client.get(Route::new("away")).send().await.unwrap_err();
    assert_eq!(
        CloudError::from(error).chain(),
        "cloudscale: GET away was redirected (307) and not followed: \
         the link leads away from https://cloud.test to https://evil.test"
    );
    let error = client.get(Route::new("loop")).send().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cloudscale: GET loop was redirected more than 4 times"
    );
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_https_gets_it_with_the_credentials() {
    let plain = Server::new(|request| {
        let to = format!("https://xo.test{}", request.uri());
        with_header(answer(302, ""), "location", &to)
    });
    let secure = Server::new(|_| answer(200, "[]"));
    let pipes = Pipes::default();
    plain.listen(&pipes, "xo.test:80");
    secure.listen(&pipes, "xo.test:443");
    let base = BaseUrl::parse("http://xo.test")
        .unwrap()
        .with_suffix("rest/v0");
    let (name, value) = ("authenticationToken", Secret::new("Zr3d"));
    let client = HttpClient::builder("xo", base, Connector::simulated(pipes))
        .auth(Cookie { name, value })
        .build();
    client
        .get(Route::new("vms"))
        .query("limit", "1")
        .send()
        .await
        .unwrap();
    assert_eq!(secure.lines(), ["GET /rest/v0/vms?limit=1"]);
    assert_eq!(
        secure.seen()[0].headers()["cookie"],
        "authenticationToken=Zr3d"
    );
    // What writes was not looked at over http, and is repeated as it is.
    let body = serde_json::json!({"a": 1});
    let post = client.post(Route::new("users/me")).json(&body);
    post.send().await.unwrap();
    assert_eq!(secure.lines()[1], "POST /rest/v0/users/me");
    assert_eq!(secure.seen()[1].body().as_ref(), br#"{"a":1}"#);
}

/// Answers one request with the beginning of an answer that never ends.
async fn begin(mut pipe: tokio::io::DuplexStream) -> tokio::io::DuplexStream {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut request = [0; 1024];
    let length = pipe.read(&mut request).await.unwrap();
    let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
    assert!(request.contains("authorization: bearer t0ken-t0ken"));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: init\n";
    pipe.write_all(head.as_bytes()).await.unwrap();
    pipe
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_end_is_followed_piece_by_piece() {
    use tokio::io::AsyncWriteExt as _;
    let pipes = Pipes::default();
    let mut listener = pipes.listen("cloud.test:443");
    let client = builder(&pipes).build();
    let call = client.get(Route::new("events")).follow();
    let (stream, pipe) = tokio::join!(call, async {
        begin(listener.accept().await.unwrap()).await
    });
    let (mut stream, mut pipe) = (stream.unwrap(), pipe);
    assert_eq!(stream.content_type(), "text/event-stream");
    let patience = Duration::from_secs(90);
    assert_eq!(stream.next(patience).await.unwrap(), "event: init\n");
    let silent = stream.next(patience).await.unwrap_err();
    assert_eq!(
        silent.to_string(),
        "cloudscale: GET events has been silent for 90 s"
    );
    pipe.write_all(b"data: {}\n").await.unwrap();
    assert_eq!(stream.next(patience).await.unwrap(), "data: {}\n");
    drop(pipe);
    let ended = stream.next(patience).await.unwrap_err();
    assert_eq!(ended.to_string(), "cloudscale: GET events ended");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_begin_is_an_error_like_any_other() {
    let server = Server::new(|request| match request.uri().path() {
        "/api/none" => answer(404, "<html>"),
        "/api/moved" => with_header(answer(307, ""), "location", "/api/none"),
        _ => with_header(answer(307, ""), "location", "https://evil.test/"),
    });
    let client = serve(&server).build();
    for (route, wanted) in [("none", Some(404)), ("moved", Some(404)), ("away", None)] {
        let error = client.get(Route::new(route)).follow().await.unwrap_err();
        assert_eq!(error.status(), wanted, "{error}");
    }
    assert_eq!(server.lines().len(), 4);
}

/// Signs with the time and everything that a signature may cover.
struct Stamp(Secret);

impl Authenticate for Stamp {
    fn authenticate(&self, request: Signing<'_>, headers: &mut HeaderMap) -> Result<(), AuthError> {
        let Signing {
            method,
            uri,
            body,
            now,
        } = request;
        let body = String::from_utf8_lossy(body);
        let target = uri
            .path_and_query()
            .ok_or_else(|| AuthError("no path".into()))?;
        let text = format!("{} {method} {target} {body} {now}", self.0.reveal());
        headers.insert("x-signed", HeaderValue::from_str(&text)?);
        Ok(())
    }

    fn secrets(&self) -> Vec<Secret> {
        vec![self.0.clone()]
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_signed_anew_and_with_the_newest_credentials() {
    let server = Server::script(vec![answer(500, ""), answer(200, "{}")]);
    let client = serve(&server).auth(Stamp(Secret::new("old"))).build();
    let calling = client.get(server_route()).query("a", "b c").send();
    let rotating = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.set_auth(Stamp(Secret::new("new")));
    };
    tokio::join!(calling, rotating).0.unwrap();
    let signed = |n: usize| {
        server.seen()[n].headers()["x-signed"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        signed(0),
        format!("old GET /api/v1/servers/7?a=b+c  {START}")
    );
    let again = signed(1);
    let time = again
        .strip_prefix("new GET /api/v1/servers/7?a=b+c  ")
        .unwrap();
    let time: Timestamp = time.parse().unwrap();
    assert!(time > START.parse().unwrap());
    client.get(server_route()).anonymous().send().await.unwrap();
    assert!(!server.seen()[2].headers().contains_key("x-signed"));
    let trial = client.get(server_route()).auth(Stamp(Secret::new("trial")));
    trial.send().await.unwrap();
    assert!(signed(3).starts_with("trial "));
}

#[tokio::test(start_paused = true)]
async fn a_route_that_would_mean_another_object_is_not_sent() {
    let server = Server::new(|_| answer(200, "{}"));
    let client = serve(&server).build();
    for bad in ["", "..", "."] {
        let call = client.delete(Route::new("v1/servers/:id").with("id", bad));
        let error = call.send().await.unwrap_err();
        assert_eq!(error.kind(), CloudErrorKind::Invalid);
    }
    assert!(server.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_rate_and_the_number_in_flight_are_limited() {
    let flying = Arc::new(Mutex::new((0, 0)));
    let counted = Arc::clone(&flying);
    let server = Server::slow(move |_| {
        let counted = Arc::clone(&counted);
        Box::pin(async move {
            {
                let mut now = counted.lock().unwrap();
                now.0 += 1;
                now.1 = now.0.max(now.1);
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
            counted.lock().unwrap().0 -= 1;
            answer(200, "{}")
        })
    });
    let client = serve(&server).rate(Rate::new(2, 1)).in_flight(3).build();
    let start = Instant::now();
    let calls = (0..12).map(|_| client.get(server_route()).send());
    for result in futures::future::join_all(calls).await {
        result.unwrap();
    }
    assert_eq!(flying.lock().unwrap().1, 3);
    assert!(
        start.elapsed() >= Duration::from_millis(7500),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_gets_no_turn_in_time_was_certainly_not_sent() {
    let server = Server::slow(|_| Box::pin(std::future::pending()));
    let client = serve(&server).in_flight(1).build();
    let holding = client
        .get(server_route())
        .timeout(Duration::from_secs(60))
        .send();
    let waiting = client
        .post(server_route())
        .deadline(Duration::from_secs(9))
        .send();
    let both = futures::future::select(Box::pin(holding), Box::pin(waiting)).await;
    let futures::future::Either::Right((Err(error), _)) = both else {
        panic!("the second call fails first");
    };
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    assert_eq!(
        error.to_string(),
        "cloudscale: POST v1/servers/:id (id=7) was not sent: no slot within 9 s"
    );
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_gives_its_place_back() {
    let server = Server::slow(|request| {
        Box::pin(async move {
            if request.method() == "PUT" {
                std::future::pending::<()>().await;
            }
            answer(200, "{}")
        })
    });
    let mut registry = Registry::default();
    let metrics = CallMetrics::register(&mut registry, "cloudscale", "cloudscale", &[1.0]);
    let client = serve(&server).in_flight(1).metrics(metrics).build();
    let stuck = client.put(server_route()).send();
    let abandoned = tokio::time::timeout(Duration::from_secs(1), stuck).await;
    assert!(abandoned.is_err());
    client.get(server_route()).send().await.unwrap();
    let text = encoded(&registry);
    assert!(text.contains("cloudscale_in_flight_requests 0"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn every_request_and_every_call_is_counted() {
    let mut registry = Registry::default();
    let metrics = CallMetrics::register(&mut registry, "cloudscale", "cloudscale", &[1.0]);
    let server = Server::script(vec![answer(500, ""), answer(200, "{}"), answer(404, "")]);
    let client = serve(&server).metrics(metrics).build();
    client.get(server_route()).send().await.unwrap();
    failure(&client, server_route()).await;
    let text = encoded(&registry);
    let route = r#"method="GET",endpoint="v1/servers/:id""#;
    for line in [
        format!(r#"cloudscale_requests_total{{{route},status="500"}} 1"#),
        format!(r#"cloudscale_requests_total{{{route},status="200"}} 1"#),
        format!(r#"cloudscale_requests_total{{{route},status="404"}} 1"#),
        format!("cloudscale_request_duration_seconds_count{{{route}}} 3"),
        "cloudscale_in_flight_requests 0".to_owned(),
        r#"cloudprovider_cloudscale_api_request_errors{request="GET v1/servers/:id"} 1"#.to_owned(),
    ] {
        assert!(text.lines().any(|got| got == line), "{line} in\n{text}");
    }
}

/// A day of calls to a server that is often unwell; what was asked and when.
async fn one_day(seed: u64) -> Vec<String> {
    let pipes = Pipes::default();
    let clock = Clock::simulated(START.parse().unwrap());
    let transcript = Arc::new(Mutex::new(Vec::new()));
    let faults = Random::seeded(seed);
    let (written, dated) = (Arc::clone(&transcript), clock.clone());
    let server = Server::slow(move |request| {
        let line = format!("{} {} {}", dated.now(), request.method(), request.uri());
        written.lock().unwrap().push(line);
        let fault = faults.below(6);
        Box::pin(async move {
            match fault {
                0 => answer(500, ""),
                1 => with_header(answer(503, ""), "retry-after", "30"),
                2 => std::future::pending().await,
                _ => answer(200, "{}"),
            }
        })
    });
    server.listen(&pipes, "cloud.test:443");
    let client = builder(&pipes)
        .clock(clock)
        .random(Random::seeded(seed))
        .build();
    let end = Instant::now() + Duration::from_secs(24 * 3600);
    while Instant::now() < end {
        let (one, other) = (client.get(server_route()), client.patch(server_route()));
        let (read, wrote) = tokio::join!(one.send(), other.send());
        let line = format!(
            "{:?} {:?}",
            read.map(|r| r.status()),
            wrote.map(|r| r.status())
        );
        transcript.lock().unwrap().push(line);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let transcript = transcript.lock().unwrap();
    transcript.clone()
}

#[test]
fn a_day_of_retries_takes_no_time_and_equal_seeds_give_equal_transcripts() {
    let run = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(one_day(seed))
    };
    let first = run(7);
    assert!(first.len() > 1000, "{}", first.len());
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
}

#[tokio::test(start_paused = true)]
async fn a_large_answer_takes_the_memory_of_the_last_one_once_nobody_has_that() {
    // One letter each, of two megabytes.
    let server = Server::new(|request| {
        let letter = request.uri().path().rsplit('/').next().unwrap();
        answer(200, &letter.repeat(2 << 20))
    });
    let client = serve(&server).build();
    let list = async |letter: &'static str| {
        let route = Route::new("v1/:letter").with("letter", letter);
        client.get(route).send().await.unwrap()
    };
    let is_of = |reply: &Reply, letter: u8| {
        reply.bytes().len() == 2 << 20 && reply.bytes().iter().all(|it| *it == letter)
    };
    let (a, b) = (list("a").await, list("b").await);
    assert!(is_of(&a, b'a') && is_of(&b, b'b'), "both are whole");
    let memory = b.bytes().as_ptr();
    drop(b);
    let c = list("c").await;
    assert!(is_of(&a, b'a') && is_of(&c, b'c'));
    assert_eq!(c.bytes().as_ptr(), memory);
}
