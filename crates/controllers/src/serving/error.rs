//! What keeps the server from starting.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What keeps the server from starting.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The address cannot be listened on.
    #[error("listening on {address} (--bind-address, --secure-port)")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be read or written.
    #[error("{doing} {}", path.display())]
    File {
        /// Which of the two.
        doing: &'static str,
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A certificate or key cannot be used.
    #[error("certificate {}: {reason}", path.display())]
    Certificate {
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A certificate of our own could not be made.
    #[error("making a self-signed serving certificate")]
    Made(#[source] rcgen::Error),
    /// `--tls-min-version`.
    #[error("unknown tls version {0:?}")]
    TlsVersion(String),
    /// `--tls-cipher-suites`.
    #[error("Cipher suite {0} not supported or doesn't exist")]
    CipherSuite(String),
    /// `--tls-curve-preferences`.
    #[error("unknown curve {0}")]
    Curve(u16),
    /// The choice of versions and suites leaves nothing.
    #[error("setting up TLS")]
    Tls(#[source] rustls::Error),
    /// The cluster's authentication ConfigMap cannot be read.
    #[error(
        "reading ConfigMap kube-system/extension-apiserver-authentication: {0} \
         (--authentication-tolerate-lookup-failure goes on without it)"
    )]
    Lookup(String),
    /// `--authorization-always-allow-paths`.
    #[error("--authorization-always-allow-paths: only a trailing * is allowed in {0:?}")]
    AllowedPath(String),
}
