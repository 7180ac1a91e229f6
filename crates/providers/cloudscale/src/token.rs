//! The token in a file: read at the start, and again every few seconds.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::Secret;
use bowline_http::{Background, Reloaded, SmallFile, Source};
use thiserror::Error;
use tracing::{info, warn};

use crate::config::token_problem;

pub const TOKEN_POLL: Duration = <TokenFile<fn(Secret)>>::EVERY;
/// No token is longer; beyond it the file is not one with a token.
const LONGEST_TOKEN: usize = 8 * 1024;

/// Why a file gives no token. What is in it is not shown.
#[derive(Debug, Error)]
pub enum TokenFileError {
    #[error("cannot read the token file {}: {error}", path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    #[error("the token file {} cannot be used: {reason}", path.display())]
    Unusable { path: PathBuf, reason: &'static str },
}

pub(crate) fn read_now(path: &Path) -> Result<Secret, TokenFileError> {
    let path = path.to_owned();
    let bytes = match SmallFile::new(&path, LONGEST_TOKEN).read_now() {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            let reason = "it is too long for a token";
            return Err(TokenFileError::Unusable { path, reason });
        }
        Err(error) => return Err(TokenFileError::Unreadable { path, error }),
    };
    let token = std::str::from_utf8(&bytes).map(str::trim);
    let token = token.map_err(|_| "it is not text");
    match token.and_then(|token| token_problem(token).map_or(Ok(token), Err)) {
        Ok(token) => Ok(Secret::new(token)),
        Err(reason) => Err(TokenFileError::Unusable { path, reason }),
    }
}

struct TokenFile<F> {
    path: PathBuf,
    changed: F,
}

impl<F: Fn(Secret) + Send + Sync + 'static> Source for TokenFile<F> {
    type Raw = Secret;
    type Value = Secret;
    type Problem = TokenFileError;

    fn read(&self) -> Result<Secret, TokenFileError> {
        read_now(&self.path)
    }

    fn check(&self, token: &Secret) -> Result<Secret, TokenFileError> {
        Ok(token.clone())
    }

    async fn apply(&self, token: &Secret, _: Option<&Secret>) -> Result<(), TokenFileError> {
        info!(path = %self.path.display(), "using the new API token");
        (self.changed)(token.clone());
        Ok(())
    }

    fn complain(&self, problem: &TokenFileError, _: bool) {
        warn!(error = %problem, "keeping the old API token");
    }
}

/// Calls `changed` with every new token; the first one may be from elsewhere. Ends when the result
/// is dropped.
pub(crate) fn follow(
    path: PathBuf,
    (token, from_file): (Secret, bool),
    changed: impl Fn(Secret) + Send + Sync + 'static,
) -> Background {
    let first = (from_file.then(|| token.clone()), token);
    let source = TokenFile { path, changed };
    Arc::new(Reloaded::starting(source, Ok(first))).follow()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    #[test]
    fn a_file_is_checked_like_the_variable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let missing = read_now(&path).unwrap_err();
        assert!(
            missing.to_string().contains("cannot read the token file"),
            "{missing}"
        );
        for (content, wanted) in [
            (" tok-1\n", Ok("tok-1")),
            ("", Err("the token is empty")),
            (" \n", Err("the token is empty")),
            ("hunter2 hunter2", Err("characters that no token has")),
            (&"x".repeat(LONGEST_TOKEN + 1), Err("too long")),
        ] {
            std::fs::write(&path, content).unwrap();
            match (read_now(&path), wanted) {
                (Ok(token), Ok(wanted)) => assert_eq!(token.reveal(), wanted),
                (Err(error), Err(wanted)) => {
                    assert!(error.to_string().contains(wanted), "{error}");
                    assert!(!error.to_string().contains("hunter2"), "{error}");
                }
                (got, _) => panic!("{content:?} gave {got:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_token_is_seen_and_a_bad_file_keeps_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "one\n").unwrap();
        let (sender, mut seen) = mpsc::unbounded_channel();
        let current = (read_now(&path).unwrap(), true);
        let watch = follow(path.clone(), current, move |token| {
            sender.send(token.reveal().to_owned()).unwrap();
        });
        let quiet = TOKEN_POLL * 3;
        assert!(
            timeout(quiet, seen.recv()).await.is_err(),
            "nothing changed"
        );
        std::fs::write(&path, "two\n").unwrap();
        assert_eq!(seen.recv().await.as_deref(), Some("two"));
        std::fs::write(&path, "\n").unwrap();
        assert!(timeout(quiet, seen.recv()).await.is_err(), "an empty file");
        std::fs::remove_file(&path).unwrap();
        assert!(timeout(quiet, seen.recv()).await.is_err(), "no file");
        std::fs::write(&path, "two").unwrap();
        assert!(timeout(quiet, seen.recv()).await.is_err(), "the same token");
        std::fs::write(&path, "three").unwrap();
        assert_eq!(seen.recv().await.as_deref(), Some("three"));
        drop(watch);
        assert_eq!(seen.recv().await, None);
    }
}
