//! The objects, kept the way etcd keeps them: one revision for everything, a history of changes
//! per resource, and a floor below which the history is forgotten.

mod objects;
mod pulse;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_http::{Clock, Random};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::events;
use super::kinds::{self, Kind};
use super::object::{seconds, text};
use pulse::Pulses;
pub use pulse::{Gone, Listener, Pulse};

/// Changes remembered per resource. A watcher that falls further behind is cut off and must list
/// again. 2,000 nodes that join with four writes each stay within it.
pub const HISTORY_LIMIT: usize = 16_384;

/// How long an event is kept after its last write, as the API server does by default.
pub const EVENT_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// Names a resource: API group and plural.
pub type Resource = (&'static str, &'static str);

/// The resource of a kind. Events are one, whatever their form.
pub fn resource(kind: &Kind) -> Resource {
    if events::is_newer(kind) {
        ("", kind.plural)
    } else {
        (kind.group, kind.plural)
    }
}

/// The place of an object within its resource, in the order in which etcd sorts keys.
pub fn path(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The revision it made.
    pub revision: u64,
    /// The object's place within its resource.
    pub path: String,
    /// The object before; none if it was created.
    pub before: Option<Arc<Value>>,
    /// The object after; none if it was deleted.
    pub after: Option<Arc<Value>>,
}

/// Everything about one resource.
#[derive(Debug, Default)]
struct Shelf {
    objects: BTreeMap<String, Arc<Value>>,
    history: VecDeque<Change>,
    /// Nobody may start from before this revision.
    floor: u64,
    /// The revision of the latest change that is forgotten. Below the floor after a compaction:
    /// a watcher that has seen it has missed nothing.
    forgotten: u64,
}

/// What the lock protects.
#[derive(Debug)]
pub struct State {
    revision: u64,
    shelves: BTreeMap<Resource, Shelf>,
    /// Events written since [`State::expire`] was last called: path and revision.
    fresh_events: Vec<(String, u64)>,
    /// When events go, unless they are written again: time, path and revision.
    expiries: VecDeque<(Timestamp, String, u64)>,
}

/// The store. All writes pass through one lock, so they are ordered.
#[derive(Debug)]
pub struct Store {
    state: Mutex<State>,
    pulse: Pulses,
    clock: Clock,
    random: Random,
}

impl Store {
    /// An empty store. It starts at revision 1, like an empty etcd.
    pub fn new(clock: Clock, random: Random) -> Self {
        let pulse = Pulses::new(Pulse {
            revision: 1,
            breaks: 0,
        });
        Self {
            state: Mutex::new(State {
                revision: 1,
                shelves: BTreeMap::new(),
                fresh_events: Vec::new(),
                expiries: VecDeque::new(),
            }),
            pulse,
            clock,
            random,
        }
    }

    /// Reads or writes under the lock, then tells the watchers.
    pub fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let before = state.revision;
        let result = work(&mut state);
        let after = state.revision;
        if after != before {
            self.pulse
                .modify(|pulse| pulse.revision = after.max(pulse.revision));
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The latest revision.
    pub fn revision(&self) -> u64 {
        self.lock().revision
    }

    /// Hears of every write.
    pub fn subscribe(&self) -> Listener {
        self.pulse.subscribe()
    }

    /// Ends every watch that is open now.
    pub fn break_watches(&self) {
        self.pulse.modify(|pulse| pulse.breaks += 1);
    }

    /// Forgets the history of everything: older versions answer 410 from now on.
    pub fn compact(&self) {
        self.with(State::compact);
    }

    /// Goes back to an earlier revision, like an etcd that is restored from a backup, and ends every watch. Tells
    /// whether that was possible: not to a revision that is forgotten, or has not been yet.
    pub fn restore(&self, revision: u64) -> bool {
        let mut state = self.lock();
        if !state.restore(revision) {
            return false;
        }
        self.pulse.modify(|pulse| {
            pulse.revision = revision;
            pulse.breaks += 1;
        });
        true
    }

    /// Stores an object as it is, without admission or validation; fills in what every object
    /// has (uid, creation time) if it is missing.
    pub fn put(&self, kind: &Kind, mut object: Value) -> Value {
        let namespace = text(&object, "/metadata/namespace").to_owned();
        let name = text(&object, "/metadata/name").to_owned();
        object["apiVersion"] = kind.api_version().into();
        object["kind"] = kind.kind.into();
        if text(&object, "/metadata/uid").is_empty() {
            object["metadata"]["uid"] = self.random.uuid().into();
        }
        if text(&object, "/metadata/creationTimestamp").is_empty() {
            object["metadata"]["creationTimestamp"] = seconds(self.clock.now()).into();
        }
        self.with(|state| (*state.save(kind, &path(&namespace, &name), object)).clone())
    }

    /// Whether an object exists.
    pub fn contains(&self, kind: &Kind, namespace: &str, name: &str) -> bool {
        self.lock().get(kind, &path(namespace, name)).is_some()
    }

    /// Removes an object at once, whatever its finalizers say. Tells whether it was there.
    pub fn remove(&self, kind: &Kind, namespace: &str, name: &str) -> bool {
        self.with(|state| state.remove(kind, &path(namespace, name)).is_some())
    }

    /// Every object, by resource and path.
    pub fn dump(&self) -> Value {
        let state = self.lock();
        let mut all = serde_json::Map::new();
        for ((group, plural), shelf) in &state.shelves {
            let name = match *group {
                "" => (*plural).to_owned(),
                group => format!("{plural}.{group}"),
            };
            let objects: serde_json::Map<String, Value> = shelf
                .objects
                .iter()
                .map(|(path, object)| (path.clone(), (**object).clone()))
                .collect();
            all.insert(name, objects.into());
        }
        json!({ "revision": state.revision, "objects": all })
    }
}

impl State {
    /// The latest revision.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision up to which this resource's history is forgotten.
    pub fn floor(&self, kind: &Kind) -> u64 {
        self.shelves
            .get(&resource(kind))
            .map_or(0, |shelf| shelf.floor)
    }

    /// The revision of the latest forgotten change of this resource.
    pub fn forgotten(&self, kind: &Kind) -> u64 {
        self.shelves
            .get(&resource(kind))
            .map_or(0, |shelf| shelf.forgotten)
    }

    pub fn get(&self, kind: &Kind, path: &str) -> Option<Arc<Value>> {
        let shelf = self.shelves.get(&resource(kind))?;
        let kept = shelf.objects.get(path)?;
        Some(events::shown(kind, kept))
    }

    /// All objects of a kind, in one namespace or everywhere, by key.
    pub fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Arc<Value>> {
        let Some(shelf) = self.shelves.get(&resource(kind)) else {
            return Vec::new();
        };
        let prefix = prefix(kind, namespace);
        shelf
            .objects
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .map(|(_, object)| events::shown(kind, object))
            .collect()
    }

    /// All objects of a kind as they were at `revision`, with their paths. The caller has checked that the
    /// revision lies neither in the future nor below the floor.
    pub fn list_at(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        revision: u64,
    ) -> BTreeMap<String, Arc<Value>> {
        let Some(shelf) = self.shelves.get(&resource(kind)) else {
            return BTreeMap::new();
        };
        let prefix = prefix(kind, namespace);
        let mut objects: BTreeMap<String, Arc<Value>> = shelf
            .objects
            .range(prefix.clone()..)
            .take_while(|(path, _)| path.starts_with(&prefix))
            .map(|(path, object)| (path.clone(), events::shown(kind, object)))
            .collect();
        for change in shelf.history.iter().rev() {
            if change.revision <= revision {
                break;
            }
            if change.path.starts_with(&prefix) {
                match &change.before {
                    Some(before) => {
                        objects.insert(change.path.clone(), events::shown(kind, before))
                    }
                    None => objects.remove(&change.path),
                };
            }
        }
        objects
    }

    /// At most `limit` changes of a kind after `revision`, oldest first.
    pub fn changes(&self, kind: &Kind, revision: u64, limit: usize) -> Vec<Change> {
        let Some(shelf) = self.shelves.get(&resource(kind)) else {
            return Vec::new();
        };
        let first = shelf
            .history
            .partition_point(|change| change.revision <= revision);
        shelf
            .history
            .iter()
            .skip(first)
            .take(limit)
            .map(|change| {
                let shown = |object: &Option<Arc<Value>>| {
                    let object = object.as_ref();
                    object.map(|object| events::shown(kind, object))
                };
                Change {
                    revision: change.revision,
                    path: change.path.clone(),
                    before: shown(&change.before),
                    after: shown(&change.after),
                }
            })
            .collect()
    }

    /// Writes an object under the next revision.
    pub fn save(&mut self, kind: &Kind, path: &str, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let object = Arc::new(events::kept(kind, object));
        if resource(kind) == ("", "events") {
            self.fresh_events.push((path.to_owned(), self.revision));
        }
        let shelf = self.shelves.entry(resource(kind)).or_default();
        let before = shelf.objects.insert(path.to_owned(), Arc::clone(&object));
        shelf.remember(Change {
            revision: self.revision,
            path: path.to_owned(),
            before,
            after: Some(Arc::clone(&object)),
        });
        events::shown(kind, &object)
    }

    /// Removes an object under the next revision and returns its last state.
    pub fn remove(&mut self, kind: &Kind, path: &str) -> Option<Arc<Value>> {
        let shelf = self.shelves.get_mut(&resource(kind))?;
        let before = shelf.objects.remove(path)?;
        self.revision += 1;
        shelf.remember(Change {
            revision: self.revision,
            path: path.to_owned(),
            before: Some(Arc::clone(&before)),
            after: None,
        });
        Some(events::shown(kind, &before))
    }

    /// Lets go of the events whose life is over.
    pub fn expire(&mut self, now: Timestamp) {
        let Some(kind) = kinds::by_kind("", "v1", "Event") else {
            return;
        };
        let end = now.saturating_add(EVENT_LIFE).unwrap_or(Timestamp::MAX);
        for (path, revision) in self.fresh_events.drain(..) {
            self.expiries.push_back((end, path, revision));
        }
        while self.expiries.front().is_some_and(|(end, ..)| *end <= now) {
            let Some((_, path, revision)) = self.expiries.pop_front() else {
                break;
            };
            let unchanged = self.get(kind, &path).is_some_and(|event| {
                text(&event, "/metadata/resourceVersion") == revision.to_string()
            });
            if unchanged {
                self.remove(kind, &path);
            }
        }
    }

    fn restore(&mut self, revision: u64) -> bool {
        let is_forgotten = self.shelves.values().any(|it| revision < it.forgotten);
        if is_forgotten || revision > self.revision {
            return false;
        }
        for shelf in self.shelves.values_mut() {
            let kept = shelf.history.partition_point(|it| it.revision <= revision);
            for change in shelf.history.drain(kept..).rev() {
                match change.before {
                    Some(before) => shelf.objects.insert(change.path, before),
                    None => shelf.objects.remove(&change.path),
                };
            }
            shelf.floor = shelf.floor.min(revision);
        }
        self.fresh_events.retain(|(_, it)| *it <= revision);
        self.expiries.retain(|(.., it)| *it <= revision);
        self.revision = revision;
        true
    }

    fn compact(&mut self) {
        for kind in kinds::KINDS {
            let shelf = self.shelves.entry(resource(kind)).or_default();
            if let Some(last) = shelf.history.back() {
                shelf.forgotten = last.revision;
            }
            shelf.history.clear();
            shelf.floor = self.revision;
        }
    }
}

impl Shelf {
    fn remember(&mut self, change: Change) {
        self.history.push_back(change);
        if self.history.len() > HISTORY_LIMIT
            && let Some(oldest) = self.history.pop_front()
        {
            self.floor = self.floor.max(oldest.revision);
            self.forgotten = oldest.revision;
        }
    }
}

fn prefix(kind: &Kind, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) if kind.namespaced => format!("{namespace}/"),
        _ => String::new(),
    }
}
