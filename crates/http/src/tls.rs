//! Whom we trust and who we are, as one rustls configuration (on ring, everywhere).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::Secret;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use thiserror::Error;
use tracing::warn;

use crate::clock::Clock;

/// Where distributions keep their bundle of authorities; the first that exists is read.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Why there is no TLS configuration. `what` names the file or the setting.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("cannot read {what}")]
    Unreadable {
        /// The file, and what it is for.
        what: String,
        /// Why.
        source: std::io::Error,
    },
    /// PEM without what was looked for, or no PEM at all.
    #[error("{what} holds no {wanted} in PEM form")]
    Missing {
        /// The file or setting.
        what: String,
        /// `certificate` or `private key`.
        wanted: &'static str,
    },
    /// PEM armour around something else.
    #[error("{what} is damaged: {reason}")]
    Damaged {
        /// The file or setting.
        what: String,
        /// What the parser says.
        reason: String,
    },
    /// The client certificate and its key do not make a pair, or the TLS library refuses them.
    #[error("the client certificate cannot be used: {reason}")]
    ClientCertificate {
        /// What the TLS library says.
        reason: String,
    },
}

/// A text, and what errors call it.
#[derive(Clone, Debug)]
struct Pem {
    what: String,
    text: Secret,
}

impl Pem {
    fn new(what: impl Into<String>, text: impl Into<String>) -> Self {
        let (what, text) = (what.into(), Secret::new(text));
        Self { what, text }
    }

    fn bytes(&self) -> &[u8] {
        self.text.reveal().as_bytes()
    }
}

/// Collects what a TLS client needs. By default: public authorities, verification on, no identity.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    authorities: Vec<Pem>,
    only_given: bool,
    identity: Option<(Pem, Pem)>,
    insecure: bool,
    alpn: Vec<Vec<u8>>,
    bundle: Option<PathBuf>,
    clock: Option<Clock>,
}

/// Certificates are valid by the one clock there is.
#[derive(Debug)]
struct ValidBy(Clock);

impl TimeProvider for ValidBy {
    fn current_time(&self) -> Option<UnixTime> {
        let since = self.0.now().duration_since(jiff::Timestamp::UNIX_EPOCH);
        let since = Duration::try_from(since).ok()?;
        Some(UnixTime::since_unix_epoch(since))
    }
}

impl Tls {
    /// The system's authorities, and no client certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the authorities in this text, too; `what` names the setting in errors.
    #[must_use]
    pub fn authority_pem(mut self, what: impl Into<String>, pem: impl Into<String>) -> Self {
        self.authorities.push(Pem::new(what, pem));
        self
    }

    /// Trusts no authority but the given ones (a cluster's own, say).
    #[must_use]
    pub fn only_given_authorities(mut self) -> Self {
        self.only_given = true;
        self
    }

    /// Shows this certificate to servers that ask; `what` names the setting in errors.
    #[must_use]
    pub fn client_certificate_pem(
        mut self,
        what: &str,
        certificate: impl Into<String>,
        key: Secret,
    ) -> Self {
        let certificate = Pem::new(format!("the certificate of {what}"), certificate);
        let what = format!("the key of {what}");
        self.identity = Some((certificate, Pem { what, text: key }));
        self
    }

    /// Accepts any certificate. Building such a configuration logs a warning.
    #[must_use]
    pub fn insecure(mut self, insecure: bool) -> Self {
        self.insecure = insecure;
        self
    }

    /// Protocols offered in the handshake; `http/1.1` if none is named.
    #[must_use]
    pub fn protocols(mut self, protocols: &[&str]) -> Self {
        self.alpn = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        self
    }

    /// Tells by this clock whether certificates are valid; otherwise the machine's does.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Takes `SSL_CERT_FILE` instead of the system's bundle, if it is set.
    #[must_use]
    pub fn environment(mut self, environment: impl Fn(&str) -> Option<String>) -> Self {
        self.bundle = environment("SSL_CERT_FILE")
            .filter(|path| !path.is_empty())
            .map(PathBuf::from);
        self
    }

    /// Reads the files and puts it all together.
    pub fn build(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let refused = |error: rustls::Error| TlsError::ClientCertificate {
            reason: error.to_string(),
        };
        let clock = self.clock.clone().unwrap_or_else(Clock::system);
        let time = Arc::new(ValidBy(clock));
        let builder = ClientConfig::builder_with_details(Arc::clone(&provider), time)
            .with_safe_default_protocol_versions()
            .map_err(refused)?;
        let builder = if self.insecure {
            warn!("TLS certificates are NOT verified: anybody on the way can read the credentials");
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(TrustAnybody(provider)))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = certificates(&certificate.what, certificate.bytes())?;
                builder
                    .with_client_auth_cert(chain, private_key(key)?)
                    .map_err(refused)?
            }
        };
        config.alpn_protocols = if self.alpn.is_empty() {
            vec![b"http/1.1".to_vec()]
        } else {
            self.alpn.clone()
        };
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            let what = &authority.what;
            for certificate in certificates(what, authority.bytes())? {
                roots.add(certificate).map_err(|error| TlsError::Damaged {
                    what: what.clone(),
                    reason: error.to_string(),
                })?;
            }
        }
        if self.only_given {
            return Ok(roots);
        }
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        if let Some(path) = &self.bundle {
            let what = format!("SSL_CERT_FILE {}", path.display());
            let bundle = match fs::read(path) {
                Ok(bytes) => certificates(&what, &bytes)?,
                Err(source) => return Err(TlsError::Unreadable { what, source }),
            };
            roots.add_parsable_certificates(bundle);
        } else if let Some(path) = SYSTEM_BUNDLES.iter().find(|path| Path::new(path).exists()) {
            // Nobody asked for this file: if it is bad, the built-in authorities still stand.
            let bytes = fs::read(path).unwrap_or_default();
            roots.add_parsable_certificates(certificates(path, &bytes).unwrap_or_default());
        }
        Ok(roots)
    }
}

fn certificates(what: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let what = what.to_owned();
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(TlsError::Missing {
            what,
            wanted: "certificate",
        }),
        Ok(found) => Ok(found),
        Err(error) => Err(TlsError::Damaged {
            what,
            reason: error.to_string(),
        }),
    }
}

fn private_key(pem: &Pem) -> Result<PrivateKeyDer<'static>, TlsError> {
    // The parser's words are left out: they may quote the key.
    PrivateKeyDer::from_pem_slice(pem.bytes()).map_err(|_| TlsError::Missing {
        what: pem.what.clone(),
        wanted: "private key",
    })
}

/// Checks that the server owns the key of its certificate, but not who it is.
#[derive(Debug)]
struct TrustAnybody(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
