//! The verifier of HTTP signatures (draft-cavage, as CloudAPI's library reads them): who signed a
//! request, with which key, and is it fresh.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, header};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::keys::{Hash, PublicKey};
use super::refusals::{OrRefusal, Refusal};

/// How far a request's date may be from the server's, in milliseconds.
const SKEW: i64 = 300_000;
/// The algorithms that the API lists and its library can check.
const KNOWN: [&str; 9] = [
    "rsa-sha1",
    "rsa-sha256",
    "rsa-sha512",
    "dsa-sha1",
    "ecdsa-sha1",
    "ecdsa-sha256",
    "ecdsa-sha512",
    "ed25519-sha512",
    "dsa-sha256",
];

/// Who a request says it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signer {
    pub(super) account: String,
    pub(super) user: Option<String>,
    /// The name or fingerprint of the key.
    pub(super) key: String,
}

/// A signature that has been read and not yet been held against a key.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) signer: Option<Signer>,
    family: String,
    hash: Hash,
    message: String,
    signature: Vec<u8>,
}

impl Claim {
    /// Whether that key made it.
    pub(super) fn fits(&self, key: &PublicKey) -> bool {
        key.family() == self.family
            && key.signed(self.hash, self.message.as_bytes(), &self.signature)
    }
}

/// Reads the signature of a request; none if it has none.
pub(super) fn read(request: &Request<Bytes>, now: Timestamp) -> OrRefusal<Option<Claim>> {
    let headers = request.headers();
    let Some(given) = headers.get(header::AUTHORIZATION) else {
        return stale(headers, now).map_or(Ok(None), Err);
    };
    let given = given.to_str().unwrap_or_default();
    let Some((scheme, rest)) = given.split_once(' ') else {
        return Err(Refusal::header("bad param format"));
    };
    if !scheme.eq_ignore_ascii_case("signature") {
        return Ok(None);
    }
    let (parameters, bare) = parameters(rest).ok_or_else(|| Refusal::header("bad param format"))?;
    let parameter = |name: &str| parameters.get(name).map(String::as_str);
    let missing = |name: &str| Refusal::header(&format!("{name} was not specified"));
    let key = parameter("keyId").ok_or_else(|| missing("keyId"))?;
    let algorithm = parameter("algorithm").ok_or_else(|| missing("algorithm"))?;
    let algorithm = algorithm.to_lowercase();
    // The obsolete form has its signature behind a space and signs the bare date.
    let signature = bare.as_deref().or(parameter("signature"));
    let signature = signature.ok_or_else(|| missing("signature"))?;
    if !KNOWN.contains(&algorithm.as_str()) {
        let problem = format!("{algorithm} is not supported");
        return Err(Refusal::header(&problem));
    }
    let names = parameter("headers").unwrap_or("date").to_lowercase();
    let message = if bare.is_some() {
        header_text(headers, "date")?.to_owned()
    } else {
        message(request, &names)?
    };
    check_skew(headers, now)?;
    let (family, hash) = algorithm.split_once('-').unwrap_or_default();
    Ok(Some(Claim {
        signer: signer(key),
        family: family.to_owned(),
        hash: match hash {
            "sha1" => Hash::Sha1,
            "sha256" => Hash::Sha256,
            _ => Hash::Sha512,
        },
        message,
        signature: STANDARD.decode(signature).unwrap_or_default(),
    }))
}

/// The parameters of the header, and what follows a space behind them.
fn parameters(text: &str) -> Option<(BTreeMap<String, String>, Option<String>)> {
    let mut found = BTreeMap::new();
    let mut rest = text.trim_start();
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = after.split_once('"')?;
        found.insert(name.trim().to_owned(), value.to_owned());
        if after.is_empty() {
            return Some((found, None));
        }
        match after.strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None => return Some((found, Some(after.strip_prefix(' ')?.to_owned()))),
        }
    }
}

/// What `/login/keys/key` and `/login/users/user/keys/key` name.
fn signer(key: &str) -> Option<Signer> {
    let parts: Vec<&str> = key.split('/').collect();
    let (account, user, key) = match parts.as_slice() {
        ["", account, "keys", key] => (account, None, key),
        ["", account, "users", user, "keys", key] => (account, Some((*user).to_owned()), key),
        _ => return None,
    };
    let decoded = percent_encoding::percent_decode_str(key).decode_utf8_lossy();
    Some(Signer {
        account: (*account).to_owned(),
        user,
        key: decoded.into_owned(),
    })
}

fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> OrRefusal<&'a str> {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.ok_or_else(|| Refusal::header(&format!("{name} was not in the request")))
}

/// What was signed.
fn message(request: &Request<Bytes>, names: &str) -> OrRefusal<String> {
    let mut lines = Vec::new();
    for name in names.split_whitespace() {
        let line = if name == "(request-target)" {
            let method = request.method().as_str().to_lowercase();
            let target = request.uri().path_and_query().map_or("/", |it| it.as_str());
            format!("(request-target): {method} {target}")
        } else {
            format!("{name}: {}", header_text(request.headers(), name)?)
        };
        lines.push(line);
    }
    Ok(lines.join("\n"))
}

/// An error if the request's date is too far from ours.
fn check_skew(headers: &HeaderMap, now: Timestamp) -> OrRefusal {
    let given = headers.get("x-date").or_else(|| headers.get(header::DATE));
    let Some(given) = given else { return Ok(()) };
    let date = given.to_str().ok().and_then(date);
    let date = date.ok_or_else(|| Refusal::header("date was not a date"))?;
    let skew = (now.as_millisecond() - date.as_millisecond()).abs();
    if skew <= SKEW {
        return Ok(());
    }
    let fraction = match skew % 1000 {
        0 => String::new(),
        rest => format!(".{rest:03}").trim_end_matches('0').to_owned(),
    };
    let seconds = skew / 1000;
    let problem = format!("clock skew of {seconds}{fraction}s was greater than 300s");
    Err(Refusal::header(&problem))
}

/// The refusal of a request that is old and not even signed.
fn stale(headers: &HeaderMap, now: Timestamp) -> Option<Refusal> {
    let given = headers.get(header::DATE)?.to_str().ok()?;
    let age = now.as_millisecond() - date(given)?.as_millisecond();
    let message = format!("Date header {given} is too old");
    (age > SKEW).then(|| Refusal::bad("RequestExpired", message))
}

/// A date of RFC 1123, which may end in `GMT` or in `UTC`.
pub(super) fn date(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let text = text
        .strip_suffix(" GMT")
        .or_else(|| text.strip_suffix(" UTC"))?;
    let date = DateTime::strptime("%a, %d %b %Y %H:%M:%S", text).ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// A date as the API writes it.
pub(super) fn write_date(time: Timestamp) -> String {
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

#[cfg(test)]
pub(super) mod tests {
    use ring::signature::Ed25519KeyPair;

    use super::*;

    const DATE: &str = "Tue, 04 Aug 2026 10:20:30 GMT";

    /// A header signed with the Ed25519 key of that seed, written on its own, so that a mistake of the
    /// reader is not repeated.
    pub(in super::super) fn sign(
        seed: &[u8; 32],
        key: &str,
        method: &str,
        target: &str,
        date: &str,
    ) -> String {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).unwrap();
        let text = format!(
            "(request-target): {} {target}\ndate: {date}",
            method.to_lowercase()
        );
        let signature = STANDARD.encode(pair.sign(text.as_bytes()));
        format!(
            "Signature keyId=\"{key}\",algorithm=\"ed25519-sha512\",headers=\"(request-target) date\",\
             signature=\"{signature}\""
        )
    }

    /// The Ed25519 key of the seed 00…1f.
    pub(in super::super) const ED25519: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";
    const P256: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBFFcP\
        W6545a5BNP+yn9U/c0MwemXvzddylFa0KbDtANfRTa+OlDzGPv5pUdZAqIhUCvvDVfgjFOyzApW8X2fk1Q=";
    const RSA: &str = include_str!("tests/rsa.pub");
    const P384: &str = include_str!("tests/p384.pub");
    const P521: &str = include_str!("tests/p521.pub");

    fn request(method: &str, target: &str, authorization: &str) -> Request<Bytes> {
        let request = Request::builder().method(method).uri(target);
        let request = request
            .header("date", DATE)
            .header("authorization", authorization);
        request.body(Bytes::new()).unwrap()
    }

    fn now() -> Timestamp {
        date(DATE).unwrap()
    }

    fn header(key: &str, algorithm: &str, names: &str, signature: &str) -> String {
        format!(
            "Signature keyId=\"{key}\",algorithm=\"{algorithm}\",headers=\"{names}\",\
             signature=\"{signature}\""
        )
    }

    fn key_of(line: &str) -> PublicKey {
        PublicKey::parse(line).unwrap()
    }

    #[test]
    fn the_fingerprints_are_those_of_ssh() {
        for (line, wanted) in [
            (RSA, "98:e2:6b:ef:14:fb:ad:9d:7f:e6:cf:58:78:4f:d8:d5"),
            (ED25519, "f1:02:17:de:ef:c1:30:83:11:8b:82:a0:0e:67:7f:d5"),
            (P256, "25:c0:83:45:14:77:b6:ab:fc:dd:cd:5a:20:85:95:3a"),
        ] {
            assert_eq!(key_of(line).fingerprint, wanted);
        }
    }

    #[test]
    fn the_published_vectors_are_accepted_and_nothing_near_them() {
        let machine = "/acme/machines/5b1e2d3c-0000-4000-8000-000000000001";
        let both = "(request-target) date";
        let rows = [
            (
                RSA,
                "GET",
                "/acme",
                "rsa-sha256",
                "date",
                include_str!("tests/v1.sig"),
            ),
            (
                RSA,
                "GET",
                "/acme/machines?limit=1000&offset=0",
                "rsa-sha256",
                both,
                include_str!("tests/v2.sig"),
            ),
            (
                ED25519,
                "POST",
                "/acme/machines/5b1e2d3c-0000-4000-8000-000000000001/tags",
                "ed25519-sha512",
                both,
                include_str!("tests/v3.sig"),
            ),
            (
                P256,
                "GET",
                machine,
                "ecdsa-sha256",
                both,
                include_str!("tests/v4.sig"),
            ),
            // Made with OpenSSL: the hash of these does not belong to the curve.
            (
                P384,
                "GET",
                machine,
                "ecdsa-sha512",
                both,
                include_str!("tests/p384.sig"),
            ),
            (
                P521,
                "GET",
                machine,
                "ecdsa-sha512",
                both,
                include_str!("tests/p521.sig"),
            ),
        ];
        for (line, method, target, algorithm, names, signature) in rows {
            let key = key_of(line);
            let header = header("/acme/keys/x", algorithm, names, signature.trim());
            let fits = |method: &str, target: &str, header: &str| {
                let request = request(method, target, header);
                read(&request, now()).unwrap().unwrap().fits(&key)
            };
            assert!(fits(method, target, &header), "{algorithm} {target}");
            if names != "date" {
                assert!(!fits("PUT", target, &header));
                assert!(!fits(method, &format!("{target}x"), &header));
            }
            assert!(!fits(
                method,
                target,
                &header.replace("sha256", "sha1").replace(" date", "")
            ));
            let other = key_of(if line == P256 { RSA } else { P256 });
            let claim = read(&request(method, target, &header), now()).unwrap();
            assert!(!claim.unwrap().fits(&other));
        }
    }

    #[test]
    fn both_forms_of_a_key_id_and_the_obsolete_header_are_understood() {
        assert_eq!(
            signer("/acme/users/bowline/keys/a%20b"),
            Some(Signer {
                account: "acme".to_owned(),
                user: Some("bowline".to_owned()),
                key: "a b".to_owned(),
            })
        );
        for odd in ["acme/keys/x", "/acme/x", "/acme/keys/x/y", ""] {
            assert_eq!(signer(odd), None, "{odd}");
        }
        let old = "Signature keyId=\"/acme/keys/x\",algorithm=\"rsa-sha256\" AAAA";
        let claim = read(&request("GET", "/acme", old), now()).unwrap().unwrap();
        assert_eq!(claim.message, DATE);
    }

    #[test]
    fn refusals_say_what_is_wrong_with_the_header() {
        let good = header("/acme/keys/x", "rsa-sha256", "date", "AAAA");
        for (header, wanted) in bowline_simulator::table![
            good.replace("rsa-sha256", "ecdsa-sha384"), "ecdsa-sha384 is not supported";
            good.replace("keyId", "key"), "keyId was not specified";
            good.replace("\"date\"", "\"date host\""), "host was not in the request";
            "Signature nonsense".to_owned(), "bad param format";
        ] {
            let refusal = read(&request("GET", "/", &header), now()).unwrap_err();
            assert_eq!(
                refusal.message,
                format!("Authorization header invalid: {wanted}")
            );
            assert!(refusal.early);
        }
    }

    #[test]
    fn a_date_too_far_away_is_refused_in_both_directions() {
        let good = header("/acme/keys/x", "rsa-sha256", "date", "AAAA");
        let at = |milliseconds: i64| {
            let time = Timestamp::from_millisecond(now().as_millisecond() + milliseconds).unwrap();
            read(&request("GET", "/", &good), time)
                .map(|_| ())
                .map_err(|it| it.message)
        };
        assert_eq!(at(300_000), Ok(()));
        assert_eq!(at(-300_000), Ok(()));
        assert_eq!(
            at(600_600).unwrap_err(),
            "Authorization header invalid: clock skew of 600.6s was greater than 300s"
        );
        assert!(at(-301_000).unwrap_err().contains("clock skew of 301s"));
        let mut unsigned = request("GET", "/", "");
        unsigned.headers_mut().remove("authorization");
        assert!(read(&unsigned, now()).unwrap().is_none());
        let later = Timestamp::from_second(now().as_second() + 301).unwrap();
        assert_eq!(read(&unsigned, later).unwrap_err().code, "RequestExpired");
    }

    #[test]
    fn dates_of_the_go_client_end_in_utc() {
        assert_eq!(date("Tue, 04 Aug 2026 10:20:30 UTC"), date(DATE));
        assert_eq!(write_date(now()), DATE);
    }
}
