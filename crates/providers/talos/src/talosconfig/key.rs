//! Private keys in PEM, also under labels that no library knows.
//!
//! Talos writes `ED25519 PRIVATE KEY` over what is ordinary PKCS#8. So the label only tells that there is
//! a key, and what the bytes are is found by trying.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_core::Secret;
use rustls::crypto::ring::sign::any_supported_type;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use thiserror::Error;

/// Why a text holds no private key. Says nothing about the key itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error("holds no private key in PEM form")]
    Missing,
    #[error("is encrypted, and nobody could say the password")]
    Encrypted,
    /// None of the forms, or of an algorithm that TLS here does not sign with.
    #[error("is no key of Ed25519, ECDSA or RSA that can be used")]
    Unusable,
}

/// The label of a form, and how bytes are taken for it.
type Form = (&'static str, fn(Vec<u8>) -> PrivateKeyDer<'static>);

/// The forms that a key may have, in the order in which they are tried.
const FORMS: [Form; 3] = [
    ("PRIVATE KEY", |der| PrivatePkcs8KeyDer::from(der).into()),
    ("EC PRIVATE KEY", |der| PrivateSec1KeyDer::from(der).into()),
    ("RSA PRIVATE KEY", |der| {
        PrivatePkcs1KeyDer::from(der).into()
    }),
];

/// The same key under the label that everybody knows.
pub(super) fn plain(pem: &Secret) -> Result<Secret, KeyError> {
    let (label, body) = block(pem.reveal()).ok_or(KeyError::Missing)?;
    if label.contains("ENCRYPTED") || body.contains("Proc-Type") {
        return Err(KeyError::Encrypted);
    }
    let body: String = body.split_ascii_whitespace().collect();
    let der = STANDARD.decode(&body).map_err(|_| KeyError::Unusable)?;
    for (label, form) in FORMS {
        if any_supported_type(&form(der.clone())).is_ok() {
            let body = STANDARD.encode(&der);
            let pem = format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n");
            return Ok(Secret::new(pem));
        }
    }
    Err(KeyError::Unusable)
}

/// Label and body of the first block that is a private key.
fn block(text: &str) -> Option<(&str, &str)> {
    let mut rest = text;
    while let Some((_, from)) = rest.split_once("-----BEGIN ") {
        let (label, from) = from.split_once("-----")?;
        let (body, after) = from.split_once("-----END ")?;
        if label.ends_with("PRIVATE KEY") {
            return Some((label, body));
        }
        rest = after;
    }
    None
}
