//! The cluster's certificate authority, and the certificates it gives to the server and to users.
//!
//! Every key is Ed25519 made from 32 bytes. With [`Keys::seeded`] these come from the world's
//! randomness, so that one seed gives one set of certificates and tokens, byte for byte.

use std::net::IpAddr;
use std::sync::Arc;

use bowline_simulator::keys::{CertificateError, Keys, pkcs8};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519, SanType, date_time_ymd,
};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::auth::User;

/// Years of validity. Wide on purpose: a simulated clock and the machine's clock both have to lie
/// inside, and nothing of value is protected.
const VALID_YEARS: (i32, i32) = (2000, 2049);
/// Object identifier of the organization attribute, for the second one of a subject: the
/// certificate library keeps one value per named attribute.
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
/// Names every server certificate is good for.
const SERVER_NAMES: [&str; 7] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// A certificate with its private key.
#[derive(Clone)]
pub struct Identity {
    pub certificate: CertificateDer<'static>,
    pub certificate_pem: String,
    /// The private key in PEM (PKCS#8).
    pub key_pem: String,
    key: Vec<u8>,
}

impl Identity {
    /// The private key, as TLS libraries take it.
    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    keys: Keys,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Authority {
    /// A new authority of that common name.
    pub fn new(name: &str, keys: Keys) -> Result<Self, CertificateError> {
        let refused = |source| CertificateError::Refused {
            subject: name.to_owned(),
            source,
        };
        let key = key_pair(&keys, name)?;
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
            KeyUsagePurpose::KeyCertSign,
        ];
        let certificate = params.self_signed(&key).map_err(refused)?;
        Ok(Self {
            verifier: verifier(certificate.der())?,
            certificate: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
            keys,
        })
    }

    /// The authority's own certificate in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// The authority's private key in PEM (PKCS#8): for whoever else signs in its name.
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// A certificate for the API server: the usual names and `extra` ones, DNS names or addresses.
    pub fn server(&self, extra: &[&str]) -> Result<Identity, CertificateError> {
        self.serving(
            "kube-apiserver",
            extra,
            &[ExtendedKeyUsagePurpose::ServerAuth],
        )
    }

    /// A certificate for a server that is also its own client, as etcd's JSON gateway is etcd's.
    pub fn peer(&self, name: &str) -> Result<Identity, CertificateError> {
        let purposes = [
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.serving(name, &[], &purposes)
    }

    fn serving(
        &self,
        subject: &str,
        extra: &[&str],
        purposes: &[ExtendedKeyUsagePurpose],
    ) -> Result<Identity, CertificateError> {
        let mut params = params(subject);
        for name in SERVER_NAMES.iter().chain(extra) {
            params.subject_alt_names.push(subject_alternative(name)?);
        }
        params.extended_key_usages = purposes.to_vec();
        self.issue(subject, params)
    }

    /// A client certificate: the user in the common name, the groups in the organization.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity, CertificateError> {
        let mut params = params(user);
        let kinds = [
            DnType::OrganizationName,
            DnType::CustomDnType(ORGANIZATION.to_vec()),
        ];
        if groups.len() > kinds.len() {
            return Err(CertificateError::TooManyGroups {
                subject: user.to_owned(),
                count: groups.len(),
            });
        }
        for (kind, group) in kinds.into_iter().zip(groups) {
            params.distinguished_name.push(kind, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(user, params)
    }

    fn issue(
        &self,
        subject: &str,
        mut params: CertificateParams,
    ) -> Result<Identity, CertificateError> {
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.use_authority_key_identifier_extension = true;
        let key = key_pair(&self.keys, subject)?;
        let certificate =
            params
                .signed_by(&key, &self.issuer)
                .map_err(|source| CertificateError::Refused {
                    subject: subject.to_owned(),
                    source,
                })?;
        Ok(Identity {
            certificate: certificate.der().clone(),
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            key: key.serialize_der(),
        })
    }

    /// The user a client certificate speaks for, if this authority signed it and it is valid now.
    pub fn user(&self, certificate: &[u8], now: jiff::Timestamp) -> Option<User> {
        let der = CertificateDer::from(certificate);
        let seconds = u64::try_from(now.as_second()).ok()?;
        let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        self.verifier.verify_client_cert(&der, &[], time).ok()?;
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        let subject = parsed.subject();
        let name = subject.iter_common_name().next()?.as_str().ok()?;
        Some(User {
            name: name.to_owned(),
            groups: subject
                .iter_organization()
                .filter_map(|group| group.as_str().ok().map(str::to_owned))
                .collect(),
            extra: std::collections::BTreeMap::from([(
                CREDENTIAL.to_owned(),
                vec![format!("X509SHA256={}", hexadecimal(certificate))],
            )]),
            ..User::default()
        })
    }
}

/// How reviews name the credential that somebody used.
const CREDENTIAL: &str = "authentication.kubernetes.io/credential-id";

/// The digest of a certificate, in hexadecimal.
fn hexadecimal(certificate: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
    let digits: Vec<String> = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    digits.concat()
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

fn params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(VALID_YEARS.0, 1, 1);
    params.not_after = date_time_ymd(VALID_YEARS.1, 12, 31);
    params
}

fn subject_alternative(name: &str) -> Result<SanType, CertificateError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let dns = name
        .try_into()
        .map_err(|source| CertificateError::Refused {
            subject: name.to_owned(),
            source,
        })?;
    Ok(SanType::DnsName(dns))
}

fn key_pair(keys: &Keys, subject: &str) -> Result<KeyPair, CertificateError> {
    let der = PrivatePkcs8KeyDer::from(pkcs8(keys.seed()?));
    KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519).map_err(|source| {
        CertificateError::Refused {
            subject: subject.to_owned(),
            source,
        }
    })
}

fn verifier(
    authority: &CertificateDer<'static>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(authority.clone())
        .map_err(|error| CertificateError::Verifier(error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .allow_unauthenticated()
        .build()
        .map_err(|error| CertificateError::Verifier(error.to_string()))
}

#[cfg(test)]
mod tests {
    use bowline_http::Random;
    use rustls::client::danger::ServerCertVerifier;

    use super::*;

    fn authority(seed: u64) -> Authority {
        Authority::new("kubernetes", Keys::seeded(&Random::seeded(seed))).unwrap()
    }

    fn now() -> jiff::Timestamp {
        "2026-10-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn a_client_certificate_names_its_user_and_groups() {
        let authority = authority(1);
        let rows: [(&str, &[&str]); 3] = [
            ("alone", &[]),
            ("admin", &["system:masters"]),
            ("system:node:n1", &["system:nodes", "racks"]),
        ];
        for (name, groups) in rows {
            let identity = authority.client(name, groups).unwrap();
            let user = authority.user(&identity.certificate, now()).unwrap();
            assert_eq!(
                (user.name.as_str(), user.groups),
                (name, {
                    groups
                        .iter()
                        .map(|&group| group.to_owned())
                        .collect::<Vec<_>>()
                })
            );
        }
    }

    #[test]
    fn a_certificate_of_another_authority_or_for_servers_names_nobody() {
        let (ours, theirs) = (authority(1), authority(2));
        let foreign = theirs.client("admin", &["system:masters"]).unwrap();
        assert_eq!(ours.user(&foreign.certificate, now()), None);
        let server = ours.server(&[]).unwrap();
        assert_eq!(ours.user(&server.certificate, now()), None);
        assert_eq!(ours.user(b"not a certificate", now()), None);
        let own = ours.client("admin", &[]).unwrap();
        let late = "2050-06-01T00:00:00Z".parse().unwrap();
        assert_eq!(ours.user(&own.certificate, late), None);
    }

    #[test]
    fn a_peer_serves_and_calls() {
        let authority = authority(1);
        let peer = authority.peer("etcd").unwrap();
        let user = authority.user(&peer.certificate, now()).unwrap();
        assert_eq!(user.name, "etcd");
        let (_, parsed) = X509Certificate::from_der(&peer.certificate).unwrap();
        let usage = parsed.extended_key_usage().unwrap().unwrap().value;
        assert!(usage.server_auth && usage.client_auth);
    }

    #[test]
    fn the_key_of_an_authority_signs_in_its_name() {
        let authority = authority(1);
        let key = KeyPair::from_pem(&authority.key_pem()).unwrap();
        let other = Issuer::from_ca_cert_pem(authority.pem(), key).unwrap();
        let mut signed = params("n1");
        signed.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let own = KeyPair::generate().unwrap();
        let certificate = signed.signed_by(&own, &other).unwrap();
        let user = authority.user(certificate.der(), now()).unwrap();
        assert_eq!(user.name, "n1");
    }

    #[test]
    fn the_same_seed_gives_the_same_certificates() {
        let make = || authority(7).client("x", &["y"]).unwrap().certificate_pem;
        assert_eq!(make(), make());
        assert_eq!(authority(7).pem(), authority(7).pem());
        assert_ne!(authority(7).pem(), authority(8).pem());
    }

    #[test]
    fn a_third_group_is_refused_instead_of_lost() {
        let error = authority(1).client("x", &["a", "b", "c"]).unwrap_err();
        assert!(error.to_string().contains("at most two groups"), "{error}");
    }

    #[test]
    fn the_server_certificate_is_good_for_the_usual_and_the_extra_names() {
        let authority = authority(1);
        let server = authority.server(&["api.example", "192.0.2.7"]).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.certificate().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            rustls::client::WebPkiServerVerifier::builder_with_provider(roots.into(), provider)
                .build()
                .unwrap();
        let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_790_000_000));
        let good = |name: &str| {
            let name = rustls_pki_types::ServerName::try_from(name.to_owned()).unwrap();
            verifier
                .verify_server_cert(&server.certificate, &[], &name, &[], time)
                .is_ok()
        };
        for name in SERVER_NAMES.iter().chain(&["api.example", "192.0.2.7"]) {
            assert!(good(name), "{name}");
        }
        assert!(!good("elsewhere.example"));
    }
}
