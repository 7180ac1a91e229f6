//! Go's names of TLS versions, cipher suites and curves, and what they are in our library.
//!
//! The library knows only what is safe today: TLS 1.2 with forward secrecy and authenticated
//! encryption, and TLS 1.3. A name of Go's that means anything else is accepted, so that a manifest
//! keeps working, and has no effect.

use std::sync::Arc;

use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::server::ResolvesServerCert;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use super::ServingError;
use super::options::{ServingConfig, TlsConfig};

/// Go's suites of TLS 1.2 that we speak, and TLS 1.3's, which cannot be chosen: they are always on.
static SUITES: [(&str, SupportedCipherSuite); 11] = [
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
        cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_AES_128_GCM_SHA256",
        cipher_suite::TLS13_AES_128_GCM_SHA256,
    ),
    (
        "TLS_AES_256_GCM_SHA384",
        cipher_suite::TLS13_AES_256_GCM_SHA384,
    ),
    (
        "TLS_CHACHA20_POLY1305_SHA256",
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ),
];

/// Go's further suites, which we do not speak.
const OLD_SUITES: [&str; 14] = [
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
];
/// And two whose names end in a hash.
const OLD_HASHED_SUITES: [&str; 2] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
];

static FROM_12: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
static FROM_13: [&SupportedProtocolVersion; 1] = [&TLS13];

/// The versions from the given minimum on.
fn versions(minimum: &str) -> Result<&'static [&'static SupportedProtocolVersion], ServingError> {
    match minimum {
        "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => Ok(&FROM_12),
        "VersionTLS13" => Ok(&FROM_13),
        other => Err(ServingError::TlsVersion(other.to_owned())),
    }
}

/// The chosen suites of TLS 1.2 and all of TLS 1.3.
fn suites(names: &[String]) -> Result<Vec<SupportedCipherSuite>, ServingError> {
    let provider = default_provider().cipher_suites;
    if names.is_empty() {
        return Ok(provider);
    }
    let mut chosen: Vec<_> = (provider.into_iter())
        .filter(|suite| suite.tls13().is_some())
        .collect();
    for name in names {
        if let Some((_, suite)) = SUITES.iter().find(|(known, _)| known == name) {
            if !chosen.contains(suite) {
                chosen.push(*suite);
            }
        } else if OLD_SUITES.contains(&name.as_str()) || OLD_HASHED_SUITES.contains(&name.as_str())
        {
            tracing::warn!(suite = name, "cipher suite is not safe and not offered");
        } else {
            return Err(ServingError::CipherSuite(name.clone()));
        }
    }
    Ok(chosen)
}

/// Go's curve numbers: P-256, P-384, P-521, X25519, X25519MLKEM768 and two more hybrids.
fn curves(numbers: &[u16]) -> Result<Vec<&'static dyn SupportedKxGroup>, ServingError> {
    let mut chosen: Vec<&'static dyn SupportedKxGroup> = Vec::new();
    for number in numbers {
        match number {
            23 => chosen.push(kx_group::SECP256R1),
            24 => chosen.push(kx_group::SECP384R1),
            29 => chosen.push(kx_group::X25519),
            25 | 4587..=4589 => tracing::warn!(curve = number, "curve is not offered"),
            other => return Err(ServingError::Curve(*other)),
        }
    }
    Ok(if chosen.is_empty() {
        default_provider().kx_groups
    } else {
        chosen
    })
}

/// The cryptography that the options leave.
pub(super) fn provider(options: &TlsConfig) -> Result<CryptoProvider, ServingError> {
    Ok(CryptoProvider {
        cipher_suites: suites(&options.cipher_suites)?,
        kx_groups: curves(&options.curve_preferences)?,
        ..default_provider()
    })
}

/// Checks the options without using them, for a validation at start.
pub fn check(options: &TlsConfig) -> Result<(), ServingError> {
    versions(&options.min_version)?;
    provider(options).map(drop)
}

/// The configuration of the listener. HTTP/2 is offered unless switched off.
pub(super) fn configuration(
    options: &ServingConfig,
    clients: Arc<dyn ClientCertVerifier>,
    certificates: Arc<dyn ResolvesServerCert>,
) -> Result<ServerConfig, ServingError> {
    let provider = Arc::new(provider(&options.tls)?);
    let mut versions = versions(&options.tls.min_version)?;
    if !provider
        .cipher_suites
        .iter()
        .any(|suite| suite.tls13().is_none())
    {
        versions = &FROM_13;
    }
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(ServingError::Tls)?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(certificates);
    if !options.disable_http2 {
        config.alpn_protocols.push(b"h2".to_vec());
    }
    config.alpn_protocols.push(b"http/1.1".to_vec());
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_go_s_names() {
        let rows = [
            ("", 2),
            ("VersionTLS10", 2),
            ("VersionTLS12", 2),
            ("VersionTLS13", 1),
        ];
        for (name, count) in rows {
            assert_eq!(versions(name).unwrap().len(), count, "{name}");
        }
        let error = versions("1.2").unwrap_err();
        assert_eq!(error.to_string(), "unknown tls version \"1.2\"");
    }

    #[test]
    fn chosen_suites_narrow_tls_1_2_and_leave_tls_1_3() {
        let names = |list: &[&str]| list.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let chosen = suites(&names(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"])).unwrap();
        assert_eq!(chosen.len(), 4);
        let old = suites(&names(&["TLS_RSA_WITH_AES_128_CBC_SHA"])).unwrap();
        assert!(old.iter().all(|suite| suite.tls13().is_some()) && old.len() == 3);
        assert_eq!(suites(&[]).unwrap().len(), 9);
        let error = suites(&names(&["TLS_NONSENSE"])).unwrap_err();
        let text = "Cipher suite TLS_NONSENSE not supported or doesn't exist";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn curves_have_go_s_numbers() {
        assert_eq!(curves(&[29, 23]).unwrap().len(), 2);
        assert_eq!(curves(&[25]).unwrap().len(), 3);
        assert!(curves(&[7]).is_err());
    }
}
