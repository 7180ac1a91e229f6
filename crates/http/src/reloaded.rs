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
use tokio::time::Instant;
use tracing::{info, warn};

use crate::{Background, SmallFile};

/// How often the file is read. A rotated Secret reaches a pod's files within a minute or so; a few seconds more do not
/// matter.
const POLL: Duration = Duration::from_secs(5);

/// Something that may change at any time: what was last looked at, and what was last complained of.
#[derive(Debug)]
pub struct Followed<S> {
    last: Option<S>,
    since: Option<Instant>,
    complaint: Option<String>,
}

/// What came of a look.
#[derive(Debug)]
pub enum Offer<T, E> {
    /// It was looked at last: nothing to do, and nothing to report again.
    Same,
    /// It is good.
    Taken(T),
    /// It is not, and what was in force stays.
    Refused(E),
}

impl<S> Default for Followed<S> {
    fn default() -> Self {
        Self {
            last: None,
            since: None,
            complaint: None,
        }
    }
}

impl<S: PartialEq> Followed<S> {
    /// Begins with something that is in force.
    pub fn starting(source: S) -> Self {
        Self {
            last: Some(source),
            ..Self::default()
        }
    }

    /// Checks what is another than last time.
    pub fn offer<T, E>(
        &mut self,
        source: S,
        check: impl FnOnce(&S) -> Result<T, E>,
    ) -> Offer<T, E> {
        if self.last.as_ref() == Some(&source) {
            return Offer::Same;
        }
        let checked = check(&source);
        self.last = Some(source);
        match checked {
            Ok(good) => {
                self.is_well();
                Offer::Taken(good)
            }
            Err(error) => Offer::Refused(error),
        }
    }

    /// Whatever comes next is checked.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Whether somebody should hear of a problem now: it was not the last one, and there has been one for that long.
    pub fn is_news(&mut self, problem: &str, patience: Duration) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let news = self.complaint.as_deref() != Some(problem) && since.elapsed() >= patience;
        if news {
            self.complaint = Some(problem.to_owned());
        }
        news
    }

    /// Nothing is wrong: the next problem is news.
    pub fn is_well(&mut self) {
        (self.since, self.complaint) = (None, None);
    }
}

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
        let mut followed = Followed::starting(source(&first));
        let good = Arc::new(check(first)?);
        let (sender, content) = watch::channel(Content { good, wrong: None });
        let task = Background::start(async move {
            loop {
                tokio::time::sleep(POLL).await;
                let read = file.read().await;
                let path = file.path().display();
                match followed.offer(source(&read), |_| check(read)) {
                    Offer::Same => {}
                    Offer::Taken(good) => {
                        info!(%path, "{what} read again");
                        let good = Arc::new(good);
                        sender.send_replace(Content { good, wrong: None });
                    }
                    Offer::Refused(error) => {
                        if followed.is_news(&error, Duration::ZERO) {
                            warn!(%path, error, "{what} not usable, keeping the last good content");
                        }
                        sender.send_modify(|content| content.wrong = Some(error));
                    }
                }
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

/// What a read is compared by: its bytes, or why there are none.
fn source(read: &io::Result<Vec<u8>>) -> Result<Vec<u8>, io::ErrorKind> {
    read.as_ref().cloned().map_err(io::Error::kind)
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
