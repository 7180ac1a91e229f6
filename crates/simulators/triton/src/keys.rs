//! SSH public keys: their lines, their fingerprints, and whether a signature is theirs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};

use super::curve::{self, Curve};

/// A public key, as its line (`ssh-rsa AAAA… comment`) tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublicKey {
    /// Kind and base64, without the comment.
    pub(super) line: String,
    /// What follows the base64.
    pub(super) comment: String,
    /// The MD5 fingerprint: sixteen pairs of digits with colons.
    pub(super) fingerprint: String,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    Rsa { exponent: Vec<u8>, modulus: Vec<u8> },
    Ecdsa { curve: Curve, point: Vec<u8> },
    Ed25519(Vec<u8>),
}

/// The hashes that the signature library behind the API knows, and one that only certificates use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha1,
    Sha256,
    Sha384,
    Sha512,
}

impl PublicKey {
    /// Reads a line of `authorized_keys`.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (kind, text) = (words.next()?, words.next()?);
        let blob = STANDARD.decode(text).ok()?;
        let mut rest = blob.as_slice();
        if string(&mut rest)? != kind.as_bytes() {
            return None;
        }
        let material = match kind {
            "ssh-rsa" => Material::Rsa {
                exponent: unsigned(string(&mut rest)?),
                modulus: unsigned(string(&mut rest)?),
            },
            "ssh-ed25519" => Material::Ed25519(string(&mut rest)?.to_vec()),
            _ => {
                let named = kind.strip_prefix("ecdsa-sha2-")?;
                let curve = Curve::named(named)?;
                if string(&mut rest)? != named.as_bytes() {
                    return None;
                }
                let point = string(&mut rest)?.to_vec();
                Material::Ecdsa { curve, point }
            }
        };
        Some(Self {
            line: format!("{kind} {text}"),
            comment: words.collect::<Vec<_>>().join(" "),
            fingerprint: fingerprint(&blob),
            material,
        })
    }

    /// The family of its algorithms, as the `Authorization` header spells it.
    pub(super) fn family(&self) -> &'static str {
        match self.material {
            Material::Rsa { .. } => "rsa",
            Material::Ecdsa { .. } => "ecdsa",
            Material::Ed25519(_) => "ed25519",
        }
    }

    /// Whether that is a signature of that message by this key.
    pub(super) fn signed(&self, hash: Hash, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { exponent, modulus } => {
                let parameters = match hash {
                    Hash::Sha1 => &signature::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
                    Hash::Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Hash::Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Hash::Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                };
                let key = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                key.verify(parameters, message, signature).is_ok()
            }
            // Most keys are of this kind, and this is a hundred times faster than the general way below, which takes
            // any hash with any curve.
            Material::Ecdsa {
                curve: Curve::P256,
                point,
            } if hash == Hash::Sha256 => {
                let key = UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_ASN1, point);
                key.verify(message, signature).is_ok()
            }
            Material::Ecdsa { curve, point } => {
                let digest = match hash {
                    Hash::Sha1 => &ring::digest::SHA1_FOR_LEGACY_USE_ONLY,
                    Hash::Sha256 => &ring::digest::SHA256,
                    Hash::Sha384 => &ring::digest::SHA384,
                    Hash::Sha512 => &ring::digest::SHA512,
                };
                let digest = ring::digest::digest(digest, message);
                curve::verify(*curve, point, digest.as_ref(), signature)
            }
            Material::Ed25519(key) => {
                let key = UnparsedPublicKey::new(&signature::ED25519, key);
                hash == Hash::Sha512 && key.verify(message, signature).is_ok()
            }
        }
    }
}

/// The MD5 fingerprint of a key's wire form.
fn fingerprint(blob: &[u8]) -> String {
    let digest = Md5::digest(blob);
    let pairs: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    pairs.join(":")
}

/// The next string of the SSH wire form.
fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (found, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(found)
}

/// A positive number without the zero that keeps its sign.
fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let first = bytes.iter().position(|byte| *byte != 0);
    bytes[first.unwrap_or(bytes.len())..].to_vec()
}

#[cfg(test)]
mod tests {
    use ring::rand::SystemRandom;
    use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};

    use super::super::{DEFAULT_PRIVATE_KEY, DEFAULT_PUBLIC_KEY};
    use super::*;

    #[test]
    fn the_two_ways_to_verify_the_usual_signature_agree() {
        let body: String = DEFAULT_PRIVATE_KEY
            .lines()
            .filter(|line| !line.starts_with('-'))
            .collect();
        let der = STANDARD.decode(body).unwrap();
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random);
        let signature = pair.unwrap().sign(&random, b"message").unwrap();
        let key = PublicKey::parse(DEFAULT_PUBLIC_KEY).unwrap();
        let Material::Ecdsa { curve, point } = &key.material else {
            panic!("it is of another kind");
        };
        for (message, wanted) in [(b"message", true), (b"massage", false)] {
            let digest = ring::digest::digest(&ring::digest::SHA256, message);
            let slowly = curve::verify(*curve, point, digest.as_ref(), signature.as_ref());
            let fast = key.signed(Hash::Sha256, message, signature.as_ref());
            assert_eq!((slowly, fast), (wanted, wanted));
        }
    }
}
