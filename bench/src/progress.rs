//! A line now and then about what takes long, on the standard error.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Between two lines.
const EVERY: Duration = Duration::from_secs(5);

pub(crate) fn say(text: &str) {
    #[expect(clippy::print_stderr, reason = "for who waits in front of it")]
    {
        eprintln!("  … {text}");
    }
}

/// Counts up to a whole.
pub(crate) struct Progress {
    what: &'static str,
    whole: usize,
    done: AtomicUsize,
    said: Mutex<Instant>,
}

impl Progress {
    pub(crate) fn new(what: &'static str, whole: usize) -> Self {
        Self {
            what,
            whole,
            done: AtomicUsize::new(0),
            said: Mutex::new(Instant::now()),
        }
    }

    pub(crate) fn step(&self) {
        self.set(self.done.fetch_add(1, Ordering::Relaxed) + 1);
    }

    pub(crate) fn set(&self, done: usize) {
        let Ok(mut said) = self.said.try_lock() else {
            return;
        };
        if said.elapsed() >= EVERY {
            *said = Instant::now();
            say(&format!("{done} of {} {}", self.whole, self.what));
        }
    }
}
