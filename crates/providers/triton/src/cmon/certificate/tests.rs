//! Certificates as the simulated metrics service judges them, over TLS.

use std::sync::Arc;

use bowline_http::{BaseUrl, Connector, HttpClient, RetryPolicy, Route, Tls};
use bowline_simulator::World;
use bowline_simulator::serve::{Identity, Server};
use bowline_simulator_triton::{Cmon, Fixture, Triton};
use jiff::ToSpan as _;
use rustls_pki_types::PrivateKeyDer;
use x509_parser::der_parser::Oid;
use x509_parser::prelude::{ParsedExtension, X509Extension};

use super::*;
use crate::keys::examples::{RSA_PKCS1, ed25519_of_v3};

macro_rules! key {
    ($name:literal) => {
        include_str!(concat!("../../keys/examples/", $name))
    };
}

const HOST: &str = "cmon.eg-1.cns.example.com";

/// The metrics service of an account with those keys.
struct Service {
    world: World,
    _server: Server,
}

impl Service {
    fn for_keys(keys: &[&PrivateKey]) -> Self {
        let world = World::simulated(7);
        let cloud: Arc<Triton> = Triton::from_fixture(&world, Fixture::default()).unwrap();
        for key in keys {
            cloud.add_key("acme", &key.public_line()).unwrap();
        }
        let own = rcgen::generate_simple_self_signed([HOST.to_owned()]).unwrap();
        let identity = Identity {
            chain: vec![own.cert.der().clone()],
            key: PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap(),
            client_authorities: Vec::new(),
        };
        let server = Server::builder(&world, Cmon::new(&cloud));
        let server = server.pipe_for_any_client(&format!("{HOST}:9163"), identity);
        Self {
            world,
            _server: server.unwrap(),
        }
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    async fn answer(&self, shown: &ClientCertificate) -> u16 {
        let tls = Tls::new()
            .insecure(true)
            .client_certificate_pem("the test", &shown.certificate, shown.key.clone())
            .build()
            .unwrap();
        let connector = Connector::simulated(self.world.pipes.clone()).with_tls(tls);
        let base = BaseUrl::parse(&format!("https://{HOST}:9163")).unwrap();
        let client = HttpClient::builder("cmon", base, connector)
            .retry(RetryPolicy::never())
            .build();
        match client.get(Route::new("v1/discover")).send().await {
            Ok(reply) => reply.status(),
            Err(error) => error.status().unwrap(),
        }
    }
}

fn rsa() -> PrivateKey {
    PrivateKey::parse(RSA_PKCS1, None).unwrap()
}

#[tokio::test(start_paused = true)]
async fn triton_case_84_the_certificate_is_what_the_service_wants_and_nothing_less_will_do() {
    let key = rsa();
    let service = Service::for_keys(&[&key]);
    let now = service.now();
    let issued = ClientCertificate::issue("acme", &key, now).unwrap();

    let der = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
    let (_, parsed) = X509Certificate::from_der(&der).unwrap();
    assert_eq!(parsed.issuer().to_string(), "CN=MD5:mOJr7xT7rZ1/5s9YeE/Y1Q");
    assert_eq!(parsed.subject().to_string(), "CN=acme");
    let begin = parsed.validity().not_before.timestamp();
    assert_eq!(begin, now.as_second() - 3600);
    let end = parsed.validity().not_after.timestamp();
    assert_eq!(end, now.as_second() + 90 * 86_400);
    let usage = parsed.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && usage.non_repudiation());
    assert_eq!(usage.flags.count_ones(), 2);
    let usages = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(usages.client_auth);
    let other: Vec<String> = usages.other.iter().map(Oid::to_id_string).collect();
    assert_eq!(other, ["1.3.6.1.4.1.38678.1.4.2"]);
    let mut extensions = parsed
        .extensions()
        .iter()
        .map(X509Extension::parsed_extension);
    let of_an_authority = |it: &ParsedExtension<'_>| matches!(it, ParsedExtension::BasicConstraints(constraints) if constraints.ca);
    assert!(!extensions.any(of_an_authority));
    let verifying = ring::signature::RsaPublicKeyComponents {
        n: rsa_number(&key, |it| it.n.as_positive_bytes()),
        e: rsa_number(&key, |it| it.e.as_positive_bytes()),
    };
    let parameters = &ring::signature::RSA_PKCS1_2048_8192_SHA256;
    let said = parsed.tbs_certificate.as_ref();
    verifying
        .verify(parameters, said, &parsed.signature_value.data)
        .unwrap();

    assert_eq!(service.answer(&issued).await, 200);
    let other = PrivateKey::parse(key!("p256.sec1"), None).unwrap();
    let usual = || Wording::usual("acme", &key, now).unwrap();
    let (mut future, mut sha256, mut plain) = (usual(), usual(), usual());
    future.begin = now + 1.hour();
    sha256.issuer = key.fingerprint().sha256();
    plain.usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    for (what, wording, signer) in [
        ("in the future", future, &key),
        ("with a SHA-256 issuer", sha256, &key),
        ("without the usage", plain, &key),
        ("of another key", usual(), &other),
    ] {
        let wrong = wording.sign(signer).unwrap();
        assert_eq!(service.answer(&wrong).await, 401, "{what}");
    }
}

fn rsa_number(
    key: &PrivateKey,
    part: impl FnOnce(&ssh_key::public::RsaPublicKey) -> Option<&[u8]>,
) -> Vec<u8> {
    let line = ssh_key::PublicKey::from_openssh(&key.public_line()).unwrap();
    let public = line.key_data().rsa().unwrap().clone();
    part(&public).unwrap().to_vec()
}

#[tokio::test(start_paused = true)]
async fn every_curve_signs_certificates_that_are_believed_and_ed25519_none() {
    for text in [
        key!("p256.openssh"),
        key!("p384.openssh"),
        key!("p521.openssh"),
        RSA_PKCS1,
    ] {
        let key = PrivateKey::parse(text, None).unwrap();
        let service = Service::for_keys(&[&key]);
        let issued = ClientCertificate::issue("acme", &key, service.now()).unwrap();
        assert_eq!(service.answer(&issued).await, 200, "{}", key.algorithm());
        let stranger = ClientCertificate::issue("nobody", &key, service.now()).unwrap();
        assert_eq!(service.answer(&stranger).await, 401, "{}", key.algorithm());
    }
    let key = PrivateKey::parse(&ed25519_of_v3(), None).unwrap();
    let refused = ClientCertificate::issue("acme", &key, Timestamp::UNIX_EPOCH);
    assert!(matches!(refused, Err(CertificateError::KeyNotUsable)));
}

#[test]
fn a_certificate_is_read_again_and_renewed_at_two_thirds_of_its_life() {
    let (key, now) = (rsa(), "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    let issued = ClientCertificate::issue("acme", &key, now).unwrap();
    let read = ClientCertificate::read(&issued.certificate, &issued.key).unwrap();
    assert_eq!(read, issued);
    let life = 90 * 24 + 1;
    let due = now - 1.hour() + (life * 40).minutes();
    assert_eq!(read.renewal(), due);
    let good = |at: Timestamp| read.is_good("acme", &key, at);
    assert!(good(now) && good(due - 1.second()));
    assert!(!good(due), "it is time");
    assert!(!good(now - 2.hours()), "it is not valid yet");
    assert!(!read.is_good("other", &key, now), "another account");
    let other = PrivateKey::parse(key!("p256.sec1"), None).unwrap();
    assert!(!read.is_good("acme", &other, now), "another key");

    let another = ClientCertificate::issue("acme", &key, now).unwrap();
    assert_ne!(another.key, issued.key);
    assert!(ClientCertificate::read(&issued.certificate, &another.key).is_none());
    assert!(ClientCertificate::read("", &issued.key).is_none());
    assert!(ClientCertificate::read(&issued.certificate, &Secret::new("")).is_none());
}
