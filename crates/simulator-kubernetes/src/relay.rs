//! A relay in front of another API server, so that calls to a real one are written down and can be
//! made to go wrong like calls to a simulated one.
//!
//! ```text
//!  client ── pipe ──▶ serve: faults, journal ──▶ Relay ── TLS ──▶ kube-apiserver
//! ```
//!
//! Headers pass through, and with them bearer tokens and impersonation: who may do what is the other
//! server's decision. A client certificate cannot pass through; if the configuration has one, it
//! is the relay's. Watches are streamed. What goes wrong behind the relay is a cut connection in
//! front of it.
//!
//! A relay can narrow the view: nodes, Services and requests for certificates are then listed and watched with a label selector
//! that the client knows nothing of, so that it takes its own for all there are.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bowline_http::{Connector, ProxyRules};
use bowline_simulator::serve::{Answer, Api, Cut, Peer, empty, whole};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{self, HeaderMap, HeaderName};
use http::uri::{PathAndQuery, Uri};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt as _;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::status::Refusal;

/// No call but a watch takes longer: kube-apiserver gives up after 60 s itself.
const DEADLINE: Duration = Duration::from_secs(65);
/// Bytes of an answer that is not a watch: a list of 5,000 nodes has some 50 MiB.
const MOST_BYTES: usize = 128 * 1024 * 1024;
/// How the names of service accounts begin.
const ACCOUNTS: &str = "system:serviceaccount:";
/// What a narrowed view narrows.
const NARROWED: [&str; 4] = [
    "/api/v1/nodes",
    "/api/v1/services",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/discovery.k8s.io/v1/endpointslices",
];
/// Headers about one connection, which mean nothing on the next.
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Why there is no relay.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    #[error("cannot use the certificates for {url}")]
    Certificates { url: Uri, source: Box<kube::Error> },
}

/// Passes calls on to another API server.
pub struct Relay {
    client: Client<Connector, Full<Bytes>>,
    upstream: Uri,
    caller: String,
    /// The nodes, Services, their endpoints and requests that are shown; none: all.
    selector: Option<String>,
    flights: watch::Sender<Flights>,
}

/// The calls that the other server has not answered yet.
#[derive(Default)]
struct Flights {
    next: u64,
    open: BTreeSet<u64>,
}

/// One of them; landed when dropped.
struct Flight<'a>(&'a watch::Sender<Flights>, u64);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|flights| {
            flights.open.remove(&self.1);
        });
    }
}

impl Relay {
    /// A relay to the server of that configuration. `caller` is how the journal names who calls.
    /// If that is a service account, the token of each call tells which one.
    pub fn new(config: &kube::Config, caller: &str) -> Result<Arc<Self>, RelayError> {
        Self::narrowed(config, caller, None)
    }

    /// The same, with a view of only those nodes, Services, endpoint slices and requests that the label
    /// selector chooses.
    pub fn narrowed(
        config: &kube::Config,
        caller: &str,
        selector: Option<String>,
    ) -> Result<Arc<Self>, RelayError> {
        let upstream = config.cluster_url.clone();
        let tls = config.rustls_client_config();
        let tls = tls.map_err(|source| RelayError::Certificates {
            url: upstream.clone(),
            source: Box::new(source),
        })?;
        let connector = Connector::real(Arc::new(tls), ProxyRules::default());
        Ok(Arc::new(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            upstream,
            caller: caller.to_owned(),
            selector,
            flights: watch::Sender::default(),
        }))
    }

    /// Waits until the calls are answered that the other server works on now. What they changed can
    /// be seen there before their answers are here, and in the journal.
    pub async fn settled(&self) {
        let mut flights = self.flights.subscribe();
        let now = flights.borrow().next;
        let landed = |flights: &Flights| flights.open.first().is_none_or(|first| *first >= now);
        // The sender is ours, so there is no error to expect.
        let _ = flights.wait_for(landed).await;
    }

    fn take_off(&self) -> Flight<'_> {
        let mut number = 0;
        self.flights.send_modify(|flights| {
            number = flights.next;
            flights.next += 1;
            flights.open.insert(number);
        });
        Flight(&self.flights, number)
    }

    async fn pass(
        &self,
        request: Request<Bytes>,
    ) -> io::Result<Response<bowline_simulator::serve::Body>> {
        let is_watch = is_watch(request.uri().query().unwrap_or_default());
        let call = self.client.request(self.address(request)?);
        let response = timeout(DEADLINE, call).await?.map_err(io::Error::other)?;
        let (mut head, body) = response.into_parts();
        let body = if is_watch {
            streamed(body)
        } else {
            let body = Limited::new(body, MOST_BYTES).collect();
            whole(
                timeout(DEADLINE, body)
                    .await?
                    .map_err(io::Error::other)?
                    .to_bytes(),
            )
        };
        forget_hop(&mut head.headers);
        head.version = http::Version::HTTP_11;
        Ok(Response::from_parts(head, body))
    }

    /// What is asked for, in the narrowed view.
    fn target(&self, head: &http::request::Parts) -> io::Result<PathAndQuery> {
        let root = PathAndQuery::from_static("/");
        let asked = head.uri.path_and_query().cloned().unwrap_or(root);
        match &self.selector {
            Some(selector)
                if head.method == http::Method::GET && NARROWED.contains(&asked.path()) =>
            {
                let query = asked.query().unwrap_or_default();
                let mut narrowed = url::form_urlencoded::Serializer::new(query.to_owned());
                narrowed.append_pair("labelSelector", selector);
                let text = format!("{}?{}", asked.path(), narrowed.finish());
                text.parse().map_err(io::Error::other)
            }
            _ => Ok(asked),
        }
    }

    /// Who calls with these headers.
    fn caller(&self, headers: &HeaderMap) -> String {
        let named = self.caller.starts_with(ACCOUNTS).then(|| account(headers));
        named.flatten().unwrap_or_else(|| self.caller.clone())
    }

    /// The request as the other server gets it.
    fn address(&self, request: Request<Bytes>) -> io::Result<Request<Full<Bytes>>> {
        let (mut head, body) = request.into_parts();
        let mut parts = self.upstream.clone().into_parts();
        parts.path_and_query = Some(self.target(&head)?);
        head.uri = Uri::from_parts(parts).map_err(io::Error::other)?;
        forget_hop(&mut head.headers);
        head.version = http::Version::HTTP_11;
        head.extensions.clear();
        Ok(Request::from_parts(head, Full::new(body)))
    }
}

/// The service account that a token names. Whether it is genuine is the other server's decision.
fn account(headers: &HeaderMap) -> Option<String> {
    let token = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let claims = token.strip_prefix("Bearer ")?.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let subject = claims["sub"].as_str()?;
    subject.starts_with(ACCOUNTS).then(|| subject.to_owned())
}

fn is_watch(query: &str) -> bool {
    query
        .split('&')
        .any(|part| matches!(part, "watch=true" | "watch=1"))
}

/// A watch: piece by piece, and its failure is a failure here too.
fn streamed(body: Incoming) -> bowline_simulator::serve::Body {
    body.map_err(io::Error::other).boxed_unsync()
}

fn forget_hop(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

impl Api for Relay {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, _: &'a Peer) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let caller = self.caller(request.headers());
            let flight = self.take_off();
            let passed = self.pass(request).await;
            drop(flight);
            let response = passed.unwrap_or_else(|error| {
                tracing::debug!(server = %self.upstream, %error, "a relayed call failed");
                let mut response = Response::new(empty());
                response.extensions_mut().insert(Cut);
                response
            });
            Answer { response, caller }
        })
    }

    fn error_body(&self, status: http::StatusCode, message: &str) -> Value {
        Refusal::of_code(status.as_u16(), message).to_status()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{Ipv4Addr, SocketAddr};

    use bowline_simulator::World;
    use bowline_simulator::faults::{Action, Rule};
    use bowline_simulator::serve::Server;
    use futures::{StreamExt, TryStreamExt};
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Api as Kube;
    use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
    use kube::runtime::reflector::Lookup as _;
    use serde_json::json;

    use super::*;
    use crate::auth::User;
    use crate::cluster::Cluster;

    const PIPE: &str = "relay.sim:80";

    /// A cluster on a TLS socket, and a client of it through a relay in another world.
    async fn stage() -> (Cluster, World, Arc<Relay>, Server, kube::Client) {
        let far = World::real();
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let cluster = Cluster::on_socket(&far, loopback).await.unwrap();
        let user = User::new("jane", &["system:masters"]);
        let mut config = cluster.config_of(user).unwrap();
        let near = World::real();
        let relay = Relay::new(&config, "the client").unwrap();
        let server = Server::builder(&near, relay.clone()).pipe(PIPE);
        config.cluster_url = format!("http://{PIPE}").parse().unwrap();
        let client = crate::cluster::client_over(&near, config).unwrap();
        (cluster, near, relay, server, client)
    }

    fn namespace(name: &str) -> Namespace {
        let value = json!({ "metadata": { "name": name } });
        serde_json::from_value(value).unwrap()
    }

    #[tokio::test]
    async fn calls_pass_with_their_token_and_are_written_down() {
        let (cluster, near, relay, _server, client) = stage().await;
        let api: Kube<Namespace> = Kube::all(client);
        let made = api.create(&PostParams::default(), &namespace("far")).await;
        assert!(made.unwrap().metadata.uid.is_some());
        let twice = api.create(&PostParams::default(), &namespace("far")).await;
        assert!(matches!(twice, Err(kube::Error::Api(status)) if status.code == 409));
        assert_eq!(
            api.list(&ListParams::default()).await.unwrap().items.len(),
            5
        );
        relay.settled().await;
        let calls = near.journal.entries().into_iter();
        let calls: Vec<_> = calls.map(|it| (it.method, it.status, it.caller)).collect();
        let call = |method: &str, status| (method.to_owned(), status, "the client".to_owned());
        assert_eq!(
            calls,
            [call("POST", 201), call("POST", 409), call("GET", 200)]
        );
        let far = &cluster.calls()[0];
        assert_eq!(far.3, "jane");
    }

    #[tokio::test]
    async fn watches_are_streamed_and_break_when_the_server_goes() {
        let (cluster, _near, _relay, _server, client) = stage().await;
        let api: Kube<Namespace> = Kube::all(client);
        let version = api.list(&ListParams::default()).await.unwrap();
        let version = version.metadata.resource_version.unwrap();
        let watch = api.watch(&WatchParams::default(), &version).await.unwrap();
        let mut watch = watch.boxed();
        for name in ["one", "two"] {
            let new = namespace(name);
            api.create(&PostParams::default(), &new).await.unwrap();
            let Some(WatchEvent::Added(seen)) = watch.try_next().await.unwrap() else {
                panic!("nothing was told of {name}");
            };
            assert_eq!(seen.name().unwrap(), name);
        }
        cluster.shutdown().await;
        // However it ends, it ends.
        while let Some(Ok(_)) = watch.next().await {}
        let gone = api.list(&ListParams::default()).await.unwrap_err();
        assert!(!matches!(gone, kube::Error::Api(_)), "{gone}");
    }

    #[tokio::test]
    async fn a_narrowed_view_shows_only_the_chosen_nodes_and_services() {
        use k8s_openapi::api::core::v1::{Node, Service};
        let (cluster, near, _relay, _server, _client) = stage().await;
        for (name, scenario) in [("mine", "one"), ("other", "two")] {
            let metadata = json!({ "name": name, "labels": { "scenario": scenario } });
            let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata });
            let metadata = json!({ "name": name, "namespace": "default",
                                   "labels": { "scenario": scenario } });
            let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata,
                                  "spec": { "ports": [{ "port": 80 }] } });
            cluster.install([node, service]).unwrap();
        }
        let user = User::new("jane", &["system:masters"]);
        let mut config = cluster.config_of(user).unwrap();
        let relay = Relay::narrowed(&config, "narrow", Some("scenario=one".to_owned())).unwrap();
        let _narrow = Server::builder(&near, relay).pipe("narrow.sim:80");
        config.cluster_url = "http://narrow.sim:80".parse().unwrap();
        let client = crate::cluster::client_over(&near, config).unwrap();
        let api: Kube<Service> = Kube::all(client.clone());
        let listed = api.list(&kube::api::ListParams::default()).await.unwrap();
        let names: Vec<_> = listed.items.iter().filter_map(Service::name).collect();
        assert_eq!(names, ["mine"]);
        let api: Kube<Node> = Kube::all(client);
        let listed = api.list(&kube::api::ListParams::default()).await.unwrap();
        let names: Vec<_> = listed.items.iter().filter_map(Node::name).collect();
        assert_eq!(names, ["mine"]);
        let watch = api.watch(&WatchParams::default(), "0").await.unwrap();
        let Some(Ok(WatchEvent::Added(seen))) = watch.boxed().next().await else {
            panic!("nothing was told");
        };
        assert_eq!(seen.name().unwrap(), "mine");
        // Reading one by its name is not narrowed, and the journal tells what was asked for.
        assert!(api.get("other").await.is_ok());
        assert_eq!(near.journal.entries()[0].query, "");
    }

    #[test]
    fn a_service_account_is_known_by_its_token() {
        let subject = "system:serviceaccount:kube-system:node-controller";
        let claims = URL_SAFE_NO_PAD.encode(json!({ "sub": subject }).to_string());
        let mut headers = HeaderMap::new();
        assert_eq!(account(&headers), None);
        let token = format!("Bearer e30.{claims}.c2ln");
        headers.insert(header::AUTHORIZATION, token.parse().unwrap());
        assert_eq!(account(&headers).as_deref(), Some(subject));
        headers.insert(header::AUTHORIZATION, "Bearer opaque".parse().unwrap());
        assert_eq!(account(&headers), None);
    }

    #[tokio::test]
    async fn faults_strike_before_the_other_server_hears() {
        let (cluster, near, _relay, _server, client) = stage().await;
        let api: Kube<Namespace> = Kube::all(client);
        let fault = |action| near.faults.add(Rule::new(action).times(1)).unwrap();
        fault(Action::Status {
            code: 500,
            headers: BTreeMap::new(),
            body: None,
        });
        let struck = api.create(&PostParams::default(), &namespace("a")).await;
        assert!(matches!(struck, Err(kube::Error::Api(status)) if status.code == 500));
        assert_eq!(cluster.calls(), []);
        fault(Action::LostAnswer);
        let lost = api.create(&PostParams::default(), &namespace("b")).await;
        assert!(!matches!(lost.unwrap_err(), kube::Error::Api(_)));
        assert_eq!(cluster.calls().len(), 1);
        assert!(api.get("b").await.is_ok());
    }
}
