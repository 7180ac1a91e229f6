//! All objects of one kind, kept by one watch and shared by all controllers.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
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
    /// The object before; none if it is new.
    pub before: Option<Arc<T>>,
    /// The object now; none if it is gone.
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

/// The objects as last seen. Clones share them.
pub struct Store<T: Stored>(Arc<Shared<T>>);

struct Shared<T: Stored> {
    objects: Mutex<BTreeMap<T::Key, Arc<T>>>,
    /// There, but not understood: not among the objects, and yet not gone.
    unreadable: Mutex<BTreeSet<T::Key>>,
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
            self.objects().len(),
            T::PLURAL,
            *self.0.synced.borrow()
        )
    }
}

impl<T: Stored> Default for Store<T> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            objects: Mutex::default(),
            unreadable: Mutex::default(),
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
        self.objects().get(key).cloned()
    }

    /// All objects, by key.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.objects().values().cloned().collect()
    }

    /// Whether there is an object of that key which cannot be read. It is not among the objects,
    /// but nobody may take it for gone.
    pub fn is_unreadable(&self, key: &T::Key) -> bool {
        self.unreadable().contains(key)
    }

    /// Whether there is any such object.
    pub fn has_unreadable(&self) -> bool {
        !self.unreadable().is_empty()
    }

    /// Calls `listener` for every later change. It must not block.
    pub fn on_change(&self, listener: impl Fn(&Change<T>) + Send + Sync + 'static) {
        self.0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(listener));
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
                    Some(object) => drop(arriving.objects.insert(key, object)),
                    None => drop(arriving.unreadable.insert(key)),
                }
            }
            Event::InitDone => {
                debug!(count = arriving.objects.len(), "listed all {}", T::PLURAL);
                self.replace(std::mem::take(arriving));
                self.0.synced.send_replace(true);
            }
            Event::Apply(object) => {
                let key = T::key_in(object.meta());
                if let Some(object) = decode::<T>(object) {
                    self.see(object);
                } else {
                    // Nobody may act on what it was before it broke, nor on its absence.
                    self.unreadable().insert(key.clone());
                    self.remove(&key);
                }
            }
            Event::Delete(object) => {
                let key = T::key_in(object.meta());
                if self.unreadable().remove(&key) {
                    self.tell_end(key);
                } else {
                    self.remove(&key);
                }
            }
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
        let known: Vec<T::Key> = self.objects().keys().cloned().collect();
        // First: who hears that something left must be able to ask why.
        let before = std::mem::replace(&mut *self.unreadable(), listed.unreadable.clone());
        for key in known
            .iter()
            .filter(|key| !listed.objects.contains_key(*key))
        {
            self.remove(key);
        }
        for key in before {
            if !listed.unreadable.contains(&key) && !listed.objects.contains_key(&key) {
                self.tell_end(key);
            }
        }
        for object in listed.objects.into_values() {
            self.put(object);
        }
    }

    /// Tells that something is gone which had left the objects before, when it could not be read.
    fn tell_end(&self, key: T::Key) {
        self.tell(&Change {
            key,
            before: None,
            after: None,
        });
    }

    fn put(&self, object: Arc<T>) {
        let key = object.key();
        self.unreadable().remove(&key);
        let before = self.objects().insert(key.clone(), object.clone());
        self.tell(&Change {
            key,
            before,
            after: Some(object),
        });
    }

    fn remove(&self, key: &T::Key) {
        let before = self.objects().remove(key);
        if before.is_some() {
            self.tell(&Change {
                key: key.clone(),
                before,
                after: None,
            });
        }
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

    fn unreadable(&self) -> MutexGuard<'_, BTreeSet<T::Key>> {
        let unreadable = self.0.unreadable.lock();
        unreadable.unwrap_or_else(PoisonError::into_inner)
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<T::Key, Arc<T>>> {
        let objects = self.0.objects.lock();
        objects.unwrap_or_else(PoisonError::into_inner)
    }
}

/// A list that is not whole yet.
struct Arriving<T: Stored> {
    objects: BTreeMap<T::Key, Arc<T>>,
    unreadable: BTreeSet<T::Key>,
}

impl<T: Stored> Default for Arriving<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            unreadable: BTreeSet::new(),
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

fn decode<T: Stored>(object: DeserializeGuard<T::Object>) -> Option<Arc<T>> {
    match object.0 {
        Ok(object) => Some(Arc::new(object.into())),
        Err(broken) => {
            warn!(
                object = %T::key_in(&broken.metadata),
                error = broken.error,
                "cannot read one of the {}; leaving it alone",
                T::PLURAL
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::Nodes;
    use crate::objects::NodeObject;
    use bowline_core::Node;
    use serde_json::json;

    fn node(uid: &str, version: &str) -> Arc<Node> {
        let object =
            json!({ "metadata": { "name": "n1", "uid": uid, "resourceVersion": version } });
        Arc::new(serde_json::from_value::<NodeObject>(object).unwrap().into())
    }

    fn version(nodes: &Nodes) -> Option<String> {
        let node = nodes.get("n1");
        node.map(|it| it.resource_version.clone())
    }

    #[test]
    fn an_older_version_does_not_replace_a_newer_one() {
        let nodes = Nodes::default();
        for (uid, seen, kept) in [
            ("a", "9", "9"),
            ("a", "11", "11"),
            ("a", "10", "11"),
            ("b", "5", "5"),
            ("b", "not a number", "not a number"),
            ("b", "4", "4"),
        ] {
            nodes.see(node(uid, seen));
            assert_eq!(version(&nodes).as_deref(), Some(kept));
        }
    }

    #[test]
    fn the_answer_to_a_write_brings_nothing_back_that_is_gone() {
        let nodes = Nodes::default();
        nodes.note(node("a", "9"));
        assert_eq!(version(&nodes), None);
        nodes.see(node("a", "9"));
        nodes.note(node("a", "10"));
        assert_eq!(version(&nodes).as_deref(), Some("10"));
        nodes.note(node("a", "8"));
        nodes.note(node("another", "12"));
        assert_eq!(version(&nodes).as_deref(), Some("10"));
    }

    #[test]
    fn a_list_replaces_whatever_was_known() {
        let nodes = Nodes::default();
        nodes.see(node("a", "11"));
        nodes.replace(Arriving {
            objects: BTreeMap::from([("n1".to_owned(), node("a", "10"))]),
            ..Arriving::default()
        });
        assert_eq!(version(&nodes).as_deref(), Some("10"));
        nodes.replace(Arriving::default());
        assert_eq!(version(&nodes), None);
    }
}
