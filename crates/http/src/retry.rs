//! What is tried again, and when. Pure: the client only obeys.

use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// How often and how patiently calls are repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Attempts in all, the first included; at least 1.
    pub attempts: u32,
    /// The first wait; each further one is twice as long.
    pub first_wait: Duration,
    /// No wait is longer, unless the server asks for it.
    pub longest_wait: Duration,
    /// Each wait is stretched by a random part of up to this share.
    pub jitter: f64,
    /// A server that asks for a longer wait than this gets no second attempt from here: the caller
    /// hears the hint and has better things to do than to stand in line.
    pub longest_hint: Duration,
    /// The same for a write that is answered with 503: a server in maintenance says so to every write, and the others
    /// need not ask.
    pub longest_outage: Duration,
}

impl Default for RetryPolicy {
    /// Three attempts, 0.5 s and 1 s (plus up to half) between them, `Retry-After` up to a minute.
    fn default() -> Self {
        Self {
            attempts: 3,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            jitter: 0.5,
            longest_hint: Duration::from_secs(60),
            longest_outage: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// One attempt only.
    pub fn never() -> Self {
        Self {
            attempts: 1,
            ..Self::default()
        }
    }

    fn wait(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(16);
        let wait = self.first_wait.saturating_mul(1 << doublings);
        wait.min(self.longest_wait)
    }
}

/// What sending the same request twice would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It only reads.
    Read,
    /// It writes, and the caller says that writing twice is the same as writing once.
    Repeatable,
    /// It writes.
    Write,
}

/// What came of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// There was no connection: not a byte of the request was sent.
    NotSent,
    /// The server's certificate is not trusted, or the request cannot be built. Nothing was sent.
    Refused,
    /// No complete answer in time.
    TimedOut,
    /// The connection broke after the request may have been sent.
    Broken,
    /// An answer, with the wait it asks for.
    Answered {
        /// The HTTP status.
        status: u16,
        /// `Retry-After`.
        hint: Option<Duration>,
    },
    /// An answer that cannot be used (too long, a link elsewhere).
    Unusable,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Try again after this long, plus jitter.
    Retry(Duration),
    /// Return what there is.
    GiveUp,
}

/// Decides after attempt number `attempt` (from 1). `left` is what remains of the call's deadline:
/// a wait that does not fit is not begun.
pub fn decide(
    attempt: u32,
    effect: Effect,
    outcome: CallOutcome,
    left: Duration,
    policy: &RetryPolicy,
) -> Decision {
    let wait = policy.wait(attempt);
    let (again, wait) = match outcome {
        CallOutcome::Refused | CallOutcome::Unusable => (false, wait),
        CallOutcome::NotSent => (true, wait),
        CallOutcome::TimedOut | CallOutcome::Broken => (effect != Effect::Write, wait),
        CallOutcome::Answered { status, hint } => {
            let again = match status {
                429 | 503 => true,
                // The server does not know the call at all; it will not learn it in a second.
                501 => false,
                408 | 500..=599 => effect != Effect::Write,
                _ => false,
            };
            let patience = match (status, effect) {
                (503, Effect::Write | Effect::Repeatable) => policy.longest_outage,
                _ => policy.longest_hint,
            };
            let patient = hint.is_none_or(|hint| hint <= patience);
            (again && patient, hint.map_or(wait, |hint| hint.max(wait)))
        }
    };
    if again && attempt < policy.attempts && wait < left {
        Decision::Retry(wait)
    } else {
        Decision::GiveUp
    }
}

/// Reads `Retry-After`: seconds, or a date (past dates are "now").
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let date = DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn answered(status: u16) -> CallOutcome {
        CallOutcome::Answered { status, hint: None }
    }

    #[test]
    fn only_what_is_safe_is_repeated() {
        use Effect::{Read, Repeatable, Write};
        // (outcome, reads again, repeatable writes again, writes again)
        let rows = [
            (CallOutcome::NotSent, true, true, true),
            (CallOutcome::Refused, false, false, false),
            (CallOutcome::Unusable, false, false, false),
            (CallOutcome::TimedOut, true, true, false),
            (CallOutcome::Broken, true, true, false),
            (answered(429), true, true, true),
            (answered(503), true, true, true),
            (answered(500), true, true, false),
            (answered(502), true, true, false),
            (answered(504), true, true, false),
            (answered(408), true, true, false),
            (answered(501), false, false, false),
            (answered(200), false, false, false),
            (answered(302), false, false, false),
            (answered(400), false, false, false),
            (answered(401), false, false, false),
            (answered(403), false, false, false),
            (answered(404), false, false, false),
            (answered(409), false, false, false),
            (answered(422), false, false, false),
        ];
        let policy = RetryPolicy::default();
        for (outcome, read, repeatable, write) in rows {
            for (effect, wanted) in [(Read, read), (Repeatable, repeatable), (Write, write)] {
                let got = decide(1, effect, outcome, LONG, &policy);
                let half = Decision::Retry(Duration::from_millis(500));
                let wanted = if wanted { half } else { Decision::GiveUp };
                assert_eq!(got, wanted, "{effect:?} {outcome:?}");
            }
        }
    }

    #[test]
    fn waits_double_up_to_the_longest_and_attempts_end() {
        let policy = RetryPolicy {
            attempts: 9,
            ..RetryPolicy::default()
        };
        let waits: Vec<_> = (1..=10)
            .map(|n| decide(n, Effect::Read, answered(500), LONG, &policy))
            .map(|decision| match decision {
                Decision::Retry(wait) => wait.as_millis(),
                Decision::GiveUp => 0,
            })
            .collect();
        assert_eq!(
            waits,
            [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 0, 0]
        );
        let never = decide(1, Effect::Read, answered(503), LONG, &RetryPolicy::never());
        assert_eq!(never, Decision::GiveUp);
    }

    #[test]
    fn the_servers_wish_is_honoured_up_to_a_minute() {
        let policy = RetryPolicy::default();
        let seconds = |n| Some(Duration::from_secs(n));
        for (hint, left, wanted) in [
            (
                seconds(0),
                LONG,
                Decision::Retry(Duration::from_millis(500)),
            ),
            (seconds(7), LONG, Decision::Retry(Duration::from_secs(7))),
            (seconds(60), LONG, Decision::Retry(Duration::from_secs(60))),
            (seconds(61), LONG, Decision::GiveUp),
            (seconds(7), Duration::from_secs(5), Decision::GiveUp),
        ] {
            let outcome = CallOutcome::Answered { status: 503, hint };
            let got = decide(1, Effect::Write, outcome, left, &policy);
            assert_eq!(got, wanted, "{hint:?}");
        }
    }

    #[test]
    fn retry_after_is_read_in_both_forms() {
        let now: Timestamp = "2026-08-04T10:20:30Z".parse().unwrap();
        let rows = [
            ("120", Some(120)),
            (" 0 ", Some(0)),
            ("Tue, 04 Aug 2026 10:21:30 GMT", Some(60)),
            ("Tue, 04 Aug 2026 10:00:00 GMT", Some(0)),
            ("soon", None),
            ("-5", None),
            ("1.5", None),
            ("", None),
        ];
        for (value, wanted) in rows {
            let wanted = wanted.map(Duration::from_secs);
            assert_eq!(retry_after(value, now), wanted, "{value:?}");
        }
    }
}
