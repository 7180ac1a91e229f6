//! Authentication and authorization, before every answer.

use std::time::Duration;

use http::Request;
use rustls_pki_types::{CertificateDer, UnixTime};

use super::identity::{User, UserClaim, bearer};
use super::{ServingError, Shared};

impl Shared {
    /// Who calls; none if credentials were presented and none of them is good.
    pub(super) async fn authenticate<B>(
        &self,
        request: &Request<B>,
        chain: &[CertificateDer<'_>],
    ) -> Option<User> {
        let headers = request.headers();
        let second = u64::try_from(self.parts.clock.now().as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(second));
        let authorities = self.trust.current();
        let mut bad = None;
        let mut claim = authorities.front_proxy(chain, headers, now);
        if !matches!(claim, UserClaim::User(_)) {
            bad = bad.or(reason(claim));
            claim = authorities.certificate(chain, now);
        }
        if !matches!(claim, UserClaim::User(_)) {
            bad = bad.or(reason(claim));
            claim = match bearer(headers) {
                Some(token) => self.reviews.token(token).await,
                None => UserClaim::None,
            };
        }
        match (claim, bad) {
            (UserClaim::User(user), _) => Some(user.authenticated()),
            (UserClaim::None, None) => Some(User::anonymous()),
            (UserClaim::Bad(error), _) | (UserClaim::None, Some(error)) => {
                tracing::info!(error, "caller not authenticated");
                None
            }
        }
    }

    pub(super) async fn authorize(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<bool, String> {
        let allowed = &self.options.authorization.always_allow;
        if user.groups.iter().any(|group| group == "system:masters")
            || allowed.iter().any(|pattern| allows(pattern, path))
        {
            return Ok(true);
        }
        self.reviews.allowed(user, verb, path).await
    }
}

fn reason(claim: UserClaim) -> Option<String> {
    match claim {
        UserClaim::Bad(reason) => Some(reason),
        UserClaim::User(_) | UserClaim::None => None,
    }
}

/// Whether a pattern of `--authorization-always-allow-paths` covers that path.
pub(super) fn allows(pattern: &str, path: &str) -> bool {
    let pattern = pattern.trim_start_matches('/');
    let path = path.trim_start_matches('/');
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => path == pattern,
    }
}

pub(super) fn check_allowed_paths(patterns: &[String]) -> Result<(), ServingError> {
    let bad = |pattern: &&String| pattern.trim_end_matches('*').contains('*');
    match patterns.iter().find(bad) {
        Some(pattern) => Err(ServingError::AllowedPath(pattern.clone())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn always_allowed_paths_are_exact_or_end_in_a_star() {
        let rows = [
            ("/healthz", "/healthz", true),
            ("healthz", "/healthz", true),
            ("/healthz", "/healthz/x", false),
            ("/healthz/*", "/healthz/x", true),
            ("/healthz*", "/healthz", true),
            ("*", "/anything", true),
        ];
        for (pattern, path, expected) in rows {
            assert_eq!(allows(pattern, path), expected, "{pattern} {path}");
        }
        assert!(check_allowed_paths(&["/a*".to_owned(), "*".to_owned()]).is_ok());
        assert!(check_allowed_paths(&["/a*b".to_owned()]).is_err());
    }
}
