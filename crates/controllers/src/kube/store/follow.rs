//! How a store is kept in step with the API server: a list, then a watch from its version.
//!
//! ```text
//!  first list: consistent ──▶ watch ──▶ cut ──▶ does the server still know our version? ──▶ watch
//!                               │                          │ no: it is behind, or was restored
//!                               └─▶ expired ──▶ list: not older than what is known ──▶ what it lacks is read once more
//!                                                          │ it is behind
//!                                                          └─▶ consistent list: counts, even if it is older
//!                                                               ▲
//!                  the lease of a leader went back in time ─────┘
//! ```
//!
//! A list that may come from a cache proves no absence. So what it lacks, and of which no deletion was seen, stays
//! until a consistent read (one without a version, which no cache may answer) lacks it too.

use std::pin::pin;
use std::time::Duration;

use bowline_core::error_chain;
use bowline_http::Random;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use kube::api::{ListParams, VersionMatch, WatchEvent, WatchParams};
use kube::core::ObjectList;
use kube::{Api, Resource as _, ResourceExt as _};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::events;
use super::failure::{FollowFailure, REQUEST_LIMIT};
use super::listed::{ListStanding, Listed};
use super::versions::number;
use super::{Store, Stored};
use crate::kube::consistent;
use crate::kube::objects::DeserializeGuard;
use crate::metrics::StoreMetrics;

/// The first wait after a failed list or watch; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Long enough to spare a struggling server, short enough to be back soon after it is.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
/// A watch that ends sooner and has brought nothing counts as a failure: otherwise a server that ends all of them
/// would be asked without end.
const SHORTEST_WATCH: Duration = Duration::from_secs(1);
/// A watch that ends after this long has lived its time, which the server ends after 290 s. One that ends sooner was cut,
/// perhaps by a server that was restored.
const WHOLE_WATCH: Duration = Duration::from_secs(280);
/// A watch that is silent for longer is dead: the server ends each after 290 s.
const SILENCE: Duration = Duration::from_secs(295);
/// Objects of one page of a list: some megabytes.
const PAGE: u32 = 500;
/// Pages of one list: half a million objects, which no cluster has. More is a server that begins again and again.
const MOST_PAGES: usize = 1000;
/// Doubtful objects that are read one by one. For more of them one consistent list is cheaper.
const MOST_READ_BY_NAME: usize = 16;
/// The mark of the bookmark that ends a streamed list.
const LIST_END: &str = "k8s.io/initial-events-end";

type Guarded<T> = DeserializeGuard<<T as Stored>::Object>;
type Events<T> = BoxStream<'static, kube::Result<WatchEvent<Guarded<T>>>>;

/// What is doubted about the next list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Doubt {
    None,
    /// Whether what it lacks is gone: it has to be a proof.
    Absence,
    /// The same, and it shows an earlier state: the server was restored.
    Restored,
}

/// What a list has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// Consistent: what it lacks did not exist.
    Proof,
    NotOlderThan(u64),
}

impl Wanted {
    /// The version to ask for; none where it has to be consistent.
    fn version(self) -> Option<String> {
        match self {
            Self::Proof => None,
            Self::NotOlderThan(number) => Some(number.to_string()),
        }
    }
}

/// Keeps one store in step.
pub(super) struct Follower<'a, T: Stored> {
    store: &'a Store<T>,
    api: Api<Guarded<T>>,
    random: Random,
    metrics: &'a StoreMetrics,
    /// Whether lists are asked for as a stream: the server holds no page and we hold no list. Servers before 1.32
    /// need pages.
    streams: bool,
    failures: u32,
    /// The version from which the watch goes on; none: everything is to be listed.
    place: Option<String>,
    doubt: Doubt,
    /// Whether the last watch was cut before its time.
    was_cut: bool,
}

impl<'a, T: Stored> Follower<'a, T> {
    pub(super) fn new(
        store: &'a Store<T>,
        api: Api<Guarded<T>>,
        random: Random,
        metrics: &'a StoreMetrics,
    ) -> Self {
        Self {
            store,
            api,
            random,
            metrics,
            streams: true,
            failures: 0,
            place: None,
            doubt: Doubt::None,
            was_cut: false,
        }
    }

    /// Follows until it is dropped. After a restore it begins anew with what the storage has: a watch could go on from a
    /// version that the server has reached a second time.
    pub(super) async fn run(mut self, restored: &Notify) {
        let mut notified = pin!(restored.notified());
        loop {
            tokio::select! {
                biased;
                () = &mut notified => {
                    notified.set(restored.notified());
                    (self.place, self.doubt) = (None, Doubt::Restored);
                }
                () = self.step() => {}
            }
        }
    }

    async fn step(&mut self) {
        if let Err(failure) = self.round().await {
            let wait = self.react(&failure);
            tokio::time::sleep(wait).await;
        }
    }

    /// One list if one is needed, then one watch until it ends.
    async fn round(&mut self) -> Result<(), FollowFailure> {
        let events = match self.place.clone() {
            Some(version) => {
                if self.was_cut {
                    self.check_place(&version).await?;
                }
                self.watch(&version).await?
            }
            None => self.list().await?,
        };
        self.was_cut = true;
        self.take_changes(events).await
    }

    /// How long to wait before the next round.
    fn react(&mut self, failure: &FollowFailure) -> Duration {
        let what = T::PLURAL;
        if self.streams && self.place.is_none() && failure.refuses_streaming() {
            info!("the API server has no streaming lists; listing {what} in pages");
            self.streams = false;
            return Duration::ZERO;
        }
        if failure.needs_list() {
            self.place = None;
        }
        // A cache that lags, or a restored server: a consistent list tells, and soon. A restored server counts on, and
        // its versions would soon be those that are known.
        if failure.is_behind() {
            self.place = None;
            self.doubt = self.doubt.max(Doubt::Absence);
        }
        if failure.is_no_outage() {
            self.failures = 0;
        }
        let wait = self.wait();
        self.failures += 1;
        warn!(error = %error_chain(failure), ?wait, "watching {what} failed; trying again");
        wait
    }

    fn wait(&self) -> Duration {
        let wait = FIRST_WAIT.saturating_mul(1 << self.failures.min(10));
        self.random.jitter(wait.min(LONGEST_WAIT), 0.5)
    }

    // Lists.

    /// Lists everything, and opens the watch that follows.
    async fn list(&mut self) -> Result<Events<T>, FollowFailure> {
        let newest = self.store.contents().newest;
        let wanted = match newest {
            _ if self.doubt != Doubt::None => Wanted::Proof,
            0 => Wanted::Proof,
            newest => Wanted::NotOlderThan(newest),
        };
        // A cache that is behind cannot stream a consistent list either; a page comes from the storage itself.
        let (mut listed, events) = if self.streams && self.doubt == Doubt::None {
            let (listed, events) = self.list_as_stream(wanted).await?;
            (listed, Some(events))
        } else {
            (self.list_in_pages(wanted).await?, None)
        };
        let standing = match wanted {
            Wanted::Proof if self.doubt == Doubt::Restored => ListStanding::Restored,
            Wanted::Proof if self.is_older(&listed, newest) => ListStanding::Restored,
            Wanted::Proof => ListStanding::Current,
            Wanted::NotOlderThan(_) => {
                self.check_list(&mut listed, newest).await?;
                ListStanding::Current
            }
        };
        let version = listed.version.clone();
        self.store.replace(listed, standing);
        self.report_lost(standing);
        self.place = Some(version.clone());
        (self.failures, self.doubt) = (0, Doubt::None);
        match events {
            Some(events) => Ok(events),
            None => self.watch(&version).await,
        }
    }

    async fn list_as_stream(
        &self,
        wanted: Wanted,
    ) -> Result<(Listed<T>, Events<T>), FollowFailure> {
        let params = watch_params::<T>().initial_events();
        let version = wanted.version().unwrap_or_default();
        let mut events = self.open(&params, &version).await?;
        let mut listed = Listed::default();
        while let Some(event) = next::<T>(&mut events).await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => listed.add(object),
                WatchEvent::Bookmark(mark) if mark.metadata.annotations.contains_key(LIST_END) => {
                    listed.version = mark.metadata.resource_version;
                    return Ok((listed, events));
                }
                WatchEvent::Bookmark(_) | WatchEvent::Deleted(_) => {}
                WatchEvent::Error(status) => return Err(FollowFailure::Status(status)),
            }
        }
        Err(FollowFailure::Cut)
    }

    async fn list_in_pages(&self, wanted: Wanted) -> Result<Listed<T>, FollowFailure> {
        let mut params = ListParams::default().limit(PAGE);
        params.field_selector = T::fields();
        params.resource_version = wanted.version();
        params.version_match = wanted.version().map(|_| VersionMatch::NotOlderThan);
        let mut listed = Listed::default();
        for _ in 0..MOST_PAGES {
            let page: ObjectList<Guarded<T>> = in_time(self.api.list(&params)).await?;
            for object in page.items {
                listed.add(object);
            }
            listed.version = page.metadata.resource_version.unwrap_or_default();
            match page.metadata.continue_ {
                Some(token) if !token.is_empty() => params = params.continue_token(&token),
                _ if listed.version.is_empty() => return Err(FollowFailure::Unversioned),
                _ => return Ok(listed),
            }
        }
        Err(FollowFailure::Endless(MOST_PAGES))
    }

    /// Compares a list with what was known when it was asked for.
    fn is_older(&self, listed: &Listed<T>, newest: u64) -> bool {
        listed.is_older_than(&self.store.contents().seen, newest)
    }

    /// Makes sure that a list shows what is known or something later, and that what it lacks is gone. What is there all
    /// the same is added to it.
    async fn check_list(
        &mut self,
        listed: &mut Listed<T>,
        newest: u64,
    ) -> Result<(), FollowFailure> {
        if self.is_older(listed, newest) {
            let version = listed.version.clone();
            return Err(FollowFailure::Behind { version, newest });
        }
        let doubtful = listed.lacks(&self.store.contents().seen);
        if doubtful.len() > MOST_READ_BY_NAME {
            self.doubt = self.doubt.max(Doubt::Absence);
            return Err(FollowFailure::Doubtful(doubtful.len()));
        }
        for key in doubtful {
            let found = in_time(consistent::find::<T>(&self.api, &key)).await?;
            if number(&found.version).is_some_and(|it| it < newest) {
                let version = found.version;
                return Err(FollowFailure::Behind { version, newest });
            }
            let is_there = found.object.is_some();
            self.metrics.doubt(&resource::<T>(), is_there);
            if let Some(object) = found.object {
                warn!(object = %key, "missing from a list of {}, but it is there", T::PLURAL);
                listed.add(object);
            } else {
                info!(object = %key, "missing from a list of {}, and gone", T::PLURAL);
            }
        }
        Ok(())
    }

    fn report_lost(&self, standing: ListStanding) {
        let lost = self.store.contents().seen.lost.len();
        self.metrics.lost(&resource::<T>(), lost);
        if standing == ListStanding::Restored {
            warn!(
                lost,
                "the API server shows an earlier state of {}: it was probably restored from a backup. Nothing is destroyed \
                 for objects that it lacks",
                T::PLURAL
            );
        }
    }

    // Watches.

    /// Whether the server knows the version at which a watch is to go on. A watch from a version that a restored server
    /// does not have yet would be silent until it has.
    async fn check_place(&self, version: &str) -> Result<(), FollowFailure> {
        let mut params = ListParams::default().limit(1);
        params.field_selector = T::fields();
        params.resource_version = Some(version.to_owned());
        params.version_match = Some(VersionMatch::NotOlderThan);
        in_time(self.api.list_metadata(&params)).await?;
        Ok(())
    }

    async fn watch(&self, version: &str) -> Result<Events<T>, FollowFailure> {
        self.open(&watch_params::<T>(), version).await
    }

    async fn open(&self, params: &WatchParams, version: &str) -> Result<Events<T>, FollowFailure> {
        let request = kube::core::Request::new(self.api.resource_url())
            .watch(params, version)
            .map_err(kube::Error::BuildRequest)?;
        let client = self.api.clone().into_client();
        Ok(in_time(events::open(&client, request, T::PROTOBUF))
            .await?
            .boxed())
    }

    async fn take_changes(&mut self, mut events: Events<T>) -> Result<(), FollowFailure> {
        let (begun, mut is_empty) = (Instant::now(), true);
        while let Some(event) = next::<T>(&mut events).await? {
            self.take(event)?;
            (self.failures, is_empty) = (0, false);
        }
        if is_empty && begun.elapsed() < SHORTEST_WATCH {
            return Err(FollowFailure::Short);
        }
        self.was_cut = begun.elapsed() < WHOLE_WATCH;
        Ok(())
    }

    fn take(&mut self, event: WatchEvent<Guarded<T>>) -> Result<(), FollowFailure> {
        let version = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let version = object.resource_version().unwrap_or_default();
                self.store.take(object);
                version
            }
            WatchEvent::Deleted(object) => {
                let version = object.resource_version().unwrap_or_default();
                let uid = object.uid().unwrap_or_default();
                let key = T::key_in(object.meta());
                self.store.remove(&key, &uid, &version);
                version
            }
            WatchEvent::Bookmark(mark) => {
                let version = mark.metadata.resource_version;
                self.store.contents().note_version(&version);
                version
            }
            WatchEvent::Error(status) => return Err(FollowFailure::Status(status)),
        };
        if version.is_empty() {
            return Err(FollowFailure::Unversioned);
        }
        self.place = Some(version);
        Ok(())
    }
}

fn watch_params<T: Stored>() -> WatchParams {
    WatchParams {
        field_selector: T::fields(),
        ..WatchParams::default()
    }
}

/// The next event; none if the watch has ended or is dead.
async fn next<T: Stored>(
    events: &mut Events<T>,
) -> Result<Option<WatchEvent<Guarded<T>>>, FollowFailure> {
    match timeout(SILENCE, events.next()).await {
        Ok(event) => Ok(event.transpose()?),
        Err(_) => Ok(None),
    }
}

async fn in_time<A>(request: impl Future<Output = kube::Result<A>>) -> Result<A, FollowFailure> {
    let answer = timeout(REQUEST_LIMIT, request).await;
    Ok(answer.map_err(|_| FollowFailure::Late)??)
}

/// What metrics call the kind.
fn resource<T: Stored>() -> String {
    T::Object::plural(&()).into_owned()
}
