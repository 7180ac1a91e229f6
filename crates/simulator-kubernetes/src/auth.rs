//! Who is asking, and what they may do.
//!
//! Everything here is a plain function of the request and of a read-only view of the stored
//! objects ([`Objects`]): authentication by client certificate, static token or service-account
//! token; impersonation; authorization by `system:masters`, the node authorizer and RBAC, in that
//! order; and the answers to token and access reviews.

mod escalation;
mod framework;
mod impersonate;
mod node;
mod objects;
mod rbac;
mod reviews;
mod rules;
#[cfg(test)]
mod tests;
mod token;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use bowline_simulator::keys::{CertificateError, Keys};
use bowline_simulator::serve::Peer;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::certificates::Authority;
use super::status::Refusal;

pub(crate) use super::object::{text, texts};
pub use framework::{framework, original};
pub use objects::Objects;
pub(crate) use objects::kind;
pub use rules::Attributes;
pub use token::{AUDIENCE, ISSUER};

/// Common name of the cluster's certificate authority.
const AUTHORITY_NAME: &str = "kubernetes";
/// Common name of the authority that front proxies would be signed by.
const FRONT_PROXY_NAME: &str = "front-proxy-ca";
/// Members may do anything.
const MASTERS: &str = "system:masters";
/// Everybody who proved an identity.
const AUTHENTICATED: &str = "system:authenticated";
/// Everybody else.
const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of requests without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// Somebody who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Name: `system:serviceaccount:kube-system:bowline`.
    pub name: String,
    /// Unique id; empty if the credentials carry none.
    pub uid: String,
    pub groups: Vec<String>,
    /// Further facts about the credentials.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user without uid.
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, &[UNAUTHENTICATED])
    }

    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }

    /// Adds the group of everybody who proved an identity.
    fn authenticated(mut self) -> Self {
        if self.name != ANONYMOUS && !self.is_in(AUTHENTICATED) && !self.is_in(UNAUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// As the `user` of a token review and the `userInfo` of a self review.
    fn to_info(&self) -> Value {
        let mut info = json!({ "username": self.name });
        if !self.uid.is_empty() {
            info["uid"] = json!(self.uid);
        }
        if !self.groups.is_empty() {
            info["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}

/// The answer of the authorizers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    /// Why; may be empty.
    pub reason: String,
}

/// The cluster's keys and static tokens, and every decision about access.
///
/// Client certificates are checked here against the authority at the time of the world's clock.
/// The TLS layer has only to make sure that the client owns the key of what it sent.
#[derive(Debug)]
pub struct Auth {
    authority: Authority,
    front_proxy: Authority,
    tokens: token::Signer,
    fixed: RwLock<BTreeMap<String, Arc<User>>>,
}

impl Auth {
    /// New keys, no static tokens.
    pub fn new(keys: &Keys) -> Result<Self, CertificateError> {
        Ok(Self {
            authority: Authority::new(AUTHORITY_NAME, keys.clone())?,
            front_proxy: Authority::new(FRONT_PROXY_NAME, keys.clone())?,
            tokens: token::Signer::new(keys.clone())?,
            fixed: RwLock::default(),
        })
    }

    /// The authority of client and server certificates.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The authority named in `requestheader-client-ca-file`. It signs nothing.
    pub fn front_proxy(&self) -> &Authority {
        &self.front_proxy
    }

    /// Makes `token` stand for `user` from now on.
    pub fn add_token(&self, token: &str, user: User) {
        self.fixed
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(token.to_owned(), Arc::new(user));
    }

    /// Who sends this request: by certificate, else by bearer token, else nobody; then whoever
    /// they ask to be taken for, if they may.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<User, Refusal> {
        let user = self.by_credentials(headers, peer, objects, now)?;
        impersonate::apply(self, user, headers, objects)
    }

    fn by_credentials(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<User, Refusal> {
        let unauthorized = || Refusal::new(401, "Unauthorized", "Unauthorized");
        let certificate = peer.certificate.as_deref();
        if let Some(user) = certificate.and_then(|der| self.authority.user(der, now)) {
            return Ok(user.authenticated());
        }
        match bearer(headers) {
            Some(token) => self
                .by_token(token, &[AUDIENCE], objects, now)
                .map(|(user, _)| user)
                .ok_or_else(unauthorized),
            None if certificate.is_some() => Err(unauthorized()),
            None => Ok(User::anonymous()),
        }
    }

    /// The user of a token, and those of the wanted audiences it is good for.
    fn by_token(
        &self,
        token: &str,
        audiences: &[&str],
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Option<(User, Vec<String>)> {
        let fixed = self.fixed.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = fixed.get(token) {
            let audiences = audiences.iter().map(|&one| one.to_owned()).collect();
            return Some((user.as_ref().clone().authenticated(), audiences));
        }
        drop(fixed);
        let (user, audiences) = self.tokens.user(token, audiences, objects, now)?;
        Some((user.authenticated(), audiences))
    }

    /// Whether the user may, and why.
    ///
    /// For `list`, `watch` and `deletecollection` the name is that of a `metadata.name` field
    /// selector, as in the real server.
    pub fn decide(&self, user: &User, attributes: &Attributes, objects: &dyn Objects) -> Decision {
        if user.is_in(MASTERS) {
            return Decision {
                allowed: true,
                reason: String::new(),
            };
        }
        let node = node::decide(user, attributes, objects);
        if node.allowed {
            return node;
        }
        let mut roles = rbac::decide(user, attributes, objects);
        if !roles.allowed && !node.reason.is_empty() {
            let reasons = [node.reason, roles.reason];
            let reported: Vec<String> = reasons.into_iter().filter(|one| !one.is_empty()).collect();
            roles.reason = reported.join("\n");
        }
        roles
    }

    /// Refuses with 403 what the user may not do.
    pub fn authorize(
        &self,
        user: &User,
        attributes: &Attributes,
        objects: &dyn Objects,
    ) -> Result<(), Refusal> {
        let decision = self.decide(user, attributes, objects);
        if decision.allowed {
            return Ok(());
        }
        Err(attributes.forbidden(&user.name, &decision.reason))
    }

    /// Answers a `TokenRequest` for a stored service account: the token is bound to its uid.
    pub fn issue_token(
        &self,
        namespace: &str,
        service_account: &Value,
        spec: &Value,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Value, Refusal> {
        self.tokens
            .issue(namespace, service_account, spec, objects, now)
    }
}

/// The bearer token of a request, if it has one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
