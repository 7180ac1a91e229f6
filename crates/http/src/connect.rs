//! The network seam: from an address to a byte stream.
//!
//! Production dials TCP and speaks TLS, through a proxy where the environment says so; a simulated
//! run gets in-memory pipes. Everything above this line is the same code in both.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use thiserror::Error;
use tokio::io::BufReader;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower::{Service, ServiceExt as _};

use crate::peers::PeerCertificates;
use crate::pipe::Pipes;
use crate::proxy::{ProxyRules, ProxyUrl};
use crate::stream::{Stream, Wire};

/// How long name resolution, TCP, proxy and TLS together may take. Ten seconds is three lost SYNs
/// (1 s + 2 s + 4 s) and room for the handshake.
pub const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// Read at once by a connection: the largest record of TLS, which by itself asks for 4 kB at a time. More would
/// only cost memory: hyper's own buffers grow to 400 kB.
pub const READ_AT_ONCE: usize = 16 * 1024;
/// Idle connections through firewalls are kept open by a probe a minute.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// Why there is no connection. Nothing of a request has been sent when this is returned.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// Nobody answers there.
    #[error("cannot connect to {to}")]
    Unreachable {
        /// `host:port`.
        to: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It took too long.
    #[error("no connection to {to} within {} s", after.as_secs_f64())]
    TimedOut {
        /// `host:port`.
        to: String,
        /// The deadline.
        after: Duration,
    },
    /// The certificate of the server does not convince us; trying again will not help.
    #[error("the certificate of {to} is not trusted: {reason}")]
    Untrusted {
        /// `host:port`.
        to: String,
        /// In plain words.
        reason: String,
    },
    /// The TLS handshake failed for another reason.
    #[error("TLS handshake with {to} failed")]
    Handshake {
        /// `host:port`.
        to: String,
        /// Why.
        source: io::Error,
    },
    /// The proxy did not open a tunnel.
    #[error("proxy {proxy} gives no tunnel to {to}")]
    Tunnel {
        /// The proxy, without credentials.
        proxy: String,
        /// `host:port`.
        to: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The address is not one of HTTP.
    #[error("{uri} is not an http or https address with a host")]
    Address {
        /// What was asked for.
        uri: String,
    },
}

/// Makes connections. Cheap to clone; a tower service from an address to a [`Stream`], so that the
/// HTTP, gRPC and Kubernetes clients all take it.
#[derive(Clone, Debug)]
pub struct Connector {
    network: Network,
    deadline: Duration,
    /// Where servers are found, if not at their names.
    place: Option<Arc<str>>,
    /// The name that certificates of servers must show, if not that of the address.
    expected: Option<ServerName<'static>>,
}

#[derive(Clone, Debug)]
enum Network {
    Real(Arc<Real>),
    /// TLS is spoken on pipes only to those that are met with an identity of their own.
    Simulated(Pipes, Option<Arc<ClientConfig>>),
}

#[derive(Clone, Debug)]
struct Real {
    tcp: HttpConnector,
    /// Keeps what servers show.
    shown: Option<PeerCertificates>,
    tls: Arc<ClientConfig>,
    /// With proxies: they are not shown the identity that is meant for whoever is behind them.
    proxy_tls: Arc<ClientConfig>,
    proxies: ProxyRules,
}

impl Connector {
    /// Dials TCP and, for `https`, speaks TLS.
    pub fn real(tls: Arc<ClientConfig>, proxies: ProxyRules) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEP_ALIVE));
        Self {
            network: Network::Real(Arc::new(Real {
                tcp,
                shown: None,
                proxy_tls: Arc::clone(&tls),
                tls,
                proxies,
            })),
            deadline: CONNECT_DEADLINE,
            place: None,
            expected: None,
        }
    }

    /// The same, keeping there the certificates that servers show. Pipes show none.
    #[must_use]
    pub fn noting(mut self, shown: &PeerCertificates) -> Self {
        if let Network::Real(real) = &mut self.network {
            Arc::make_mut(real).shown = Some(shown.clone());
        }
        self
    }

    /// The same network without its proxies, for addresses that only mean something from here, such
    /// as those of a machine's own metadata.
    #[must_use]
    pub fn direct(&self) -> Self {
        self.through(ProxyRules::default())
    }

    /// The same network with these proxies instead of its own.
    #[must_use]
    pub fn through(&self, proxies: ProxyRules) -> Self {
        let mut changed = self.clone();
        if let Network::Real(real) = &mut changed.network {
            Arc::make_mut(real).proxies = proxies;
        }
        changed
    }

    /// The same network, where servers are met with that identity and trust; proxies are met as before. Pipes
    /// speak TLS then, too.
    #[must_use]
    pub fn with_tls(&self, tls: Arc<ClientConfig>) -> Self {
        let mut changed = self.clone();
        match &mut changed.network {
            Network::Real(real) => Arc::make_mut(real).tls = tls,
            Network::Simulated(_, spoken) => *spoken = Some(tls),
        }
        changed
    }

    /// Hands out pipes to the listener named `host:port`, plain bytes for every scheme.
    pub fn simulated(pipes: Pipes) -> Self {
        Self {
            network: Network::Simulated(pipes, None),
            deadline: CONNECT_DEADLINE,
            place: None,
            expected: None,
        }
    }

    /// The same network, where every server is found at that host, whatever it is called: names in requests and
    /// certificates stay. For one server with many names, of which not all may be known to the DNS.
    #[must_use]
    pub fn found_at(&self, host: &str) -> Self {
        let mut changed = self.clone();
        changed.place = Some(host.into());
        changed
    }

    /// The same network, where every server must show a certificate for that name, whatever it is called. Proxies
    /// keep theirs.
    #[must_use]
    pub fn expecting(mut self, name: ServerName<'static>) -> Self {
        self.expected = Some(name);
        self
    }

    /// With another limit than [`CONNECT_DEADLINE`].
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// What to send as `Proxy-Authorization` with a request to `uri`: only plain `http` through a
    /// proxy needs it in the request, a tunnel has asked already.
    pub fn proxy_authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        match &self.network {
            Network::Real(real) if uri.scheme_str() == Some("http") => {
                let place = self.place_of(uri).ok()?;
                real.proxies.proxy_for_uri(&place)?.authorization()
            }
            _ => None,
        }
    }

    /// What must not be printed about the way there.
    pub fn secrets(&self) -> Vec<bowline_core::Secret> {
        match &self.network {
            Network::Real(real) => real.proxies.secrets(),
            Network::Simulated(..) => Vec::new(),
        }
    }

    /// Connects to the host of `uri`.
    pub fn connect(&self, uri: Uri) -> BoxFuture<'static, Result<Stream, ConnectError>> {
        Box::pin(self.clone().connected(uri))
    }

    async fn connected(self, uri: Uri) -> Result<Stream, ConnectError> {
        let to = authority(&uri)?;
        let place = self.place_of(&uri)?;
        let expected = self.expected.as_ref();
        let connecting = async {
            match &self.network {
                Network::Real(real) => real.connect(&uri, &place, &to, expected).await,
                Network::Simulated(pipes, tls) => {
                    let pipe = pipes.connect(&authority(&place)?);
                    let pipe = pipe.map_err(|error| unreachable(&to, error))?;
                    match tls {
                        Some(tls) if uri.scheme_str() == Some("https") => {
                            secure(tls, Box::new(pipe), &uri, &to, expected, None).await
                        }
                        _ => Ok(Stream::new(Box::new(pipe))),
                    }
                }
            }
        };
        match timeout(self.deadline, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(ConnectError::TimedOut {
                to,
                after: self.deadline,
            }),
        }
    }
}

impl Connector {
    /// Where the server of that address is found.
    fn place_of(&self, uri: &Uri) -> Result<Uri, ConnectError> {
        let Some(host) = &self.place else {
            return Ok(uri.clone());
        };
        let port = uri.port().map(|port| format!(":{port}"));
        let authority = format!("{host}{}", port.unwrap_or_default());
        let mut parts = uri.clone().into_parts();
        parts.authority = authority.parse().ok();
        let found = parts.authority.is_some().then(|| Uri::from_parts(parts));
        let found = found.and_then(Result::ok);
        found.ok_or(ConnectError::Address { uri: authority })
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Stream, ConnectError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.connect(uri)
    }
}

impl Real {
    /// Connects to the server `uri`, which is found at `place`.
    async fn connect(
        &self,
        uri: &Uri,
        place: &Uri,
        to: &str,
        expected: Option<&ServerName<'static>>,
    ) -> Result<Stream, ConnectError> {
        let is_secure = uri.scheme_str() == Some("https");
        let wire: Box<dyn Wire> = match self.proxies.proxy_for_uri(place) {
            None => Box::new(self.dial(place.clone(), to).await?),
            Some(proxy) if is_secure => self.tunnel(proxy, place, to).await?.into_wire(),
            Some(proxy) => {
                let mut stream = self.reach_proxy(proxy).await?;
                stream.through_http_proxy = true;
                return Ok(stream);
            }
        };
        if is_secure {
            secure(&self.tls, wire, uri, to, expected, self.shown.as_ref()).await
        } else {
            Ok(Stream::new(wire))
        }
    }

    async fn dial(&self, uri: Uri, to: &str) -> Result<tokio::net::TcpStream, ConnectError> {
        let dialled = self.tcp.clone().oneshot(uri).await;
        let io = dialled.map_err(|error| unreachable(to, error))?;
        Ok(io.into_inner())
    }

    async fn reach_proxy(&self, proxy: &ProxyUrl) -> Result<Stream, ConnectError> {
        let uri = proxy.uri();
        let to = authority(uri)?;
        let tcp = Box::new(self.dial(uri.clone(), &to).await?);
        if uri.scheme_str() == Some("https") {
            secure(&self.proxy_tls, tcp, uri, &to, None, None).await
        } else {
            Ok(Stream::new(tcp))
        }
    }

    async fn tunnel(&self, proxy: &ProxyUrl, uri: &Uri, to: &str) -> Result<Stream, ConnectError> {
        let stream = self.reach_proxy(proxy).await?;
        let mut stream = Some(stream);
        // The connection is made already; the tunnel only has to be asked for on it.
        let ready = tower::service_fn(move |_: Uri| {
            let taken = stream.take().ok_or(io::ErrorKind::NotConnected);
            std::future::ready(taken.map_err(io::Error::from))
        });
        let mut tunnel = Tunnel::new(proxy.uri().clone(), ready);
        if let Some(authorization) = proxy.authorization() {
            tunnel = tunnel.with_auth(authorization);
        }
        let opened = tunnel.oneshot(uri.clone()).await;
        opened.map_err(|error| ConnectError::Tunnel {
            proxy: proxy
                .uri()
                .authority()
                .map(ToString::to_string)
                .unwrap_or_default(),
            to: to.to_owned(),
            source: Box::new(error),
        })
    }
}

/// Speaks TLS. One type of wire: each more would be one more copy of the TLS code.
async fn secure(
    tls: &Arc<ClientConfig>,
    wire: Box<dyn Wire>,
    uri: &Uri,
    to: &str,
    expected: Option<&ServerName<'static>>,
    shown: Option<&PeerCertificates>,
) -> Result<Stream, ConnectError> {
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = match expected {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned())
            .map_err(|_| ConnectError::Address { uri: to.to_owned() })?,
    };
    let connector = TlsConnector::from(Arc::clone(tls));
    let wire: Box<dyn Wire> = Box::new(BufReader::with_capacity(READ_AT_ONCE, wire));
    let secured = connector.connect(name, wire).await;
    let secured = secured.map_err(|error| handshake_error(to, error))?;
    let session = secured.get_ref().1;
    if let (Some(shown), Some([leaf, ..])) = (shown, session.peer_certificates()) {
        shown.note(leaf);
    }
    let http2 = session.alpn_protocol() == Some(b"h2");
    let mut stream = Stream::new(Box::new(secured));
    stream.http2 = http2;
    Ok(stream)
}

fn unreachable(
    to: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> ConnectError {
    ConnectError::Unreachable {
        to: to.to_owned(),
        source: error.into(),
    }
}

/// `host:port`, the port always given.
fn authority(uri: &Uri) -> Result<String, ConnectError> {
    let port = uri.port_u16().or(match uri.scheme_str() {
        Some("https") => Some(443),
        Some("http") => Some(80),
        _ => None,
    });
    match (uri.host(), port) {
        (Some(host), Some(port)) => Ok(format!("{host}:{port}")),
        _ => Err(ConnectError::Address {
            uri: uri.to_string(),
        }),
    }
}

fn handshake_error(to: &str, error: io::Error) -> ConnectError {
    use rustls::{CertificateError, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let reason = match inner {
        Some(Error::InvalidCertificate(why)) => match why {
            CertificateError::UnknownIssuer => {
                "it is signed by an unknown authority (give its CA file)".to_owned()
            }
            CertificateError::BadSignature => {
                "its authority has the name of one we know, but another key (was the CA renewed?)"
                    .to_owned()
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "it has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "it is not valid yet".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "it was issued for another name".to_owned()
            }
            other => other.to_string(),
        },
        _ => {
            return ConnectError::Handshake {
                to: to.to_owned(),
                source: error,
            };
        }
    };
    ConnectError::Untrusted {
        to: to.to_owned(),
        reason,
    }
}
