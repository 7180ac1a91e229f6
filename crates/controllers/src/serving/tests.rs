//! Over real TLS sockets, with an API server that answers reviews in memory.

mod callers;
mod cases;
mod flood;
mod reviews;
mod server;
mod witness;

use std::net::Ipv4Addr;
use std::sync::Mutex;

use bytes::Bytes;
use http::{Method, Response};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use rustls::ClientConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;
use witness::Witness;

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

fn options() -> ServingConfig {
    ServingConfig {
        bind_address: Ipv4Addr::LOCALHOST.into(),
        authentication: AuthenticationConfig {
            skip_lookup: true,
            ..AuthenticationConfig::default()
        },
        ..ServingConfig::default()
    }
}

fn parts(reviewer: Option<&Reviewer>) -> Parts {
    Parts {
        metrics: Metrics::new(),
        health: Health::default(),
        configz: Arc::new(|| json!({})),
        pages: Arc::new(|_| None),
        set_verbosity: Arc::new(|_| Ok(())),
        authentication: reviewer.map(Reviewer::client),
        authorization: reviewer.map(Reviewer::client),
        clock: Clock::system(),
        random: Random::seeded(1),
    }
}

async fn start_with(options: ServingConfig, parts: Parts, reviewer: Reviewer) -> Running {
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

async fn start(options: ServingConfig, backend: Backend) -> Running {
    let reviewer = Reviewer::new(backend);
    let parts = parts(Some(&reviewer));
    start_with(options, parts, reviewer).await
}

type Identity = (Vec<CertificateDer<'static>>, Vec<u8>);

#[derive(Debug)]
struct Answer {
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
    async fn ask(&self, path: &str, ask: Ask<'_>) -> io::Result<Answer> {
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
        Ok(Answer {
            status: parts.status.as_u16(),
            body: String::from_utf8(body.to_vec()).unwrap(),
            headers: parts.headers,
            version: parts.version,
            chain,
        })
    }

    async fn get(&self, path: &str) -> Answer {
        let said = self.ask(path, Ask::default()).await.unwrap();
        assert_eq!(said.headers["cache-control"], "no-cache, private", "{path}");
        said
    }

    async fn get_with_token(&self, path: &str, token: &str) -> Answer {
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

fn open(paths: &[&str]) -> ServingConfig {
    let mut options = options();
    options.authorization.always_allow = paths.iter().map(|path| (*path).to_owned()).collect();
    options
}
