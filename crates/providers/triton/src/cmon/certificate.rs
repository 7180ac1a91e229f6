//! The client certificate by which the metrics service knows an account.
//!
//! It has a key of its own and is signed by the account's: the issuer's name is the fingerprint of
//! that key, and the service looks for it among the keys of the account that the subject names.
//! Nobody else has reason to believe it.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bowline_core::Secret;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SignatureAlgorithm, SigningKey,
};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use thiserror::Error;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::keys::{CertificateSignature, PrivateKey};

/// What a certificate must be for, beside being a client's.
const USAGE: &[u64] = &[1, 3, 6, 1, 4, 1, 38678, 1, 4, 2];
const LIFE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How much earlier than now it begins: the service's clock may be behind.
const EARLIER: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Error)]
pub enum CertificateError {
    /// The service does not take keys of this kind.
    #[error(
        "the metrics service takes no certificates that are signed with an Ed25519 key: use an RSA or ECDSA key"
    )]
    KeyNotUsable,
    #[error("a certificate for the metrics service cannot be made")]
    PlanInputs(#[from] rcgen::Error),
    /// The clock shows no time that a certificate could have.
    #[error("the clock shows {0}, which no certificate can be made for")]
    Time(Timestamp),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    pub certificate: String,
    pub key: Secret,
    account: String,
    issuer: String,
    begin: Timestamp,
    end: Timestamp,
}

impl ClientCertificate {
    /// A new one for that account, signed by a key of its.
    pub fn issue(
        account: &str,
        key: &PrivateKey,
        now: Timestamp,
    ) -> Result<Self, CertificateError> {
        Wording::usual(account, key, now)?.sign(key)
    }

    /// One that was issued before; none if it cannot be read, or does not fit its key.
    pub fn read(certificate: &str, key: &Secret) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes()).ok()?;
        let (_, parsed) = X509Certificate::from_der(&der).ok()?;
        let pair = KeyPair::from_pem(key.reveal()).ok()?;
        if pair.subject_public_key_info() != parsed.public_key().raw {
            return None;
        }
        let name = |name: &x509_parser::x509::X509Name<'_>| {
            let found = name.iter_common_name().next()?;
            found.as_str().ok().map(str::to_owned)
        };
        let validity = parsed.validity();
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp());
        Some(Self {
            certificate: certificate.to_owned(),
            key: key.clone(),
            account: name(parsed.subject())?,
            issuer: name(parsed.issuer())?,
            begin: time(validity.not_before).ok()?,
            end: time(validity.not_after).ok()?,
        })
    }

    /// Whether it need not be renewed: it is that account's, by that key, and a third of its life
    /// is left.
    pub fn is_good(&self, account: &str, key: &PrivateKey, now: Timestamp) -> bool {
        self.account == account
            && self.issuer == issuer(key)
            && self.begin <= now
            && now < self.renewal()
    }

    /// When to renew it: at two thirds of its life.
    pub fn renewal(&self) -> Timestamp {
        let life = self.end.duration_since(self.begin);
        let part = life.checked_mul(2).unwrap_or(life) / 3;
        self.begin.saturating_add(part).unwrap_or(self.begin)
    }
}

/// The issuer's name: the fingerprint of the key.
fn issuer(key: &PrivateKey) -> String {
    let fingerprint = STANDARD_NO_PAD.encode(key.fingerprint().md5_bytes());
    format!("MD5:{fingerprint}")
}

struct Wording {
    subject: String,
    issuer: String,
    usages: Vec<ExtendedKeyUsagePurpose>,
    begin: Timestamp,
    end: Timestamp,
}

impl Wording {
    fn usual(account: &str, key: &PrivateKey, now: Timestamp) -> Result<Self, CertificateError> {
        let at = |from: SignedDuration| {
            let time = now.checked_add(from);
            time.map_err(|_| CertificateError::Time(now))
        };
        Ok(Self {
            subject: account.to_owned(),
            issuer: issuer(key),
            usages: vec![
                ExtendedKeyUsagePurpose::ClientAuth,
                ExtendedKeyUsagePurpose::Other(USAGE.to_vec()),
            ],
            begin: at(-EARLIER)?,
            end: at(LIFE)?,
        })
    }

    fn sign(&self, key: &PrivateKey) -> Result<ClientCertificate, CertificateError> {
        let signer = Signer {
            key,
            algorithm: match key.certificate_signature() {
                CertificateSignature::RsaSha256 => &rcgen::PKCS_RSA_SHA256,
                // These names of algorithms tell the hash alone, not the curve.
                CertificateSignature::EcdsaSha256 => &rcgen::PKCS_ECDSA_P256_SHA256,
                CertificateSignature::EcdsaSha384 => &rcgen::PKCS_ECDSA_P384_SHA384,
                CertificateSignature::None => return Err(CertificateError::KeyNotUsable),
            },
        };
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name = common_name(&self.subject);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::ContentCommitment,
        ];
        params.extended_key_usages.clone_from(&self.usages);
        let time = |time: Timestamp| {
            let second = u64::try_from(time.as_second());
            let second = second.map_err(|_| CertificateError::Time(time))?;
            let epoch = rcgen::date_time_ymd(1970, 1, 1);
            Ok::<_, CertificateError>(epoch + Duration::from_secs(second))
        };
        params.not_before = time(self.begin)?;
        params.not_after = time(self.end)?;
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.distinguished_name = common_name(&self.issuer);
        let own_key = KeyPair::generate()?;
        let signed = params.signed_by(&own_key, &Issuer::new(authority, signer))?;
        Ok(ClientCertificate {
            certificate: signed.pem(),
            key: Secret::new(own_key.serialize_pem()),
            account: self.subject.clone(),
            issuer: self.issuer.clone(),
            begin: self.begin,
            end: self.end,
        })
    }
}

fn common_name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

/// The account's key, as the library wants it.
struct Signer<'a> {
    key: &'a PrivateKey,
    algorithm: &'static SignatureAlgorithm,
}

impl PublicKeyData for Signer<'_> {
    /// Not asked for: a certificate shows the key of its subject, not of its issuer.
    fn der_bytes(&self) -> &[u8] {
        &[]
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

impl SigningKey for Signer<'_> {
    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, rcgen::Error> {
        let signed = self.key.sign_certificate(text);
        signed.map_err(|_| rcgen::Error::RemoteKeyError)
    }
}

#[cfg(test)]
mod tests;
