use super::*;

use crate::config::Environment;
use crate::testing::pki::Authority;

fn parse(text: &str) -> Result<Talosconfig, Unusable> {
    super::parse(text, &Clock::system())
}

/// The specification's key (V7), as a talosconfig has it.
const V7: &str = "LS0tLS1CRUdJTiBFRDI1NTE5IFBSSVZBVEUgS0VZLS0tLS0KTUM0Q0FRQXdCUVlESzJWd0JDSUVJQUFCQWdNRUJRWUhDQWtLQ3d3TkRnOFFFUklURkJVV0Z4Z1pHaHNjSFI0ZgotLS0tLUVORCBFRDI1NTE5IFBSSVZBVEUgS0VZLS0tLS0K";
const V7_DER: [u8; 48] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
];

fn encoded(text: &str) -> String {
    STANDARD.encode(text)
}

/// A talosconfig whose context `default` has these lines.
fn file(lines: &[String]) -> String {
    format!(
        "context: default\ncontexts:\n  default:\n    {}\n",
        lines.join("\n    ")
    )
}

fn whole(authority: &Authority, more: &[&str]) -> String {
    let (crt, key) = authority.client("os:reader", 3600);
    let mut lines = vec![
        "endpoints: [talos.default]".to_owned(),
        format!("ca: {}", encoded(&authority.pem())),
        format!("crt: {}", encoded(&crt)),
        format!("key: {}", encoded(&key)),
    ];
    lines.extend(more.iter().map(ToString::to_string));
    file(&lines)
}

#[test]
fn talos_case_52_keys_of_all_labels_load() {
    let v7 = String::from_utf8(STANDARD.decode(V7).unwrap()).unwrap();
    let plain = key::plain(&Secret::new(v7.as_str())).unwrap();
    assert!(plain.reveal().starts_with("-----BEGIN PRIVATE KEY-----\n"));
    let body = plain.reveal().lines().nth(1).unwrap();
    assert_eq!(STANDARD.decode(body).unwrap(), V7_DER);

    let authority = Authority::new();
    for label in ["ED25519 PRIVATE KEY", "PRIVATE KEY", "SOME PRIVATE KEY"] {
        let (crt, key) = authority.client_with("os:reader", 3600, &rcgen::PKCS_ED25519);
        let key = key.replace("PRIVATE KEY", label);
        let lines = [
            format!("crt: {}", encoded(&crt)),
            format!("key: {}", encoded(&key)),
        ];
        parse(&file(&lines)).unwrap_or_else(|error| panic!("{label}: {error}"));
    }
    let (crt, key) = authority.client_with("os:reader", 3600, &rcgen::PKCS_ECDSA_P256_SHA256);
    let lines = [
        format!("crt: {}", encoded(&crt)),
        format!("key: {}", encoded(&key)),
    ];
    parse(&file(&lines)).unwrap();
}

#[test]
fn talos_case_52_a_key_of_an_elliptic_curve_in_its_own_form_loads_after_its_parameters() {
    let authority = Authority::new();
    let (crt, pem) = authority.client_with("os:reader", 3600, &rcgen::PKCS_ECDSA_P256_SHA256);
    let body: String = pem.lines().filter(|it| !it.starts_with('-')).collect();
    let der = STANDARD.decode(body).unwrap();
    // What PKCS#8 wraps begins with its version and the octets of the key.
    let inner = [0x02, 0x01, 0x01, 0x04, 0x20];
    let at = der.windows(5).position(|it| it == inner).unwrap() - 2;
    let length = 2 + usize::from(der[at + 1]);
    let block = |label: &str, der: &[u8]| {
        let body = STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    };
    let parameters = block("EC PARAMETERS", &[6, 8, 42, 134, 72, 206, 61, 3, 1, 7]);
    let key = block("EC PRIVATE KEY", &der[at..at + length]);
    let lines = [
        format!("crt: {}", encoded(&crt)),
        format!("key: {}", encoded(&format!("{parameters}{key}"))),
    ];
    parse(&file(&lines)).unwrap();
    let short = block("EC PRIVATE KEY", &der[at..at + length - 3]);
    assert_eq!(
        key::plain(&Secret::new(short)).unwrap_err(),
        KeyError::Unusable
    );
}

#[test]
fn what_is_no_key_is_told_without_the_key() {
    let block =
        |label: &str, body: &str| format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----");
    for (text, wrong) in [
        (String::new(), KeyError::Missing),
        ("hunter2".to_owned(), KeyError::Missing),
        (block("CERTIFICATE", "AAAA"), KeyError::Missing),
        (block("ENCRYPTED PRIVATE KEY", "AAAA"), KeyError::Encrypted),
        (block("PRIVATE KEY", "AAAA"), KeyError::Unusable),
        (block("PRIVATE KEY", "hunter2!"), KeyError::Unusable),
    ] {
        let read = key::plain(&Secret::new(text.as_str()));
        assert_eq!(read.unwrap_err(), wrong, "{text}");
    }
}

#[test]
fn a_whole_file_is_read() {
    let authority = Authority::new();
    let more = [
        "nodes: [10.0.0.9]",
        "cluster: prod-eu",
        "target: 10.0.0.2",
        "auth: {basic: {username: ops, password: s3cret}}",
        "proxy-url: direct",
        "unknown: 1",
    ];
    let read = parse(&whole(&authority, &more)).unwrap();
    assert_eq!(read.endpoints, ["talos.default", "10.0.0.2"]);
    assert_eq!(read.cluster.as_deref(), Some("prod-eu"));
    let authorization = read.authorization.as_ref().unwrap();
    assert_eq!(authorization.reveal(), "Basic b3BzOnMzY3JldA==");
    assert!(read.proxies.is_some());
    assert!(read.expires.is_some());
    assert_eq!(read.tls.alpn_protocols, [b"h2"]);
    let printed = format!("{read:?}");
    assert!(!printed.contains("b3Bz"), "{printed}");
}

#[test]
fn the_end_of_the_certificate_is_known() {
    let authority = Authority::new();
    let (crt, _) = authority.client("os:reader", 3600);
    let expires = expiry(&Secret::new(crt)).unwrap();
    assert_eq!(
        expires,
        authority.now() + jiff::SignedDuration::from_secs(3600)
    );
    assert_eq!(expiry(&Secret::new("nothing")), None);
}

#[test]
fn several_authorities_are_all_trusted_and_none_means_the_public_ones() {
    let (old, new) = (Authority::new(), Authority::new());
    let both = format!("{}{}", old.pem(), new.pem());
    parse(&file(&[format!("ca: {}", encoded(&both))])).unwrap();
    let none = parse(&file(&["endpoints: [a]".to_owned()])).unwrap();
    assert!(none.expires.is_none() && none.proxies.is_none() && none.cluster.is_none());
}

#[test]
fn talos_case_88_what_is_wrong_names_file_and_cause() {
    let authority = Authority::new();
    let (crt, key) = authority.client("os:reader", 3600);
    let (_, other) = authority.client("os:reader", 3600);
    let field = |name: &str, value: &str| file(&[format!("{name}: {}", encoded(value))]);
    let pair = |key: &str| {
        let (crt, key) = (encoded(&crt), encoded(key));
        file(&[format!("crt: {crt}"), format!("key: {key}")])
    };
    let line = |line: &str| file(&[line.to_owned()]);
    let (omni, socks) = (
        "auth: {siderov1: {identity: a@b.example}}",
        "proxy-url: socks5://hunter2@p.lan:1080",
    );
    let missing = |what: &str| format!("its context \"prod\" is not found{what}");
    let of_default = |what: &str| format!("`{}", what.replace('@', "` of context \"default\" "));
    let rows = [
        (String::new(), "it is empty".to_owned()),
        (" \n".into(), "it is empty".into()),
        ("# nothing\n".into(), "it is empty".into()),
        (
            "- a\n".into(),
            "not the YAML of a talosconfig (line 1".into(),
        ),
        ("a: [".into(), "not the YAML of a talosconfig".into()),
        (
            "{}".into(),
            "no name of a context, and it has no contexts".into(),
        ),
        (
            "contexts: {a: {}, b: {}}".into(),
            "no name of a context; there are: \"a\", \"b\"".into(),
        ),
        (
            "context: prod\ncontexts: {a: {}}".into(),
            missing("; there are: \"a\""),
        ),
        ("context: prod".into(), missing(", and it has no contexts")),
        (line("ca: '!hunter2'"), of_default("ca@is not base64")),
        (line("crt: AAA"), of_default("crt@is not base64")),
        (field("crt", &crt), "has `crt` without `key`".into()),
        (field("key", &key), "has `key` without `crt`".into()),
        (
            field("ca", "hunter2"),
            of_default("ca@holds no certificate in PEM form"),
        ),
        (
            pair("hunter2"),
            of_default("key@holds no private key in PEM form"),
        ),
        (pair(&other), "the client certificate cannot be used".into()),
        (
            line(omni),
            "`auth.siderov1` (Omni), which is not supported".into(),
        ),
        (line(socks), "proxy-url names a socks5 proxy".into()),
    ];
    for (text, words) in rows {
        let error =
            Talosconfig::read(Path::new("/etc/talos/config"), &text, &Clock::system()).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("/etc/talos/config"), "{error}");
        assert!(error.contains(&words), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn talos_case_88_without_a_file_all_places_are_named_and_none_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().to_str().unwrap().to_owned();
    let environment = Environment::read(|name| match name {
        "TALOSCONFIG" => Some(format!("{home}/first")),
        "HOME" => Some(home.clone()),
        _ => None,
    });
    let error = find(&environment.candidates).unwrap_err().to_string();
    for place in [
        format!("{home}/first"),
        format!("{home}/.talos/config"),
        "/var/run/secrets/talos.dev/config".to_owned(),
    ] {
        assert!(error.contains(&place), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn talos_case_89_a_named_file_is_enough_without_a_home() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talosconfig");
    std::fs::write(&path, "x").unwrap();
    let text = path.to_str().unwrap().to_owned();
    let environment = Environment::read(|name| (name == "TALOSCONFIG").then(|| text.clone()));
    assert_eq!(environment.candidates.len(), 2);
    assert_eq!(find(&environment.candidates).unwrap().path(), path);
}

#[test]
fn the_first_file_that_exists_counts_even_if_it_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a"), folder.path().join("b"));
    std::fs::write(&second, "b").unwrap();
    let candidates = [first.clone(), second.clone()];
    assert_eq!(find(&candidates).unwrap().path(), second);
    std::fs::write(&first, "").unwrap();
    assert_eq!(find(&candidates).unwrap().path(), first);
}
