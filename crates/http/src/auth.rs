//! Who we are to a cloud: a hook that sees the whole request and adds headers to it.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_core::Secret;
use http::header::{AUTHORIZATION, COOKIE, InvalidHeaderValue};
use http::{HeaderMap, HeaderValue, Method, Uri};
use jiff::Timestamp;
use thiserror::Error;

/// Why a request could not be signed. It has not been sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the request cannot be signed: {0}")]
pub struct AuthError(pub String);

impl From<InvalidHeaderValue> for AuthError {
    fn from(_: InvalidHeaderValue) -> Self {
        // Which characters is not said: they are part of the secret.
        Self("the credentials hold characters that a header cannot carry".to_owned())
    }
}

/// What a signature is made over: the request exactly as it will be sent.
#[derive(Clone, Copy)]
pub struct Signing<'a> {
    /// The method.
    pub method: &'a Method,
    /// Scheme, host, path and query, escaped as sent.
    pub uri: &'a Uri,
    /// The body; empty if there is none.
    pub body: &'a [u8],
    /// The time of day. Every attempt is signed anew.
    pub now: Timestamp,
}

/// Adds credentials to requests.
pub trait Authenticate: Send + Sync {
    /// Adds what proves who asks to `headers`.
    fn authenticate(&self, request: Signing<'_>, headers: &mut HeaderMap) -> Result<(), AuthError>;

    /// The values that must not appear in any log or error.
    fn secrets(&self) -> Vec<Secret>;
}

impl<T: Authenticate + ?Sized> Authenticate for Arc<T> {
    fn authenticate(&self, request: Signing<'_>, headers: &mut HeaderMap) -> Result<(), AuthError> {
        (**self).authenticate(request, headers)
    }

    fn secrets(&self) -> Vec<Secret> {
        (**self).secrets()
    }
}

/// No credentials.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anonymous;

impl Authenticate for Anonymous {
    fn authenticate(&self, _: Signing<'_>, _: &mut HeaderMap) -> Result<(), AuthError> {
        Ok(())
    }

    fn secrets(&self) -> Vec<Secret> {
        Vec::new()
    }
}

/// `Authorization: Bearer …`.
#[derive(Clone, Debug)]
pub struct Bearer(pub Secret);

impl Authenticate for Bearer {
    fn authenticate(&self, _: Signing<'_>, headers: &mut HeaderMap) -> Result<(), AuthError> {
        let value = sensitive(&format!("Bearer {}", self.0.reveal()))?;
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    fn secrets(&self) -> Vec<Secret> {
        vec![self.0.clone()]
    }
}

/// `Authorization: Basic …`.
#[derive(Clone, Debug)]
pub struct Basic {
    /// The user name.
    pub user: String,
    /// The password.
    pub password: Secret,
}

impl Basic {
    fn encoded(&self) -> String {
        STANDARD.encode(format!("{}:{}", self.user, self.password.reveal()))
    }
}

impl Authenticate for Basic {
    fn authenticate(&self, _: Signing<'_>, headers: &mut HeaderMap) -> Result<(), AuthError> {
        let value = sensitive(&format!("Basic {}", self.encoded()))?;
        headers.insert(AUTHORIZATION, value);
        Ok(())
    }

    fn secrets(&self) -> Vec<Secret> {
        vec![self.password.clone(), Secret::new(self.encoded())]
    }
}

/// `Cookie: name=…`.
#[derive(Clone, Debug)]
pub struct Cookie {
    /// The cookie's name.
    pub name: &'static str,
    /// Its value.
    pub value: Secret,
}

impl Authenticate for Cookie {
    fn authenticate(&self, _: Signing<'_>, headers: &mut HeaderMap) -> Result<(), AuthError> {
        let value = sensitive(&format!("{}={}", self.name, self.value.reveal()))?;
        headers.insert(COOKIE, value);
        Ok(())
    }

    fn secrets(&self) -> Vec<Secret> {
        vec![self.value.clone()]
    }
}

/// A header value that hyper and `Debug` do not show.
pub fn sensitive(text: &str) -> Result<HeaderValue, AuthError> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(auth: &dyn Authenticate, name: &str) -> String {
        let mut headers = HeaderMap::new();
        let request = Signing {
            method: &Method::GET,
            uri: &Uri::from_static("https://cloud/v1/servers"),
            body: b"",
            now: Timestamp::UNIX_EPOCH,
        };
        auth.authenticate(request, &mut headers).unwrap();
        assert!(headers[name].is_sensitive());
        headers[name].to_str().unwrap().to_owned()
    }

    #[test]
    fn the_credentials_are_written_as_the_clouds_want_them() {
        let token = Secret::new("Zk3vQ9pTn1XwYb7RdLs2MhUa8CeGf0Jo");
        assert_eq!(
            header(&Bearer(token), "authorization"),
            "Bearer Zk3vQ9pTn1XwYb7RdLs2MhUa8CeGf0Jo"
        );
        let user = "svc-k8s@corp.lan".to_owned();
        let password = Secret::new("s3cret:x");
        assert_eq!(
            header(&Basic { user, password }, "authorization"),
            "Basic c3ZjLWs4c0Bjb3JwLmxhbjpzM2NyZXQ6eA=="
        );
        let (name, value) = ("authenticationToken", Secret::new("Zr3d"));
        assert_eq!(
            header(&Cookie { name, value }, "cookie"),
            "authenticationToken=Zr3d"
        );
    }

    #[test]
    fn a_token_with_a_line_break_is_refused_without_being_shown() {
        let error = sensitive("Bearer hunter2\n").unwrap_err().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }
}
