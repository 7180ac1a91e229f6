//! The verifier of EXO2-HMAC-SHA256: whether a request was signed, by whom, and is still good.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, header};
use jiff::Timestamp;
use ring::hmac;

use super::config::Key;
use super::refusals::{OrRefusal, Refusal};

const SCHEME: &str = "EXO2-HMAC-SHA256";

/// What an `Authorization` header says.
struct Claim<'a> {
    key: &'a str,
    names: Vec<&'a str>,
    expires: &'a str,
    signature: Vec<u8>,
}

impl<'a> Claim<'a> {
    fn parse(header: &'a str) -> Option<Self> {
        let rest = header.strip_prefix(SCHEME)?.strip_prefix(' ')?;
        let mut parts = BTreeMap::new();
        for part in rest.split(',') {
            let (name, value) = part.split_once('=')?;
            if parts.insert(name, value).is_some() {
                return None;
            }
        }
        let names = parts.remove("signed-query-args").unwrap_or_default();
        let claim = Self {
            key: parts.remove("credential")?,
            names: names.split(';').filter(|name| !name.is_empty()).collect(),
            expires: parts.remove("expires")?,
            signature: STANDARD.decode(parts.remove("signature")?).ok()?,
        };
        parts.is_empty().then_some(claim)
    }
}

/// Whether a request carries a signature at all.
pub(super) fn is_signed(request: &Request<Bytes>) -> bool {
    request.headers().contains_key(header::AUTHORIZATION)
}

/// The key with which a request was signed.
pub(super) fn verify<'a>(
    request: &Request<Bytes>,
    keys: &'a BTreeMap<String, Key>,
    now: Timestamp,
) -> OrRefusal<(&'a str, &'a Key)> {
    let header = request.headers().get(header::AUTHORIZATION);
    let header = header.ok_or_else(|| Refusal::forbidden("Missing authentication"))?;
    let header = header.to_str().map_err(|_| Refusal::signature())?;
    let claim = Claim::parse(header).ok_or_else(Refusal::signature)?;
    let known = keys.get_key_value(claim.key);
    let (name, key) = known.ok_or_else(Refusal::signature)?;
    let message = message(request, &claim).ok_or_else(Refusal::signature)?;
    let secret = hmac::Key::new(hmac::HMAC_SHA256, key.secret.as_bytes());
    hmac::verify(&secret, &message, &claim.signature).map_err(|_| Refusal::signature())?;
    let expires: i64 = claim.expires.parse().map_err(|_| Refusal::signature())?;
    if expires < now.as_second() {
        return Err(Refusal::forbidden("Request signature has expired"));
    }
    Ok((name, key))
}

/// What was signed; none if the header leaves out a parameter of the query that must be signed.
fn message(request: &Request<Bytes>, claim: &Claim<'_>) -> Option<Vec<u8>> {
    let mut query: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let given = request.uri().query().unwrap_or_default();
    for (name, value) in url::form_urlencoded::parse(given.as_bytes()) {
        let values = query.entry(name.into_owned()).or_default();
        values.push(value.into_owned());
    }
    let mut singles = query.iter().filter(|(_, values)| values.len() == 1);
    if singles.any(|(name, _)| !claim.names.contains(&name.as_str())) {
        return None;
    }
    let values: String = claim
        .names
        .iter()
        .filter_map(|name| match query.get(*name)?.as_slice() {
            [value] => Some(value.as_str()),
            // The Python client lists names that occur several times, and signs none of them.
            _ => None,
        })
        .collect();
    let head = format!("{} {}\n", request.method(), request.uri().path());
    let tail = format!("\n{values}\n\n{}", claim.expires);
    Some([head.as_bytes(), request.body(), tail.as_bytes()].concat())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The header of a request that is signed with that key: written on its own, so that a mistake of
    /// the verifier is not repeated.
    pub(in super::super) fn sign(
        (key, secret): (&str, &str),
        method: &str,
        target: &str,
        body: &str,
        expires: i64,
    ) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut pairs: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
        pairs.sort();
        let values: String = pairs.iter().map(|(_, value)| value.as_ref()).collect();
        let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_ref()).collect();
        let text = format!("{method} {path}\n{body}\n{values}\n\n{expires}");
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let tag = STANDARD.encode(hmac::sign(&secret, text.as_bytes()));
        let names = if names.is_empty() {
            String::new()
        } else {
            format!(",signed-query-args={}", names.join(";"))
        };
        format!("{SCHEME} credential={key}{names},expires={expires},signature={tag}")
    }

    const KEY: &str = "EXObowline0000000000000000";
    const SECRET: &str = "bowline-test-secret-0123456789abcdefghijklm";

    fn request(method: &str, target: &str, body: &'static str, header: &str) -> Request<Bytes> {
        let request = Request::builder().method(method).uri(target);
        let request = request.header("authorization", header);
        request.body(Bytes::from_static(body.as_bytes())).unwrap()
    }

    fn check(request: &Request<Bytes>, now: i64) -> Result<(), String> {
        let keys = [(KEY.to_owned(), Key::new(SECRET))].into();
        let verified = verify(request, &keys, Timestamp::from_second(now).unwrap());
        verified.map(|_| ()).map_err(|refusal| refusal.message)
    }

    /// Method, address, body and what the header says after the key.
    const VECTORS: [(&str, &str, &str, &str); 5] = [
        (
            "GET",
            "https://api-ch-gva-2.exoscale.com/v2/zone",
            "",
            "expires=1900000000,signature=KaMW9qVbE3Kz/IUYwhasJDcQZNK7DgcbN1f1TslfOkc=",
        ),
        (
            "POST",
            "https://api-ch-gva-2.exoscale.com/v2/load-balancer",
            r#"{"name":"k8s-5c7b1f0e-6a53-4f6e-9a3d-1f2e3d4c5b6a"}"#,
            "expires=1900000000,signature=0MGctJ0PjUvNb1VowTw+GQ82GtA1LBI0pAjSthTlrTE=",
        ),
        (
            "GET",
            "https://api-ch-gva-2.exoscale.com/v2/instance?manager-type=instance-pool\
             &manager-id=0f0e0d0c-0b0a-4908-8706-050403020100",
            "",
            "signed-query-args=manager-id;manager-type,expires=1900000000,\
             signature=4kqf1phkSlIORb5eKuuV1X54N36gyo0XPZHNP/zinLc=",
        ),
        (
            "GET",
            "http://127.0.0.1:8080/v2/instance?labels=env%3Dprod%20eu&ip-address=198.51.100.7",
            "",
            "signed-query-args=ip-address;labels,expires=1900000600,\
             signature=hGQ7+j9f2hBFhZaPsRWLo8rY3mwBBBOLVnQQjJFtHLY=",
        ),
        (
            "PUT",
            "http://127.0.0.1:8080/v2/load-balancer/7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01/service/\
             1c9e3b9a-61f3-4d0e-8b51-0d0c1a2b3c4d",
            r#"{"name":"web","port":443,"target-port":31443}"#,
            "expires=1900000000,signature=q8zm8N2p+bABx4HzmQ8g8OwliOgCqxh/XOQ+IeZQoBs=",
        ),
    ];

    #[test]
    fn the_published_vectors_are_accepted_and_nothing_near_them() {
        for (method, target, body, tail) in VECTORS {
            let header = format!("{SCHEME} credential={KEY},{tail}");
            let good = request(method, target, body, &header);
            assert_eq!(check(&good, 1_899_999_999), Ok(()), "{method} {target}");
            let expired = check(&good, 1_900_000_601).unwrap_err();
            assert_eq!(expired, "Request signature has expired");
            let other = if method == "GET" { "HEAD" } else { "PATCH" };
            for bad in [
                request(other, target, body, &header),
                request(method, &format!("{target}x"), body, &header),
                request(method, target, "{}", &header),
                request(method, target, body, &header.replace(KEY, "EXOother")),
                request(
                    method,
                    target,
                    body,
                    &header.replace("expires=19", "expires=29"),
                ),
                request(method, target, body, &header.replace(',', ", ")),
                request(method, target, body, &tail.replace("EXO2", "EXO1")),
                request(method, target, body, ""),
            ] {
                let said = check(&bad, 1_899_999_999).unwrap_err();
                assert_eq!(said, "Invalid request signature", "{bad:?}");
            }
        }
    }

    #[test]
    fn a_parameter_of_the_query_must_be_signed_unless_it_occurs_twice() {
        let header = sign((KEY, SECRET), "GET", "/v2/instance?a=1", "", 1_900_000_000);
        assert_eq!(
            check(&request("GET", "/v2/instance?a=1", "", &header), 0),
            Ok(())
        );
        assert!(check(&request("GET", "/v2/instance?a=1&b=2", "", &header), 0).is_err());
        assert!(check(&request("GET", "/v2/instance?a=2", "", &header), 0).is_err());
        let twice = request("GET", "/v2/instance?a=1&b=2&b=3", "", &header);
        assert_eq!(check(&twice, 0), Ok(()));
        let listed = header.replace("args=a", "args=a;b");
        assert_eq!(
            check(&request("GET", "/v2/instance?a=1&b=2&b=3", "", &listed), 0),
            Ok(())
        );
    }

    #[test]
    fn a_missing_header_is_named() {
        let request = Request::get("/v2/instance").body(Bytes::new()).unwrap();
        assert_eq!(check(&request, 0).unwrap_err(), "Missing authentication");
    }
}
