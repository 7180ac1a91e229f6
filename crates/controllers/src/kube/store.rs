//! A store of all objects of one kind: one watch fills it, all controllers share it.
//!
//! A store never goes back in time, and nothing leaves it on doubt ([`follow`]). A controller may act on
//! the absence of a key.

mod events;
mod failure;
mod follow;
mod listed;
#[cfg(test)]
mod tests;
mod versions;

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_http::Random;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, SetOnce};
use tracing::{debug, warn};

use self::follow::Follower;
use self::listed::{ListStanding, Listed};
use self::versions::is_newer;
pub(crate) use self::versions::number as version_number;
use crate::kube::objects::DeserializeGuard;
use crate::kube::objects::protobuf::ReadProtobuf;
use crate::metrics::StoreMetrics;
use tokio_util::sync::CancellationToken;

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
    /// How it is read from protobuf, where that is worth having two decoders: watches ask for it then.
    const PROTOBUF: Option<ReadProtobuf<Self::Object>> = None;

    /// A field selector, where only some of them are of use.
    fn fields() -> Option<String> {
        None
    }

    /// A field selector for the one with that key, among those that [`fields`](Self::fields) leaves in.
    fn selector(key: &Self::Key) -> String;

    /// The key in an object's metadata.
    fn key_in(metadata: &ObjectMeta) -> Self::Key;
    fn key(&self) -> Self::Key;
    fn uid(&self) -> &str;
    fn resource_version(&self) -> &str;
    /// The same with another resource version.
    #[must_use]
    fn at_version(self, version: &str) -> Self;
    /// Whether both are the same but for their resource versions.
    fn is_same_but_version(&self, other: &Self) -> bool {
        self.clone().at_version(other.resource_version()) == *other
    }
}

/// What all types with the fields `uid` and `resource_version` have of [`Stored`]: by `name` in the cluster, or by `key`
/// in namespaces.
macro_rules! versioned {
    (name) => {
        fn key_in(metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
            metadata.name.clone().unwrap_or_default()
        }

        fn key(&self) -> String {
            self.name.clone()
        }

        crate::kube::store::versioned!();
    };
    (key) => {
        fn selector(key: &bowline_core::ServiceKey) -> String {
            format!(
                "metadata.namespace={},metadata.name={}",
                key.namespace, key.name
            )
        }

        fn key_in(
            metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
        ) -> bowline_core::ServiceKey {
            bowline_core::ServiceKey {
                namespace: metadata.namespace.clone().unwrap_or_default(),
                name: metadata.name.clone().unwrap_or_default(),
            }
        }

        fn key(&self) -> bowline_core::ServiceKey {
            self.key.clone()
        }

        crate::kube::store::versioned!();
    };
    () => {
        fn uid(&self) -> &str {
            &self.uid
        }

        fn resource_version(&self) -> &str {
            &self.resource_version
        }

        fn at_version(mut self, version: &str) -> Self {
            version.clone_into(&mut self.resource_version);
            self
        }
    };
}
pub(crate) use versioned;

/// One change of one object.
#[derive(Clone, Debug)]
pub struct StoreChange<T: Stored> {
    pub key: T::Key,
    /// The object before; none if it is new, or could not be read.
    pub before: Option<Arc<T>>,
    /// The object now; none if it is gone, or cannot be read.
    pub after: Option<Arc<T>>,
}

impl<T: Stored> StoreChange<T> {
    /// Whether anything changed that a decision could depend on; heartbeats do not.
    pub fn is_relevant(&self) -> bool {
        self.differs(|before, after| !before.is_same_but_version(after))
    }

    /// Whether the object came or went, or the two states of it differ by that comparison.
    pub fn differs(&self, by: impl Fn(&T, &T) -> bool) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => by(before, after),
            _ => true,
        }
    }
}

type Listener<T> = Box<dyn Fn(&StoreChange<T>) + Send + Sync>;

/// Everything of one kind, as seen at one moment.
#[derive(Clone, Debug)]
pub struct StoreView<T: Stored> {
    pub objects: BTreeMap<T::Key, Arc<T>>,
    /// There, but not understood, or [lost](Self::lost): not among the objects, and yet not gone. Each with what
    /// was last known of it, if it ever could be read.
    pub unreadable: BTreeMap<T::Key, Option<Arc<T>>>,
    /// The uids of objects that the API server lacks since it was restored to an earlier state, with their keys.
    /// Nobody deleted them: nothing that was made for them is destroyed.
    pub lost: BTreeMap<String, T::Key>,
}

impl<T: Stored> Default for StoreView<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            lost: BTreeMap::new(),
        }
    }
}

/// What there is under a key.
#[derive(Clone, Debug)]
pub enum Found<T> {
    Object(Arc<T>),
    /// One that cannot be read. Nobody may take it for gone.
    Unreadable,
    /// Nothing since the API server was restored to an earlier state. Nobody deleted it.
    Lost,
    /// Nothing: it was deleted, or never there.
    Nothing,
}

/// The objects as last seen. Clones share them.
pub struct Store<T: Stored>(Arc<Shared<T>>);

struct Shared<T: Stored> {
    /// Under one lock: whoever looks sees an object in one of its maps, never in none because it
    /// is on its way from one to the other.
    contents: Mutex<Contents<T>>,
    listeners: Mutex<Vec<Listener<T>>>,
    /// Wakes those that wait in the order in which they began to.
    synced: SetOnce<()>,
}

struct Contents<T: Stored> {
    seen: StoreView<T>,
    /// The newest version that anything had: a list, an event, the answer to a write. 0 before the first.
    newest: u64,
}

impl<T: Stored> Default for Contents<T> {
    fn default() -> Self {
        Self {
            seen: StoreView::default(),
            newest: 0,
        }
    }
}

impl<T: Stored> Contents<T> {
    fn note_version(&mut self, version: &str) {
        self.newest = self.newest.max(version_number(version).unwrap_or(0));
    }
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
            self.contents().seen.objects.len(),
            T::PLURAL,
            self.is_synced()
        )
    }
}

impl<T: Stored> Default for Store<T> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            contents: Mutex::default(),
            listeners: Mutex::default(),
            synced: SetOnce::new(),
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
        self.contents().seen.objects.get(key).cloned()
    }

    /// All objects, by key.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.contents().seen.objects.values().cloned().collect()
    }

    /// What there is under that key, which may be something that cannot be read.
    pub fn find(&self, key: &T::Key) -> Found<T> {
        let contents = self.contents();
        let seen = &contents.seen;
        match seen.objects.get(key) {
            Some(object) => Found::Object(object.clone()),
            None if !seen.unreadable.contains_key(key) => Found::Nothing,
            None if seen.lost.values().any(|it| it == key) => Found::Lost,
            None => Found::Unreadable,
        }
    }

    /// Whether the object of that uid is lost (see [`StoreView::lost`]), also if there is another of its name by now.
    pub fn is_lost(&self, uid: &str) -> bool {
        self.contents().seen.lost.contains_key(uid)
    }

    /// Everything, what cannot be read included.
    pub fn view(&self) -> StoreView<T> {
        self.contents().seen.clone()
    }

    /// Calls `listener` for every later change. It must not block.
    pub fn on_change(&self, listener: impl Fn(&StoreChange<T>) + Send + Sync + 'static) {
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
        self.contents().note_version(object.resource_version());
        let known = self.get(&object.key());
        if known.is_some_and(|known| known.uid() == object.uid() && !is_newer(&*known, &object)) {
            self.put(object);
        }
    }

    /// Waits until the first list has arrived whole.
    pub async fn synced(&self) {
        self.0.synced.wait().await;
    }

    /// Whether the first list has arrived whole.
    pub fn is_synced(&self) -> bool {
        self.0.synced.initialized()
    }

    /// Keeps the objects in step with the API server until `stop`. `restored` says that the server was restored to an
    /// earlier state, which a watch does not show.
    pub async fn follow(
        &self,
        client: kube::Client,
        random: Random,
        metrics: &StoreMetrics,
        restored: &Notify,
        stop: CancellationToken,
    ) {
        let api: Api<DeserializeGuard<T::Object>> = Api::all(client);
        let follower = Follower::new(self, api, random, metrics);
        stop.run_until_cancelled(follower.run(restored)).await;
    }

    /// Takes what the watch brought, readable or not.
    fn take(&self, object: DeserializeGuard<T::Object>) {
        let key = T::key_in(object.meta());
        match decode::<T>(object) {
            Ok(object) => self.see(object),
            Err(uid) => self.lose_sight(&key, &uid),
        }
    }

    /// Takes an object that the watch brought. One that is older than what is known (by the answer
    /// to a write) is passed over.
    fn see(&self, object: Arc<T>) {
        self.contents().note_version(object.resource_version());
        let known = self.get(&object.key());
        if !known.is_some_and(|known| is_newer(&*known, &object)) {
            self.put(object);
        }
    }

    /// Takes a list for what there is.
    fn replace(&self, listed: Listed<T>, standing: ListStanding) {
        debug!(count = listed.objects.len(), "listed all {}", T::PLURAL);
        let (before, after) = {
            let mut contents = self.contents();
            if standing == ListStanding::Restored {
                contents.newest = 0;
            }
            contents.note_version(&listed.version);
            let after = listed.over(&contents.seen, standing);
            let before = std::mem::replace(&mut contents.seen, after.clone());
            (before, after)
        };
        for (key, object) in &before.objects {
            if !after.objects.contains_key(key) {
                self.notify_of(key, Some(object.clone()), None);
            }
        }
        let newly = after.unreadable.keys().filter(|key| !before.has(key));
        let gone = before.unreadable.keys().filter(|key| !after.has(key));
        for key in newly.chain(gone) {
            self.notify_of(key, None, None);
        }
        for (key, object) in after.objects {
            let before = before.objects.get(&key).cloned();
            self.notify_of(&key, before, Some(object));
        }
        // It may have been before.
        let _ = self.0.synced.set(());
    }

    fn put(&self, object: Arc<T>) {
        let key = object.key();
        let before = {
            let seen = &mut self.contents().seen;
            seen.unreadable.remove(&key);
            seen.lost.remove(object.uid());
            seen.objects.insert(key.clone(), object.clone())
        };
        self.notify_of(&key, before, Some(object));
    }

    /// The object of that uid was deleted. Another one of its name is not.
    fn remove(&self, key: &T::Key, uid: &str, version: &str) {
        let (before, unreadable) = {
            let mut contents = self.contents();
            contents.note_version(version);
            let seen = &mut contents.seen;
            let known = seen.objects.get(key).map(|it| it.uid());
            let last = seen.unreadable.get(key).and_then(Option::as_ref);
            if known
                .or(last.map(|it| it.uid()))
                .is_some_and(|it| it != uid)
            {
                return;
            }
            seen.lost.remove(uid);
            let unreadable = seen.unreadable.remove(key).is_some();
            (seen.objects.remove(key), unreadable)
        };
        if before.is_some() || unreadable {
            self.notify_of(key, before, None);
        }
    }

    /// Something can no longer be read, or not yet. Nobody may act on its absence; what was known
    /// of it is kept for those who would otherwise have to.
    fn lose_sight(&self, key: &T::Key, uid: &str) {
        let (before, is_new) = {
            let seen = &mut self.contents().seen;
            let last = seen.last_known(key, uid);
            let known = last.is_some();
            seen.lost.remove(uid);
            let earlier = seen.unreadable.insert(key.clone(), last);
            let is_new = earlier.is_none_or(|earlier| earlier.is_some() != known);
            (seen.objects.remove(key), is_new)
        };
        if is_new {
            self.notify_of(key, before, None);
        }
    }

    /// Tells of a change. Neither before nor after: it is about something that cannot be read, which
    /// came or went.
    fn notify_of(&self, key: &T::Key, before: Option<Arc<T>>, after: Option<Arc<T>>) {
        let key = key.clone();
        self.notify(&StoreChange { key, before, after });
    }

    fn notify(&self, change: &StoreChange<T>) {
        let listeners = self
            .0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for listener in listeners.iter() {
            listener(change);
        }
    }

    fn contents(&self) -> MutexGuard<'_, Contents<T>> {
        let contents = self.0.contents.lock();
        contents.unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Stored> StoreView<T> {
    /// Whether there is something that cannot be read; what is lost apart.
    pub fn has_unreadable(&self) -> bool {
        let mut unreadable = self.unreadable.values();
        unreadable.any(|last| match last {
            Some(last) => !self.lost.contains_key(last.uid()),
            None => true,
        })
    }

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
