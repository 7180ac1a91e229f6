//! Listening, accepting, shutting down.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_http::PipeListener;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::call::{Handler, stopped};
use super::{Api, Connection, Encrypted, Gate, Identity, Peer, Stopping};
use crate::World;

/// How long a TLS handshake may take: loopback needs milliseconds, a stuck client must not stay.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long calls under way may take to finish at shutdown. Hung calls never would.
const GRACE: Duration = Duration::from_secs(2);
/// The pause after a failed accept, which usually means that file descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a server takes on at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one request's body; more is answered with 413.
    pub body: usize,
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Kubernetes takes 3 MiB; nothing else here comes near it.
            body: 3 * 1024 * 1024,
            // A kubelet fleet of 2,000 with two connections each, and room for controllers.
            connections: 8_192,
        }
    }
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody else listens there.
    #[error("cannot listen on {address}: another program already does")]
    InUse { address: SocketAddr },
    /// The address cannot be listened on for another reason.
    #[error("cannot listen on {address}")]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    /// A certificate or key is not PEM.
    #[error("cannot read a certificate or key as PEM")]
    Pem {
        source: rustls_pki_types::pem::Error,
    },
    /// The certificate and key cannot be used.
    #[error("cannot use the server's certificate and key")]
    Tls { source: rustls::Error },
    /// The authorities of client certificates cannot be used.
    #[error("cannot use the authorities of client certificates")]
    ClientAuthorities {
        source: rustls::server::VerifierBuilderError,
    },
}

/// A running server. Dropping it stops it at once.
#[derive(Debug)]
pub struct Server {
    address: Option<SocketAddr>,
    stopping: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

/// Says what to serve, before it is said where.
pub struct ServerBuilder {
    world: World,
    api: Arc<dyn Api>,
    name: Arc<str>,
    limits: Limits,
    http1_only: bool,
}

impl Server {
    /// Serves that API in that world.
    pub fn builder(world: &World, api: Arc<dyn Api>) -> ServerBuilder {
        ServerBuilder {
            world: world.clone(),
            name: api.name().into(),
            api,
            limits: Limits::default(),
            http1_only: false,
        }
    }

    /// Where it listens; none on a pipe.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Stops accepting, ends streams, lets calls under way finish for a moment, and returns when
    /// all connections are closed.
    pub async fn shutdown(mut self) {
        self.stopping.send_replace(true);
        // A task that was aborted or failed has no connections left either.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl ServerBuilder {
    /// On a socket without TLS. Port 0 picks a free one.
    pub async fn plain(self, address: SocketAddr) -> Result<Server, ServeError> {
        let listener = Listener::Plain(bind(address).await?);
        Ok(self.start(listener))
    }

    /// On a socket with TLS. Port 0 picks a free one.
    pub async fn tls(self, address: SocketAddr, identity: Identity) -> Result<Server, ServeError> {
        let acceptor = identity.acceptor(self.http1_only)?;
        let listener = Listener::Tls(bind(address).await?, acceptor);
        Ok(self.start(listener))
    }

    /// On a socket with TLS that asks for a client certificate and takes any that the client proves to
    /// own: whose it is, the API decides.
    pub async fn tls_for_any_client(
        self,
        address: SocketAddr,
        identity: Identity,
    ) -> Result<Server, ServeError> {
        let acceptor = identity.acceptor_for_any_client()?;
        let listener = Listener::Tls(bind(address).await?, acceptor);
        Ok(self.start(listener))
    }

    /// On a pipe of the world, under that name (`host:port`). HTTP/1.1 only.
    pub fn pipe(self, authority: &str) -> Server {
        let listener = Listener::Pipe(self.world.pipes.listen(authority));
        self.start(listener)
    }

    /// On a pipe of the world with TLS, for clients as [`Self::tls_for_any_client`] takes them.
    pub fn pipe_for_any_client(
        self,
        authority: &str,
        identity: Identity,
    ) -> Result<Server, ServeError> {
        let acceptor = identity.acceptor_for_any_client()?;
        let listener = Listener::TlsPipe(self.world.pipes.listen(authority), acceptor);
        Ok(self.start(listener))
    }

    /// On a socket, behind a gate. Port 0 picks a free one.
    pub async fn gated(self, address: SocketAddr, gate: Gate) -> Result<Server, ServeError> {
        let listener = Listener::Gated(bind(address).await?, gate);
        Ok(self.start(listener))
    }

    /// On a pipe of the world, behind a gate.
    pub fn gated_pipe(self, authority: &str, gate: Gate) -> Server {
        let listener = Listener::GatedPipe(self.world.pipes.listen(authority), gate);
        self.start(listener)
    }

    fn start(self, listener: Listener) -> Server {
        let (stopping, stop) = watch::channel(false);
        let handler = Handler {
            world: self.world,
            api: self.api,
            name: self.name,
            body_limit: self.limits.body,
            http1_only: self.http1_only,
            history: Arc::default(),
            under_way: Arc::default(),
            stopping: stop,
        };
        let address = listener.local_addr();
        let accepting = tokio::spawn(accept(listener, handler, self.limits.connections));
        Server {
            address,
            stopping,
            accepting,
        }
    }
}

crate::setters! { ServerBuilder:
    /// Under another name than the API's in the journal and in fault rules, where there are several
    /// of one kind.
    named(name: &str) |builder| builder.name = name.into();
    limits(limits: Limits) |builder| builder.limits = limits;
    /// As those servers are that do not know HTTP/2.
    http1_only() |builder| builder.http1_only = true;
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| {
        if source.kind() == io::ErrorKind::AddrInUse {
            ServeError::InUse { address }
        } else {
            ServeError::Listen { address, source }
        }
    })
}

enum Listener {
    Plain(TcpListener),
    Tls(TcpListener, TlsAcceptor),
    Gated(TcpListener, Gate),
    Pipe(PipeListener),
    TlsPipe(PipeListener, TlsAcceptor),
    GatedPipe(PipeListener, Gate),
}

enum Accepted {
    Plain(TcpStream),
    Tls(TcpStream, TlsAcceptor),
    Gated(TcpStream, Gate),
    Pipe(tokio::io::DuplexStream),
    TlsPipe(tokio::io::DuplexStream, TlsAcceptor),
    GatedPipe(tokio::io::DuplexStream, Gate),
}

impl Listener {
    fn local_addr(&self) -> Option<SocketAddr> {
        match self {
            Self::Plain(listener) | Self::Tls(listener, _) | Self::Gated(listener, _) => {
                listener.local_addr().ok()
            }
            Self::Pipe(_) | Self::TlsPipe(..) | Self::GatedPipe(..) => None,
        }
    }

    /// The next connection; none when there will not be another.
    async fn next(&mut self) -> Option<io::Result<Accepted>> {
        match self {
            Self::Plain(listener) => Some(
                listener
                    .accept()
                    .await
                    .map(|(stream, _)| Accepted::Plain(stream)),
            ),
            Self::Tls(listener, acceptor) => {
                let accepted = listener.accept().await;
                Some(accepted.map(|(stream, _)| Accepted::Tls(stream, acceptor.clone())))
            }
            Self::Gated(listener, gate) => {
                let accepted = listener.accept().await;
                Some(accepted.map(|(stream, _)| Accepted::Gated(stream, gate.clone())))
            }
            Self::Pipe(listener) => listener.accept().await.map(|pipe| Ok(Accepted::Pipe(pipe))),
            Self::TlsPipe(listener, acceptor) => {
                let pipe = listener.accept().await?;
                Some(Ok(Accepted::TlsPipe(pipe, acceptor.clone())))
            }
            Self::GatedPipe(listener, gate) => {
                let pipe = listener.accept().await?;
                Some(Ok(Accepted::GatedPipe(pipe, gate.clone())))
            }
        }
    }
}

/// Accepts until told to stop, then waits for the connections to end.
async fn accept(mut listener: Listener, handler: Handler, connections: usize) {
    let room = Arc::new(Semaphore::new(connections));
    let mut open = JoinSet::new();
    let mut stopping = handler.stopping.clone();
    loop {
        let next = async {
            let permit = room.clone().acquire_owned().await.ok()?;
            Some((listener.next().await?, permit))
        };
        tokio::select! {
            biased;
            () = stopped(&mut stopping) => break,
            // Ended connections are forgotten as they end.
            Some(_) = open.join_next() => {}
            accepted = next => match accepted {
                Some((Ok(connection), permit)) => {
                    open.spawn(serve(connection, handler.clone(), permit));
                }
                Some((Err(error), _)) => {
                    tracing::warn!(server = &*handler.name, %error, "accepting failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
                None => break,
            }
        }
    }
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// Serves one connection to its end.
async fn serve(connection: Accepted, handler: Handler, permit: OwnedSemaphorePermit) {
    match connection {
        Accepted::Plain(stream) => {
            // Small answers must not wait for the acknowledgement of earlier ones.
            let _ = stream.set_nodelay(true);
            speak(stream, Peer::default(), handler, Wire::Plain).await;
        }
        Accepted::Pipe(pipe) => speak(pipe, Peer::default(), handler, Wire::Pipe).await,
        Accepted::Tls(stream, acceptor) => {
            let _ = stream.set_nodelay(true);
            if let Some((stream, peer)) = shake_hands(stream, acceptor).await {
                speak(stream, peer, handler, Wire::Tls).await;
            }
        }
        Accepted::TlsPipe(pipe, acceptor) => {
            if let Some((pipe, peer)) = shake_hands(pipe, acceptor).await {
                speak(pipe, peer, handler, Wire::Tls).await;
            }
        }
        Accepted::Gated(stream, gate) => {
            let _ = stream.set_nodelay(true);
            behind_gate(stream, gate, handler).await;
        }
        Accepted::GatedPipe(pipe, gate) => behind_gate(pipe, gate, handler).await,
    }
    drop(permit);
}

/// TLS on a stream, with the certificate that the client sent; none if it fails.
async fn shake_hands<S>(stream: S, acceptor: TlsAcceptor) -> Option<(TlsStream<S>, Peer)>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let certificates = stream.get_ref().1.peer_certificates();
            let first = certificates.and_then(<[_]>::first);
            let certificate = first.map(|certificate| certificate.to_vec());
            Some((stream, Peer { certificate }))
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, "TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("TLS handshake took too long");
            None
        }
    }
}

/// Serves a connection that comes by a gate: only HTTP/2, and only until the gate is shut.
async fn behind_gate<S>(stream: S, gate: Gate, handler: Handler)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shut = gate.shut();
    let Some(acceptor) = gate.acceptor() else {
        return;
    };
    let connection = async {
        let Some((stream, peer)) = shake_hands(stream, acceptor).await else {
            return;
        };
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            speak(stream, peer, handler, Wire::Tls).await;
        }
    };
    tokio::select! {
        biased;
        () = shut => {}
        () = connection => {}
    }
}

/// What the bytes travel on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    Plain,
    Tls,
    Pipe,
}

/// Speaks HTTP on a stream of bytes until either side ends it, a fault cuts it, or the server
/// shuts down.
async fn speak<S>(stream: S, peer: Peer, handler: Handler, wire: Wire)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let http1_only = handler.http1_only;
    let mut stopping = handler.stopping.clone();
    let (peer, link) = (Arc::new(peer), Connection::default());
    let service = {
        let link = link.clone();
        service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
            if wire == Wire::Tls {
                request.extensions_mut().insert(Encrypted);
            }
            let stopping = Stopping(handler.stopping.clone());
            request.extensions_mut().insert(stopping);
            request.extensions_mut().insert(link.clone());
            let call = handler.clone().handle(request, peer.clone(), link.clone());
            async move { Ok::<_, Infallible>(call.await) }
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    if wire == Wire::Pipe || http1_only {
        builder = builder.http1_only();
    }
    // Answers are dated by the world's clock.
    builder.http1().auto_date_header(false);
    builder.http2().auto_date_header(false);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        () = link.is_cut() => return,
        () = stopped(&mut stopping) => {}
        ended = &mut connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "connection ended");
            }
            return;
        }
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        () = link.is_cut() => {}
        _ = tokio::time::timeout(GRACE, connection) => {}
    }
}
