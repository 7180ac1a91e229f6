//! Authorities and certificates as Talos has them: Ed25519, organisations and no common names.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SignatureAlgorithm,
};

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    now: Timestamp,
}

fn named(organization: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::OrganizationName, organization);
    params
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let mut params = named("talos");
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let now = bowline_http::Clock::system().now();
        let now = Timestamp::from_second(now.as_second()).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            pem,
            now,
        }
    }

    pub(crate) fn pem(&self) -> String {
        self.pem.clone()
    }

    /// When it was made.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// A client's certificate for so many seconds, and its key.
    pub(crate) fn client(&self, role: &str, seconds: i64) -> (String, String) {
        self.client_with(role, seconds, &rcgen::PKCS_ED25519)
    }

    pub(crate) fn client_with(
        &self,
        role: &str,
        seconds: i64,
        algorithm: &'static SignatureAlgorithm,
    ) -> (String, String) {
        let mut params = named(role);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let end = self.now + SignedDuration::from_secs(seconds);
        params.not_after = std::time::SystemTime::from(end).into();
        let key = KeyPair::generate_for(algorithm).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

impl Authority {
    /// A talosconfig with these endpoints, whose certificate has so many seconds left.
    pub(crate) fn talosconfig(&self, endpoints: &[&str], seconds: i64) -> String {
        use base64::Engine as _;
        let encoded = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let (crt, key) = self.client("os:reader", seconds);
        let key = key.replace("PRIVATE KEY", "ED25519 PRIVATE KEY");
        let endpoints = endpoints.join(", ");
        let (ca, crt, key) = (encoded(&self.pem), encoded(&crt), encoded(&key));
        format!(
            "context: default\ncontexts:\n  default:\n    endpoints: [{endpoints}]\n    ca: {ca}\n    \
             crt: {crt}\n    key: {key}\n"
        )
    }
}
