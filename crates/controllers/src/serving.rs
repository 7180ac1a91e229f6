//! The HTTPS server: health, metrics, configuration; with the cluster's own authentication and
//! authorization in front.
//!
//! ```text
//! TLS ─▶ who calls? ─▶ may they? ─▶ path
//!         401           403, 500     200, 404, 500
//! ```
//!
//! It runs on standbys too, and nothing here ever waits for a cloud.

mod authorities;
mod certificates;
mod error;
mod gate;
mod health;
mod identity;
mod options;
mod paths;
mod patience;
mod places;
mod reviews;
#[cfg(test)]
mod tests;
mod tls;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::PageAnswer;
use bowline_http::{Clock, Random};
use http::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustls_pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::metrics::Metrics;
use authorities::ClientTrust;
use certificates::Certificates;
pub use error::ServingError;
use gate::check_allowed_paths;
pub use health::{Check, CheckResult, CloudCheck, Endpoint, Health, Readiness};
use identity::AnyClient;
pub use options::{
    AuthenticationConfig, AuthorizationConfig, CertificateOptions, NamedPair, RequestHeaders,
    ServingConfig, TlsConfig,
};
use paths::Answer;
use places::{ConnectionPlace, Places};
use reviews::ReviewCache;
pub use tls::check as check_tls;

/// How often an idle HTTP/2 connection is asked for a sign of life.
const ALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// How long open requests may take when the server stops.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Connections that may wait to be accepted, as Go's listeners have it: in a flood, who does not fit into a short queue
/// is heard only when it tries again, a second later.
const BACKLOG: u32 = 4096;
/// The head of a request, and what is read ahead of it. Tokens are the largest that is sent to us.
const HEAD_SIZE_LIMIT: usize = 128 * 1024;
/// Bodies that nobody has read yet, for each stream and connection of HTTP/2; ours are a few bytes.
const HTTP2_WINDOW: u32 = 64 * 1024;
/// The pause after a failed accept, which is usually a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What clouds show at a path; none if it is nobody's.
pub type Pages = Arc<dyn Fn(&str) -> Option<PageAnswer> + Send + Sync>;

/// What the server shows and asks.
#[derive(Clone)]
pub struct Parts {
    /// For `/metrics` and `/metrics/slis`.
    pub metrics: Arc<Metrics>,
    /// For `/healthz`, `/livez` and `/readyz`.
    pub health: Health,
    /// The whole document of `/configz`.
    pub configz: Arc<dyn Fn() -> serde_json::Value + Send + Sync>,
    /// What clouds show at paths of their own.
    pub pages: Pages,
    /// `PUT /debug/flags/v`.
    pub set_verbosity: Arc<dyn Fn(i32) -> Result<(), String> + Send + Sync>,
    /// For token reviews and the authentication ConfigMap; none: tokens are ignored.
    pub authentication: Option<kube::Client>,
    /// For access reviews; none: what is not always allowed is forbidden.
    pub authorization: Option<kube::Client>,
    /// The time of day.
    pub clock: Clock,
    /// For pauses between tries.
    pub random: Random,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.listener.local_addr();
        f.debug_struct("Server")
            .field("address", &address)
            .finish_non_exhaustive()
    }
}

/// A server that listens but does not answer yet.
pub struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    http: auto::Builder<TokioExecutor>,
    shared: Arc<Shared>,
    /// Whether a caller is on this host.
    is_local: fn(IpAddr) -> bool,
}

struct Shared {
    options: ServingConfig,
    parts: Parts,
    certificates: Arc<Certificates>,
    trust: ClientTrust,
    reviews: ReviewCache,
}

impl Server {
    /// Listens where the options say and prepares everything; none if the port is 0.
    pub async fn bind(options: ServingConfig, parts: Parts) -> Result<Option<Self>, ServingError> {
        if options.port == 0 {
            return Ok(None);
        }
        let address = SocketAddr::new(options.bind_address, options.port);
        let listener = listen(address, options.share_port)
            .map_err(|source| ServingError::Listen { address, source })?;
        let server = Self::on(listener, options, parts).await?;
        tracing::info!(%address, "serving securely");
        Ok(Some(server))
    }

    /// Prepares everything on a listener that exists already, whatever port the options name.
    pub async fn on(
        listener: TcpListener,
        options: ServingConfig,
        parts: Parts,
    ) -> Result<Self, ServingError> {
        check_allowed_paths(&options.authorization.always_allow)?;
        let certificates = Arc::new(Certificates::new(
            &options.certificates,
            options.bind_address,
            parts.clock.clone(),
        )?);
        let resolver = Arc::clone(&certificates);
        let config = tls::configuration(&options, Arc::new(AnyClient::new()), resolver)?;
        let lookup = parts.authentication.clone();
        let trust = ClientTrust::new(options.authentication.clone(), lookup).await?;
        let reviews = ReviewCache::new(
            parts.authentication.clone(),
            parts.authorization.clone(),
            &options.authentication,
            &options.authorization,
            parts.random.fork(),
            Arc::clone(&parts.metrics),
        );
        Ok(Self {
            listener,
            acceptor: TlsAcceptor::from(Arc::new(config)),
            http: http_builder(&options),
            shared: Arc::new(Shared {
                options,
                parts,
                certificates,
                trust,
                reviews,
            }),
            is_local: places::is_local,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` is done, then lets open requests finish for a moment.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let places = Arc::new(Places::default());
        let graceful = GracefulShutdown::new();
        let keep_fresh = self.shared.keep_fresh();
        tokio::pin!(stop, keep_fresh);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = &mut keep_fresh => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, from)) => {
                        let place = places.take((self.is_local)(from.ip()));
                        tokio::spawn(self.connection(stream, place, graceful.watcher()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accepting a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        // Whoever is not done by then is cut off.
        let _ = tokio::time::timeout(STOP_LIMIT, graceful.shutdown()).await;
    }

    /// One connection, from its handshake to its end, which comes when it takes too long or loses its place.
    fn connection(
        &self,
        stream: TcpStream,
        place: ConnectionPlace,
        watcher: hyper_util::server::graceful::Watcher,
    ) -> impl Future<Output = ()> + Send + use<> {
        let handshake = self.acceptor.accept(stream);
        let (http, shared) = (self.http.clone(), Arc::clone(&self.shared));
        let tracker = place.tracker.clone();
        let serving = async move {
            let stream = match handshake.await {
                Ok(stream) => stream,
                Err(error) => return tracing::debug!(%error, "TLS handshake failed"),
            };
            let session = stream.get_ref().1;
            let chain = session.peer_certificates();
            let chain: Arc<[CertificateDer<'static>]> = chain.unwrap_or_default().into();
            let http2 = session.alpn_protocol() == Some(b"h2");
            tracker.shaken(http2);
            let stream = TokioIo::new(tracker.listen(stream));
            let service = hyper::service::service_fn(move |request| {
                let (shared, chain) = (Arc::clone(&shared), Arc::clone(&chain));
                let open = tracker.asked();
                async move {
                    let head = request.method() == http::Method::HEAD;
                    let answer = shared.answer(request, &chain).await;
                    let answer = paths::without_body_if(head, answer);
                    Ok::<_, std::convert::Infallible>(answer.map(|body| open.until_sent(body)))
                }
            });
            let http = if http2 {
                http.http2_only()
            } else {
                http.http1_only()
            };
            let connection = http.serve_connection(stream, service);
            if let Err(error) = watcher.watch(connection.into_owned()).await {
                tracing::debug!(error = %error, "connection ended");
            }
        };
        async move {
            tokio::select! {
                () = serving => {}
                () = place.tracker.overdue() => tracing::debug!("connection closed: it took too long"),
            }
        }
    }
}

impl Shared {
    /// Reloads and renews for as long as it is polled.
    async fn keep_fresh(&self) {
        let poll = async {
            loop {
                tokio::time::sleep(certificates::POLL).await;
                self.certificates.refresh();
                self.trust.refresh();
            }
        };
        futures::future::join(poll, self.trust.follow()).await;
    }

    async fn answer<B>(&self, request: Request<B>, chain: &[CertificateDer<'_>]) -> Answer
    where
        B: http_body::Body + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Some(user) = self.authenticate(&request, chain).await else {
            return paths::unauthorized();
        };
        let verb = request.method().as_str().to_lowercase();
        let path = request.uri().path();
        match self.authorize(&user, &verb, path).await {
            Ok(true) => paths::serve(request, &self.options, &self.parts).await,
            Ok(false) => paths::forbidden(&user.name, &verb, path),
            Err(error) => {
                tracing::error!(error, path, "access review failed");
                let uri = request.uri().path_and_query();
                paths::review_failed(uri.map_or(path, |uri| uri.as_str()), &error)
            }
        }
    }
}

fn listen(address: SocketAddr, share_port: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // As Go's listener has it: a port in its closing minute is no obstacle.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(share_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn http_builder(options: &ServingConfig) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .max_buf_size(HEAD_SIZE_LIMIT)
        // How long it may take is known better by `patience`.
        .header_read_timeout(None);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(ALIVE_INTERVAL)
        .initial_stream_window_size(HTTP2_WINDOW)
        .initial_connection_window_size(HTTP2_WINDOW);
    if options.http2_max_streams > 0 {
        builder
            .http2()
            .max_concurrent_streams(options.http2_max_streams);
    }
    builder
}
