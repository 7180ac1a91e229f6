//! Identifies the caller: a user with groups, from a certificate, a front proxy's headers, or anonymous.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use rustls::RootCertStore;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, ring::default_provider, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::options::RequestHeaders;

/// Certificates in one authority bundle; the cluster's own holds one or two.
const BUNDLE_LIMIT: usize = 1000;

/// A caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) uid: Option<String>,
    pub(super) groups: Vec<String>,
    pub(super) extra: BTreeMap<String, Vec<String>>,
}

impl User {
    pub(super) fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// Adds the group of everybody who is known.
    pub(super) fn authenticated(mut self) -> Self {
        let group = "system:authenticated";
        if !self.groups.iter().any(|known| known == group) {
            self.groups.push(group.to_owned());
        }
        self
    }
}

/// An authority that client certificates are checked against.
#[derive(Clone, Debug)]
pub(super) struct Authority(Arc<dyn ClientCertVerifier>);

impl Authority {
    /// Reads a bundle of PEM certificates.
    pub(super) fn from_pem(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem).take(BUNDLE_LIMIT) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        if roots.is_empty() {
            return Err("no certificate in the bundle".to_owned());
        }
        let provider = Arc::new(default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map(Self)
            .map_err(|error| error.to_string())
    }

    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), String> {
        let (leaf, rest) = chain.split_first().ok_or("no certificate")?;
        let verified = self.0.verify_client_cert(leaf, rest, now);
        verified.map(drop).map_err(|error| error.to_string())
    }
}

/// What is known about who may vouch for callers. It changes when its ConfigMap does.
#[derive(Clone, Debug, Default)]
pub(super) struct Authorities {
    pub(super) clients: Option<Authority>,
    pub(super) front_proxy: Option<(Authority, RequestHeaders)>,
}

/// What one way of recognising a caller found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UserClaim {
    User(User),
    /// Nothing of that kind was presented.
    None,
    /// Something was presented and is no good.
    Bad(String),
}

impl Authorities {
    /// The front proxy's headers, trusted only behind its certificate.
    pub(super) fn front_proxy(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
        now: UnixTime,
    ) -> UserClaim {
        let Some((authority, names)) = &self.front_proxy else {
            return UserClaim::None;
        };
        let Some(leaf) = chain.first() else {
            return UserClaim::None;
        };
        if let Err(error) = authority.verify(chain, now) {
            return UserClaim::Bad(error);
        }
        let proxy = subject(leaf).map(|(name, _)| name).unwrap_or_default();
        if !names.allowed_names.is_empty() && !names.allowed_names.contains(&proxy) {
            return UserClaim::Bad(format!("front proxy {proxy:?} is not allowed"));
        }
        user_in_headers(headers, names).map_or(UserClaim::None, UserClaim::User)
    }

    /// The client's certificate: the common name is the user, organizations are groups.
    pub(super) fn certificate(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> UserClaim {
        let (Some(authority), Some(leaf)) = (&self.clients, chain.first()) else {
            return UserClaim::None;
        };
        if let Err(error) = authority.verify(chain, now) {
            return UserClaim::Bad(error);
        }
        match subject(leaf) {
            Some((name, groups)) if !name.is_empty() => UserClaim::User(User {
                name,
                groups,
                ..User::default()
            }),
            _ => UserClaim::None,
        }
    }
}

/// Common name and organizations.
fn subject(certificate: &CertificateDer<'_>) -> Option<(String, Vec<String>)> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    // Go keeps the last common name of several.
    let name = subject.iter_common_name().last()?.as_str().ok()?.to_owned();
    let organizations = subject.iter_organization();
    let groups = organizations.filter_map(|group| Some(group.as_str().ok()?.to_owned()));
    Some((name, groups.collect()))
}

fn user_in_headers(headers: &HeaderMap, names: &RequestHeaders) -> Option<User> {
    let text = |value: &http::HeaderValue| value.to_str().ok().map(str::to_owned);
    let first = |names: &[String]| {
        let mut values = names.iter().filter_map(|name| headers.get(name.trim()));
        values.find_map(|value| text(value).filter(|value| !value.is_empty()))
    };
    let name = first(&names.username)?;
    let groups = names.group.iter();
    let groups = groups.flat_map(|name| headers.get_all(name.trim()).iter().filter_map(text));
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for prefix in &names.extra_prefix {
        let prefix = prefix.trim().to_lowercase();
        for (header, value) in headers {
            let key = header.as_str().strip_prefix(&prefix);
            let (Some(key), Some(value)) = (key, text(value)) else {
                continue;
            };
            let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
            extra.entry(key).or_default().push(value);
        }
    }
    Some(User {
        name,
        uid: first(&names.uid),
        groups: groups.collect(),
        extra,
    })
}

/// The token of an `Authorization: Bearer` header.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let mut parts = value.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Asks callers for a certificate and takes any whose key they hold: who vouches for it is judged
/// per request, because that may change while the connection lasts.
#[derive(Debug)]
pub(super) struct AnyClient(WebPkiSupportedAlgorithms);

impl AnyClient {
    pub(super) fn new() -> Self {
        Self(default_provider().signature_verification_algorithms)
    }
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_header_holds_a_token() {
        let rows = [
            ("Bearer abc", Some("abc")),
            ("bearer abc", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer ", None),
            ("Bearer", None),
            ("Basic abc", None),
        ];
        for (value, token) in rows {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", value.parse().unwrap());
            assert_eq!(bearer(&headers), token, "{value}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[test]
    fn the_proxy_s_headers_make_a_user() {
        let mut headers = HeaderMap::new();
        let rows = [
            ("x-remote-user", "ann"),
            ("x-remote-group", "ops"),
            ("x-remote-group", "dev"),
            ("x-remote-extra-example.test%2fscope", "a"),
        ];
        for (name, value) in rows {
            headers.append(name, value.parse().unwrap());
        }
        let user = user_in_headers(&headers, &RequestHeaders::default()).unwrap();
        assert_eq!((user.name.as_str(), user.uid), ("ann", None));
        assert_eq!(user.groups, ["ops", "dev"]);
        let extra = [("example.test/scope".to_owned(), vec!["a".to_owned()])];
        assert_eq!(user.extra, BTreeMap::from(extra));
        headers.remove("x-remote-user");
        assert_eq!(user_in_headers(&headers, &RequestHeaders::default()), None);
    }

    #[test]
    fn a_known_user_is_in_the_group_of_known_users_once() {
        let user = User::default().authenticated().authenticated();
        assert_eq!(user.groups, ["system:authenticated"]);
    }
}
