//! From the text of a private key to the key.

use num_bigint::BigUint;
use p256::pkcs8::DecodePrivateKey as _;
use ring::rsa::{KeyPairComponents, PublicKeyComponents};
use ring::signature::{Ed25519KeyPair, RsaKeyPair};
use ssh_key::Kdf;
use ssh_key::private::{EcdsaKeypair, KeypairData, RsaKeypair};

use super::armour::{Armoured, open};
use super::{KeyError, PrivateKey, Secret};

/// The shortest RSA key that is taken, in bytes of its modulus.
const SHORTEST_RSA: usize = 2048 / 8;
/// Rounds of bcrypt that are spent on a passphrase: some seconds. `ssh-keygen` uses 24, careful people 100; the field has 32
/// bits, which are months.
const MOST_ROUNDS: u32 = 1000;

pub(super) fn parse(text: &str, passphrase: Option<&str>) -> Result<PrivateKey, KeyError> {
    let Armoured { label, bytes } = open(text)?;
    let secret = match label.as_str() {
        "OPENSSH PRIVATE KEY" => openssh(&bytes, passphrase)?,
        "RSA PRIVATE KEY" => rsa(RsaKeyPair::from_der(&bytes))?,
        "EC PRIVATE KEY" => sec1(&bytes)?,
        "PRIVATE KEY" => pkcs8(&bytes)?,
        "DSA PRIVATE KEY" => return Err(KeyError::Dsa),
        "ENCRYPTED PRIVATE KEY" => {
            let form = "BEGIN ENCRYPTED PRIVATE KEY";
            return Err(KeyError::OldEncryption { form });
        }
        other => return Err(KeyError::Unsupported(format!("BEGIN {other}"))),
    };
    let public = secret.public()?;
    PrivateKey::new(secret, public)
}

/// The same key as a text that needs no passphrase.
pub(super) fn decrypted(text: &str, passphrase: &str) -> Result<bowline_core::Secret, KeyError> {
    let Armoured { label, bytes } = open(text)?;
    if label != "OPENSSH PRIVATE KEY" {
        return Ok(bowline_core::Secret::new(text));
    }
    let read = ssh_key::PrivateKey::from_bytes(&bytes).map_err(|error| unread(&bytes, &error))?;
    if !read.is_encrypted() {
        return Ok(bowline_core::Secret::new(text));
    }
    let open = decrypt(&read, passphrase)?;
    let text = open.to_openssh(ssh_key::LineEnding::LF).map_err(damaged)?;
    Ok(bowline_core::Secret::new(text.as_str()))
}

fn decrypt(key: &ssh_key::PrivateKey, passphrase: &str) -> Result<ssh_key::PrivateKey, KeyError> {
    match key.kdf() {
        Kdf::Bcrypt { rounds, .. } if *rounds > MOST_ROUNDS => Err(KeyError::TooManyRounds {
            rounds: *rounds,
            most: MOST_ROUNDS,
        }),
        _ => key
            .decrypt(passphrase)
            .map_err(|_| KeyError::WrongPassphrase),
    }
}

fn damaged(what: impl std::fmt::Display) -> KeyError {
    KeyError::Damaged(format!("the private key is damaged: {what}"))
}

fn openssh(bytes: &[u8], passphrase: Option<&str>) -> Result<Secret, KeyError> {
    let read = ssh_key::PrivateKey::from_bytes(bytes).map_err(|error| unread(bytes, &error))?;
    let read = if read.is_encrypted() {
        let passphrase = passphrase.ok_or(KeyError::NoPassphrase)?;
        decrypt(&read, passphrase)?
    } else {
        read
    };
    match read.key_data() {
        KeypairData::Rsa(pair) => rsa_of_parts(pair),
        KeypairData::Ecdsa(pair) => {
            let curve = match pair {
                EcdsaKeypair::NistP256 { .. } => Curve::P256,
                EcdsaKeypair::NistP384 { .. } => Curve::P384,
                EcdsaKeypair::NistP521 { .. } => Curve::P521,
            };
            curve.key(pair.private_key_bytes())
        }
        KeypairData::Ed25519(pair) => {
            let (seed, public) = (pair.private.as_ref(), pair.public.as_ref());
            let key = Ed25519KeyPair::from_seed_and_public_key(seed, public);
            Ok(Secret::Ed25519(key.map_err(damaged)?))
        }
        KeypairData::Dsa(_) => Err(KeyError::Dsa),
        KeypairData::SkEcdsaSha2NistP256(_) | KeypairData::SkEd25519(_) => {
            Err(KeyError::Token(read.algorithm().to_string()))
        }
        _ => Err(KeyError::Unsupported(read.algorithm().to_string())),
    }
}

/// Why an OpenSSH key cannot be read; the library does not read every kind.
fn unread(bytes: &[u8], error: &ssh_key::Error) -> KeyError {
    let holds = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
    if holds(b"ssh-dss") {
        return KeyError::Dsa;
    }
    for token in [
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    ] {
        if holds(token.as_bytes()) {
            return KeyError::Token(token.to_owned());
        }
    }
    match error {
        ssh_key::Error::AlgorithmUnknown | ssh_key::Error::AlgorithmUnsupported { .. } => {
            KeyError::Unsupported(error.to_string())
        }
        _ => damaged(error),
    }
}

fn rsa(read: Result<RsaKeyPair, ring::error::KeyRejected>) -> Result<Secret, KeyError> {
    let key = read.map_err(|error| {
        // The library's word for it; it has no other way to tell.
        if error.to_string() == "TooSmall" {
            KeyError::TooShort
        } else {
            damaged(error)
        }
    })?;
    if key.public().modulus_len() < SHORTEST_RSA {
        return Err(KeyError::TooShort);
    }
    Ok(Secret::Rsa(Box::new(key)))
}

/// OpenSSH does not write the two exponents that ring wants; they follow from the others.
fn rsa_of_parts(pair: &RsaKeypair) -> Result<Secret, KeyError> {
    let number = |it: &ssh_key::Mpint| {
        let bytes = it.as_positive_bytes().unwrap_or_default();
        BigUint::from_bytes_be(bytes)
    };
    let one = BigUint::from(1u8);
    let (d, p, q) = (
        number(&pair.private.d),
        number(&pair.private.p),
        number(&pair.private.q),
    );
    if p <= one || q <= one {
        return Err(damaged("its primes are none"));
    }
    let components = KeyPairComponents {
        public_key: PublicKeyComponents {
            n: number(&pair.public.n).to_bytes_be(),
            e: number(&pair.public.e).to_bytes_be(),
        },
        dP: (&d % (&p - &one)).to_bytes_be(),
        dQ: (&d % (&q - &one)).to_bytes_be(),
        d: d.to_bytes_be(),
        p: p.to_bytes_be(),
        q: q.to_bytes_be(),
        qInv: number(&pair.private.iqmp).to_bytes_be(),
    };
    rsa(RsaKeyPair::from_components(&components))
}

#[derive(Clone, Copy)]
enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    fn key(self, scalar: &[u8]) -> Result<Secret, KeyError> {
        let wrong = |_| damaged("its number does not fit its curve");
        Ok(match self {
            Self::P256 => {
                let key = p256::SecretKey::from_slice(scalar);
                Secret::P256(key.map_err(wrong)?.into())
            }
            Self::P384 => {
                let key = p384::SecretKey::from_slice(scalar);
                Secret::P384(Box::new(key.map_err(wrong)?.into()))
            }
            Self::P521 => {
                let key = p521::SecretKey::from_slice(scalar).map_err(wrong)?;
                let key = p521::ecdsa::SigningKey::from_bytes(&key.to_bytes());
                Secret::P521(Box::new(
                    key.map_err(|_| damaged("its number fits no curve"))?,
                ))
            }
        })
    }

    /// By its object identifier, or where the key names none, by the length of its number.
    fn of(name: Option<&str>, length: usize) -> Result<Self, KeyError> {
        match (name, length) {
            (Some("1.2.840.10045.3.1.7"), _) | (None, 32) => Ok(Self::P256),
            (Some("1.3.132.0.34"), _) | (None, 48) => Ok(Self::P384),
            (Some("1.3.132.0.35"), _) | (None, 66) => Ok(Self::P521),
            (Some(other), _) => Err(KeyError::Unsupported(format!("the curve {other}"))),
            (None, _) => Err(KeyError::Unsupported("an unnamed curve".to_owned())),
        }
    }
}

fn sec1(bytes: &[u8]) -> Result<Secret, KeyError> {
    let key = sec1::EcPrivateKey::try_from(bytes).map_err(damaged)?;
    let curve = key.parameters.and_then(sec1::EcParameters::named_curve);
    let curve = curve.map(|oid| oid.to_string());
    Curve::of(curve.as_deref(), key.private_key.len())?.key(key.private_key)
}

/// Says of itself which algorithm it is for.
fn pkcs8(bytes: &[u8]) -> Result<Secret, KeyError> {
    let info = p256::pkcs8::PrivateKeyInfo::try_from(bytes).map_err(damaged)?;
    match info.algorithm.oid.to_string().as_str() {
        "1.2.840.113549.1.1.1" => rsa(RsaKeyPair::from_pkcs8(bytes)),
        "1.3.101.112" => {
            let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(bytes);
            Ok(Secret::Ed25519(key.map_err(damaged)?))
        }
        "1.2.840.10045.2.1" => {
            let curve = info.algorithm.parameters_oid().map_err(damaged)?;
            match Curve::of(Some(&curve.to_string()), 0)? {
                Curve::P256 => {
                    let key = p256::SecretKey::from_pkcs8_der(bytes).map_err(damaged)?;
                    Ok(Secret::P256(key.into()))
                }
                Curve::P384 => {
                    let key = p384::SecretKey::from_pkcs8_der(bytes).map_err(damaged)?;
                    Ok(Secret::P384(Box::new(key.into())))
                }
                Curve::P521 => {
                    let key = p521::SecretKey::from_pkcs8_der(bytes).map_err(damaged)?;
                    Curve::P521.key(&key.to_bytes())
                }
            }
        }
        "1.2.840.10040.4.1" => Err(KeyError::Dsa),
        other => Err(KeyError::Unsupported(format!("the algorithm {other}"))),
    }
}
