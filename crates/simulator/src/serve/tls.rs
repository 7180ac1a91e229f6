//! The TLS side of a server: who it is, and whose client certificates it knows.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::ServeError;
use super::any_client::AnyClient;

/// A server's certificate chain and key, and whose client certificates it accepts.
pub struct Identity {
    /// The server's certificate first, then those between it and the authority.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the first certificate.
    pub key: PrivateKeyDer<'static>,
    /// Authorities of client certificates. Empty: none is asked for. Otherwise a client may send
    /// one, and it must then be valid.
    pub client_authorities: Vec<CertificateDer<'static>>,
}

impl Identity {
    /// From PEM texts: the chain, the key, and the authorities of clients if there are any.
    pub fn from_pem(
        chain: &str,
        key: &str,
        client_authorities: Option<&str>,
    ) -> Result<Self, ServeError> {
        let certificates = |pem: &str| {
            CertificateDer::pem_slice_iter(pem.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|source| ServeError::Pem { source })
        };
        Ok(Self {
            chain: certificates(chain)?,
            key: PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|source| ServeError::Pem { source })?,
            client_authorities: client_authorities.map_or(Ok(Vec::new()), certificates)?,
        })
    }

    /// A certificate for these names that only itself vouches for, as private installations have.
    pub fn self_signed(names: impl Into<Vec<String>>) -> Result<Self, rcgen::Error> {
        let made = rcgen::generate_simple_self_signed(names)?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        Ok(Self {
            chain: vec![made.cert.der().clone()],
            key: PrivateKeyDer::Pkcs8(key),
            client_authorities: Vec::new(),
        })
    }

    /// What accepts connections with this identity. HTTP/2 is offered first, unless it is not spoken.
    pub(super) fn acceptor(self, http1_only: bool) -> Result<TlsAcceptor, ServeError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let failed = |source| ServeError::Tls { source };
        let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(failed)?;
        let builder = if self.client_authorities.is_empty() {
            builder.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            for authority in self.client_authorities {
                roots.add(authority).map_err(failed)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build()
                .map_err(|source| ServeError::ClientAuthorities { source })?;
            builder.with_client_cert_verifier(verifier)
        };
        let mut config = builder
            .with_single_cert(self.chain, self.key)
            .map_err(failed)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        if http1_only {
            config.alpn_protocols.remove(0);
        }
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// The same, for clients whose certificates nobody has issued that we know. HTTP/1.1 only.
    pub(super) fn acceptor_for_any_client(self) -> Result<TlsAcceptor, ServeError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let failed = |source| ServeError::Tls { source };
        let config = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_client_cert_verifier(Arc::new(AnyClient(provider)))
            .with_single_cert(self.chain, self.key)
            .map_err(failed)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// TLS whose settings are asked for with every connection, so that certificates, and who is let in, can
/// change while the server runs. Behind it only HTTP/2 is spoken.
#[derive(Clone)]
pub struct Gate {
    settings: Arc<dyn Fn() -> Option<Arc<rustls::ServerConfig>> + Send + Sync>,
    shut: watch::Receiver<u64>,
}

impl Gate {
    /// A gate with these settings (none: a connection is refused), which ends all connections that came
    /// by it whenever `shut` changes.
    pub fn new(
        settings: impl Fn() -> Option<Arc<rustls::ServerConfig>> + Send + Sync + 'static,
        shut: watch::Receiver<u64>,
    ) -> Self {
        Self {
            settings: Arc::new(settings),
            shut,
        }
    }

    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        (self.settings)().map(TlsAcceptor::from)
    }

    /// Ends when the connections that there are now shall.
    pub(super) fn shut(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut shut = self.shut.clone();
        shut.mark_unchanged();
        async move {
            if shut.changed().await.is_err() {
                // Nobody is left who could shut the gate.
                std::future::pending::<()>().await;
            }
        }
    }
}
