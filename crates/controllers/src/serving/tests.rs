//! Over real TLS sockets, with an API server that answers reviews in memory.

use std::net::Ipv4Addr;
use std::sync::Mutex;

use bytes::Bytes;
use http::{Method, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;

/// How the review back end behaves.
#[derive(Clone, Copy, PartialEq)]
enum Backend {
    Good,
    /// It answers every review with this status.
    Status(u16),
    Unreachable,
}

#[derive(Clone)]
struct Reviewer {
    backend: Arc<Mutex<Backend>>,
    asked: Arc<Mutex<Vec<String>>>,
    config_map: Arc<Mutex<Option<Value>>>,
}

impl Reviewer {
    fn new(backend: Backend) -> Self {
        Self {
            backend: Arc::new(Mutex::new(backend)),
            asked: Arc::default(),
            config_map: Arc::default(),
        }
    }

    fn client(&self) -> kube::Client {
        let this = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let this = this.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                this.answer(parts.uri.path(), parts.uri.query().unwrap_or(""), &body)
            }
        });
        kube::Client::new(service, "default")
    }

    fn asked(&self, what: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|path| path.ends_with(what)).count()
    }

    fn answer(&self, path: &str, query: &str, body: &[u8]) -> io::Result<Response<Body>> {
        self.asked.lock().unwrap().push(path.to_owned());
        let backend = *self.backend.lock().unwrap();
        let mut status = 201;
        let answer = match backend {
            Backend::Unreachable => return Err(io::ErrorKind::ConnectionRefused.into()),
            Backend::Status(code) if path.ends_with("reviews") => {
                status = code;
                failure(code)
            }
            _ if path.ends_with("reviews") => {
                let mut review: Value = serde_json::from_slice(body).unwrap();
                review["status"] = verdict(&review["spec"]);
                review
            }
            _ if query.contains("watch=") => {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            _ => match (
                self.config_map.lock().unwrap().clone(),
                path.contains("/configmaps/"),
            ) {
                (Some(map), true) => map,
                (map, false) => json!({"kind": "ConfigMapList", "apiVersion": "v1",
                    "metadata": {"resourceVersion": "1"},
                    "items": map.into_iter().collect::<Vec<_>>()}),
                (None, true) => {
                    status = 404;
                    failure(404)
                }
            },
        };
        let body = Body::from(serde_json::to_vec(&answer).unwrap());
        Ok(Response::builder().status(status).body(body).unwrap())
    }
}

fn failure(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "it went wrong", "reason": "Failed", "code": code})
}

/// Token `good` is the scraper, whom RBAC allows `/metrics`; token `master` an administrator.
fn verdict(spec: &Value) -> Value {
    match spec["token"].as_str() {
        Some("good") => json!({"authenticated": true, "user": {"username": "scraper"}}),
        Some("master") => json!({"authenticated": true,
            "user": {"username": "root", "groups": ["system:masters"]}}),
        Some(_) => json!({"authenticated": false}),
        None => {
            let groups = spec["groups"].as_array().unwrap();
            let allowed = ["scraper", "ann", "cert-user"].contains(&spec["user"].as_str().unwrap())
                && groups.contains(&json!("system:authenticated"))
                && spec["nonResourceAttributes"] == json!({"path": "/metrics", "verb": "get"});
            json!({"allowed": allowed})
        }
    }
}

struct Running {
    address: SocketAddr,
    parts: Parts,
    reviewer: Reviewer,
    stop: Option<oneshot::Sender<()>>,
    done: tokio::task::JoinHandle<()>,
}

fn options() -> ServingOptions {
    ServingOptions {
        bind_address: Ipv4Addr::LOCALHOST.into(),
        authentication: AuthenticationOptions {
            skip_lookup: true,
            ..AuthenticationOptions::default()
        },
        ..ServingOptions::default()
    }
}

fn parts(reviewer: Option<&Reviewer>) -> Parts {
    Parts {
        metrics: Metrics::new(),
        health: Health::default(),
        configz: Arc::new(|| json!({})),
        set_verbosity: Arc::new(|_| Ok(())),
        authentication: reviewer.map(Reviewer::client),
        authorization: reviewer.map(Reviewer::client),
        clock: Clock::system(),
        random: Random::seeded(1),
    }
}

async fn start_with(options: ServingOptions, parts: Parts, reviewer: Reviewer) -> Running {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let server = Server::on(listener, options, parts.clone()).await.unwrap();
    let address = server.address().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let done = tokio::spawn(server.run(async move {
        let _ = stopped.await;
    }));
    Running {
        address,
        parts,
        reviewer,
        stop: Some(stop),
        done,
    }
}

async fn start(options: ServingOptions, backend: Backend) -> Running {
    let reviewer = Reviewer::new(backend);
    let parts = parts(Some(&reviewer));
    start_with(options, parts, reviewer).await
}

/// Takes any certificate and keeps it.
#[derive(Debug, Default)]
struct Witness(Mutex<Vec<Vec<u8>>>);

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let chain = std::iter::once(end_entity).chain(intermediates);
        *self.0.lock().unwrap() = chain.map(|c| c.as_ref().to_vec()).collect();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

type Identity = (Vec<CertificateDer<'static>>, Vec<u8>);

#[derive(Debug)]
struct Said {
    status: u16,
    body: String,
    headers: http::HeaderMap,
    version: http::Version,
    chain: Vec<Vec<u8>>,
}

#[derive(Default)]
struct Ask<'a> {
    method: Option<Method>,
    headers: Vec<(&'a str, &'a str)>,
    identity: Option<Identity>,
    alpn: &'a [&'a str],
    host: Option<&'a str>,
    tls12: bool,
    body: &'a str,
}

impl Running {
    async fn ask(&self, path: &str, ask: Ask<'_>) -> io::Result<Said> {
        let witness = Arc::new(Witness::default());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions: &[_] = if ask.tls12 {
            &[&rustls::version::TLS12]
        } else {
            &[&rustls::version::TLS12, &rustls::version::TLS13]
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&witness) as _);
        let mut config = match ask.identity {
            Some((chain, key)) => {
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
                builder.with_client_auth_cert(chain, key).unwrap()
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = ask
            .alpn
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = TcpStream::connect(self.address).await?;
        let host = ask.host.unwrap_or("localhost").to_owned();
        let stream = connector
            .connect(ServerName::try_from(host).unwrap(), stream)
            .await?;
        let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let mut request = Request::builder()
            .method(ask.method.unwrap_or(Method::GET))
            .uri(if h2 {
                format!("https://localhost{path}")
            } else {
                path.to_owned()
            })
            .header("host", "localhost");
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(ask.body.to_owned()));
        let request = request.body(body).unwrap();
        let io = TokioIo::new(stream);
        let response = if h2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                    .await
                    .unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await
        } else {
            let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await
        };
        let (parts, body) = response.map_err(io::Error::other)?.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let chain = witness.0.lock().unwrap().clone();
        Ok(Said {
            status: parts.status.as_u16(),
            body: String::from_utf8(body.to_vec()).unwrap(),
            headers: parts.headers,
            version: parts.version,
            chain,
        })
    }

    async fn get(&self, path: &str) -> Said {
        let said = self.ask(path, Ask::default()).await.unwrap();
        assert_eq!(said.headers["cache-control"], "no-cache, private", "{path}");
        said
    }

    async fn get_with_token(&self, path: &str, token: &str) -> Said {
        let header = format!("Bearer {token}");
        let ask = Ask {
            headers: vec![("authorization", &header)],
            ..Ask::default()
        };
        let said = self.ask(path, ask).await.unwrap();
        assert_eq!(said.headers["cache-control"], "no-cache, private");
        said
    }
}

fn open(paths: &[&str]) -> ServingOptions {
    let mut options = options();
    options.authorization.always_allow = paths.iter().map(|path| (*path).to_owned()).collect();
    options
}

#[tokio::test]
async fn framework_case_112_healthz_lists_the_election_first_then_the_controllers() {
    let running = start(options(), Backend::Good).await;
    let health = &running.parts.health;
    health.add_watchdog("leaderElection", Arc::new(|| Ok(())));
    health.add_controller("cloud-node-controller");
    health.add_controller("cloud-node-lifecycle-controller");
    let said = running.get("/healthz?verbose").await;
    let expected = "[+]leaderElection ok\n[+]cloud-node-controller ok\n\
                    [+]cloud-node-lifecycle-controller ok\nhealthz check passed\n";
    assert_eq!((said.status, said.body.as_str()), (200, expected));
    assert_eq!(running.get("/healthz").await.body, "ok");
    assert_eq!(said.headers["content-type"], "text/plain; charset=utf-8");
    assert_eq!(said.headers["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn framework_case_115_authorization_per_path_and_caller() {
    let running = start(options(), Backend::Good).await;
    let said = running.get("/healthz").await;
    assert_eq!((said.status, said.body.as_str()), (200, "ok"));
    let said = running.get("/metrics").await;
    assert_eq!(said.status, 403);
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"",
        "reason": "Forbidden", "details": {}, "code": 403,
    });
    assert_eq!(serde_json::from_str::<Value>(&said.body).unwrap(), expected);
    assert_eq!(said.headers["content-type"], "application/json");
    let said = running.get_with_token("/metrics", "good").await;
    assert_eq!(said.status, 200);
    assert!(
        said.body
            .contains("# TYPE process_start_time_seconds gauge\n")
    );
    let said = running.get_with_token("/configz", "good").await;
    assert_eq!(said.status, 403, "{}", said.body);
    assert!(
        said.body
            .contains(r#"User \"scraper\" cannot get path \"/configz\""#)
    );
    assert_eq!(
        running.get_with_token("/configz", "master").await.status,
        200
    );

    let failing = start(options(), Backend::Status(403)).await;
    let said = failing.get("/metrics?a=b").await;
    let expected = "Internal Server Error: \"/metrics?a=b\": it went wrong\n";
    assert_eq!((said.status, said.body.as_str()), (500, expected));

    let running = start(open(&["/healthz", "/metrics"]), Backend::Status(403)).await;
    assert_eq!(running.get("/metrics").await.status, 200);
}

#[tokio::test]
async fn framework_case_116_a_bad_token_gets_401_everywhere() {
    let running = start(open(&["*"]), Backend::Good).await;
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    for path in ["/healthz", "/metrics", "/nothing", "/livez", "/configz"] {
        let said = running.get_with_token(path, "wrong").await;
        assert_eq!(said.status, 401, "{path}");
        assert_eq!(serde_json::from_str::<Value>(&said.body).unwrap(), expected);
        assert_ne!(running.get_with_token(path, "good").await.status, 401);
    }
    assert_eq!(
        running.reviewer.asked("tokenreviews"),
        2,
        "answers are remembered"
    );
}

#[tokio::test]
async fn framework_case_117_a_standby_is_healthy_and_shows_that_it_does_not_lead() {
    let running = start(
        open(&["/healthz", "/readyz", "/livez", "/metrics"]),
        Backend::Good,
    )
    .await;
    running
        .parts
        .health
        .add_watchdog("leaderElection", Arc::new(|| Ok(())));
    running
        .parts
        .metrics
        .election
        .leading("cloud-controller-manager", false);
    for path in ["/healthz", "/livez", "/readyz", "/healthz/leaderElection"] {
        let said = running.get(path).await;
        let expected = if path == "/healthz/leaderElection" {
            403
        } else {
            200
        };
        assert_eq!(said.status, expected, "{path}");
    }
    let text = running.get("/metrics").await.body;
    assert!(text.contains("leader_election_master_status{name=\"cloud-controller-manager\"} 0\n"));
    assert!(!text.contains("running_managed_controllers"));
}

#[tokio::test]
async fn framework_case_121_configz_shows_the_given_value() {
    let reviewer = Reviewer::new(Backend::Good);
    let mut parts = parts(Some(&reviewer));
    let value = json!({"cloudcontrollermanager.config.k8s.io": {
        "kind": "CloudControllerManagerConfiguration",
        "NodeStatusUpdateFrequency": "10m0s",
        "Generic": {"Controllers": ["cloud-node-controller"]},
    }});
    let shown = value.clone();
    parts.configz = Arc::new(move || shown.clone());
    let running = start_with(open(&["/configz"]), parts, reviewer).await;
    let said = running.get("/configz").await;
    assert_eq!(serde_json::from_str::<Value>(&said.body).unwrap(), value);
    assert_eq!(said.headers["content-type"], "application/json");
    assert_eq!(said.headers["x-content-type-options"], "nosniff");
}

#[tokio::test]
async fn framework_case_132_unreachable_and_missing_review_back_ends() {
    let running = start(options(), Backend::Unreachable).await;
    let said = running.get("/metrics").await;
    assert_eq!(said.status, 500);
    assert!(
        said.body
            .starts_with("Internal Server Error: \"/metrics\": "),
        "{}",
        said.body
    );
    assert_eq!(
        running.reviewer.asked("subjectaccessreviews"),
        1,
        "refused: no further try"
    );
    assert_eq!(running.get_with_token("/metrics", "good").await.status, 401);
    assert_eq!(running.get("/healthz").await.status, 200);
    let text = running.parts.metrics.text();
    assert!(
        text.contains("apiserver_delegated_authz_request_total{code=\"<error>\"} 1\n"),
        "{text}"
    );

    let running = start_with(options(), parts(None), Reviewer::new(Backend::Good)).await;
    let said = running.get_with_token("/metrics", "good").await;
    assert_eq!(said.status, 403);
    assert!(said.body.contains("system:anonymous"));
}

#[tokio::test]
async fn framework_case_133_health_checks_are_counted_and_can_be_reset() {
    let running = start(open(&["/healthz", "/metrics*"]), Backend::Good).await;
    running
        .parts
        .health
        .add_watchdog("leaderElection", Arc::new(|| Ok(())));
    running.get("/healthz").await;
    running.get("/healthz").await;
    let series = "kubernetes_healthchecks_total{name=\"leaderElection\",status=\"success\",type=\"healthz\"} 2\n";
    let said = running.get("/metrics/slis").await;
    assert!(said.body.contains(series), "{}", said.body);
    assert!(said.body.contains("process_start_time_seconds"));
    let delete = |path: &'static str| {
        let ask = Ask {
            method: Some(Method::DELETE),
            ..Ask::default()
        };
        running.ask(path, ask)
    };
    let said = delete("/metrics/slis").await.unwrap();
    assert_eq!((said.status, said.body.trim_end()), (200, "metrics reset"));
    assert!(
        !running
            .get("/metrics/slis")
            .await
            .body
            .contains("leaderElection")
    );
    let said = delete("/metrics").await.unwrap();
    assert_eq!(said.status, 200);
    assert!(said.body.contains("# TYPE"));
}

#[tokio::test]
async fn unknown_paths_are_404_after_authorization() {
    let running = start(options(), Backend::Good).await;
    assert_eq!(running.get("/nothing").await.status, 403);
    for path in [
        "/nothing",
        "/debug/pprof",
        "/debug/pprof/heap",
        "/healthz/bogus",
        "/",
    ] {
        let said = running.get_with_token(path, "master").await;
        assert_eq!(
            (said.status, said.body.as_str()),
            (404, "404 page not found\n"),
            "{path}"
        );
    }
    let said = running.get_with_token("/healthz/ping", "master").await;
    assert_eq!((said.status, said.body.as_str()), (200, "ok"));
}

#[tokio::test]
async fn verbosity_is_set_by_put_when_profiling_is_on() {
    let levels: Arc<Mutex<Vec<i32>>> = Arc::default();
    let reviewer = Reviewer::new(Backend::Good);
    let mut parts = parts(Some(&reviewer));
    let set = Arc::clone(&levels);
    parts.set_verbosity = Arc::new(move |level| {
        set.lock().unwrap().push(level);
        Ok(())
    });
    let put = |body: &'static str| Ask {
        method: Some(Method::PUT),
        body,
        ..Ask::default()
    };
    let running = start_with(open(&["*"]), parts.clone(), reviewer.clone()).await;
    let said = running.ask("/debug/flags/v", put("5")).await.unwrap();
    let text = "successfully set klog.logging.verbosity to 5";
    assert_eq!((said.status, said.body.as_str()), (200, text));
    assert_eq!(
        running
            .ask("/debug/flags/v", put("x"))
            .await
            .unwrap()
            .status,
        400
    );
    assert_eq!(running.get("/debug/flags/v").await.status, 406);
    assert_eq!(*levels.lock().unwrap(), [5]);
    let mut off = open(&["*"]);
    off.profiling = false;
    let running = start_with(off, parts, reviewer).await;
    assert_eq!(
        running
            .ask("/debug/flags/v", put("5"))
            .await
            .unwrap()
            .status,
        404
    );
}

#[tokio::test]
async fn http_2_is_spoken_unless_switched_off_and_openmetrics_on_request() {
    let ask = || Ask {
        alpn: &["h2", "http/1.1"],
        headers: vec![("accept", "application/openmetrics-text; version=1.0.0")],
        ..Ask::default()
    };
    let running = start(open(&["/metrics"]), Backend::Good).await;
    let said = running.ask("/metrics", ask()).await.unwrap();
    assert_eq!((said.status, said.version), (200, http::Version::HTTP_2));
    assert!(said.body.ends_with("# EOF\n"));
    let mut options = open(&["/metrics"]);
    options.disable_http2 = true;
    let running = start(options, Backend::Good).await;
    let said = running.ask("/metrics", ask()).await.unwrap();
    assert_eq!((said.status, said.version), (200, http::Version::HTTP_11));
}

#[tokio::test]
async fn a_minimum_version_refuses_older_callers() {
    let mut options = options();
    options.tls.min_version = "VersionTLS13".to_owned();
    let running = start(options, Backend::Good).await;
    let ask = |tls12| Ask {
        tls12,
        ..Ask::default()
    };
    assert!(running.ask("/healthz", ask(true)).await.is_err());
    assert_eq!(
        running.ask("/healthz", ask(false)).await.unwrap().status,
        200
    );
}

/// An authority and a certificate by it.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn identity(&self, name: &str, groups: &[&str]) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], key.serialize_der())
    }
}

async fn get_as(
    running: &Running,
    path: &str,
    identity: Identity,
    headers: &[(&str, &str)],
) -> u16 {
    let ask = Ask {
        identity: Some(identity),
        headers: headers.to_vec(),
        ..Ask::default()
    };
    running.ask(path, ask).await.unwrap().status
}

#[tokio::test]
async fn client_certificates_and_front_proxies_are_recognised_by_the_cluster_s_authorities() {
    let (clients, proxies, strangers) = (
        Authority::new("clients"),
        Authority::new("proxies"),
        Authority::new("strangers"),
    );
    let reviewer = Reviewer::new(Backend::Good);
    *reviewer.config_map.lock().unwrap() = Some(json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system",
            "resourceVersion": "1"},
        "data": {
            "client-ca-file": clients.pem,
            "requestheader-client-ca-file": proxies.pem,
            "requestheader-allowed-names": "[\"front\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        },
    }));
    let mut options = options();
    options.authentication.skip_lookup = false;
    let parts = parts(Some(&reviewer));
    let running = start_with(options, parts, reviewer).await;

    assert_eq!(
        get_as(
            &running,
            "/metrics",
            clients.identity("cert-user", &["x"]),
            &[]
        )
        .await,
        200
    );
    assert_eq!(
        get_as(&running, "/metrics", clients.identity("other", &["x"]), &[]).await,
        403
    );
    let master = clients.identity("a", &["system:masters"]);
    assert_eq!(get_as(&running, "/configz", master, &[]).await, 200);
    let ann = [("x-remote-user", "ann"), ("x-remote-group", "dev")];
    assert_eq!(
        get_as(&running, "/metrics", proxies.identity("front", &[]), &ann).await,
        200
    );
    let root = [
        ("x-remote-user", "root"),
        ("x-remote-group", "system:masters"),
    ];
    assert_eq!(
        get_as(&running, "/configz", proxies.identity("front", &[]), &root).await,
        200
    );
    // Headers count only behind the proxy's own certificate.
    assert_eq!(
        get_as(&running, "/metrics", proxies.identity("evil", &[]), &ann).await,
        401
    );
    assert_eq!(
        get_as(&running, "/metrics", clients.identity("other", &[]), &ann).await,
        403
    );
    let stranger = || strangers.identity("cert-user", &["system:masters"]);
    assert_eq!(get_as(&running, "/healthz", stranger(), &[]).await, 401);
    let token = [("authorization", "Bearer good")];
    assert_eq!(get_as(&running, "/metrics", stranger(), &token).await, 200);
    let ask = Ask {
        headers: ann.to_vec(),
        ..Ask::default()
    };
    assert_eq!(running.ask("/metrics", ask).await.unwrap().status, 403);
}

#[tokio::test]
async fn authorities_that_change_in_the_cluster_are_taken_over_while_serving() {
    let clients = Authority::new("clients");
    let reviewer = Reviewer::new(Backend::Good);
    let mut options = options();
    options.authentication.skip_lookup = false;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let parts = parts(Some(&reviewer));
    let server = Server::on(listener, options, parts.clone()).await.unwrap();
    assert!(server.shared.trust.current().clients.is_none());
    *reviewer.config_map.lock().unwrap() = Some(json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system",
            "resourceVersion": "2"},
        "data": {"client-ca-file": clients.pem},
    }));
    let shared = Arc::clone(&server.shared);
    let address = server.address().unwrap();
    let done = tokio::spawn(server.run(std::future::pending()));
    while shared.trust.current().clients.is_none() {
        tokio::task::yield_now().await;
    }
    let running = Running {
        address,
        parts,
        reviewer,
        stop: None,
        done,
    };
    let identity = clients.identity("cert-user", &[]);
    assert_eq!(get_as(&running, "/metrics", identity, &[]).await, 200);
}

#[tokio::test]
async fn a_certificate_is_ignored_where_no_authority_is_known() {
    let strangers = Authority::new("strangers");
    let running = start(options(), Backend::Good).await;
    assert_eq!(
        get_as(&running, "/healthz", strangers.identity("x", &[]), &[]).await,
        200
    );
}

#[tokio::test]
async fn the_authentication_config_map_is_required_unless_told_otherwise() {
    let listener = || async { TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap() };
    let reviewer = Reviewer::new(Backend::Unreachable);
    let mut options = options();
    options.authentication.skip_lookup = false;
    let failed = Server::on(listener().await, options.clone(), parts(Some(&reviewer))).await;
    let error = failed.unwrap_err().to_string();
    assert!(
        error.contains("extension-apiserver-authentication"),
        "{error}"
    );
    options.authentication.tolerate_lookup_failure = true;
    assert!(
        Server::on(listener().await, options.clone(), parts(Some(&reviewer)))
            .await
            .is_ok()
    );
    // Nothing there is no failure.
    options.authentication.tolerate_lookup_failure = false;
    let reviewer = Reviewer::new(Backend::Good);
    assert!(
        Server::on(listener().await, options, parts(Some(&reviewer)))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn the_self_signed_chain_is_sent_and_named_certificates_are_chosen_and_reloaded() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("c"), directory.path().join("k"));
    let write = |second: i64| {
        let now = jiff::Timestamp::from_second(second).unwrap();
        let pair = certificates::make(now, Ipv4Addr::LOCALHOST.into()).unwrap();
        std::fs::write(&certificate, &pair.certificate).unwrap();
        std::fs::write(&key, &pair.key).unwrap();
    };
    write(1_767_225_600);
    let mut options = options();
    options.certificates.by_name.push(NamedPair {
        certificate: certificate.clone(),
        key: key.clone(),
        names: vec!["*.a.test".to_owned()],
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let reviewer = Reviewer::new(Backend::Good);
    let parts = parts(Some(&reviewer));
    let server = Server::on(listener, options, parts.clone()).await.unwrap();
    let shared = Arc::clone(&server.shared);
    let address = server.address().unwrap();
    let done = tokio::spawn(server.run(std::future::pending()));
    let running = Running {
        address,
        parts,
        reviewer,
        stop: None,
        done,
    };
    let chain = |host: &'static str| {
        let ask = Ask {
            host: Some(host),
            ..Ask::default()
        };
        let asked = Box::pin(running.ask("/healthz", ask));
        async { asked.await.unwrap().chain }
    };
    let default = chain("localhost").await;
    assert_eq!(default.len(), 2);
    let named = chain("x.a.test").await;
    assert_ne!(named, default);
    write(1_767_225_601);
    shared.certificates.refresh();
    let renewed = chain("x.a.test").await;
    assert!(renewed != named && renewed != default);
    assert_eq!(chain("localhost").await, default);
}

#[tokio::test]
async fn server_side_failures_of_reviews_are_tried_again() {
    let reviewer = Reviewer::new(Backend::Status(500));
    let running = start_with(options(), parts(Some(&reviewer)), reviewer.clone()).await;
    let asking = running.get("/metrics");
    let recover = async {
        while reviewer.asked("subjectaccessreviews") < 2 {
            tokio::task::yield_now().await;
        }
        *reviewer.backend.lock().unwrap() = Backend::Good;
    };
    let (said, ()) = futures::future::join(asking, recover).await;
    assert_eq!(said.status, 403, "{}", said.body);
    let asked = reviewer.asked("subjectaccessreviews");
    assert_eq!(running.get("/metrics").await.status, 403);
    assert_eq!(reviewer.asked("subjectaccessreviews"), asked, "remembered");
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_flag_address_and_port() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut options = options();
    options.port = taken.local_addr().unwrap().port();
    let error = Server::bind(options.clone(), parts(None))
        .await
        .unwrap_err();
    let text = format!(
        "listening on 127.0.0.1:{} (--bind-address, --secure-port)",
        options.port
    );
    assert_eq!(error.to_string(), text);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.to_lowercase().contains("in use"), "{source}");
    options.port = 0;
    assert!(Server::bind(options, parts(None)).await.unwrap().is_none());
}

#[tokio::test]
async fn the_server_stops_when_told() {
    let mut running = start(options(), Backend::Good).await;
    assert_eq!(running.get("/healthz").await.status, 200);
    running.stop.take().unwrap().send(()).unwrap();
    running.done.await.unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[test]
fn always_allowed_paths_are_exact_or_end_in_a_star() {
    let rows = [
        ("/healthz", "/healthz", true),
        ("healthz", "/healthz", true),
        ("/healthz", "/healthz/x", false),
        ("/healthz/*", "/healthz/x", true),
        ("/healthz*", "/healthz", true),
        ("*", "/anything", true),
    ];
    for (pattern, path, expected) in rows {
        assert_eq!(allows(pattern, path), expected, "{pattern} {path}");
    }
    assert!(check_allowed_paths(&["/a*".to_owned(), "*".to_owned()]).is_ok());
    assert!(check_allowed_paths(&["/a*b".to_owned()]).is_err());
}
