use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};

use super::*;
use crate::World;
use crate::control::ControlResult;
use crate::faults::{Action, Rule};
use crate::journal::Filter;
use crate::testing::{Client, ServerAddress, send, send_http2, whole as read_whole};

/// Counts what it is asked; `/watch` streams ticks until the caller goes.
struct Counter {
    calls: watch::Sender<u64>,
    /// Closed when the last stream is gone.
    streams: watch::Sender<u64>,
}

struct OpenStream(watch::Sender<u64>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

impl Counter {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            calls: watch::Sender::new(0),
            streams: watch::Sender::new(0),
        })
    }

    fn watch(&self) -> http::Response<Body> {
        self.streams.send_modify(|open| *open += 1);
        let guard = OpenStream(self.streams.clone());
        let (sender, receiver) = mpsc::channel::<Bytes>(4);
        sender.try_send(Bytes::from_static(b"tick\n")).unwrap();
        let pieces = futures::stream::unfold((receiver, sender, guard), |mut state| async {
            let piece = state.0.recv().await?;
            Some((piece, state))
        });
        http::Response::new(streamed(pieces))
    }
}

impl Api for Counter {
    fn name(&self) -> &'static str {
        "counter"
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, peer: &'a Peer) -> BoxFuture<'a, Answer> {
        async move {
            self.calls.send_modify(|calls| *calls += 1);
            let response = match request.uri().path() {
                "/watch" => self.watch(),
                "/panic" => panic!("on purpose"),
                "/list" => json(StatusCode::OK, &json!([1, 2])),
                "/named" => json(StatusCode::OK, &json!({ "machines": [1, 2] })),
                path => json(
                    StatusCode::OK,
                    &json!({
                        "path": path,
                        "version": format!("{:?}", request.version()),
                        "length": request.body().len(),
                        "certificate": peer.certificate.is_some(),
                        "encrypted": request.extensions().get::<Encrypted>().is_some(),
                    }),
                ),
            };
            let caller = "tester".to_owned();
            Answer { response, caller }
        }
        .boxed()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}

impl Control for Counter {
    fn state(&self) -> Value {
        json!({"calls": *self.calls.borrow()})
    }

    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => Ok(json!({ "added": body })),
            _ => Err(format!("{verb:?} is not known; allowed are add")),
        }
    }

    fn reset(&self) -> ControlResult {
        self.calls.send_replace(0);
        Ok(())
    }
}

fn on_pipe(world: &World) -> (Arc<Counter>, Server, Client) {
    let api = Counter::new();
    let server = Server::builder(world, api.clone()).pipe("counter.sim:80");
    let client = Client::new(ServerAddress::Pipe(world.clone(), "counter.sim:80"), None);
    (api, server, client)
}

async fn on_socket(world: &World) -> (Arc<Counter>, Server, Client) {
    let api = Counter::new();
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder(world, api.clone())
        .plain(address)
        .await
        .unwrap();
    let client = Client::new(ServerAddress::Socket(server.local_addr().unwrap()), None);
    (api, server, client)
}

#[tokio::test]
async fn sockets_and_pipes_answer_alike() {
    let world = World::simulated(1);
    let (_api, _server, pipe) = on_pipe(&world);
    let (_api, _socket_server, socket) = on_socket(&world).await;
    for client in [pipe, socket] {
        let reply = client.call("POST", "/things?a=b", &json!({"x": 1})).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.json()["length"], 7);
        assert_eq!(reply.json()["encrypted"], false);
        assert!(
            reply.headers["date"].to_str().unwrap().contains("2026"),
            "the world's date"
        );
    }
    let entries = world.journal.entries();
    assert_eq!(entries.len(), 2);
    let (first, second) = (&entries[0], &entries[1]);
    assert_eq!(
        (first.method.as_str(), first.path.as_str()),
        ("POST", "/things")
    );
    assert_eq!((first.query.as_str(), first.status), ("a=b", 200));
    assert_eq!(
        (first.caller.as_str(), &first.body),
        ("tester", &json!({"x": 1}))
    );
    assert_eq!(first.path, second.path);
}

#[tokio::test]
async fn two_servers_of_one_kind_are_told_apart_by_their_names() {
    let world = World::simulated(1);
    let places = [("one", "one.sim:80"), ("two", "two.sim:80")];
    let _servers = places.map(|(name, place)| {
        let builder = Server::builder(&world, Counter::new()).named(name);
        builder.pipe(place)
    });
    let answer = Action::Html { code: 503 };
    world.faults.add(Rule::new(answer).server("one")).unwrap();
    for ((name, place), status) in places.into_iter().zip([503, 200]) {
        let client = Client::new(ServerAddress::Pipe(world.clone(), place), None);
        client.get("/count").await;
        let answered = Filter::any().server(name).status(status);
        assert_eq!(world.journal.count(&answered), 1, "{name}");
    }
}

#[tokio::test]
async fn plain_sockets_speak_http2_too() {
    let world = World::simulated(1);
    let (_api, server, client) = on_socket(&world).await;
    let stream = TcpStream::connect(server.local_addr().unwrap())
        .await
        .unwrap();
    let mut request = client.request("GET", "/", "");
    *request.uri_mut() = "http://sim.example/h2".parse().unwrap();
    request.headers_mut().remove("host");
    let reply = read_whole(send_http2(stream, request).await.unwrap())
        .await
        .unwrap();
    assert_eq!(reply.json()["version"], "HTTP/2.0");
    assert_eq!(reply.json()["path"], "/h2");
}

#[tokio::test]
async fn a_port_in_use_is_said_clearly() {
    let world = World::simulated(1);
    let (_api, server, _client) = on_socket(&world).await;
    let address = server.local_addr().unwrap();
    let error = Server::builder(&world, Counter::new())
        .plain(address)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {address}: another program already does")
    );
}

#[tokio::test]
async fn too_large_a_body_is_refused() {
    let world = World::simulated(1);
    let api = Counter::new();
    let limits = Limits {
        body: 10,
        connections: 4,
    };
    let _server = Server::builder(&world, api.clone())
        .limits(limits)
        .pipe("small.sim:80");
    let client = Client::new(ServerAddress::Pipe(world.clone(), "small.sim:80"), None);
    assert_eq!(
        client
            .attempt("POST", "/", "0123456789")
            .await
            .unwrap()
            .status,
        200
    );
    let reply = client.attempt("POST", "/", "0123456789X").await.unwrap();
    assert_eq!(reply.status, 413);
    assert_eq!(*api.calls.borrow(), 1);
}

#[tokio::test]
async fn connections_beyond_the_limit_wait_for_room() {
    let world = World::simulated(1);
    let api = Counter::new();
    let limits = Limits {
        body: 10,
        connections: 1,
    };
    let _server = Server::builder(&world, api)
        .limits(limits)
        .pipe("one.sim:80");
    let client = Client::new(ServerAddress::Pipe(world.clone(), "one.sim:80"), None);
    let stream = client.open("GET", "/watch", "").await.unwrap();
    let mut second = Box::pin(client.attempt("GET", "/", ""));
    for _ in 0..50 {
        tokio::task::yield_now().await;
        assert!(
            second.as_mut().now_or_never().is_none(),
            "there is no room yet"
        );
    }
    drop(stream);
    assert_eq!(second.await.unwrap().status, 200);
}

#[tokio::test]
async fn a_stream_ends_when_its_caller_goes_away() {
    let world = World::simulated(1);
    let (pipe_api, _pipe_server, pipe) = on_pipe(&world);
    let (socket_api, _socket_server, socket) = on_socket(&world).await;
    for (api, client) in [(pipe_api, pipe), (socket_api, socket)] {
        let mut open = api.streams.subscribe();
        let mut response = client.open("GET", "/watch", "").await.unwrap();
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "tick\n");
        assert_eq!(*open.borrow_and_update(), 1);
        let started = Filter::any().path("/watch").status(200);
        assert!(
            world.journal.count(&started) >= 1,
            "a stream is written down when it begins"
        );
        drop(response);
        open.wait_for(|open| *open == 0).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_streams_properly_and_abandons_hung_calls() {
    let world = World::simulated(1);
    let (_api, server, client) = on_pipe(&world);
    world
        .faults
        .add(Rule::new(Action::Hang).on("GET", "/hang"))
        .unwrap();
    let stream = client.open("GET", "/watch", "").await.unwrap();
    let hung = tokio::spawn({
        let client = client.clone();
        async move { client.attempt("GET", "/hang", "").await }
    });
    world
        .journal
        .wait_for(&Filter::any().path("/hang"), 1)
        .await;
    server.shutdown().await;
    assert_eq!(read_whole(stream).await.unwrap().text(), "tick\n");
    assert!(hung.await.unwrap().is_err());
    assert!(world.pipes.connect("counter.sim:80").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_call_is_done_twice_and_lists_are_empty_if_a_fault_says_so() {
    let world = World::simulated(1);
    let (api, _server, client) = on_pipe(&world);
    for rule in [
        Rule::new(Action::Twice).on("POST", "*"),
        Rule::new(Action::EmptyList).on("GET", "*"),
    ] {
        world.faults.add(rule).unwrap();
    }
    let answer = client.call("POST", "/one", &Value::Null).await;
    assert_eq!((answer.status, *api.calls.borrow()), (200, 2));
    assert_eq!(client.get("/list").await.json(), json!([]));
    assert_eq!(client.get("/named").await.json(), json!({ "machines": [] }));
    let other = client.get("/other").await.json();
    assert_eq!(other["path"], "/other", "what lists nothing is as it is");
}

#[tokio::test(start_paused = true)]
async fn each_fault_does_what_it_says() {
    let world = World::simulated(1);
    let (api, _server, client) = on_pipe(&world);
    let headers = [("Retry-After".to_owned(), "7".to_owned())].into();
    let status = |code, body| Action::Status {
        code,
        headers,
        body,
    };
    let busy = status(503, Some(json!({"detail": "busy"})));
    for (path, action) in [
        ("/status", busy),
        ("/html", Action::Html { code: 502 }),
        ("/reset", Action::Reset),
        ("/lost", Action::LostAnswer),
    ] {
        world
            .faults
            .add(Rule::new(action).on("*", path).named(&path[1..]))
            .unwrap();
    }
    let reply = client.get("/status").await;
    assert_eq!(
        (reply.status, &reply.headers["retry-after"]),
        (503, &"7".parse().unwrap())
    );
    assert_eq!(reply.json(), json!({"detail": "busy"}));
    let reply = client.get("/html").await;
    assert_eq!(
        (reply.status, &reply.headers["content-type"]),
        (502, &"text/html".parse().unwrap())
    );
    assert!(reply.text().starts_with("<html>"));
    assert!(client.attempt("POST", "/reset", "").await.is_err());
    assert_eq!(*api.calls.borrow(), 0, "none of these reached the API");
    assert!(client.attempt("POST", "/lost", "").await.is_err());
    assert_eq!(
        *api.calls.borrow(),
        1,
        "a lost answer is one that was given"
    );
    let seen: Vec<_> = world
        .journal
        .entries()
        .into_iter()
        .map(|e| (e.fault, e.status))
        .collect();
    let expected = [("status", 503), ("html", 502), ("reset", 0), ("lost", 0)];
    assert_eq!(seen, expected.map(|(name, code)| (name.to_owned(), code)));
}

#[tokio::test(start_paused = true)]
async fn silence_comes_after_the_deed_and_a_body_that_is_a_text_is_sent_as_written() {
    let world = World::simulated(1);
    let (api, _server, client) = on_pipe(&world);
    let rule = |text: Value| {
        let raw: crate::faults::RawRule = serde_json::from_value(text).unwrap();
        world.faults.add(Rule::try_from(raw).unwrap()).unwrap();
    };
    rule(json!({"action": "silence", "path": "/silent"}));
    let silent = client.attempt("POST", "/silent", "");
    let patience = Duration::from_secs(600);
    assert!(tokio::time::timeout(patience, silent).await.is_err());
    assert_eq!(*api.calls.borrow(), 1, "it was carried out");
    for (body, content_type, sent) in [
        (json!("<h1>no</h1>"), "text/html", "<h1>no</h1>"),
        (json!("busy"), "text/plain; charset=utf-8", "busy"),
        (json!(r#"{"a": 1}"#), "application/json", r#"{"a": 1}"#),
        (json!({"a": 1}), "application/json", r#"{"a":1}"#),
    ] {
        rule(json!({"action": "status", "name": "s", "code": 503, "path": "/s", "body": body}));
        let reply = client.get("/s").await;
        assert_eq!((reply.status, reply.text().as_ref()), (503, sent), "{body}");
        assert_eq!(reply.headers["content-type"], content_type, "{body}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_call_is_carried_out_all_the_same() {
    let world = World::simulated(1);
    let (api, _server, client) = on_pipe(&world);
    let minute = Duration::from_secs(60);
    let slow = Action::Delay {
        least: minute,
        most: minute,
    };
    world.faults.add(Rule::new(slow).on("POST", "/")).unwrap();
    let impatient = client.attempt("POST", "/", "");
    assert!(tokio::time::timeout(minute / 2, impatient).await.is_err());
    assert_eq!(*api.calls.borrow(), 0);
    world
        .journal
        .wait_for(&Filter::any().method("POST").status(200), 1)
        .await;
    assert_eq!(*api.calls.borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_journal_marks_calls_that_overlap() {
    let world = World::simulated(1);
    let (_api, _server, client) = on_pipe(&world);
    let second = Duration::from_secs(1);
    let slow = Action::Delay {
        least: second,
        most: second,
    };
    world
        .faults
        .add(Rule::new(slow).on("GET", "/slow"))
        .unwrap();
    tokio::join!(
        client.get("/slow"),
        client.get("/slow"),
        client.get("/slow")
    );
    client.get("/alone").await;
    let entries = world.journal.entries();
    let marks: Vec<_> = entries.iter().map(|entry| entry.concurrent).collect();
    assert_eq!(marks, [1, 2, 3, 1]);
    assert_eq!(
        entries[0].time.duration_since(entries[0].arrived).as_secs(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_hung_call_lasts_until_the_caller_gives_up() {
    let world = World::simulated(1);
    let (api, _server, client) = on_pipe(&world);
    world.faults.add(Rule::new(Action::Hang).times(1)).unwrap();
    let day = Duration::from_secs(86_400);
    assert!(
        tokio::time::timeout(day, client.attempt("GET", "/", ""))
            .await
            .is_err()
    );
    assert_eq!(*api.calls.borrow(), 0);
    assert_eq!(client.get("/").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn open_streams_can_be_cut_by_rule_and_by_word() {
    let world = World::simulated(1);
    let (_api, _server, client) = on_pipe(&world);
    let stream = client.open("GET", "/watch", "").await.unwrap();
    world.faults.cut_streams("somebody-else");
    let reading = tokio::spawn(read_whole(stream));
    assert_eq!(
        client
            .call("POST", "/_sim/cut-streams", &Value::Null)
            .await
            .status,
        200
    );
    assert!(
        reading.await.unwrap().is_err(),
        "a cut stream does not end properly"
    );

    let after = Duration::from_secs(10);
    world
        .faults
        .add(Rule::new(Action::CutStream { after }).on("GET", "/watch"))
        .unwrap();
    let began = tokio::time::Instant::now();
    assert!(client.attempt("GET", "/watch", "").await.is_err());
    assert_eq!(began.elapsed(), after);
}

#[tokio::test]
async fn a_failing_api_is_a_500_and_the_server_lives_on() {
    let world = World::simulated(1);
    let (_api, _server, client) = on_pipe(&world);
    assert_eq!(client.get("/panic").await.status, 500);
    assert_eq!(client.get("/").await.status, 200);
}

#[tokio::test]
async fn the_control_handle_shows_and_changes_everything() {
    let world = World::simulated(1);
    let (_api, _server, client) = on_pipe(&world);
    client.get("/a").await;
    let journal = client.get("/_sim/journal").await.text();
    assert_eq!(journal.lines().count(), 1);
    assert_eq!(
        serde_json::from_str::<Value>(&journal).unwrap()["path"],
        "/a"
    );
    assert_eq!(client.get("/_sim/state").await.json(), json!({"calls": 1}));

    let rule = json!({"name": "down", "path": "/a", "action": "status", "code": 503});
    let reply = client.call("POST", "/_sim/faults", &rule).await;
    assert_eq!(reply.json(), json!({"added": ["down"]}));
    assert_eq!(client.get("/a").await.status, 503);
    let listed = client.get("/_sim/faults").await.json();
    assert_eq!(listed["rules"][0]["server"], "counter");
    assert_eq!(listed["rules"][0]["struck"], 1);
    assert_eq!(
        client
            .call("DELETE", "/_sim/faults/down", &Value::Null)
            .await
            .status,
        200
    );
    assert_eq!(
        client
            .call("DELETE", "/_sim/faults/down", &Value::Null)
            .await
            .status,
        400
    );
    assert_eq!(client.get("/a").await.status, 200);

    client
        .call("POST", "/_sim/reads-fail", &json!({"on": true}))
        .await;
    assert_eq!(client.get("/a").await.status, 500);
    assert_eq!(client.call("PUT", "/a", &Value::Null).await.status, 200);
    assert_eq!(
        client
            .call("DELETE", "/_sim/faults", &Value::Null)
            .await
            .status,
        200
    );
    assert_eq!(client.get("/a").await.status, 200);

    let added = client
        .call("POST", "/_sim/add", &json!({"name": "m"}))
        .await;
    assert_eq!(added.json(), json!({"added": {"name": "m"}}));
    assert_eq!(
        client
            .call("POST", "/_sim/reset", &Value::Null)
            .await
            .status,
        200
    );
    assert_eq!(client.get("/_sim/state").await.json(), json!({"calls": 0}));
    assert_eq!(client.get("/_sim/journal").await.text(), "");
}

#[tokio::test]
async fn bad_control_requests_say_what_is_allowed() {
    let world = World::simulated(1);
    let (_api, _server, client) = on_pipe(&world);
    for (method, path, body, status, fragment) in [
        ("GET", "/_sim/nonsense", "", 404, "GET /_sim/journal"),
        ("GET", "/_sim", "", 404, "GET /_sim/journal"),
        ("POST", "/_sim/explode", "", 400, "allowed are add"),
        ("POST", "/_sim/add", "{", 400, "not JSON"),
        (
            "POST",
            "/_sim/faults",
            r#"{"action": "x"}"#,
            400,
            "allowed are status",
        ),
        (
            "POST",
            "/_sim/faults",
            r#"{"actoin": "x"}"#,
            400,
            "unknown field `actoin`",
        ),
        (
            "POST",
            "/_sim/reads-fail",
            r#"{"on": 1}"#,
            400,
            "{\\\"on\\\": true}",
        ),
    ] {
        let reply = client.attempt(method, path, body).await.unwrap();
        assert_eq!(reply.status, status, "{method} {path}");
        assert!(reply.text().contains(fragment), "{}", reply.text());
    }
    assert_eq!(
        world.journal.count(&Filter::any()),
        0,
        "control is not part of the story"
    );
}

/// An authority, a server's identity and a client's certificate and key, for TLS tests.
struct Authority {
    certificate: CertificateDer<'static>,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).unwrap().der().clone();
        let issuer = rcgen::Issuer::new(parameters, key);
        Self {
            certificate,
            issuer,
        }
    }

    fn issue(&self) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = rcgen::KeyPair::generate().unwrap();
        let parameters = rcgen::CertificateParams::new(vec!["sim.example".to_owned()]).unwrap();
        let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (certificate.der().clone(), key)
    }

    fn connector(
        &self,
        identity: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
        protocol: &str,
    ) -> tokio_rustls::TlsConnector {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            Some((certificate, key)) => config
                .with_client_auth_cert(vec![certificate], key)
                .unwrap(),
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Arc::new(config).into()
    }
}

#[tokio::test]
async fn tls_asks_for_client_certificates_and_verifies_those_that_are_sent() {
    let world = World::simulated(1);
    let (ours, foreign) = (Authority::new(), Authority::new());
    let (certificate, key) = ours.issue();
    let identity = Identity {
        chain: vec![certificate],
        key,
        client_authorities: vec![ours.certificate.clone()],
    };
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::builder(&world, Counter::new())
        .tls(address, identity)
        .await
        .unwrap();
    let address = server.local_addr().unwrap();
    let client = Client::new(ServerAddress::Socket(address), None);
    for (identity, protocol, proved) in [
        (None, "http/1.1", Some(false)),
        (None, "h2", Some(false)),
        (Some(ours.issue()), "http/1.1", Some(true)),
        (Some(ours.issue()), "h2", Some(true)),
        (Some(foreign.issue()), "http/1.1", None),
    ] {
        let connector = ours.connector(identity, protocol);
        let name = ServerName::try_from("sim.example").unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        let mut request = client.request("GET", "/who", "");
        let reply = if protocol == "h2" {
            *request.uri_mut() = "https://sim.example/who".parse().unwrap();
            request.headers_mut().remove("host");
            send_http2(stream, request).await
        } else {
            send(stream, request).await
        };
        match proved {
            None => assert!(reply.is_err(), "a foreign certificate is not accepted"),
            Some(proved) => {
                let reply = read_whole(reply.unwrap()).await.unwrap();
                assert_eq!(reply.json()["certificate"], proved, "{protocol}");
                assert_eq!(reply.json()["encrypted"], true, "{protocol}");
            }
        }
    }
    server.shutdown().await;
}

#[test]
fn an_identity_reads_pem_and_refuses_what_is_none() {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["a".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap().pem();
    let identity =
        Identity::from_pem(&certificate, &key.serialize_pem(), Some(&certificate)).unwrap();
    assert_eq!(
        (identity.chain.len(), identity.client_authorities.len()),
        (1, 1)
    );
    assert!(Identity::from_pem(&certificate, "nonsense", None).is_err());
}
