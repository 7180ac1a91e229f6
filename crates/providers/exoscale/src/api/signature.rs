//! EXO2-HMAC-SHA256: how a request proves who sends it.
//!
//! Method, path, body, the values of the query and an expiry are signed with the secret; host and
//! scheme are not. The client signs every attempt anew, so that a repetition never expires.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_core::Secret;
use bowline_http::{AuthError, Authenticate, Signing, sensitive};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use ring::hmac;

const SCHEME: &str = "EXO2-HMAC-SHA256";
/// How long a signature holds, in seconds: what the official clients ask for.
const LIFETIME: i64 = 600;

/// An API key and its secret. The key names, the secret proves.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    pub key: String,
    pub secret: Secret,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.key)
    }
}

impl KeyPair {
    /// The value of the `Authorization` header for a request that expires at `expires`.
    fn header(&self, request: &Signing<'_>, expires: i64) -> String {
        let arguments = signed_arguments(request.uri.query().unwrap_or_default());
        let message = message(request, &arguments, expires);
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.secret.reveal().as_bytes());
        let signature = STANDARD.encode(hmac::sign(&key, &message));
        let names: Vec<&str> = arguments.keys().map(String::as_str).collect();
        let names = match names.join(";") {
            none if none.is_empty() => none,
            some => format!(",signed-query-args={some}"),
        };
        let key = &self.key;
        format!("{SCHEME} credential={key}{names},expires={expires},signature={signature}")
    }
}

impl Authenticate for KeyPair {
    fn authenticate(&self, request: Signing<'_>, headers: &mut HeaderMap) -> Result<(), AuthError> {
        let value = sensitive(&self.header(&request, expiry(request.now)))?;
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    fn secrets(&self) -> Vec<Secret> {
        vec![self.secret.clone()]
    }
}

fn expiry(now: Timestamp) -> i64 {
    now.as_second().saturating_add(LIFETIME)
}

/// The decoded query by name, without the names that occur more than once: which of their values
/// would count is not settled.
fn signed_arguments(query: &str) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let of_name = values.entry(name.into_owned()).or_default();
        of_name.push(value.into_owned());
    }
    let once = values.into_iter().filter_map(|(name, mut values)| {
        let value = values.pop()?;
        values.is_empty().then_some((name, value))
    });
    once.collect()
}

/// What is signed: five parts, a line feed between them.
fn message(request: &Signing<'_>, arguments: &BTreeMap<String, String>, expires: i64) -> Vec<u8> {
    let values: String = arguments.values().map(String::as_str).collect();
    let target = format!("{} {}", request.method, request.uri.path());
    // The fourth part is for signed headers, of which there are none.
    [
        target.as_bytes(),
        request.body,
        values.as_bytes(),
        b"",
        expires.to_string().as_bytes(),
    ]
    .join(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Method, Uri};

    fn pair() -> KeyPair {
        KeyPair {
            key: "EXObowline0000000000000000".to_owned(),
            secret: Secret::new("bowline-test-secret-0123456789abcdefghijklm"),
        }
    }

    fn signed(method: &str, uri: &str, body: &str, now: i64) -> String {
        let uri: Uri = uri.parse().unwrap();
        let request = Signing {
            method: &Method::from_bytes(method.as_bytes()).unwrap(),
            uri: &uri,
            body: body.as_bytes(),
            now: Timestamp::from_second(now).unwrap(),
        };
        let mut headers = HeaderMap::new();
        pair().authenticate(request, &mut headers).unwrap();
        assert!(headers[AUTHORIZATION].is_sensitive());
        headers[AUTHORIZATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn exoscale_case_17_the_five_vectors_hold() {
        // Each signature holds for ten minutes from its time.
        let rows = [
            (
                "GET",
                "https://api-ch-gva-2.exoscale.com/v2/zone",
                "",
                1_900_000_000,
                ",expires=1900000000,signature=KaMW9qVbE3Kz/IUYwhasJDcQZNK7DgcbN1f1TslfOkc=",
            ),
            (
                "POST",
                "https://api-ch-gva-2.exoscale.com/v2/load-balancer",
                r#"{"name":"k8s-5c7b1f0e-6a53-4f6e-9a3d-1f2e3d4c5b6a"}"#,
                1_900_000_000,
                ",expires=1900000000,signature=0MGctJ0PjUvNb1VowTw+GQ82GtA1LBI0pAjSthTlrTE=",
            ),
            (
                "GET",
                "https://api-ch-gva-2.exoscale.com/v2/instance?manager-type=instance-pool\
                 &manager-id=0f0e0d0c-0b0a-4908-8706-050403020100",
                "",
                1_900_000_000,
                ",signed-query-args=manager-id;manager-type,expires=1900000000,\
                 signature=4kqf1phkSlIORb5eKuuV1X54N36gyo0XPZHNP/zinLc=",
            ),
            (
                "GET",
                "http://127.0.0.1:8080/v2/instance?labels=env%3Dprod%20eu&ip-address=198.51.100.7",
                "",
                1_900_000_600,
                ",signed-query-args=ip-address;labels,expires=1900000600,\
                 signature=hGQ7+j9f2hBFhZaPsRWLo8rY3mwBBBOLVnQQjJFtHLY=",
            ),
            (
                "PUT",
                "http://127.0.0.1:8080/v2/load-balancer/7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01\
                 /service/1c9e3b9a-61f3-4d0e-8b51-0d0c1a2b3c4d",
                r#"{"name":"web","port":443,"target-port":31443}"#,
                1_900_000_000,
                ",expires=1900000000,signature=q8zm8N2p+bABx4HzmQ8g8OwliOgCqxh/XOQ+IeZQoBs=",
            ),
        ];
        for (method, uri, body, expires, tail) in rows {
            let wanted = format!("{SCHEME} credential=EXObowline0000000000000000{tail}");
            assert_eq!(
                signed(method, uri, body, expires - LIFETIME),
                wanted,
                "{uri}"
            );
        }
    }

    #[test]
    fn a_name_that_occurs_twice_is_not_signed() {
        let arguments = signed_arguments("b=2&a=1&b=3&c=x+y%2B&d");
        let shown: Vec<_> = arguments.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(shown, ["a=1", "c=x y+", "d="]);
        let header = signed("GET", "http://x/v2/instance?a=1&a=2", "", 0);
        assert!(!header.contains("signed-query-args"), "{header}");
    }

    #[test]
    fn a_pair_does_not_show_its_secret() {
        assert_eq!(
            format!("{:?}", pair()),
            "KeyPair(EXObowline0000000000000000)"
        );
    }
}
