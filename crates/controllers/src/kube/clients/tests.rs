//! Clients over a scripted API server on a paused clock, and over pipes and sockets.

use bowline_core::error_chain;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_http::{Clock, Connector, Pipes, ProxyRules, Random};
use futures::StreamExt as _;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::connection::{ApiService, erased};
use super::*;
use crate::kube::election::{Elector, Fenced, LeaseCandidate, LeaseName, Timing};

type Script = dyn Fn(&Seen) -> Reply + Send + Sync;

/// A request as the server saw it.
#[derive(Clone, Debug)]
struct Seen {
    at: Duration,
    method: String,
    path: String,
    agent: String,
    authorization: String,
    body: Value,
}

enum Reply {
    Json(u16, Value),
    /// The same after some time.
    Late(Duration, Value),
    RetryAfter(u16, u64),
    Silence,
    HalfABody,
}

#[derive(Clone)]
struct Server {
    seen: Arc<Mutex<Vec<Seen>>>,
    script: Arc<Script>,
    start: Instant,
}

impl Server {
    fn new(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self {
            seen: Arc::default(),
            script: Arc::new(script),
            start: Instant::now(),
        }
    }

    fn service(&self, authorization: &'static str) -> ApiService {
        let server = self.clone();
        erased(tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { server.answer(request, authorization).await }
        }))
    }

    async fn answer(
        &self,
        request: Request<Body>,
        authorization: &str,
    ) -> Result<Response<AnyBody>, BoxError> {
        let (parts, body) = request.into_parts();
        let header = |name: &str| {
            let value = parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok());
            value.map(str::to_owned)
        };
        let seen = Seen {
            at: self.start.elapsed(),
            method: parts.method.to_string(),
            path: parts.uri.path().to_owned(),
            agent: header("user-agent").unwrap_or_default(),
            authorization: header("authorization").unwrap_or_else(|| authorization.to_owned()),
            body: serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default(),
        };
        self.seen.lock().unwrap().push(seen.clone());
        // Whoever else sends at this moment does so before the answer.
        tokio::task::yield_now().await;
        let response = Response::builder();
        match (self.script)(&seen) {
            Reply::Json(status, value) => Ok(response.status(status).body(whole(&value))?),
            Reply::Late(time, value) => {
                sleep(time).await;
                Ok(response.body(whole(&value))?)
            }
            Reply::RetryAfter(status, seconds) => {
                let response = response.status(status).header("retry-after", seconds);
                Ok(response.body(whole(&status_body(status)))?)
            }
            Reply::Silence => std::future::pending().await,
            Reply::HalfABody => Ok(response.body(endless())?),
        }
    }

    fn clients(&self, limits: Limits, service_accounts: bool) -> Clients {
        let config = Config::new("https://api.example:6443".parse().unwrap());
        let (root, bare) = (self.service("root"), self.service("nobody"));
        let connection = Connection::from_services(root, bare, &config);
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        Clients::new(
            connection,
            agent(),
            limits,
            clock,
            Metrics::new(),
            service_accounts,
        )
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

const UNLIMITED: Limits = Limits {
    qps: -1.0,
    burst: 0,
};

fn agent() -> Agent {
    Agent {
        program: "cloud-controller-manager".to_owned(),
        version: "v1.2.3".to_owned(),
        commit: "abc1234".to_owned(),
    }
}

type AnyBody = http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, BoxError>;

fn whole(value: &Value) -> AnyBody {
    Full::new(bytes::Bytes::from(value.to_string()))
        .map_err(BoxError::from)
        .boxed_unsync()
}

/// A body that sends something and then nothing more.
fn endless() -> AnyBody {
    let first = http_body::Frame::data(bytes::Bytes::from_static(b"{"));
    let frames =
        futures::stream::iter([Ok::<_, BoxError>(first)]).chain(futures::stream::pending());
    http_body_util::StreamBody::new(frames).boxed_unsync()
}

fn status_body(code: u16) -> Value {
    let reason = if code == 404 { "NotFound" } else { "Scripted" };
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
           "reason": reason, "message": "scripted"})
}

fn node() -> Value {
    json!({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}})
}

fn chain_of(error: &kube::Error) -> String {
    error_chain(error)
}

#[tokio::test(start_paused = true)]
async fn a_client_says_who_it_is() {
    let server = Server::new(|_| Reply::Json(200, node()));
    let client = server.clients(UNLIMITED, false).root("node-controller");
    Api::<Node>::all(client).get("n1").await.unwrap();
    let agent = &server.seen()[0].agent;
    assert!(
        agent.starts_with("cloud-controller-manager/v1.2.3 (linux/"),
        "{agent}"
    );
    assert!(
        agent.ends_with(") kubernetes/abc1234/node-controller"),
        "{agent}"
    );
    assert!(!agent.contains("x86_64"));
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_burst_wait_for_their_turn() {
    for (qps, burst, requests, expected) in [
        (20.0, 30, 30, Duration::ZERO),
        (20.0, 30, 50, Duration::from_secs(1)),
        (0.0, 0, 10, Duration::ZERO),
        (0.0, 0, 20, Duration::from_secs(2)),
        (0.5, 1, 3, Duration::from_secs(4)),
        (-1.0, 0, 500, Duration::ZERO),
    ] {
        let server = Server::new(|_| Reply::Json(200, node()));
        let api: Api<Node> = Api::all(server.clients(Limits { qps, burst }, false).root("x"));
        futures::future::join_all((0..requests).map(|_| api.get("n1"))).await;
        let last = server.seen().last().unwrap().at;
        let late = last.checked_sub(expected);
        assert!(
            late.is_some_and(|late| late < Duration::from_millis(20)),
            "{requests} at {qps}/{burst}: {last:?}"
        );
    }
}

/// Writes in flight at the same time, one number for each time at which some were sent.
async fn waves(server: &Server, clients: &Clients, writes: usize) -> Vec<usize> {
    let client = clients.for_controller("x", &Fence::open()).await.unwrap();
    let (api, params) = (Api::<Node>::all(client), PostParams::default());
    let node = Node::default();
    futures::future::join_all((0..writes).map(|_| api.create(&params, &node))).await;
    let mut waves = std::collections::BTreeMap::<Duration, usize>::new();
    for call in server.seen() {
        *waves.entry(call.at).or_default() += 1;
    }
    waves.into_values().collect()
}

const SOME_TIME: Duration = Duration::from_millis(10);

#[tokio::test(start_paused = true)]
async fn writes_in_flight_grow_to_what_the_server_takes() {
    let server = Server::new(|_| Reply::Late(SOME_TIME, node()));
    let clients = server.clients(UNLIMITED, false);
    let waves = waves(&server, &clients, 600).await;
    assert_eq!(waves[..4], [8, 10, 13, 17], "{waves:?}");
    assert_eq!(waves.iter().max(), Some(&64), "{waves:?}");
}

#[tokio::test(start_paused = true)]
async fn writes_in_flight_are_halved_when_the_server_refuses_and_come_back_when_it_says() {
    let refused = std::sync::atomic::AtomicUsize::new(0);
    let server =
        Server::new(
            move |_| match refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                0..8 => Reply::RetryAfter(429, 3),
                _ => Reply::Late(SOME_TIME, node()),
            },
        );
    let clients = server.clients(UNLIMITED, false);
    let waves = waves(&server, &clients, 40).await;
    let late = server.seen()[8].at;
    assert_eq!(late, Duration::from_secs(3), "as the server said");
    // Those that wait hold their permits; of eight that come back at once four may be followed.
    assert_eq!(waves[..4], [8, 8, 4, 5], "{waves:?}");
}

#[tokio::test(start_paused = true)]
async fn workers_limit_writes_where_their_number_is_given() {
    let server = Server::new(|_| Reply::Late(SOME_TIME, node()));
    let clients = server.clients(UNLIMITED, false);
    clients.adapt_writes(false);
    assert_eq!(waves(&server, &clients, 100).await, [100]);
}

#[tokio::test(start_paused = true)]
async fn events_and_reads_wait_for_no_write() {
    let server = Server::new(|seen| match seen.method.as_str() {
        "POST" if seen.path == "/api/v1/nodes" => Reply::Silence,
        _ => Reply::Json(200, json!({ "metadata": {}, "involvedObject": {} })),
    });
    let clients = server.clients(UNLIMITED, false);
    let client = clients.for_controller("x", &Fence::open()).await.unwrap();
    let (api, params) = (Api::<Node>::all(client.clone()), PostParams::default());
    let (node, event) = (
        Node::default(),
        k8s_openapi::api::core::v1::Event::default(),
    );
    let events = Api::default_namespaced(client);
    let writes = futures::future::join_all((0..100).map(|_| api.create(&params, &node)));
    let rest = async {
        tokio::task::yield_now().await;
        api.get("n1").await.unwrap();
        events.create(&params, &event).await.unwrap();
        server.start.elapsed()
    };
    let (_, took) = tokio::join!(writes, rest);
    assert!(took < SOME_TIME, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn every_client_has_a_bucket_of_its_own() {
    let server = Server::new(|_| Reply::Json(200, node()));
    let clients = server.clients(Limits { qps: 1.0, burst: 1 }, false);
    for _ in 0..5 {
        Api::<Node>::all(clients.root("node-controller"))
            .get("n1")
            .await
            .unwrap();
    }
    assert!(server.seen().last().unwrap().at < Duration::from_millis(10));
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_costs_one_deadline() {
    let server = Server::new(|seen| match seen.path.as_str() {
        "/api/v1/nodes/silent" => Reply::Silence,
        _ => Reply::HalfABody,
    });
    let api: Api<Node> = Api::all(server.clients(UNLIMITED, false).root("x"));
    for name in ["silent", "half"] {
        let from = Instant::now();
        let error = api.get(name).await.unwrap_err();
        let took = from.elapsed();
        assert!(
            took >= CALL_DEADLINE && took < CALL_DEADLINE + Duration::from_secs(1),
            "{took:?}"
        );
        let text = chain_of(&error);
        assert!(
            text.contains("the API server did not answer in time"),
            "{text}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_may_be_silent_as_long_as_it_asked_and_no_longer() {
    let server = Server::new(|_| Reply::HalfABody);
    let api: Api<Node> = Api::all(server.clients(UNLIMITED, false).root("x"));
    let params = kube::api::WatchParams::default().timeout(290);
    let mut events = std::pin::pin!(api.watch(&params, "0").await.unwrap());
    tokio::select! {
        biased;
        event = events.next() => panic!("{event:?}"),
        () = sleep(Duration::from_secs(290)) => {}
    }
    // A server that forgets to end it, or a connection that nobody told about its end.
    let ended = tokio::time::timeout(CALL_DEADLINE, events.next()).await;
    assert!(matches!(ended, Ok(Some(Err(_)))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_never_begins_is_given_up() {
    let server = Server::new(|_| Reply::Silence);
    let api: Api<Node> = Api::all(server.clients(UNLIMITED, false).root("x"));
    let begun = Instant::now();
    let watch = api.watch(&kube::api::WatchParams::default(), "0").await;
    assert!(watch.is_err());
    assert_eq!(begun.elapsed().as_secs(), CALL_DEADLINE.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_sheds_load_is_asked_again_when_it_says() {
    let server = Server::new(|seen| {
        if seen.at < Duration::from_secs(5) {
            Reply::RetryAfter(429, 2)
        } else {
            Reply::Json(200, node())
        }
    });
    let clients = server.clients(UNLIMITED, false);
    let api: Api<Node> = Api::all(clients.root("x"));
    let body = serde_json::from_value(node()).unwrap();
    api.replace("n1", &kube::api::PostParams::default(), &body)
        .await
        .unwrap();
    let times: Vec<u64> = server.seen().iter().map(|seen| seen.at.as_secs()).collect();
    assert_eq!(times, [0, 2, 4, 6]);
    assert!(
        server
            .seen()
            .iter()
            .all(|seen| seen.body["metadata"]["name"] == "n1")
    );
    let text = clients.metrics.text();
    for line in [
        r#"rest_client_requests_total{code="429",host="api.example:6443",method="PUT"} 3"#,
        r#"rest_client_requests_total{code="200",host="api.example:6443",method="PUT"} 1"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn other_failures_are_the_callers_matter() {
    for (status, retry_after, expected) in [
        (503, None, 1),
        (500, None, 1),
        (500, Some(1), 1),
        (429, Some(3600), 1),
        (503, Some(1), 6),
    ] {
        let server = Server::new(move |_| match retry_after {
            Some(seconds) => Reply::RetryAfter(status, seconds),
            None => Reply::Json(status, status_body(status)),
        });
        let api: Api<Node> = Api::all(server.clients(UNLIMITED, false).root("x"));
        assert!(api.get("n1").await.is_err());
        assert_eq!(server.seen().len(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_119_an_api_server_that_stays_sick_ends_the_wait_after_ten_seconds() {
    let server = Server::new(|_| Reply::Json(500, status_body(500)));
    let clients = server.clients(UNLIMITED, false);
    let from = Instant::now();
    let client = clients.root(INFORMERS);
    let error = wait_until_healthy(&client, clients.host(), HEALTH_PATIENCE)
        .await
        .unwrap_err();
    assert_eq!(from.elapsed().as_secs(), 10);
    assert_eq!(server.seen().len(), 11);
    assert!(server.seen().iter().all(|seen| seen.path == "/healthz"));
    let text = error.to_string();
    assert!(
        text.starts_with("API server api.example:6443 is not healthy after 10s: "),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_gets_well_in_time_is_enough() {
    let server = Server::new(|seen| {
        if seen.at < Duration::from_secs(9) {
            Reply::Json(500, status_body(500))
        } else {
            Reply::Json(200, json!("ok"))
        }
    });
    let clients = server.clients(UNLIMITED, false);
    wait_until_healthy(&clients.root(INFORMERS), clients.host(), HEALTH_PATIENCE)
        .await
        .unwrap();
    let silent = Server::new(|_| Reply::Silence).clients(UNLIMITED, false);
    let from = Instant::now();
    let waited = wait_until_healthy(&silent.root(INFORMERS), "h", HEALTH_PATIENCE).await;
    assert!(waited.unwrap_err().to_string().ends_with("no answer"));
    assert_eq!(from.elapsed().as_secs(), 10);
}

/// An API server with service accounts; tokens are numbered and live an hour.
fn accounts_server(exists: bool) -> Server {
    let existing = Mutex::new(exists);
    let tokens = Mutex::new(0);
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    Server::new(move |seen| {
        let account = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "node-controller"}});
        match (seen.method.as_str(), seen.path.as_str()) {
            ("GET", "/api/v1/namespaces/kube-system/serviceaccounts/node-controller") => {
                if *existing.lock().unwrap() {
                    Reply::Json(200, account)
                } else {
                    Reply::Json(404, status_body(404))
                }
            }
            ("POST", "/api/v1/namespaces/kube-system/serviceaccounts") => {
                *existing.lock().unwrap() = true;
                Reply::Json(201, account)
            }
            ("POST", "/api/v1/namespaces/kube-system/serviceaccounts/node-controller/token") => {
                assert_eq!(seen.body["spec"]["expirationSeconds"], 3600);
                let mut tokens = tokens.lock().unwrap();
                *tokens += 1;
                let end = start + seen.at + Duration::from_secs(3600);
                Reply::Json(
                    201,
                    json!({
                        "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
                        "spec": {"audiences": []},
                        "status": {"token": format!("token-{tokens}"), "expirationTimestamp": end.to_string()},
                    }),
                )
            }
            ("GET", "/api/v1/nodes/n1") => Reply::Json(200, node()),
            other => panic!("{other:?} is not among the rights we need"),
        }
    })
}

/// The fence of a lease nobody has won yet, and what wins it.
fn election(server: &Server) -> Elector {
    Elector::new(LeaseCandidate {
        client: Client::new(server.service("election"), "default"),
        lease: LeaseName {
            namespace: "kube-system".to_owned(),
            name: "manager".to_owned(),
        },
        identity: "us".to_owned(),
        timing: Timing {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        },
        clock: Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()),
        random: Random::seeded(1),
        observer: Arc::new(()),
        notes: crate::kube::election::LeaseNotes::default(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_controllers_client_changes_nothing_without_the_lease() {
    let server = Server::new(|seen| match seen.method.as_str() {
        "GET" if seen.path.contains("/leases/") => Reply::Json(404, status_body(404)),
        _ => Reply::Json(200, seen.body.clone()),
    });
    let clients = server.clients(UNLIMITED, false);
    let elector = election(&server);
    let fence = elector.fence();
    let client = clients.for_controller("x", &fence).await.unwrap();
    let api: Api<Node> = Api::all(client);
    let write = async || api.create(&PostParams::default(), &Node::default()).await;
    let is_fenced = |error: kube::Error| match error {
        kube::Error::Service(error) => error.is::<Fenced>(),
        _ => false,
    };
    let sent = || {
        let seen = server.seen();
        seen.iter()
            .filter(|call| call.path.contains("/nodes"))
            .count()
    };
    assert!(is_fenced(write().await.unwrap_err()));
    assert_eq!(sent(), 0, "nothing leaves the process");
    let held = elector.acquire().await;
    write().await.unwrap();
    sleep(Duration::from_secs(10)).await;
    assert!(is_fenced(write().await.unwrap_err()), "not renewed in time");
    let _ = api.get("n1").await;
    assert_eq!(sent(), 2, "reading is allowed");
    // The connection's own clients hold the lease itself; no fence stands before them.
    Api::<Node>::all(clients.root("y"))
        .create(&PostParams::default(), &Node::default())
        .await
        .unwrap();
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_is_fenced_too() {
    let server = Server::new(|seen| match (seen.method.as_str(), &*seen.path) {
        ("GET", path) if path.contains("/leases/") => Reply::Json(404, status_body(404)),
        (_, path) if path.contains("/leases") => Reply::Json(200, seen.body.clone()),
        _ => Reply::RetryAfter(429, 4),
    });
    let elector = election(&server);
    let fence = elector.fence();
    let _held = elector.acquire().await;
    let clients = server.clients(UNLIMITED, false);
    let api: Api<Node> = Api::all(clients.for_controller("x", &fence).await.unwrap());
    let error = api
        .create(&PostParams::default(), &Node::default())
        .await
        .unwrap_err();
    assert!(matches!(error, kube::Error::Service(error) if error.is::<Fenced>()));
    let seen = server.seen();
    let tries = seen
        .iter()
        .filter(|call| call.path.contains("/nodes"))
        .count();
    assert_eq!(tries, 3, "at 0, 4 and 8 seconds, not at 12");
}

/// The client of a controller with a service account of its own.
async fn sign_in(clients: &Clients) -> Result<Client, AccountError> {
    clients
        .for_controller("node-controller", &Fence::open())
        .await
}

#[tokio::test(start_paused = true)]
async fn framework_case_143_a_controller_speaks_as_its_service_account() {
    for exists in [true, false] {
        let server = accounts_server(exists);
        let clients = server.clients(UNLIMITED, true);
        let api: Api<Node> = Api::all(sign_in(&clients).await.unwrap());
        api.get("n1").await.unwrap();
        let seen = server.seen();
        let (set_up, call) = seen.split_at(seen.len() - 1);
        assert_eq!(set_up.len(), if exists { 2 } else { 3 });
        assert!(set_up.iter().all(|seen| seen.authorization == "root"));
        assert_eq!(call[0].authorization, "Bearer token-1");
        let suffix = "/system:serviceaccount:kube-system:node-controller";
        assert!(call[0].agent.ends_with(suffix), "{}", call[0].agent);
        // Watches and the Lease keep the root identity.
        Api::<Node>::all(clients.root(INFORMERS))
            .get("n1")
            .await
            .unwrap();
        assert_eq!(server.seen().last().unwrap().authorization, "root");
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_renewed_when_a_fifth_of_its_life_is_left() {
    let server = accounts_server(true);
    let clients = server.clients(UNLIMITED, true);
    let api: Api<Node> = Api::all(sign_in(&clients).await.unwrap());
    let token_at = |minutes: u64| {
        let (api, server) = (api.clone(), server.clone());
        async move {
            tokio::time::sleep_until(server.start + Duration::from_secs(minutes * 60)).await;
            api.get("n1").await.unwrap();
            server.seen().last().unwrap().authorization.clone()
        }
    };
    assert_eq!(token_at(47).await, "Bearer token-1");
    assert_eq!(token_at(49).await, "Bearer token-2");
    assert_eq!(token_at(95).await, "Bearer token-2");
    assert_eq!(token_at(97).await, "Bearer token-3");
    drop(api);
    let before = server.seen().len();
    sleep(Duration::from_secs(86_400)).await;
    assert!(
        server.seen().len() <= before,
        "nobody renews what nobody uses"
    );
}

#[tokio::test(start_paused = true)]
async fn framework_case_143_without_the_right_to_make_accounts_there_is_no_start() {
    let server = Server::new(|seen| match seen.method.as_str() {
        "GET" => Reply::Json(404, status_body(404)),
        _ => Reply::Json(403, status_body(403)),
    });
    let error = sign_in(&server.clients(UNLIMITED, true))
        .await
        .err()
        .unwrap();
    let text = error.to_string();
    assert_eq!(
        text,
        "cannot read or create service account kube-system/node-controller"
    );
}

#[tokio::test(start_paused = true)]
async fn a_token_is_tried_for_four_times() {
    let server = Server::new(|seen| match seen.method.as_str() {
        "GET" => Reply::Json(
            200,
            json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {}}),
        ),
        _ => Reply::Json(500, status_body(500)),
    });
    let error = sign_in(&server.clients(UNLIMITED, true))
        .await
        .err()
        .unwrap();
    assert!(matches!(error, AccountError::Token { .. }));
    let times: Vec<u128> = server
        .seen()
        .iter()
        .skip(1)
        .map(|seen| seen.at.as_millis() / 10 * 10)
        .collect();
    assert_eq!(times, [0, 500, 1500, 3500]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_over_pipes_reaches_the_listener_of_the_servers_name() {
    let pipes = Pipes::default();
    let config = Config::new("https://api.example:6443".parse().unwrap());
    let connection = Connection::over(&config, Connector::simulated(pipes.clone())).unwrap();
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let clients = Clients::new(connection, agent(), UNLIMITED, clock, Metrics::new(), false);
    let api: Api<Node> = Api::all(clients.root("x"));
    let text = chain_of(&api.get("n1").await.unwrap_err());
    assert!(text.contains("api.example:6443"), "{text}");
    let mut listener = pipes.listen("api.example:6443");
    tokio::spawn(async move {
        while let Some(stream) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    assert_eq!(
        api.get("n1").await.unwrap().metadata.name.as_deref(),
        Some("n1")
    );
}

/// A node named `n1` that says where it was asked for.
async fn answer(
    request: Request<hyper::body::Incoming>,
) -> Result<Response<Full<bytes::Bytes>>, std::convert::Infallible> {
    let mut node = node();
    node["metadata"]["labels"] = json!({"asked": request.uri().to_string()});
    Ok(Response::new(Full::new(bytes::Bytes::from(
        node.to_string(),
    ))))
}

/// Answers every request on the connection.
async fn serve(stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static) {
    let service = hyper::service::service_fn(answer);
    let io = hyper_util::rt::TokioIo::new(stream);
    drop(
        hyper::server::conn::http1::Builder::new()
            .serve_connection(io, service)
            .await,
    );
}

async fn tcp_server() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

#[tokio::test]
async fn framework_case_146_the_proxy_variables_rule_the_way_to_the_api_server() {
    let (server, proxy) = (tcp_server().await, tcp_server().await);
    let ask = async |config: Config, exception: &str| {
        let rules = ProxyRules::from_environment(|name| match name {
            "HTTP_PROXY" => Some(proxy.clone()),
            "NO_PROXY" => Some(exception.to_owned()),
            _ => None,
        });
        let connection = Connection::open(&config, rules.unwrap()).unwrap();
        let clients = Clients::new(
            connection,
            agent(),
            UNLIMITED,
            Clock::system(),
            Metrics::new(),
            false,
        );
        let node = Api::<Node>::all(clients.root("x")).get("n1").await.unwrap();
        node.metadata.labels.unwrap()["asked"].clone()
    };
    let direct = load_config("", &server).await.unwrap();
    assert_eq!(ask(direct, "127.0.0.0/8").await, "/api/v1/nodes/n1");
    // Loopback never goes through a proxy; a name that only the proxy knows must.
    let named = load_config("", "http://api.example:6443").await.unwrap();
    assert_eq!(
        ask(named, "").await,
        "http://api.example:6443/api/v1/nodes/n1"
    );
}

fn kubeconfig(more: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: k, cluster: {{server: 'https://api.example:6443'{more}}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n"
    )
}

#[tokio::test]
async fn the_flags_say_where_the_api_server_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let path = path.to_str().unwrap();
    std::fs::write(path, kubeconfig("")).unwrap();
    let config = load_config(path, "").await.unwrap();
    assert_eq!(config.cluster_url, "https://api.example:6443");
    assert!(!config.default_retry && config.proxy_url.is_none());
    let config = load_config(path, "https://other.example").await.unwrap();
    assert_eq!(config.cluster_url, "https://other.example");
    assert!(config.auth_info.token.is_some());
    let config = load_config("", "other.example:8080").await.unwrap();
    assert_eq!(config.cluster_url, "http://other.example:8080");
    std::fs::write(path, kubeconfig(", proxy-url: 'http://proxy.example:3128'")).unwrap();
    let config = load_config(path, "").await.unwrap();
    assert_eq!(config.proxy_url.unwrap(), "http://proxy.example:3128");
}

#[tokio::test]
async fn a_way_that_leads_nowhere_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let path = path.to_str().unwrap();
    let missing = load_config(path, "").await.unwrap_err();
    assert_eq!(missing.to_string(), format!("cannot use kubeconfig {path}"));
    std::fs::write(path, "clusters: [").unwrap();
    let broken = error_chain(&load_config(path, "").await.unwrap_err());
    assert!(broken.contains("line"), "{broken}");
    for master in ["ftp://x", "http://", "::"] {
        let wrong = load_config("", master).await.unwrap_err().to_string();
        assert!(wrong.starts_with("--master "), "{wrong}");
    }
}

#[tokio::test]
async fn a_kubeconfig_in_utf_16_may_end_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let path = path.to_str().unwrap();
    for mark in [[0xFF, 0xFE], [0xFE, 0xFF]] {
        std::fs::write(path, [&mark[..], b"abc"].concat()).unwrap();
        let wrong = error_chain(&load_config(path, "").await.unwrap_err());
        assert!(wrong.contains("Invalid UTF-16"), "{wrong}");
    }
    let text = kubeconfig("");
    let units = text.encode_utf16().flat_map(u16::to_le_bytes);
    let bytes: Vec<u8> = [0xFF, 0xFE].into_iter().chain(units).collect();
    std::fs::write(path, bytes).unwrap();
    assert!(load_config(path, "").await.is_ok());
}

/// A TLS server for `localhost` with a certificate of its own; returns its address and the
/// certificate in PEM form.
async fn tls_server() -> (String, String) {
    let names = ["localhost", "API.example", "192.0.2.7"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(serve(stream));
            }
        }
    });
    (format!("localhost:{port}"), made.cert.pem())
}

#[tokio::test]
async fn the_authority_of_the_kubeconfig_is_trusted_and_no_other() {
    let (server, authority) = tls_server().await;
    let (_, stranger) = tls_server().await;
    let directory = tempfile::tempdir().unwrap();
    let mut answers = Vec::new();
    for pem in [authority, stranger] {
        std::fs::write(directory.path().join("ca.pem"), pem).unwrap();
        let path = directory.path().join("kubeconfig");
        // The authority's path is relative to the file.
        std::fs::write(&path, kubeconfig(", certificate-authority: ca.pem")).unwrap();
        let master = format!("https://{server}");
        let config = load_config(path.to_str().unwrap(), &master).await.unwrap();
        let connection = Connection::open(&config, ProxyRules::default()).unwrap();
        let clients = Clients::new(
            connection,
            agent(),
            UNLIMITED,
            Clock::system(),
            Metrics::new(),
            true,
        );
        answers.push(Api::<Node>::all(clients.root("x")).get("n1").await);
        let names = clients.server_names().all();
        // By which it was called, and what it showed if it was trusted.
        let shown: bowline_core::Names = match answers.len() {
            1 => ["localhost", "api.example", "192.0.2.7"].iter().collect(),
            _ => ["localhost"].iter().collect(),
        };
        assert_eq!(names, shown);
    }
    let refused = error_chain(&answers.pop().unwrap().unwrap_err());
    assert_eq!(
        answers.pop().unwrap().unwrap().metadata.name.as_deref(),
        Some("n1")
    );
    assert!(
        refused.contains(&server) && refused.contains("certificate"),
        "{refused}"
    );
}

#[tokio::test]
async fn the_server_shows_the_name_that_the_kubeconfig_expects() {
    let (server, authority) = tls_server().await;
    let port = server.trim_start_matches("localhost:");
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("ca.pem"), authority).unwrap();
    let path = directory.path().join("kubeconfig");
    let mut answers = Vec::new();
    // The certificate is not for the address by which it is reached.
    for more in [
        ", tls-server-name: api.example",
        ", tls-server-name: x.example",
        "",
    ] {
        let more = format!(", certificate-authority: ca.pem{more}");
        std::fs::write(&path, kubeconfig(&more)).unwrap();
        let master = format!("https://127.0.0.1:{port}");
        let config = load_config(path.to_str().unwrap(), &master).await.unwrap();
        let connection = Connection::open(&config, ProxyRules::default()).unwrap();
        let api = Api::<Node>::all(connection.client().clone());
        answers.push(api.get("n1").await.is_ok());
    }
    assert_eq!(answers, [true, false, false]);
    std::fs::write(&path, kubeconfig(", tls-server-name: 'not a name'")).unwrap();
    let config = load_config(path.to_str().unwrap(), "").await.unwrap();
    let wrong = Connection::open(&config, ProxyRules::default())
        .err()
        .unwrap();
    assert!(error_chain(&wrong).contains("server name"), "{wrong}");
}
