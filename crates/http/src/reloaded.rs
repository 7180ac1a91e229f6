//! A file or Secret that somebody else writes, read again and again.
//!
//! ```text
//!  again and again: read ─┬─ as before ─▶ nothing (or once more: `retry`)
//!                         ├─ new ─▶ check ─▶ apply ─▶ in force
//!                         └──────────┴─────────┴─▶ wrong: reported once, what is in force stays
//! ```
//!
//! Implement [`Source`], begin with [`Reloaded::begin`], and look again and again with [`Reloaded::follow`].

use std::fmt::Display;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::Background;

/// What may change at any time, and what a change means.
pub trait Source: Send + Sync + 'static {
    /// What is read, and compared with what was read before.
    type Raw: PartialEq + Send + Sync;
    /// What it means.
    type Value: Send + Sync;
    /// What can be wrong. One with the same text is reported once.
    type Problem: Display + Send + Sync;

    /// What it is, for the log.
    const WHAT: &'static str = "file";

    /// How often it is looked at. A rotated Secret reaches a pod's files within a minute or so; a
    /// few seconds more do not matter.
    const EVERY: Duration = Duration::from_secs(5);

    /// Reads everything, blocking. What cannot be read is not a change.
    fn read(&self) -> Result<Self::Raw, Self::Problem>;

    /// Understands what is new.
    fn check(&self, raw: &Self::Raw) -> Result<Self::Value, Self::Problem>;

    /// Uses what was understood, instead of what is in force; refuses it if a trial fails.
    fn apply(
        &self,
        _value: &Self::Value,
        _in_force: Option<&Self::Value>,
    ) -> impl Future<Output = Result<(), Self::Problem>> + Send {
        info!("{} read again", Self::WHAT);
        std::future::ready(Ok(()))
    }

    /// Reports what is wrong.
    fn complain(&self, problem: &Self::Problem, _in_force: bool) {
        warn!(
            "{} not usable, keeping the last good content: {problem}",
            Self::WHAT
        );
    }

    /// How long a problem is not reported while something is in force: a file may be half written.
    fn patience(&self, _problem: &Self::Problem) -> Duration {
        Duration::ZERO
    }

    /// When the same is tried again after so many failures; none: when it is another.
    fn retry(&self, _problem: &Self::Problem, _failures: u32) -> Option<Duration> {
        None
    }

    /// What it says now, to begin with.
    fn load(&self) -> Result<First<Self>, Self::Problem> {
        let raw = self.read()?;
        let value = self.check(&raw)?;
        Ok((Some(raw), value))
    }
}

/// What is in force at the start, and what it was read from; none: the first look decides.
pub type First<S> = (Option<<S as Source>::Raw>, <S as Source>::Value);

/// The last good content of a source.
pub struct Reloaded<S: Source> {
    source: Arc<S>,
    content: Mutex<Content<S>>,
    /// One look at a time: whoever comes meanwhile waits for it.
    seen: tokio::sync::Mutex<Seen<S>>,
}

struct Content<S: Source> {
    in_force: Result<Arc<S::Value>, Arc<S::Problem>>,
    wrong: Option<Arc<S::Problem>>,
}

struct Seen<S: Source> {
    raw: Option<S::Raw>,
    /// Why that was refused, how often, and when it is tried again.
    refused: Option<Arc<S::Problem>>,
    failures: u32,
    next: Option<Instant>,
    /// Since when patience keeps a problem from being reported.
    since: Instant,
    complaint: Option<String>,
}

impl<S: Source> Reloaded<S> {
    /// Reads it, blocking; there is no start with something wrong.
    pub fn begin(source: S) -> Result<Arc<Self>, S::Problem> {
        let first = source.load()?;
        Ok(Arc::new(Self::starting(source, Ok(first))))
    }

    /// Begins with that, or without anything.
    pub fn starting(source: S, first: Result<First<S>, S::Problem>) -> Self {
        let (raw, in_force) = match first {
            Ok((raw, value)) => (raw, Ok(Arc::new(value))),
            Err(problem) => (None, Err(Arc::new(problem))),
        };
        let wrong = in_force.as_ref().err().cloned();
        Self {
            source: Arc::new(source),
            content: Mutex::new(Content { in_force, wrong }),
            seen: tokio::sync::Mutex::new(Seen {
                raw,
                refused: None,
                failures: 0,
                next: None,
                since: Instant::now(),
                complaint: None,
            }),
        }
    }

    /// What is in force, or why there is nothing.
    pub fn now(&self) -> Result<Arc<S::Value>, Arc<S::Problem>> {
        self.content().in_force.clone()
    }

    /// What is wrong with the source now, whatever is in force.
    pub fn wrong(&self) -> Option<Arc<S::Problem>> {
        self.content().wrong.clone()
    }

    /// Looks again and again, until the result is dropped. Needs a tokio runtime.
    pub fn follow(self: &Arc<Self>) -> Background {
        let this = Arc::clone(self);
        Background::start(async move {
            loop {
                sleep(S::EVERY).await;
                this.look().await;
            }
        })
    }

    /// Looks at once, and uses what is new and good.
    pub async fn look(&self) {
        let mut seen = self.seen.lock().await;
        let source = Arc::clone(&self.source);
        // It fails only while the process ends.
        let Ok(read) = tokio::task::spawn_blocking(move || source.read()).await else {
            return;
        };
        let wrong = match read {
            Err(problem) => Some(Arc::new(problem)),
            Ok(raw) => {
                self.compare(&mut seen, raw).await;
                seen.refused.clone()
            }
        };
        self.report(&mut seen, wrong);
    }

    async fn compare(&self, seen: &mut Seen<S>, raw: S::Raw) {
        if seen.raw.as_ref() != Some(&raw) {
            // What was changed and is still wrong is reported again.
            (seen.failures, seen.complaint) = (0, None);
        } else if seen.next.is_none_or(|next| Instant::now() < next) {
            return;
        }
        // If this is cancelled, the next look begins anew.
        seen.raw = None;
        let refused = self.take(&raw).await.err();
        let pause = refused
            .as_ref()
            .and_then(|why| self.source.retry(why, seen.failures));
        seen.next = pause.map(|pause| Instant::now() + pause);
        seen.failures += 1;
        seen.refused = refused.map(Arc::new);
        seen.raw = Some(raw);
    }

    async fn take(&self, raw: &S::Raw) -> Result<(), S::Problem> {
        let value = self.source.check(raw)?;
        let in_force = self.now().ok();
        self.source.apply(&value, in_force.as_deref()).await?;
        self.content().in_force = Ok(Arc::new(value));
        Ok(())
    }

    fn report(&self, seen: &mut Seen<S>, wrong: Option<Arc<S::Problem>>) {
        let mut content = self.content();
        content.wrong.clone_from(&wrong);
        let (is_in_force, Some(problem)) = (content.in_force.is_ok(), wrong) else {
            (seen.since, seen.complaint) = (Instant::now(), None);
            return;
        };
        if !is_in_force {
            content.in_force = Err(Arc::clone(&problem));
        }
        drop(content);
        let patience = self.source.patience(&problem);
        if patience.is_zero() {
            seen.since = Instant::now();
        }
        let text = problem.to_string();
        let is_due = !is_in_force || seen.since.elapsed() >= patience;
        if is_due && seen.complaint.as_ref() != Some(&text) {
            self.source.complain(&problem, is_in_force);
            seen.complaint = Some(text);
        }
    }

    fn content(&self) -> MutexGuard<'_, Content<S>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SmallFile;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A file with a number. Odd ones are refused, those above 100 only at first.
    struct Number {
        file: SmallFile,
        log: Mutex<Vec<String>>,
    }

    impl Number {
        fn log(&self, line: String) {
            self.log.lock().unwrap().push(line);
        }
    }

    impl Source for Number {
        type Raw = String;
        type Value = u32;
        type Problem = String;

        fn read(&self) -> Result<String, String> {
            self.file.text().map_err(|error| error.to_string())
        }

        fn check(&self, text: &String) -> Result<u32, String> {
            text.parse().map_err(|_| format!("{text} is no number"))
        }

        async fn apply(&self, number: &u32, in_force: Option<&u32>) -> Result<(), String> {
            let tried = format!("try {number} after {in_force:?}");
            let tries = self
                .log
                .lock()
                .unwrap()
                .iter()
                .filter(|line| **line == tried)
                .count();
            self.log(tried);
            let is_good = number.is_multiple_of(2) || (*number > 100 && tries == 3);
            is_good
                .then_some(())
                .ok_or_else(|| format!("{number} is odd"))
        }

        fn complain(&self, problem: &String, in_force: bool) {
            self.log(format!("{problem}, in force: {in_force}"));
        }

        fn patience(&self, problem: &String) -> Duration {
            let is_odd = problem.ends_with("odd");
            if is_odd { Duration::ZERO } else { PATIENCE }
        }

        fn retry(&self, problem: &String, failures: u32) -> Option<Duration> {
            let is_odd = problem.ends_with("odd");
            is_odd.then(|| Duration::from_secs(10) * 2_u32.pow(failures))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_good_is_used_and_what_is_wrong_changes_nothing_and_is_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("number");
        let source = Number {
            file: SmallFile::new(&path, 8),
            log: Mutex::default(),
        };
        let missing = source.load();
        let number = Arc::new(Reloaded::starting(source, missing));
        assert!(number.now().unwrap_err().contains("No such file"));
        let following = number.follow();
        let (moment, long) = (Number::EVERY * 2, PATIENCE * 2);
        let too_large = "file too large, in force: true";
        for (text, wait, good, wrong, log) in [
            (
                "one",
                moment,
                None,
                Some("one is no number"),
                &["one is no number, in force: false"][..],
            ),
            ("one", long, None, Some("one is no number"), &[]),
            ("2", moment, Some(2), None, &["try 2 after None"]),
            ("half", moment, Some(2), Some("half is no number"), &[]),
            ("4", moment, Some(4), None, &["try 4 after Some(2)"]),
            (
                "123456789",
                long,
                Some(4),
                Some("file too large"),
                &[too_large],
            ),
            ("4", moment, Some(4), None, &[]),
            (
                "123456789",
                long,
                Some(4),
                Some("file too large"),
                &[too_large],
            ),
            (
                "5",
                moment,
                Some(4),
                Some("5 is odd"),
                &["try 5 after Some(4)", "5 is odd, in force: true"],
            ),
            // After 10 s and 20 s.
            (
                "5",
                moment * 3,
                Some(4),
                Some("5 is odd"),
                &["try 5 after Some(4)"; 2],
            ),
            (
                "7",
                moment,
                Some(4),
                Some("7 is odd"),
                &["try 7 after Some(4)", "7 is odd, in force: true"],
            ),
            ("6", moment, Some(6), None, &["try 6 after Some(4)"]),
        ] {
            std::fs::write(&path, text).unwrap();
            sleep(wait).await;
            let (now, is_wrong) = (number.now().ok(), number.wrong());
            assert_eq!(now.as_deref(), good.as_ref(), "{text}");
            assert_eq!(is_wrong.as_deref().map(String::as_str), wrong, "{text}");
            let lines = std::mem::take(&mut *number.source.log.lock().unwrap());
            assert_eq!(lines, log, "{text}");
        }
        drop(following);
        std::fs::write(&path, "101").unwrap();
        sleep(long).await;
        assert_eq!(*number.now().unwrap(), 6, "nobody looks");
        for _ in 0..4 {
            number.look().await;
            sleep(long * 2).await;
        }
        assert_eq!(*number.now().unwrap(), 101, "allowed at last");
    }
}
