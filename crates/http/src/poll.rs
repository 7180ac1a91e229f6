//! Waiting until something that a cloud does on its own time is done.

use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use tokio::time::{Instant, sleep};

/// What a look showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// Not yet.
    Pending,
    /// Done, with this result. (A failed operation is an error, not a result.)
    Done(T),
}

/// When to look, and for how long.
#[derive(Clone, Debug)]
pub struct Cadence {
    /// How long to wait before the next look, from the time since the start.
    pub interval: fn(elapsed: Duration) -> Duration,
    /// The waits before the first looks, before `interval` takes over.
    pub first: &'static [Duration],
    /// After this long the poll gives up.
    pub deadline: Duration,
    /// So many looks in a row may fail in a way that may pass.
    pub failures: u32,
}

impl Default for Cadence {
    /// After 0.5 s, 1 s and 2 s, then every 3 s, for at most 10 minutes.
    fn default() -> Self {
        const FIRST: [Duration; 3] = [
            Duration::from_millis(500),
            Duration::from_secs(1),
            Duration::from_secs(2),
        ];
        Self {
            interval: |_| Duration::from_secs(3),
            first: &FIRST,
            deadline: Duration::from_secs(600),
            failures: 4,
        }
    }
}

/// Looks until it is done. The first look comes after the first wait: whoever started the operation
/// has its first state already.
///
/// Giving up after the deadline is [`CloudErrorKind::Unavailable`]: the operation may still end, and
/// the next sync reads what became of it.
pub async fn poll<T, F, R>(what: &str, cadence: &Cadence, mut look: F) -> Result<T, CloudError>
where
    F: FnMut() -> R,
    R: Future<Output = Result<Polled<T>, CloudError>>,
{
    let start = Instant::now();
    let mut failures = 0;
    let mut first = cadence.first.iter();
    loop {
        let elapsed = start.elapsed();
        let wait = first
            .next()
            .copied()
            .unwrap_or_else(|| (cadence.interval)(elapsed));
        if elapsed + wait > cadence.deadline {
            let seconds = cadence.deadline.as_secs_f64();
            let message = format!("{what} is not done after {seconds} s");
            return Err(CloudError::new(CloudErrorKind::Unavailable, message));
        }
        sleep(wait).await;
        match look().await {
            Ok(Polled::Done(result)) => return Ok(result),
            Ok(Polled::Pending) => failures = 0,
            Err(error) if failures < cadence.failures && may_pass(error.kind()) => failures += 1,
            Err(error) => return Err(error),
        }
    }
}

fn may_pass(kind: CloudErrorKind) -> bool {
    matches!(
        kind,
        CloudErrorKind::Unavailable | CloudErrorKind::Throttled | CloudErrorKind::Unknown
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[tokio::test(start_paused = true)]
    async fn looks_come_at_the_given_times() {
        let cadence = Cadence {
            interval: |elapsed| Duration::from_secs(if elapsed.as_secs() < 9 { 3 } else { 60 }),
            ..Cadence::default()
        };
        let start = Instant::now();
        let looks = RefCell::new(Vec::new());
        let result = poll("operation 7", &cadence, || async {
            let mut looks = looks.borrow_mut();
            looks.push(start.elapsed().as_millis());
            Ok(if looks.len() == 7 {
                Polled::Done("done")
            } else {
                Polled::Pending
            })
        });
        assert_eq!(result.await.unwrap(), "done");
        assert_eq!(
            looks.into_inner(),
            [500, 1500, 3500, 6500, 9500, 69_500, 129_500]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_ends_is_given_up_after_the_deadline() {
        let start = Instant::now();
        let pending = || async { Ok(Polled::<()>::Pending) };
        let error = poll("operation 7", &Cadence::default(), pending)
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "operation 7 is not done after 600 s");
        assert_eq!(error.kind(), CloudErrorKind::Unavailable);
        assert!(start.elapsed() <= Duration::from_secs(600));
    }

    #[tokio::test(start_paused = true)]
    async fn looks_may_fail_a_few_times_but_not_for_good() {
        use CloudErrorKind::{Denied, NotFound, Unavailable};
        // (the errors of the looks, what comes of it)
        let rows: [(&[CloudErrorKind], Option<CloudErrorKind>); 4] = [
            (&[Unavailable; 4], None),
            (&[Unavailable; 5], Some(Unavailable)),
            (&[Denied], Some(Denied)),
            (&[Unavailable, NotFound], Some(NotFound)),
        ];
        for (errors, wanted) in rows {
            let left = RefCell::new(errors.iter());
            let cadence = Cadence::default();
            let result = poll("x", &cadence, || async {
                match left.borrow_mut().next() {
                    Some(kind) => Err(CloudError::new(*kind, "look")),
                    None => Ok(Polled::Done(())),
                }
            });
            assert_eq!(result.await.err().map(|error| error.kind()), wanted);
        }
    }
}
