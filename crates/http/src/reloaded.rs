//! A file that somebody else writes, read again when it changes.
//!
//! ```text
//!  every 5 s: read ─▶ same bytes? ─▶ nothing
//!                         └─▶ check ─┬─▶ good: swap
//!                                    └─▶ wrong: the last good one stays, reported once
//! ```

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tracing::{info, warn};

use crate::{Background, SmallFile};

/// How often the file is read. A rotated Secret reaches a pod's files within a minute or so; a few seconds more do not
/// matter.
const POLL: Duration = Duration::from_secs(5);

/// The last good content of a file.
#[derive(Debug)]
pub struct Reloaded<T> {
    content: watch::Receiver<Content<T>>,
    _task: Background,
}

#[derive(Debug)]
struct Content<T> {
    good: Arc<T>,
    wrong: Option<String>,
}

impl<T: Send + Sync + 'static> Reloaded<T> {
    /// Reads a file, and follows it for as long as this exists. `check` gets what was read; its error should name the
    /// file. `what` is for the log. Needs a tokio runtime.
    pub fn begin(
        what: &'static str,
        file: SmallFile,
        check: impl Fn(io::Result<Vec<u8>>) -> Result<T, String> + Send + 'static,
    ) -> Result<Self, String> {
        let first = file.read_now();
        let mut last = first.as_ref().ok().cloned();
        let good = Arc::new(check(first)?);
        let (sender, content) = watch::channel(Content { good, wrong: None });
        let task = Background::start(async move {
            loop {
                tokio::time::sleep(POLL).await;
                let read = file.read().await;
                let is_same = read.as_ref().ok() == last.as_ref();
                last = read.as_ref().ok().cloned();
                if is_same && read.is_ok() {
                    continue;
                }
                let path = file.path().display().to_string();
                let checked = check(read);
                sender.send_if_modified(|content| content.take(what, &path, checked));
            }
        });
        Ok(Self {
            content,
            _task: task,
        })
    }

    /// The last good content.
    pub fn now(&self) -> Arc<T> {
        self.content.borrow().good.clone()
    }

    /// What is wrong with the file now; none if it is good.
    pub fn wrong(&self) -> Option<String> {
        self.content.borrow().wrong.clone()
    }
}

impl<T> Content<T> {
    /// Says whether something is different.
    fn take(&mut self, what: &str, path: &str, checked: Result<T, String>) -> bool {
        match checked {
            Ok(good) => {
                info!(path, "{what} read again");
                let good = Arc::new(good);
                *self = Self { good, wrong: None };
                true
            }
            Err(error) if self.wrong.as_ref() == Some(&error) => false,
            Err(error) => {
                warn!(
                    path,
                    error, "{what} not usable, keeping the last good content"
                );
                self.wrong = Some(error);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn number(read: io::Result<Vec<u8>>) -> Result<u32, String> {
        let bytes = read.map_err(|error| error.to_string())?;
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        text.trim()
            .parse()
            .map_err(|_| format!("{text:?} is no number"))
    }

    async fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        tokio::time::sleep(POLL * 2).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_change_is_taken_and_a_wrong_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        let file = || SmallFile::new(&path, 8);
        let begin = || Reloaded::begin("number", file(), number);
        assert!(begin().unwrap_err().contains("No such file"));
        write(&path, "one").await;
        assert_eq!(begin().unwrap_err(), "\"one\" is no number");
        write(&path, "1").await;
        let followed = begin().unwrap();
        assert_eq!((*followed.now(), followed.wrong()), (1, None));
        for (text, good, wrong) in [
            ("2", 2, None),
            ("two", 2, Some("\"two\" is no number")),
            ("123456789", 2, Some("file too large")),
            ("2", 2, None),
            ("3", 3, None),
        ] {
            write(&path, text).await;
            assert_eq!(
                (*followed.now(), followed.wrong().as_deref()),
                (good, wrong),
                "{text}"
            );
        }
        std::fs::remove_file(&path).unwrap();
        tokio::time::sleep(POLL * 2).await;
        assert_eq!(*followed.now(), 3);
        assert!(followed.wrong().unwrap().contains("No such file"));
    }
}
