//! The token in a file: read at the start, and again every few seconds.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bowline_core::Secret;
use bowline_http::{Background, Followed, SmallFile};
use thiserror::Error;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::config::token_problem;

/// How often the file is read. A rotated secret reaches a pod's files within a minute or so; a few
/// seconds more do not matter.
pub const TOKEN_POLL: Duration = Duration::from_secs(5);
/// No token is longer; beyond it the file is not one with a token.
const LONGEST_TOKEN: usize = 8 * 1024;

/// Why a file gives no token. What is in it is not shown.
#[derive(Debug, Error)]
pub enum TokenFileError {
    #[error("cannot read the token file {}", path.display())]
    Unreadable {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("the token file {} cannot be used: {reason}", path.display())]
    Unusable { path: PathBuf, reason: &'static str },
}

impl TokenFileError {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Unreadable { source, .. } => format!("{self}: {source}"),
            Self::Unusable { .. } => self.to_string(),
        }
    }
}

pub(crate) fn read_now(path: &Path) -> Result<Secret, TokenFileError> {
    check(path, SmallFile::new(path, LONGEST_TOKEN).read_now())
}

fn check(path: &Path, read: io::Result<Vec<u8>>) -> Result<Secret, TokenFileError> {
    let path = path.to_owned();
    let unusable = |reason| TokenFileError::Unusable {
        path: path.clone(),
        reason,
    };
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Err(unusable("it is too long for a token"));
        }
        Err(source) => return Err(TokenFileError::Unreadable { path, source }),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| unusable("it is not text"))?;
    let token = text.trim();
    match token_problem(token) {
        Some(reason) => Err(unusable(reason)),
        None => Ok(Secret::new(token)),
    }
}

/// Calls `changed` with every new token. `current` is none if the file was no use so far. Ends when the result is
/// dropped.
pub(crate) fn follow(
    path: PathBuf,
    mut current: Option<Secret>,
    changed: impl Fn(Secret) + Send + 'static,
) -> Background {
    let file = SmallFile::new(&path, LONGEST_TOKEN);
    let mut followed = Followed::<()>::default();
    Background::start(async move {
        loop {
            sleep(TOKEN_POLL).await;
            match check(&path, file.read().await) {
                Ok(token) => {
                    followed.is_well();
                    if current.as_ref() != Some(&token) {
                        info!(path = %path.display(), "using the new API token");
                        current = Some(token.clone());
                        changed(token);
                    }
                }
                Err(error) => {
                    let error = error.text();
                    if followed.is_news(&error, Duration::ZERO) {
                        warn!(error, "keeping the old API token");
                    }
                }
            }
        }
    })
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
            missing.text().contains("cannot read the token file"),
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
                    assert!(error.text().contains(wanted), "{error}");
                    assert!(!error.text().contains("hunter2"), "{error}");
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
        let current = Some(read_now(&path).unwrap());
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
