//! Who signs certificates, who is let in, and what a certificate says about its owner.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_http::Clock;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SanType, date_time_ymd,
};
use rustls::DistinguishedName as TlsName;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use serde::Deserialize;
use x509_parser::prelude::{FromDer, X509Certificate};

use bowline_simulator::keys::{CertificateError, Keys, pkcs8};

/// Years of validity of authorities and servers. Wide on purpose: callers judge them by the machine's clock
/// or by the world's, and both have to lie inside.
const VALID_YEARS: (i32, i32) = (2000, 2049);
/// How long before its issue a client's certificate is good: clocks differ.
const BACKDATED: Duration = Duration::from_secs(3600);
/// Object identifier of the organization attribute, for the second one of a subject: the certificate
/// library keeps one value per named attribute.
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
/// Names that every server certificate is good for, besides those of its machine.
const SERVER_NAMES: [&str; 5] = ["127.0.0.1", "::1", "localhost", "talos", "talos.default"];

/// How certificates are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// As Talos does it.
    #[default]
    Ed25519,
    /// P-256. Its keys come from the system, whatever the seed.
    Ecdsa,
}

/// Why a certificate could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// No key material.
    #[error(transparent)]
    Keys(#[from] CertificateError),
    /// The certificate library refused.
    #[error("making the certificate of {subject}")]
    Refused {
        subject: String,
        source: rcgen::Error,
    },
    /// More roles than a certificate made here can carry.
    #[error("a certificate carries at most two roles, not {0}")]
    TooManyRoles(usize),
    /// The TLS library refused.
    #[error("setting up TLS")]
    Tls(#[from] rustls::Error),
    /// The TLS library refused the authorities.
    #[error("setting up the check of client certificates")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

fn refused(subject: &str) -> impl FnOnce(rcgen::Error) -> AuthorityError {
    let subject = subject.to_owned();
    move |source| AuthorityError::Refused { subject, source }
}

/// A certificate and its key.
pub(super) struct Issued {
    pub(super) der: CertificateDer<'static>,
    pub(super) pem: String,
    /// PKCS#8.
    pub(super) key: Vec<u8>,
}

/// One certificate authority.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    der: CertificateDer<'static>,
    pem: String,
    algorithm: Algorithm,
}

/// The authorities of a cluster: one, or two while it goes over to another.
pub(super) struct Authorities {
    current: Authority,
    next: Option<Authority>,
}

/// Whom a client's certificate is for.
pub(super) struct Client<'a> {
    pub(super) roles: &'a [String],
    pub(super) purposes: &'a [ExtendedKeyUsagePurpose],
    pub(super) from: jiff::Timestamp,
    pub(super) lifetime: Duration,
}

impl Authority {
    fn new(algorithm: Algorithm, keys: &Keys) -> Result<Self, AuthorityError> {
        let key = key_pair(algorithm, keys)?;
        let mut params = params(&["talos".to_owned()])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
        ];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let certificate = params.self_signed(&key).map_err(refused("the authority"))?;
        Ok(Self {
            der: certificate.der().clone(),
            pem: certificate.pem(),
            issuer: Issuer::new(params, key),
            algorithm,
        })
    }

    fn issue(
        &self,
        subject: &str,
        mut params: CertificateParams,
        keys: &Keys,
    ) -> Result<Issued, AuthorityError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = key_pair(self.algorithm, keys)?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .map_err(refused(subject))?;
        Ok(Issued {
            der: certificate.der().clone(),
            pem: certificate.pem(),
            key: key.serialize_der(),
        })
    }
}

impl Authorities {
    pub(super) fn new(algorithm: Algorithm, keys: &Keys) -> Result<Self, AuthorityError> {
        Ok(Self {
            current: Authority::new(algorithm, keys)?,
            next: None,
        })
    }

    /// Begins to go over to another authority: it issues to clients, and both are accepted.
    pub(super) fn rotate(&mut self, keys: &Keys) -> Result<(), AuthorityError> {
        self.next = Some(Authority::new(self.current.algorithm, keys)?);
        Ok(())
    }

    /// Ends it: only the new authority is accepted, and servers show its certificates. False if nothing
    /// had begun.
    pub(super) fn finish(&mut self) -> bool {
        match self.next.take() {
            Some(next) => {
                self.current = next;
                true
            }
            None => false,
        }
    }

    fn trusted(&self) -> impl Iterator<Item = &Authority> {
        std::iter::once(&self.current).chain(&self.next)
    }

    /// The certificates of all that are accepted.
    pub(super) fn pem(&self) -> String {
        self.trusted().map(|one| one.pem.as_str()).collect()
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.current.algorithm
    }

    /// A client's certificate.
    pub(super) fn client(
        &self,
        client: &Client<'_>,
        keys: &Keys,
    ) -> Result<Issued, AuthorityError> {
        let mut params = params(client.roles)?;
        let epoch = date_time_ymd(1970, 1, 1);
        let from = u64::try_from(client.from.as_second()).unwrap_or_default();
        let from = Duration::from_secs(from);
        params.not_before = epoch + from.saturating_sub(BACKDATED);
        params.not_after = epoch + from + client.lifetime;
        params.extended_key_usages = client.purposes.to_vec();
        let authority = self.next.as_ref().unwrap_or(&self.current);
        authority.issue("a client", params, keys)
    }

    /// The settings of a server: its certificate is good for the usual names and `names`, unless `only`
    /// those count.
    pub(super) fn server(
        &self,
        names: &[String],
        only: bool,
        keys: &Keys,
        clock: &Clock,
    ) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut params = params(&[])?;
        let usual = SERVER_NAMES.into_iter().filter(|_| !only);
        for name in usual.chain(names.iter().map(String::as_str)) {
            params.subject_alt_names.push(alternative(name)?);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let issued = self.current.issue("a machine", params, keys)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        for authority in self.trusted() {
            roots.add(authority.der.clone())?;
        }
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                .build()?;
        let time = Arc::new(ByClock(clock.clone()));
        let mut settings = ServerConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(OnlyClients(verifier)))
            .with_single_cert(
                vec![issued.der],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.key)),
            )?;
        settings.alpn_protocols = vec![b"h2".to_vec()];
        // As on machines: no session is resumed, so that every connection shows a valid certificate.
        settings.send_tls13_tickets = 0;
        settings.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Arc::new(settings))
    }
}

/// The roles of a client: the organizations of its certificate.
pub(super) fn roles(certificate: &[u8]) -> Vec<String> {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let organizations = parsed.subject().iter_organization();
    organizations
        .filter_map(|one| one.as_str().ok().map(str::to_owned))
        .collect()
}

fn params(organizations: &[String]) -> Result<CertificateParams, AuthorityError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let kinds = [
        DnType::OrganizationName,
        DnType::CustomDnType(ORGANIZATION.to_vec()),
    ];
    if organizations.len() > kinds.len() {
        return Err(AuthorityError::TooManyRoles(organizations.len()));
    }
    for (kind, organization) in kinds.into_iter().zip(organizations) {
        params.distinguished_name.push(kind, organization);
    }
    params.not_before = date_time_ymd(VALID_YEARS.0, 1, 1);
    params.not_after = date_time_ymd(VALID_YEARS.1, 12, 31);
    Ok(params)
}

fn alternative(name: &str) -> Result<SanType, AuthorityError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let dns = name.try_into().map_err(refused(name))?;
    Ok(SanType::DnsName(dns))
}

fn key_pair(algorithm: Algorithm, keys: &Keys) -> Result<KeyPair, AuthorityError> {
    match algorithm {
        Algorithm::Ed25519 => {
            let der = PrivatePkcs8KeyDer::from(pkcs8(keys.seed()?));
            KeyPair::from_pkcs8_der_and_sign_algo(&der, &PKCS_ED25519).map_err(refused("a key"))
        }
        Algorithm::Ecdsa => {
            KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(refused("a key"))
        }
    }
}

/// The world's time for TLS.
#[derive(Debug)]
struct ByClock(Clock);

impl TimeProvider for ByClock {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// Lets in certificates that are for clients and nothing else, as machines do since 1.12.
#[derive(Debug)]
struct OnlyClients(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for OnlyClients {
    fn root_hint_subjects(&self) -> &[TlsName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self.0.verify_client_cert(certificate, between, now)?;
        if only_for_clients(certificate) {
            Ok(verified)
        } else {
            Err(rustls::CertificateError::InvalidPurpose.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn only_for_clients(certificate: &[u8]) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let Ok(Some(usage)) = parsed.extended_key_usage() else {
        return false;
    };
    let usage = usage.value;
    let others = usage.any
        || usage.server_auth
        || usage.code_signing
        || usage.email_protection
        || usage.time_stamping
        || usage.ocsp_signing
        || !usage.other.is_empty();
    usage.client_auth && !others
}
