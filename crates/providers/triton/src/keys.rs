//! SSH keys: what proves to Triton who asks.
//!
//! ```text
//!  text ─▶ armour ─▶ parse ─▶ PrivateKey ─┬─▶ sign ─▶ Authorization (crate::signature)
//!                      │                  └─▶ fingerprints ◀─ compared with ─ KeyId, as configured
//!                      └─▶ KeyError: what it is instead, and the command that helps
//! ```
//!
//! RSA and Ed25519 are signed by ring. ECDSA is not: Triton's server knows no SHA-384, so that
//! P-384 has to be used with SHA-512, which ring does not offer, and P-521 ring does not know at
//! all.

mod armour;
#[cfg(test)]
pub(crate) mod examples;
mod fingerprint;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use p256::ecdsa::signature::hazmat::PrehashSigner as _;
use ring::signature::{Ed25519KeyPair, KeyPair as _, RsaKeyPair};
use ssh_key::public::KeyData;
use thiserror::Error;

pub use fingerprint::{Fingerprint, KeyId, KeyIdError};

/// Bytes of a file with a key. An RSA key of 16,384 bits has some 12 KiB.
pub const LARGEST_KEY: usize = 64 * 1024;

/// Why a text is no key that can be used. Nothing of the text is shown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error(
        "the private key is encrypted and there is no passphrase: give one (TRITON_KEY_PASSPHRASE), \
         or store a copy of the key without one (ssh-keygen -p -N '' -f COPY)"
    )]
    NoPassphrase,
    #[error("the passphrase does not open the private key")]
    WrongPassphrase,
    #[error(
        "the passphrase of the private key takes {rounds} rounds, more than {most}; make a copy of it with fewer: \
         ssh-keygen -p -a 24 -f COPY"
    )]
    TooManyRounds { rounds: u32, most: u32 },
    /// Encrypted in a form other than OpenSSH's.
    #[error(
        "the private key is encrypted in an old form ({form}); convert a copy of it: \
         ssh-keygen -p -m PEM -N '' -f COPY"
    )]
    OldEncryption { form: &'static str },
    #[error(
        "DSA keys are not supported: make another key (ssh-keygen -t ecdsa -m PEM -N '' -f NEW) and \
         add its public half to the account"
    )]
    Dsa,
    #[error(
        "keys of security tokens ({0}) cannot sign unattended: make another key \
         (ssh-keygen -t ecdsa -m PEM -N '' -f NEW) and add its public half to the account"
    )]
    Token(String),
    #[error("this is a public key; the private key is in the file of the same name without .pub")]
    Public,
    #[error("RSA keys of less than 2048 bits are not supported")]
    TooShort,
    #[error("keys of this kind are not supported ({0}); want RSA, ECDSA or Ed25519")]
    Unsupported(String),
    /// Not a key, or not whole.
    #[error("{0}")]
    Damaged(String),
}

/// A private key. Neither `Debug` nor any error shows it.
pub struct PrivateKey {
    secret: Secret,
    public: KeyData,
    fingerprint: Fingerprint,
}

enum Secret {
    Rsa(Box<RsaKeyPair>),
    P256(p256::ecdsa::SigningKey),
    P384(Box<p384::ecdsa::SigningKey>),
    P521(Box<p521::ecdsa::SigningKey>),
    Ed25519(Ed25519KeyPair),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateSignature {
    /// PKCS#1 v1.5 with SHA-256.
    RsaSha256,
    /// ECDSA with SHA-256, on any curve.
    EcdsaSha256,
    /// ECDSA with SHA-384, on any curve.
    EcdsaSha384,
    /// Not at all, as far as Triton is concerned.
    None,
}

/// Why there is no signature: only a broken source of randomness or a broken key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the private key does not sign")]
pub struct SigningError;

impl PrivateKey {
    /// Reads a key in any of the forms OpenSSH, PKCS#1, SEC1 and PKCS#8.
    pub fn parse(text: &str, passphrase: Option<&str>) -> Result<Self, KeyError> {
        parse::parse(text, passphrase)
    }

    /// The text of a key without its passphrase; as it is, if it has none.
    pub fn decrypted(text: &str, passphrase: &str) -> Result<bowline_core::Secret, KeyError> {
        parse::decrypted(text, passphrase)
    }

    fn new(secret: Secret, public: KeyData) -> Result<Self, KeyError> {
        let fingerprint = Fingerprint::of(&public)?;
        Ok(Self {
            secret,
            public,
            fingerprint,
        })
    }

    /// A new ECDSA key on P-256, from the system's randomness, and its text (PKCS#8).
    pub fn generate() -> Result<(Self, bowline_core::Secret), KeyError> {
        use p256::pkcs8::EncodePrivateKey as _;
        let random = ring::rand::SystemRandom::new();
        let failed = || KeyError::Damaged("no new key could be made".to_owned());
        // A draw outside of the range is as likely as 2⁻³²; four in a row do not happen.
        for _ in 0..4 {
            let bytes: [u8; 32] = ring::rand::generate(&random)
                .map_err(|_| failed())?
                .expose();
            if let Ok(key) = p256::SecretKey::from_slice(&bytes) {
                let text = key.to_pkcs8_pem(p256::pkcs8::LineEnding::LF);
                let text = bowline_core::Secret::new(text.map_err(|_| failed())?.as_str());
                return Ok((Self::parse(text.reveal(), None)?, text));
            }
        }
        Err(failed())
    }

    /// The name of the algorithm in the `Authorization` header.
    pub fn algorithm(&self) -> &'static str {
        match self.secret {
            Secret::Rsa(_) => "rsa-sha256",
            Secret::P256(_) => "ecdsa-sha256",
            // The server's library knows no SHA-384, and does not tie the hash to the curve.
            Secret::P384(_) | Secret::P521(_) => "ecdsa-sha512",
            Secret::Ed25519(_) => "ed25519-sha512",
        }
    }

    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Its public half as OpenSSH writes it: `ecdsa-sha2-nistp256 AAAA…`.
    pub fn public_line(&self) -> String {
        // What was encoded once for the fingerprint can be encoded again.
        ssh_key::PublicKey::new(self.public.clone(), "")
            .to_openssh()
            .map(|line| line.trim_end().to_owned())
            .unwrap_or_default()
    }

    /// Signs a text: the bytes before base64.
    pub fn sign(&self, text: &[u8]) -> Result<Vec<u8>, SigningError> {
        use ring::digest::{SHA256, SHA512, digest};
        match &self.secret {
            Secret::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                let random = ring::rand::SystemRandom::new();
                let padding = &ring::signature::RSA_PKCS1_SHA256;
                key.sign(padding, &random, text, &mut signature)
                    .map_err(|_| SigningError)?;
                Ok(signature)
            }
            Secret::P256(key) => {
                let signed = key.sign_prehash(digest(&SHA256, text).as_ref());
                let signed: p256::ecdsa::Signature = signed.map_err(|_| SigningError)?;
                Ok(signed.to_der().as_bytes().to_vec())
            }
            Secret::P384(key) => {
                let signed = key.sign_prehash(digest(&SHA512, text).as_ref());
                let signed: p384::ecdsa::Signature = signed.map_err(|_| SigningError)?;
                Ok(signed.to_der().as_bytes().to_vec())
            }
            Secret::P521(key) => {
                let signed = key.sign_prehash(digest(&SHA512, text).as_ref());
                let signed: p521::ecdsa::Signature = signed.map_err(|_| SigningError)?;
                Ok(signed.to_der().as_bytes().to_vec())
            }
            Secret::Ed25519(key) => Ok(key.sign(text).as_ref().to_vec()),
        }
    }
}

/// Certificates are judged by other code than requests, which knows SHA-384.
impl PrivateKey {
    pub fn certificate_signature(&self) -> CertificateSignature {
        match self.secret {
            Secret::Rsa(_) => CertificateSignature::RsaSha256,
            Secret::P256(_) => CertificateSignature::EcdsaSha256,
            // The largest curve takes no hash of less than half its size.
            Secret::P384(_) | Secret::P521(_) => CertificateSignature::EcdsaSha384,
            Secret::Ed25519(_) => CertificateSignature::None,
        }
    }

    /// Signs what a certificate says, in that way.
    pub fn sign_certificate(&self, text: &[u8]) -> Result<Vec<u8>, SigningError> {
        use ring::digest::{SHA384, digest};
        match &self.secret {
            Secret::Rsa(_) | Secret::P256(_) => self.sign(text),
            Secret::P384(key) => {
                let signed = key.sign_prehash(digest(&SHA384, text).as_ref());
                let signed: p384::ecdsa::Signature = signed.map_err(|_| SigningError)?;
                Ok(signed.to_der().as_bytes().to_vec())
            }
            Secret::P521(key) => {
                let signed = key.sign_prehash(digest(&SHA384, text).as_ref());
                let signed: p521::ecdsa::Signature = signed.map_err(|_| SigningError)?;
                Ok(signed.to_der().as_bytes().to_vec())
            }
            Secret::Ed25519(_) => Err(SigningError),
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrivateKey")
            .field("fingerprint", &self.fingerprint.md5())
            .finish_non_exhaustive()
    }
}

/// The public halves, in the form that fingerprints are taken of.
impl Secret {
    fn public(&self) -> Result<KeyData, KeyError> {
        use ssh_key::public::{EcdsaPublicKey, Ed25519PublicKey, RsaPublicKey};
        let damaged = |_| KeyError::Damaged("the private key has no public half".to_owned());
        Ok(match self {
            Self::Rsa(key) => {
                let parts: ring::rsa::PublicKeyComponents<Vec<u8>> = key.public().into();
                let number = |bytes: &[u8]| ssh_key::Mpint::from_positive_bytes(bytes);
                let (e, n) = (number(&parts.e), number(&parts.n));
                KeyData::Rsa(RsaPublicKey {
                    e: e.map_err(damaged)?,
                    n: n.map_err(damaged)?,
                })
            }
            Self::P256(key) => {
                let point = key.verifying_key().to_encoded_point(false);
                KeyData::Ecdsa(EcdsaPublicKey::from_sec1_bytes(point.as_bytes()).map_err(damaged)?)
            }
            Self::P384(key) => {
                let point = key.verifying_key().to_encoded_point(false);
                KeyData::Ecdsa(EcdsaPublicKey::from_sec1_bytes(point.as_bytes()).map_err(damaged)?)
            }
            Self::P521(key) => {
                let point = p521::ecdsa::VerifyingKey::from(&**key).to_encoded_point(false);
                KeyData::Ecdsa(EcdsaPublicKey::from_sec1_bytes(point.as_bytes()).map_err(damaged)?)
            }
            Self::Ed25519(key) => {
                let public = key.public_key().as_ref();
                KeyData::Ed25519(Ed25519PublicKey::try_from(public).map_err(damaged)?)
            }
        })
    }
}
