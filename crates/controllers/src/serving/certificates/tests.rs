use super::*;

fn clock() -> Clock {
    Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap())
}

fn certificates(options: &CertificateOptions) -> Certificates {
    Certificates::new(options, IpAddr::V4(Ipv4Addr::UNSPECIFIED), clock()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_made_certificate_has_the_names_and_the_life_of_the_original() {
    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let pair = make(now, "10.1.2.3".parse().unwrap()).unwrap();
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(chain.len(), 2, "the authority is sent along");
    let (_, leaf) = X509Certificate::from_der(&chain[0]).unwrap();
    assert_eq!(leaf.subject().to_string(), "CN=localhost@1767225600");
    assert_eq!(leaf.issuer().to_string(), "CN=localhost-ca@1767225600");
    assert_eq!(leaf.validity().not_before.timestamp(), 1_767_225_600 - 3600);
    let life = leaf.validity().not_after.timestamp() - leaf.validity().not_before.timestamp();
    assert_eq!(life, 365 * 24 * 3600);
    let names = leaf.subject_alternative_name().unwrap().unwrap();
    let expected = [
        GeneralName::DNSName("localhost"),
        GeneralName::IPAddress(&[127, 0, 0, 1]),
        GeneralName::IPAddress(&[10, 1, 2, 3]),
    ];
    assert_eq!(names.value.general_names, expected);
}

#[test]
fn a_certificate_is_renewed_when_four_fifths_of_its_life_are_over() {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let day = |days: i64| begin + jiff::SignedDuration::from_hours(24 * days);
    let rows = [
        (0, false),
        (291, false),
        (292, true),
        (364, true),
        (400, true),
        (-1, false),
    ];
    for (days, due) in rows {
        assert_eq!(renewal_due(begin, day(365), day(days)), due, "{days}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_made_certificate_is_replaced_before_it_expires() {
    let certificates = certificates(&CertificateOptions::default());
    let first = certificates.current().default.pair.clone();
    for _ in 0..291 {
        tokio::time::advance(Duration::from_secs(24 * 3600)).await;
        certificates.refresh();
    }
    assert_eq!(certificates.current().default.pair, first);
    tokio::time::advance(Duration::from_secs(24 * 3600)).await;
    certificates.refresh();
    let second = certificates.current();
    assert_ne!(second.default.pair, first);
    assert!(second.default.end > certificates.clock.now() + jiff::SignedDuration::from_hours(8000));
}

#[tokio::test(start_paused = true)]
async fn a_directory_gets_a_pair_that_the_next_start_uses_and_that_is_renewed() {
    let directory = tempfile::tempdir().unwrap();
    let options = CertificateOptions {
        directory: Some(directory.path().join("certs")),
        ..CertificateOptions::default()
    };
    let first = certificates(&options);
    let second = certificates(&options);
    assert_eq!(first.current().default.pair, second.current().default.pair);
    let key = directory.path().join("certs/cloud-controller-manager.key");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&key).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    tokio::time::advance(Duration::from_secs(300 * 24 * 3600)).await;
    second.refresh();
    assert_eq!(
        std::fs::read_to_string(&key).unwrap(),
        second.current().default.pair.key
    );
    assert_ne!(first.current().default.pair, second.current().default.pair);
    first.refresh();
    assert_eq!(first.current().default.pair, second.current().default.pair);
}

#[tokio::test(start_paused = true)]
async fn changed_files_are_taken_over_and_broken_ones_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("c"), directory.path().join("k"));
    let write = |second: i64| {
        let now = Timestamp::from_second(second).unwrap();
        let pair = make(now, IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        std::fs::write(&certificate, &pair.certificate).unwrap();
        std::fs::write(&key, &pair.key).unwrap();
        pair
    };
    let first = write(1_767_225_600);
    let options = CertificateOptions {
        files: Some((certificate.clone(), key.clone())),
        by_name: vec![NamedPair {
            certificate: certificate.clone(),
            key: key.clone(),
            names: vec!["a.test".to_owned()],
        }],
        ..CertificateOptions::default()
    };
    let certificates = certificates(&options);
    assert_eq!(certificates.current().default.pair, first);
    std::fs::write(&certificate, "broken").unwrap();
    certificates.refresh();
    assert_eq!(certificates.current().default.pair, first);
    let second = write(1_767_225_601);
    certificates.refresh();
    let current = certificates.current();
    assert_eq!(
        (&current.default.pair, &current.by_name[0].pair),
        (&second, &second)
    );
    assert_eq!(current.by_name[0].names, ["a.test"]);
}

#[test]
fn a_missing_file_is_named() {
    let options = CertificateOptions {
        files: Some(("/nowhere/c".into(), "/nowhere/k".into())),
        ..CertificateOptions::default()
    };
    let error = Certificates::new(&options, Ipv4Addr::LOCALHOST.into(), Clock::system());
    assert_eq!(error.unwrap_err().to_string(), "reading /nowhere/c");
}

#[test]
fn a_star_stands_for_one_label() {
    let rows = [
        ("a.test", "a.test", true),
        ("*.a.test", "x.a.test", true),
        ("*.a.test", "a.test", false),
        ("*.a.test", "x.y.a.test", false),
    ];
    for (pattern, host, expected) in rows {
        assert_eq!(covers(pattern, host), expected, "{pattern} {host}");
    }
}

#[test]
fn a_named_pair_is_read_from_its_flag() {
    let pair = NamedPair::parse("c.crt,c.key:*.A.test, b.test").unwrap();
    assert_eq!(pair.names, ["*.a.test", "b.test"]);
    assert_eq!(pair.key, PathBuf::from("c.key"));
    assert!(NamedPair::parse("c.crt,c.key").unwrap().names.is_empty());
    assert!(NamedPair::parse("c.crt").is_err());
}

#[test]
fn the_chain_is_good_for_whoever_trusts_the_authority_that_is_sent_along() {
    use rustls::client::WebPkiServerVerifier;
    use rustls_pki_types::{ServerName, UnixTime};

    let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let pair = make(now, "10.1.2.3".parse().unwrap()).unwrap();
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(chain[1].clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .unwrap();
    let rows = [
        ("localhost", 0, true),
        ("127.0.0.1", 0, true),
        ("10.1.2.3", 0, true),
        ("10.1.2.4", 0, false),
        ("localhost", 366, false),
    ];
    for (name, days, good) in rows {
        let seconds = u64::try_from(now.as_second()).unwrap() + days * 24 * 3600;
        let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let name = ServerName::try_from(name).unwrap();
        let verified = rustls::client::danger::ServerCertVerifier::verify_server_cert(
            verifier.as_ref(),
            &chain[0],
            &chain[1..],
            &name,
            &[],
            time,
        );
        assert_eq!(
            verified.is_ok(),
            good,
            "{name:?} after {days} days: {verified:?}"
        );
    }
}

#[test]
fn half_a_pair_in_the_directory_is_an_error_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cloud-controller-manager.key");
    std::fs::write(&path, "mine").unwrap();
    let options = CertificateOptions {
        directory: Some(directory.path().to_owned()),
        ..CertificateOptions::default()
    };
    let error = Certificates::new(&options, Ipv4Addr::LOCALHOST.into(), Clock::system());
    assert!(
        error
            .unwrap_err()
            .to_string()
            .ends_with("must be supplied as a pair")
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}
