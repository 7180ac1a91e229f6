//! Fingerprints of keys, in all the forms people write them.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use md5::{Digest as _, Md5};
use ssh_key::public::KeyData;
use thiserror::Error;

use super::KeyError;

/// The fingerprints of one key: of the bytes of its public half on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    md5: [u8; 16],
    sha256: [u8; 32],
}

impl Fingerprint {
    pub(super) fn of(public: &KeyData) -> Result<Self, KeyError> {
        let damaged = |_| KeyError::Damaged("the public half cannot be written".to_owned());
        let wire = ssh_key::PublicKey::new(public.clone(), "").to_bytes();
        let wire = wire.map_err(damaged)?;
        let mut sha256 = [0; 32];
        let hashed = ring::digest::digest(&ring::digest::SHA256, &wire);
        sha256.copy_from_slice(hashed.as_ref());
        let md5 = Md5::digest(&wire).into();
        Ok(Self { md5, sha256 })
    }

    /// Of a line with a public key, as OpenSSH writes it.
    pub fn of_line(line: &str) -> Option<Self> {
        let key = ssh_key::PublicKey::from_openssh(line.trim()).ok()?;
        Self::of(key.key_data()).ok()
    }

    /// `98:e2:…`: what is sent.
    pub fn md5(&self) -> String {
        colons(&self.md5)
    }

    /// `SHA256:…`, without padding, as `ssh-keygen -l` shows it.
    pub fn sha256(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(self.sha256))
    }

    /// The 16 bytes of the MD5 form; certificates of the metrics service name their issuer so.
    pub fn md5_bytes(&self) -> &[u8; 16] {
        &self.md5
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.md5(), self.sha256())
    }
}

fn colons(bytes: &[u8]) -> String {
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{text:?} is no fingerprint; want 16 hexadecimal pairs (with or without colons, or behind MD5:) \
     or SHA256: and base64"
)]
pub struct KeyIdError {
    text: String,
}

/// A key's id as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyId {
    Md5([u8; 16]),
    Sha256([u8; 32]),
}

impl KeyId {
    /// Takes `98:e2:…`, 32 hexadecimal digits, `MD5:98:e2:…` and `SHA256:…`.
    pub fn parse(text: &str) -> Result<Self, KeyIdError> {
        let trimmed = text.trim();
        let wrong = || KeyIdError {
            text: text.to_owned(),
        };
        if let Some(rest) = trimmed.strip_prefix("SHA256:") {
            let decoded = STANDARD_NO_PAD
                .decode(rest)
                .or_else(|_| STANDARD.decode(rest));
            let bytes = decoded.ok().and_then(|bytes| bytes.try_into().ok());
            return bytes.map(Self::Sha256).ok_or_else(wrong);
        }
        let hex = trimmed.strip_prefix("MD5:").unwrap_or(trimmed);
        md5_bytes(hex).map(Self::Md5).ok_or_else(wrong)
    }

    pub fn is_of(&self, key: &Fingerprint) -> bool {
        match self {
            Self::Md5(md5) => *md5 == key.md5,
            Self::Sha256(sha256) => *sha256 == key.sha256,
        }
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Md5(md5) => f.write_str(&colons(md5)),
            Self::Sha256(sha256) => write!(f, "SHA256:{}", STANDARD_NO_PAD.encode(sha256)),
        }
    }
}

/// 16 pairs of hexadecimal digits, all with a colon between them or none.
fn md5_bytes(text: &str) -> Option<[u8; 16]> {
    let pairs: Vec<&str> = if text.contains(':') {
        text.split(':').collect()
    } else if text.is_ascii() && text.len() == 32 {
        (0..16).map(|n| &text[2 * n..2 * n + 2]).collect()
    } else {
        return None;
    };
    let byte = |pair: &&str| {
        let hex = pair.len() == 2 && pair.bytes().all(|b| b.is_ascii_hexdigit());
        hex.then(|| u8::from_str_radix(pair, 16).ok())?
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes?.try_into().ok()
}
