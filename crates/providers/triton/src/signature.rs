//! HTTP signatures (draft-cavage), as CloudAPI wants them, and the clock that they are made by.
//!
//! The server refuses a `Date` that is more than five minutes from its own. Then, and only then,
//! the difference is taken from its answer and kept: see [`ClockOffset`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_core::Secret;
use bowline_http::{AuthError, Authenticate, Signing, sensitive};
use http::header::{AUTHORIZATION, DATE};
use http::{HeaderMap, HeaderValue, Method, Uri};
use jiff::fmt::rfc2822::{DateTimeParser, DateTimePrinter};
use jiff::{SignedDuration, Timestamp};

use crate::keys::PrivateKey;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub account: String,
    /// The login of the account's sub-user, if the key is not the account's own.
    pub user: Option<String>,
}

/// What the server's clock shows beyond ours, in seconds. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ClockOffset(Arc<AtomicI64>);

impl ClockOffset {
    /// Takes it from the `Date` of an answer that came at `now`; says how much it is.
    pub fn learn(&self, date: &str, now: Timestamp) -> Option<SignedDuration> {
        let theirs = DateTimeParser::new().parse_timestamp(date.trim()).ok()?;
        let offset = theirs.duration_since(now);
        self.0.store(offset.as_secs(), Ordering::Relaxed);
        Some(offset)
    }

    /// What the server's clock shows when ours shows `now`.
    pub fn correct(&self, now: Timestamp) -> Timestamp {
        let offset = SignedDuration::from_secs(self.0.load(Ordering::Relaxed));
        now.saturating_add(offset).unwrap_or(now)
    }
}

#[derive(Clone)]
pub struct Signer {
    key: Arc<PrivateKey>,
    key_id: String,
    sign_target: bool,
    offset: ClockOffset,
    /// The text of the key, so that no log shows it.
    text: Secret,
}

impl Signer {
    /// For a key of that owner; `text` is what the key was read from.
    pub fn new(
        key: Arc<PrivateKey>,
        text: Secret,
        owner: &Owner,
        sign_target: bool,
        offset: ClockOffset,
    ) -> Self {
        let Owner { account, user } = owner;
        let fingerprint = key.fingerprint().md5();
        let key_id = match user {
            None => format!("/{account}/keys/{fingerprint}"),
            Some(user) => format!("/{account}/users/{user}/keys/{fingerprint}"),
        };
        Self {
            key,
            key_id,
            sign_target,
            offset,
            text,
        }
    }

    pub fn key(&self) -> &Arc<PrivateKey> {
        &self.key
    }

    /// How the server knows the key: `/acme/keys/98:e2:…`.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    pub fn offset(&self) -> &ClockOffset {
        &self.offset
    }

    /// The `Authorization` header of a request with that `Date`.
    pub fn authorization(
        &self,
        method: &Method,
        uri: &Uri,
        date: &str,
    ) -> Result<String, AuthError> {
        let (headers, text) = if self.sign_target {
            let method = method.as_str().to_ascii_lowercase();
            let target = uri.path_and_query().map_or("/", |it| it.as_str());
            let text = format!("(request-target): {method} {target}\ndate: {date}");
            ("(request-target) date", text)
        } else {
            ("date", format!("date: {date}"))
        };
        let signature = self.key.sign(text.as_bytes());
        let signature = signature.map_err(|error| AuthError(error.to_string()))?;
        Ok(format!(
            r#"Signature keyId="{}",algorithm="{}",headers="{headers}",signature="{}""#,
            self.key_id,
            self.key.algorithm(),
            STANDARD.encode(signature)
        ))
    }
}

impl Authenticate for Signer {
    fn authenticate(&self, request: Signing<'_>, headers: &mut HeaderMap) -> Result<(), AuthError> {
        let date = http_date(self.offset.correct(request.now))?;
        let authorization = self.authorization(request.method, request.uri, &date)?;
        headers.insert(DATE, HeaderValue::from_str(&date)?);
        headers.insert(AUTHORIZATION, sensitive(&authorization)?);
        Ok(())
    }

    fn secrets(&self) -> Vec<Secret> {
        vec![self.text.clone()]
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

fn http_date(time: Timestamp) -> Result<String, AuthError> {
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&time);
    text.map_err(|error| AuthError(format!("the clock shows no date: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::examples;

    const DATE_TEXT: &str = "Tue, 04 Aug 2026 10:20:30 GMT";
    const MACHINE: &str = "/acme/machines/5b1e2d3c-0000-4000-8000-000000000001";

    fn header(
        key: &str,
        user: Option<&str>,
        sign_target: bool,
        method: &Method,
        path: &str,
    ) -> String {
        let key = Arc::new(PrivateKey::parse(key, None).unwrap());
        let owner = Owner {
            account: "acme".to_owned(),
            user: user.map(ToOwned::to_owned),
        };
        let text = Secret::new("a key");
        let signer = Signer::new(key, text, &owner, sign_target, ClockOffset::default());
        let uri = format!("https://cloudapi.eg-1.example.com{path}");
        let uri: Uri = uri.parse().unwrap();
        let mut headers = HeaderMap::new();
        let signing = Signing {
            method,
            uri: &uri,
            body: b"",
            now: "2026-08-04T10:20:30.7Z".parse().unwrap(),
        };
        signer.authenticate(signing, &mut headers).unwrap();
        assert_eq!(headers[DATE], DATE_TEXT);
        assert!(headers[AUTHORIZATION].is_sensitive());
        headers[AUTHORIZATION].to_str().unwrap().to_owned()
    }

    #[test]
    fn triton_case_01_the_headers_are_byte_equal_to_the_vectors() {
        let (get, post) = (Method::GET, Method::POST);
        let rsa = examples::RSA_PKCS1;
        let v1 = header(rsa, None, false, &get, "/acme/machines");
        assert_eq!(v1, examples::V1);
        let list = "/acme/machines?limit=1000&offset=0";
        assert_eq!(header(rsa, None, true, &get, list), examples::V2);
        let (ed25519, tags) = (examples::ed25519_of_v3(), format!("{MACHINE}/tags"));
        let v3 = header(&ed25519, Some("bowline"), true, &post, &tags);
        assert_eq!(v3, examples::V3);
        assert_eq!(
            header(&examples::p256_of_v4(), None, true, &get, MACHINE),
            format!(
                r#"Signature keyId="/acme/keys/{}",algorithm="ecdsa-sha256",headers="(request-target) date",signature="{}""#,
                examples::V4_FINGERPRINT,
                examples::V4
            )
        );
    }

    #[test]
    fn triton_case_05_all_forms_of_one_key_give_the_same_signature() {
        use examples::{RSA_OPENSSH, RSA_PKCS1, RSA_PKCS8};
        for form in [RSA_OPENSSH, RSA_PKCS1, RSA_PKCS8] {
            let got = header(form, None, false, &Method::GET, "/acme");
            assert_eq!(got, examples::V1);
        }
    }

    #[test]
    fn what_is_signed_is_the_path_as_it_is_sent_with_its_prefix() {
        let path = "/prefix/acme/machines?tag.a=b%20c";
        let key = Arc::new(PrivateKey::parse(examples::RSA_PKCS1, None).unwrap());
        let owner = Owner {
            account: "acme".to_owned(),
            user: None,
        };
        let got = header(examples::RSA_PKCS1, None, true, &Method::DELETE, path);
        let text = format!("(request-target): delete {path}\ndate: {DATE_TEXT}");
        let wanted = STANDARD.encode(key.sign(text.as_bytes()).unwrap());
        assert!(got.contains(&wanted));
        let text = Secret::new("k3y");
        let signer = Signer::new(key, text, &owner, true, ClockOffset::default());
        assert!(!format!("{signer:?}").contains("k3y"));
        assert_eq!(signer.secrets(), [Secret::new("k3y")]);
    }

    #[test]
    fn the_servers_clock_is_learned_from_its_date() {
        let offset = ClockOffset::default();
        let now: Timestamp = "2026-08-04T10:20:30Z".parse().unwrap();
        assert_eq!(offset.correct(now), now);
        let learned = offset.learn("Tue, 04 Aug 2026 10:30:31 GMT", now).unwrap();
        assert_eq!(learned.as_secs(), 601);
        assert_eq!(offset.correct(now).to_string(), "2026-08-04T10:30:31Z");
        assert_eq!(offset.learn("yesterday", now), None);
        let same = offset.clone().correct(now);
        assert_eq!(same.to_string(), "2026-08-04T10:30:31Z");
        offset.learn("Tue, 04 Aug 2026 10:10:30 GMT", now).unwrap();
        assert_eq!(offset.correct(now).to_string(), "2026-08-04T10:10:30Z");
    }
}
