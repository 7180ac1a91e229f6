//! All objects of one kind, kept by one watch and shared by all controllers.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::error_chain;
use bowline_http::Random;
use futures::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::stop::Stop;

/// The first wait after a failed list or watch; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Long enough to spare a struggling server, short enough to be back soon after it is.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// What can be kept in a store.
pub trait Stored: Clone + PartialEq + Send + Sync + Sized + 'static {
    /// What it is called as long as it lives.
    type Key: Ord + Clone + fmt::Display + Send + Sync;
    /// How it comes from the API server.
    type Object: Resource<DynamicType = ()>
        + DeserializeOwned
        + Clone
        + fmt::Debug
        + Into<Self>
        + Send
        + Sync
        + 'static;
    /// The word for many of them.
    const PLURAL: &'static str;

    /// A field selector, where only some of them are of use.
    fn fields() -> Option<String> {
        None
    }

    /// The key in an object's metadata.
    fn key_in(metadata: &ObjectMeta) -> Self::Key;
    /// Its key.
    fn key(&self) -> Self::Key;
    /// Its uid.
    fn uid(&self) -> &str;
    /// Its resource version.
    fn resource_version(&self) -> &str;
    /// The same with another resource version.
    #[must_use]
    fn at_version(self, version: &str) -> Self;
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change<T: Stored> {
    /// Its key.
    pub key: T::Key,
    /// The object before; none if it is new, or could not be read.
    pub before: Option<Arc<T>>,
    /// The object now; none if it is gone, or cannot be read.
    pub after: Option<Arc<T>>,
}

impl<T: Stored> Change<T> {
    /// Whether anything changed that a decision could depend on; heartbeats do not.
    pub fn is_relevant(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => {
                T::clone(before).at_version(after.resource_version()) != **after
            }
            _ => true,
        }
    }
}

type Listener<T> = Box<dyn Fn(&Change<T>) + Send + Sync>;

/// Everything of one kind, as seen at one moment.
#[derive(Clone, Debug)]
pub struct Sighting<T: Stored> {
    /// The objects, by key.
    pub objects: BTreeMap<T::Key, Arc<T>>,
    /// There, but not understood: not among the objects, and yet not gone. Each with what was last
    /// known of it, if it ever could be read.
    pub unreadable: BTreeMap<T::Key, Option<Arc<T>>>,
}

impl<T: Stored> Default for Sighting<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            unreadable: BTreeMap::new(),
        }
    }
}

/// What there is under a key.
#[derive(Clone, Debug)]
pub enum Found<T> {
    /// An object.
    Object(Arc<T>),
    /// One that cannot be read. Nobody may take it for gone.
    Unreadable,
    /// Nothing.
    Nothing,
}

/// The objects as last seen. Clones share them.
pub struct Store<T: Stored>(Arc<Shared<T>>);

struct Shared<T: Stored> {
    /// Under one lock: whoever looks sees an object in one of the two, never in neither because it
    /// is on its way from one to the other.
    contents: Mutex<Sighting<T>>,
    listeners: Mutex<Vec<Listener<T>>>,
    synced: watch::Sender<bool>,
}

impl<T: Stored> Clone for Store<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Stored> fmt::Debug for Store<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Store({} {}, synced: {})",
            self.contents().objects.len(),
            T::PLURAL,
            *self.0.synced.borrow()
        )
    }
}

impl<T: Stored> Default for Store<T> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            contents: Mutex::default(),
            listeners: Mutex::default(),
            synced: watch::Sender::new(false),
        }))
    }
}

impl<T: Stored> Store<T> {
    /// The object of that key.
    pub fn get<Q>(&self, key: &Q) -> Option<Arc<T>>
    where
        T::Key: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        self.contents().objects.get(key).cloned()
    }

    /// All objects, by key.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.contents().objects.values().cloned().collect()
    }

    /// What there is under that key, which may be something that cannot be read.
    pub fn find(&self, key: &T::Key) -> Found<T> {
        let contents = self.contents();
        match contents.objects.get(key) {
            Some(object) => Found::Object(object.clone()),
            None if contents.unreadable.contains_key(key) => Found::Unreadable,
            None => Found::Nothing,
        }
    }

    /// Everything, what cannot be read included.
    pub fn sighting(&self) -> Sighting<T> {
        self.contents().clone()
    }

    /// Calls `listener` for every later change. It must not block.
    pub fn on_change(&self, listener: impl Fn(&Change<T>) + Send + Sync + 'static) {
        self.0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(listener));
    }

    /// Calls nobody any more who asked for that so far.
    pub fn forget_listeners(&self) {
        self.0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Takes an object as the API server has given it in answer to a write; the watch brings it
    /// once more. Nothing happens if a later version is known, or none: then it is gone already,
    /// and must not come back.
    pub fn note(&self, object: Arc<T>) {
        let known = self.get(&object.key());
        if known.is_some_and(|known| known.uid() == object.uid() && !is_newer(&*known, &object)) {
            self.put(object);
        }
    }

    /// Waits until the first list has arrived whole.
    pub async fn synced(&self) {
        let mut receiver = self.0.synced.subscribe();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(|synced| *synced).await;
    }

    /// Whether the first list has arrived whole.
    pub fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// Keeps the objects in step with the API server until `stop`.
    pub async fn follow(&self, client: kube::Client, random: Random, stop: Stop) {
        let mut mode = Mode::Streaming;
        let mut failures = 0;
        while !stop.is_given() {
            let api: Api<DeserializeGuard<T::Object>> = Api::all(client.clone());
            let mut events = pin!(watcher::watcher(api, mode.config(T::fields())));
            let mut arriving = Arriving::default();
            loop {
                match stop.unless_given(events.next()).await {
                    None => return,
                    Some(None) => break,
                    Some(Some(Ok(event))) => {
                        failures = 0;
                        self.take(event, &mut arriving);
                    }
                    Some(Some(Err(error))) => {
                        if mode == Mode::Streaming && refuses_streaming(&error) {
                            info!("the API server has no streaming lists; listing in pages");
                            mode = Mode::Paged;
                            break;
                        }
                        if is_expired(&error) {
                            // The server is well; it only wants the list to be made anew.
                            failures = 0;
                        }
                        let wait = wait_after(failures, &random);
                        failures += 1;
                        let what = T::PLURAL;
                        warn!(error = %error_chain(&error), ?wait, "watching {what} failed; trying again");
                        if stop.unless_given(tokio::time::sleep(wait)).await.is_none() {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn take(&self, event: Event<DeserializeGuard<T::Object>>, arriving: &mut Arriving<T>) {
        match event {
            Event::Init => *arriving = Arriving::default(),
            Event::InitApply(object) => {
                let key = T::key_in(object.meta());
                match decode::<T>(object) {
                    Ok(object) => drop(arriving.objects.insert(key, object)),
                    Err(uid) => drop(arriving.unreadable.insert(key, uid)),
                }
            }
            Event::InitDone => {
                debug!(count = arriving.objects.len(), "listed all {}", T::PLURAL);
                self.replace(std::mem::take(arriving));
                self.0.synced.send_replace(true);
            }
            Event::Apply(object) => {
                let key = T::key_in(object.meta());
                match decode::<T>(object) {
                    Ok(object) => self.see(object),
                    Err(uid) => self.lose_sight(&key, &uid),
                }
            }
            Event::Delete(object) => self.remove(&T::key_in(object.meta())),
        }
    }

    /// Takes an object that the watch brought. One that is older than what is known (by the answer
    /// to a write) is passed over.
    fn see(&self, object: Arc<T>) {
        let known = self.get(&object.key());
        if !known.is_some_and(|known| is_newer(&*known, &object)) {
            self.put(object);
        }
    }

    fn replace(&self, listed: Arriving<T>) {
        let (before, after) = {
            let mut contents = self.contents();
            let unreadable = listed.unreadable.into_iter().map(|(key, uid)| {
                let last = contents.last_known(&key, &uid);
                (key, last)
            });
            let after = Sighting {
                unreadable: unreadable.collect(),
                objects: listed.objects,
            };
            (std::mem::replace(&mut *contents, after.clone()), after)
        };
        for (key, object) in &before.objects {
            if !after.objects.contains_key(key) {
                self.tell_of(key, Some(object.clone()), None);
            }
        }
        let newly = after.unreadable.keys().filter(|key| !before.has(key));
        let gone = before.unreadable.keys().filter(|key| !after.has(key));
        for key in newly.chain(gone) {
            self.tell_of(key, None, None);
        }
        for (key, object) in after.objects {
            let before = before.objects.get(&key).cloned();
            self.tell_of(&key, before, Some(object));
        }
    }

    fn put(&self, object: Arc<T>) {
        let key = object.key();
        let before = {
            let mut contents = self.contents();
            contents.unreadable.remove(&key);
            contents.objects.insert(key.clone(), object.clone())
        };
        self.tell_of(&key, before, Some(object));
    }

    fn remove(&self, key: &T::Key) {
        let (before, unreadable) = {
            let mut contents = self.contents();
            let unreadable = contents.unreadable.remove(key).is_some();
            (contents.objects.remove(key), unreadable)
        };
        if before.is_some() || unreadable {
            self.tell_of(key, before, None);
        }
    }

    /// Something can no longer be read, or not yet. Nobody may act on its absence; what was known
    /// of it is kept for those who would otherwise have to.
    fn lose_sight(&self, key: &T::Key, uid: &str) {
        let (before, is_news) = {
            let mut contents = self.contents();
            let last = contents.last_known(key, uid);
            let known = last.is_some();
            let earlier = contents.unreadable.insert(key.clone(), last);
            let is_news = earlier.is_none_or(|earlier| earlier.is_some() != known);
            (contents.objects.remove(key), is_news)
        };
        if is_news {
            self.tell_of(key, before, None);
        }
    }

    /// Tells of a change. Neither before nor after: it is about something that cannot be read, which
    /// came or went.
    fn tell_of(&self, key: &T::Key, before: Option<Arc<T>>, after: Option<Arc<T>>) {
        let key = key.clone();
        self.tell(&Change { key, before, after });
    }

    fn tell(&self, change: &Change<T>) {
        let listeners = self
            .0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for listener in listeners.iter() {
            listener(change);
        }
    }

    fn contents(&self) -> MutexGuard<'_, Sighting<T>> {
        let contents = self.0.contents.lock();
        contents.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Stored> Sighting<T> {
    fn has(&self, key: &T::Key) -> bool {
        self.objects.contains_key(key) || self.unreadable.contains_key(key)
    }

    /// What is known of the object with that uid; another one of the same name is another one.
    fn last_known(&self, key: &T::Key, uid: &str) -> Option<Arc<T>> {
        let unreadable = || self.unreadable.get(key).and_then(Option::as_ref);
        let known = self.objects.get(key).or_else(unreadable);
        known.filter(|it| it.uid() == uid).cloned()
    }
}

/// A list that is not whole yet.
struct Arriving<T: Stored> {
    objects: BTreeMap<T::Key, Arc<T>>,
    /// The uids of those that cannot be read.
    unreadable: BTreeMap<T::Key, String>,
}

impl<T: Stored> Default for Arriving<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            unreadable: BTreeMap::new(),
        }
    }
}

/// Whether `a` is a later version of the same object than `b`; false if that cannot be told.
fn is_newer<T: Stored>(a: &T, b: &T) -> bool {
    let version = |it: &T| it.resource_version().parse::<u64>().ok();
    a.uid() == b.uid() && version(a).zip(version(b)).is_some_and(|(a, b)| a > b)
}

/// How the first list is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As a stream: the server holds no page and we hold no list.
    Streaming,
    /// In pages, as servers before 1.32 need it.
    Paged,
}

impl Mode {
    fn config(self, field_selector: Option<String>) -> watcher::Config {
        let config = watcher::Config {
            field_selector,
            ..watcher::Config::default()
        };
        match self {
            Self::Streaming => config.streaming_lists(),
            Self::Paged => config.any_semantic(),
        }
    }
}

/// A server that knows no streaming lists says that the request is wrong.
fn refuses_streaming(error: &watcher::Error) -> bool {
    matches!(code(error), Some(400 | 422))
}

/// The version to watch from is forgotten: the list is made anew.
fn is_expired(error: &watcher::Error) -> bool {
    code(error) == Some(410)
}

/// What the API server answered, if that is the error.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

fn wait_after(failures: u32, random: &Random) -> Duration {
    let wait = FIRST_WAIT
        .saturating_mul(1 << failures.min(10))
        .min(LONGEST_WAIT);
    random.jitter(wait, 0.5)
}

/// The object, or the uid of one that cannot be read.
fn decode<T: Stored>(object: DeserializeGuard<T::Object>) -> Result<Arc<T>, String> {
    match object.0 {
        Ok(object) => Ok(Arc::new(object.into())),
        Err(broken) => {
            warn!(
                object = %T::key_in(&broken.metadata),
                error = broken.error,
                "cannot read one of the {}; leaving it alone",
                T::PLURAL
            );
            Err(broken.metadata.uid.unwrap_or_default())
        }
    }
}
