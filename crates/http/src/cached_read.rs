//! A read that many ask for and one makes.
//!
//! A list of all machines answers every look-up for some seconds. Whoever asks says how fresh the
//! answer must be; if the last one is too old, one of those who ask reads, and the others wait:
//!
//! ```text
//!  ask ──┐   fresh enough? ── yes ──▶ the last answer
//!  ask ──┼──▶      │ no
//!  ask ──┘    one reads ── Ok ──▶ everybody for whom it is fresh enough
//!                        └ Err ─▶ those who waited, never those who come later
//! ```
//!
//! A reader that is cancelled holds up nobody: the next one who waits reads. What was read with
//! other credentials, or before a write of our own, is void: [`CachedRead::invalidate`].
//!
//! ```
//! # use std::time::Duration;
//! # use bowline_core::CloudError;
//! # use bowline_http::CachedRead;
//! # async fn servers() -> Result<Vec<String>, CloudError> { Ok(Vec::new()) }
//! # async fn example(cache: &CachedRead<Vec<String>>) -> Result<(), CloudError> {
//! let list = cache.recent(Duration::from_secs(5), servers()).await?;
//! println!("{} servers, asked for {:?} ago", list.value.len(), list.asked.elapsed());
//! # Ok(()) }
//! ```

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bowline_core::CloudError;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// Counts what makes earlier answers void. Several caches may share one.
#[derive(Clone, Debug, Default)]
pub struct Generation(Arc<AtomicU64>);

impl Generation {
    /// How often something has become void.
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// What was asked for before is void, except for those who say so: [`Freshness::generation`].
    pub fn advance(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// How fresh an answer must be.
#[derive(Clone, Copy, Debug)]
pub struct Freshness {
    /// Asked for at this moment or later; none: whenever.
    pub since: Option<Instant>,
    /// Asked for in this generation or later; none: nothing has made it void.
    pub generation: Option<u64>,
}

/// What was read, and when.
#[derive(Debug)]
pub struct Cached<T> {
    /// What was read.
    pub value: Arc<T>,
    /// When it was asked for.
    pub asked: Instant,
    /// In which generation it was asked for.
    pub generation: u64,
}

impl<T> Clone for Cached<T> {
    fn clone(&self) -> Self {
        Self {
            value: Arc::clone(&self.value),
            ..*self
        }
    }
}

#[derive(Debug)]
struct State<T> {
    last: Option<Cached<T>>,
    /// The last read, if it failed: its number, and when and in which generation it was asked for.
    failed: Option<(u64, Instant, u64, CloudError)>,
}

/// The last answer to a read, and whoever waits for the next.
#[derive(Debug)]
pub struct CachedRead<T> {
    /// Held while a read is on its way.
    state: Mutex<State<T>>,
    /// Reads that have ended.
    ended: AtomicU64,
    generation: Generation,
}

impl<T> Default for CachedRead<T> {
    fn default() -> Self {
        Self::sharing(&Generation::default())
    }
}

impl<T> CachedRead<T> {
    /// One that becomes void together with others.
    pub fn sharing(generation: &Generation) -> Self {
        Self {
            state: Mutex::new(State {
                last: None,
                failed: None,
            }),
            ended: AtomicU64::new(0),
            generation: generation.clone(),
        }
    }

    /// What was asked for before now is void.
    pub fn invalidate(&self) {
        self.generation.advance();
    }

    /// Whether nothing has made that answer void.
    pub fn is_current(&self, answer: &Cached<T>) -> bool {
        answer.generation == self.generation.now()
    }

    /// The last answer, if it was asked for no longer than `age` ago. One on its way is not waited for.
    pub fn kept(&self, age: Duration) -> Option<Cached<T>> {
        let last = self.state.try_lock().ok()?.last.clone();
        last.filter(|answer| self.is_current(answer) && answer.asked.elapsed() <= age)
    }

    /// An answer that was asked for no longer than `age` ago.
    pub async fn recent(
        &self,
        age: Duration,
        read: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<Cached<T>, CloudError> {
        let freshness = Freshness {
            since: Instant::now().checked_sub(age),
            generation: None,
        };
        self.get(freshness, |_| read).await
    }

    /// An answer that was asked for at that moment or later.
    pub async fn since(
        &self,
        moment: Instant,
        read: impl Future<Output = Result<T, CloudError>>,
    ) -> Result<Cached<T>, CloudError> {
        let freshness = Freshness {
            since: Some(moment),
            generation: None,
        };
        self.get(freshness, |_| read).await
    }

    /// The last answer, however old, unless it is void.
    pub async fn last(&self) -> Option<Cached<T>> {
        let last = self.state.lock().await.last.clone();
        last.filter(|answer| self.is_current(answer))
    }

    /// The last answer if it is fresh enough, or a new one, which `read` makes with the last one at
    /// hand, however old or void that is.
    pub async fn get<F: Future<Output = Result<T, CloudError>>>(
        &self,
        freshness: Freshness,
        read: impl FnOnce(Option<Cached<T>>) -> F,
    ) -> Result<Cached<T>, CloudError> {
        let came = self.ended.load(Ordering::SeqCst);
        let mut state = self.state.lock().await;
        let now = self.generation.now();
        let fits = |asked: Instant, generation: u64| {
            generation >= freshness.generation.unwrap_or(now)
                && freshness.since.is_none_or(|least| asked >= least)
        };
        if let Some(last) = &state.last
            && fits(last.asked, last.generation)
        {
            return Ok(last.clone());
        }
        if let Some((number, asked, generation, error)) = &state.failed
            && *number > came
            && fits(*asked, *generation)
        {
            return Err(error.copy());
        }
        let (asked, generation) = (Instant::now(), now);
        let answer = read(state.last.clone()).await;
        let number = self.ended.fetch_add(1, Ordering::SeqCst) + 1;
        let answer = answer.map(|value| Cached {
            value: Arc::new(value),
            asked,
            generation,
        });
        match &answer {
            Ok(answer) => state.last = Some(answer.clone()),
            Err(error) => state.failed = Some((number, asked, generation, error.copy())),
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use bowline_core::CloudErrorKind;
    use futures::poll;
    use tokio::sync::Notify;
    use tokio::time::advance;

    use super::*;

    const AGE: Duration = Duration::from_secs(5);

    /// A server that counts the reads, and answers once it may.
    #[derive(Default)]
    struct Server {
        reads: Cell<u32>,
        go: Notify,
    }

    impl Server {
        async fn read(&self) -> Result<u32, CloudError> {
            let number = self.reads.get() + 1;
            self.reads.set(number);
            self.go.notified().await;
            Ok(number)
        }

        async fn fail(&self) -> Result<u32, CloudError> {
            self.read().await?;
            Err(CloudError::new(CloudErrorKind::Unavailable, "no"))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_read_serves_all_who_ask_until_it_is_too_old_or_void() {
        let (cache, server) = (CachedRead::default(), Server::default());
        let (mut a, mut b) = (
            Box::pin(cache.recent(AGE, server.read())),
            Box::pin(cache.recent(AGE, server.read())),
        );
        assert!(poll!(&mut a).is_pending() && poll!(&mut b).is_pending());
        assert!(
            cache.kept(AGE).is_none(),
            "one on its way is not waited for"
        );
        server.go.notify_one();
        let (a, b) = (a.await.unwrap(), b.await.unwrap());
        assert!(Arc::ptr_eq(&a.value, &b.value) && cache.is_current(&a));
        advance(AGE).await;
        assert_eq!(*cache.kept(AGE).unwrap().value, 1);
        assert_eq!(*cache.recent(AGE, server.read()).await.unwrap().value, 1);
        server.go.notify_one();
        let now = Instant::now();
        assert_eq!(*cache.since(now, server.read()).await.unwrap().value, 2);
        assert_eq!(*cache.since(now, server.read()).await.unwrap().value, 2);
        let former = cache.kept(AGE).unwrap();
        cache.invalidate();
        assert!(!cache.is_current(&former) && cache.kept(AGE).is_none());
        server.go.notify_one();
        assert_eq!(*cache.recent(AGE, server.read()).await.unwrap().value, 3);
        advance(AGE + Duration::from_nanos(1)).await;
        server.go.notify_one();
        assert_eq!(*cache.recent(AGE, server.read()).await.unwrap().value, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_for_those_who_waited_and_a_cancelled_read_for_nobody() {
        let (cache, server) = (CachedRead::default(), Server::default());
        let mut first = Box::pin(cache.recent(AGE, server.fail()));
        let mut waits = Box::pin(cache.recent(AGE, server.read()));
        assert!(poll!(&mut first).is_pending() && poll!(&mut waits).is_pending());
        server.go.notify_one();
        assert!(first.await.is_err());
        let error = waits.await.unwrap_err();
        assert_eq!(
            (error.kind(), server.reads.get()),
            (CloudErrorKind::Unavailable, 1)
        );
        let mut first = Box::pin(cache.recent(AGE, server.read()));
        let mut waits = Box::pin(cache.recent(AGE, server.read()));
        assert!(poll!(&mut first).is_pending() && poll!(&mut waits).is_pending());
        drop(first);
        server.go.notify_one();
        assert_eq!(*waits.await.unwrap().value, 3, "who waited takes over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_with_other_credentials_is_not_shared() {
        let (cache, server) = (CachedRead::default(), Server::default());
        let mut first = Box::pin(cache.recent(AGE, server.fail()));
        assert!(poll!(&mut first).is_pending());
        cache.invalidate();
        let mut waits = Box::pin(cache.recent(AGE, server.read()));
        assert!(poll!(&mut waits).is_pending());
        server.go.notify_one();
        assert!(first.await.is_err());
        server.go.notify_one();
        assert_eq!(*waits.await.unwrap().value, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_makes_void_what_its_writer_sees_and_the_former_answer_is_at_hand() {
        let writes = Generation::default();
        let (a, b) = (CachedRead::sharing(&writes), CachedRead::sharing(&writes));
        let any = Freshness {
            since: None,
            generation: Some(0),
        };
        let first = a.get(any, |former| async move { Ok(former.is_none()) });
        assert!(*first.await.unwrap().value);
        b.get(any, |_| async { Ok(()) }).await.unwrap();
        let generation = writes.advance();
        let mine = Freshness {
            generation: Some(generation),
            ..any
        };
        let again = a.get(any, |_| async {
            Err(CloudError::new(CloudErrorKind::Unknown, ""))
        });
        assert_eq!(again.await.unwrap().generation, 0, "others need not care");
        let next = a
            .get(mine, |former| async move { Ok(former.is_none()) })
            .await;
        assert!(!*next.unwrap().value);
        assert!(b.kept(AGE).is_none());
    }
}
