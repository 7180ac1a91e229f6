//! Every form of key that people have, and what is said about those that cannot be used.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use ring::digest::{SHA512, digest};

use super::examples::{RSA_FINGERPRINT, RSA_PKCS1};
use super::*;

macro_rules! key {
    ($name:literal) => {
        include_str!(concat!("examples/", $name))
    };
}

const PASSPHRASE: Option<&str> = Some("correct horse");

fn refused(text: &str, passphrase: Option<&str>) -> KeyError {
    PrivateKey::parse(text, passphrase).unwrap_err()
}

fn armoured(kind: &str, text: &str) -> String {
    format!("-----BEGIN {kind} KEY-----\n{text}\n-----END {kind} KEY-----")
}

#[test]
fn every_form_is_read_and_has_the_fingerprint_that_ssh_keygen_shows() {
    let p256 = "6f:33:33:33:1a:38:4e:c6:53:13:c7:12:ee:de:03:37";
    let p384 = "24:63:8d:9f:ec:87:5f:38:43:bd:ce:1e:18:de:d0:b5";
    let p521 = "29:4d:f6:30:b3:16:73:57:bb:cf:bf:7b:0d:aa:64:75";
    let ed25519 = "53:8e:a1:71:b7:9d:c3:02:f0:54:fc:02:cd:92:e8:8d";
    let rsa = RSA_FINGERPRINT;
    for (text, passphrase, algorithm, fingerprint) in [
        (key!("rsa.pkcs1"), None, "rsa-sha256", rsa),
        (key!("rsa.pkcs8"), None, "rsa-sha256", rsa),
        (key!("rsa.openssh"), None, "rsa-sha256", rsa),
        (key!("rsa.encrypted"), PASSPHRASE, "rsa-sha256", rsa),
        // A passphrase that is not needed does no harm.
        (key!("rsa.openssh"), PASSPHRASE, "rsa-sha256", rsa),
        (key!("p256.openssh"), None, "ecdsa-sha256", p256),
        (key!("p256.sec1"), None, "ecdsa-sha256", p256),
        (key!("p256.pkcs8"), None, "ecdsa-sha256", p256),
        (key!("p256.encrypted"), PASSPHRASE, "ecdsa-sha256", p256),
        (key!("p384.openssh"), None, "ecdsa-sha512", p384),
        (key!("p384.sec1"), None, "ecdsa-sha512", p384),
        (key!("p384.pkcs8"), None, "ecdsa-sha512", p384),
        (key!("p521.openssh"), None, "ecdsa-sha512", p521),
        (key!("p521.sec1"), None, "ecdsa-sha512", p521),
        (key!("p521.pkcs8"), None, "ecdsa-sha512", p521),
        (key!("ed25519.openssh"), None, "ed25519-sha512", ed25519),
    ] {
        let first = text.lines().next().unwrap();
        let key = PrivateKey::parse(text, passphrase).unwrap();
        assert_eq!(key.fingerprint().md5(), fingerprint, "{first}");
        assert_eq!(key.algorithm(), algorithm, "{first}");
        assert!(!key.sign(b"text").unwrap().is_empty());
    }
    let key = PrivateKey::parse(key!("ed25519.pkcs8"), None).unwrap();
    assert_eq!(key.algorithm(), "ed25519-sha512");
    let key = PrivateKey::parse(key!("p256.sec1"), None).unwrap();
    assert_eq!(
        key.public_line(),
        "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBFDWb9mCbRIxvkIm5hV\
         uWcrRJbWPhl9nQ2Ogv+jsJ1qGX05IQCv/GcZe9rvarJKxyOGvNHxpS2/wxKnXM1VQ2So="
    );
    assert!(!format!("{key:?}").contains("PRIVATE"));
}

#[test]
fn a_key_is_read_with_what_people_put_around_it() {
    let indented = RSA_PKCS1.replace('\n', "\n    ");
    let windows = RSA_PKCS1.replace('\n', "\r\n");
    let parameters = format!(
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{}",
        key!("p256.sec1")
    );
    let around = format!("# mine\n\n{RSA_PKCS1}\n\n");
    for text in [&indented, &windows, &around, &parameters] {
        PrivateKey::parse(text, None).unwrap();
    }
}

#[test]
fn what_cannot_be_used_is_refused_with_a_way_out() {
    let old = refused(key!("rsa.proc-type"), PASSPHRASE).to_string();
    assert!(old.contains("ssh-keygen -p -m PEM -N ''"), "{old}");
    let none = refused(key!("rsa.encrypted"), None);
    assert_eq!(none, KeyError::NoPassphrase);
    assert!(none.to_string().contains("ssh-keygen -p -N ''"), "{none}");
    let wrong = refused(key!("p256.encrypted"), Some("wrong"));
    assert_eq!(wrong, KeyError::WrongPassphrase);
    let form = "BEGIN ENCRYPTED PRIVATE KEY";
    let curve = KeyError::Unsupported("the curve 1.3.132.0.10".to_owned());
    let token = armoured("OPENSSH PRIVATE", "c2stc3NoLWVkMjU1MTlAb3BlbnNzaC5jb20=");
    let token_kind = "sk-ssh-ed25519@openssh.com".to_owned();
    for (text, wanted) in [
        (key!("dsa.pem"), KeyError::Dsa),
        (key!("rsa1024.pkcs1"), KeyError::TooShort),
        ("ssh-rsa AAAA me@here", KeyError::Public),
        (&armoured("PUBLIC", "AA=="), KeyError::Public),
        (
            key!("rsa.encrypted-pkcs8"),
            KeyError::OldEncryption { form },
        ),
        (key!("k1.sec1"), curve),
        (&token, KeyError::Token(token_kind)),
    ] {
        assert_eq!(refused(text, None), wanted);
    }
    for (text, words) in [
        ("", "is empty"),
        ("hunter2", "does not begin with"),
        ("-----BEGIN RSA PRIVATE KEY-----\nhunter2", "has no end"),
        ("-----BEGIN RSA PRIVATE KEY", "first line is not whole"),
        (&armoured("RSA PRIVATE", "hunter2?"), "no base64"),
        (&armoured("RSA PRIVATE", "AAAA"), "damaged"),
        (&armoured("EC PRIVATE", "AAAA"), "damaged"),
        (&armoured("PRIVATE", "AAAA"), "damaged"),
        (&armoured("OPENSSH PRIVATE", "AAAA"), "damaged"),
        (&armoured("X25519 PRIVATE", "AAAA"), "not supported"),
    ] {
        let error = refused(text, None).to_string();
        assert!(error.contains(words), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn triton_case_02_a_key_id_is_taken_in_every_form_and_sent_in_one() {
    let key = PrivateKey::parse(RSA_PKCS1, None).unwrap();
    for text in [
        RSA_FINGERPRINT,
        "98e26bef14fbad9d7fe6cf58784fd8d5",
        "98E26BEF14FBAD9D7FE6CF58784FD8D5",
        "MD5:98:e2:6b:ef:14:fb:ad:9d:7f:e6:cf:58:78:4f:d8:d5",
        " 98:E2:6b:ef:14:fb:ad:9d:7f:e6:cf:58:78:4f:d8:d5 ",
        "SHA256:peASj3+imk5oMKxH++6lQsrMM/3aiUwxFp0E/7CbhOc",
        "SHA256:peASj3+imk5oMKxH++6lQsrMM/3aiUwxFp0E/7CbhOc=",
    ] {
        let id = KeyId::parse(text).unwrap();
        assert!(id.is_of(key.fingerprint()), "{text}");
        let shown = id.to_string();
        let is_sha = shown.starts_with("SHA256:peASj3");
        assert!(is_sha || shown == RSA_FINGERPRINT, "{shown}");
    }
    assert_eq!(key.fingerprint().md5(), RSA_FINGERPRINT);
    let sha256 = "SHA256:peASj3+imk5oMKxH++6lQsrMM/3aiUwxFp0E/7CbhOc";
    assert_eq!(key.fingerprint().sha256(), sha256);
    for wrong in [
        "",
        "my key",
        "98:e2",
        "MD5:",
        "SHA256:AAAA",
        "+8e26bef14fbad9d7fe6cf58784fd8d5",
    ] {
        assert!(KeyId::parse(wrong).is_err(), "{wrong:?}");
    }
    let other = PrivateKey::parse(key!("p256.sec1"), None).unwrap();
    let id = KeyId::parse(RSA_FINGERPRINT).unwrap();
    assert!(!id.is_of(other.fingerprint()));
}

#[test]
fn triton_case_04_a_p384_key_signs_with_sha512_and_is_verified() {
    let text = b"date: Tue, 04 Aug 2026 10:20:30 GMT";
    let key = PrivateKey::parse(key!("p384.openssh"), None).unwrap();
    assert_eq!(key.algorithm(), "ecdsa-sha512");
    let KeyData::Ecdsa(public) = &key.public else {
        panic!("not an ECDSA key");
    };
    let public = p384::ecdsa::VerifyingKey::from_sec1_bytes(public.as_ref()).unwrap();
    let signature = key.sign(text).unwrap();
    let signature = p384::ecdsa::Signature::from_der(&signature).unwrap();
    let hash = digest(&SHA512, text);
    public.verify_prehash(hash.as_ref(), &signature).unwrap();
    let other = digest(&SHA512, b"date: Tue, 04 Aug 2026 10:20:31 GMT");
    assert!(public.verify_prehash(other.as_ref(), &signature).is_err());
    // And P-521 likewise.
    let key = PrivateKey::parse(key!("p521.openssh"), None).unwrap();
    let KeyData::Ecdsa(public) = &key.public else {
        panic!("not an ECDSA key");
    };
    let public = p521::ecdsa::VerifyingKey::from_sec1_bytes(public.as_ref()).unwrap();
    let signature = p521::ecdsa::Signature::from_der(&key.sign(text).unwrap()).unwrap();
    public.verify_prehash(hash.as_ref(), &signature).unwrap();
}

#[test]
fn a_new_key_is_another_one_each_time_and_can_be_read_again() {
    let (first, text) = PrivateKey::generate().unwrap();
    let (second, _) = PrivateKey::generate().unwrap();
    assert_ne!(first.fingerprint(), second.fingerprint());
    assert_eq!(first.algorithm(), "ecdsa-sha256");
    assert!(first.public_line().starts_with("ecdsa-sha2-nistp256 AAAA"));
    let again = PrivateKey::parse(text.reveal(), None).unwrap();
    assert_eq!(again.fingerprint(), first.fingerprint());
}

#[test]
fn a_passphrase_can_be_taken_off() {
    let text = PrivateKey::decrypted(key!("p256.encrypted"), "correct horse").unwrap();
    let plain = PrivateKey::parse(text.reveal(), None).unwrap();
    let wanted = PrivateKey::parse(key!("p256.openssh"), None).unwrap();
    assert_eq!(plain.fingerprint(), wanted.fingerprint());
    let wrong = PrivateKey::decrypted(key!("p256.encrypted"), "wrong");
    assert_eq!(wrong.unwrap_err(), KeyError::WrongPassphrase);
    let same = PrivateKey::decrypted(key!("p256.sec1"), "").unwrap();
    assert_eq!(same.reveal(), key!("p256.sec1"));
}

#[test]
fn a_passphrase_that_would_take_months_is_refused() {
    let body: String = key!("p256.encrypted")
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let mut bytes = STANDARD.decode(body).unwrap();
    let name = b"bcrypt";
    let at = bytes.windows(name.len()).position(|it| it == name).unwrap();
    // Two lengths and 16 bytes of salt stand between the name and the rounds.
    let rounds = at + name.len() + 4 + 4 + 16;
    bytes[rounds..rounds + 4].copy_from_slice(&u32::MAX.to_be_bytes());
    let text = armoured("OPENSSH PRIVATE", &STANDARD.encode(bytes));
    let wanted = KeyError::TooManyRounds {
        rounds: u32::MAX,
        most: 1000,
    };
    assert_eq!(refused(&text, PASSPHRASE), wanted);
    let taken_off = PrivateKey::decrypted(&text, "correct horse");
    assert_eq!(taken_off.unwrap_err(), wanted);
}
