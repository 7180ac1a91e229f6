//! Decides what becomes of an event: written, counted onto an earlier one, or dropped.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::lru::Lru;

/// Distinct messages of one kind from which on they are combined.
const COMBINE_FROM: usize = 10;
/// A pause after which the counting of distinct messages starts anew.
const COMBINE_WINDOW: Duration = Duration::from_secs(600);
/// What a combined event's message starts with.
const COMBINED: &str = "(combined from similar events): ";
/// Events per source, object and type in a burst.
const SPAM_BURST: f64 = 25.0;
/// Seconds after which such a source may write one more.
const SPAM_REFILL_SECONDS: f64 = 300.0;
/// Entries in each of the three caches: events of about as many objects are distinguished.
pub(super) const CACHE_LIMIT: usize = 4096;

/// What is to be done with an event.
#[derive(Debug, PartialEq)]
pub enum Action {
    Create(Box<Event>),
    /// Count it onto the event of that name: patch, and if that is gone create `event` anew.
    Patch {
        /// What changes.
        patch: serde_json::Value,
        /// The whole event with its name and count.
        event: Box<Event>,
    },
    /// Too many from there.
    Drop,
}

/// The digest of what makes events the same. The texts themselves would take several kilobytes for each object.
type Key = u64;

/// The memory of what was recorded before.
#[derive(Debug)]
pub struct Correlator {
    kinds: Lru<Key, Kind>,
    seen: Lru<Key, Seen>,
    sources: Lru<Key, Tokens>,
}

#[derive(Debug)]
struct Kind {
    /// Digests of the first messages, at most one less than [`COMBINE_FROM`].
    messages: BTreeSet<u64>,
    last: Timestamp,
}

#[derive(Clone, Debug)]
struct Seen {
    name: String,
    count: i32,
    first: Option<Time>,
}

#[derive(Debug)]
struct Tokens {
    left: f64,
    last: Timestamp,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            kinds: Lru::new(CACHE_LIMIT),
            seen: Lru::new(CACHE_LIMIT),
            sources: Lru::new(CACHE_LIMIT),
        }
    }
}

impl Correlator {
    /// How much is remembered, of all three kinds.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.kinds.len() + self.seen.len() + self.sources.len()
    }

    /// Takes a freshly made event, at the time `now`.
    pub fn observe(&mut self, event: Event, now: Timestamp) -> Action {
        let source = source_key(&event);
        let (event, key) = self.combine(event, now);
        // Counted before the spam filter, so that the count stays true for what comes later.
        let event = self.count(event, key);
        if !self.admit(source, now) {
            return Action::Drop;
        }
        if event.count.unwrap_or(1) > 1 {
            let patch = json!({
                "count": event.count,
                "lastTimestamp": event.last_timestamp,
                "message": event.message,
            });
            let event = Box::new(event);
            Action::Patch { patch, event }
        } else {
            Action::Create(Box::new(event))
        }
    }

    /// From the tenth distinct message on, all further ones share one event; the first nine keep
    /// their own.
    fn combine(&mut self, mut event: Event, now: Timestamp) -> (Event, Key) {
        let key = digest((source_key(&event), &event.reason));
        let message = event.message.clone().unwrap_or_default();
        let text = digest(&message);
        let combined = match self.kinds.get_mut(&key) {
            Some(kind) if since(kind.last, now) <= COMBINE_WINDOW => {
                kind.last = now;
                let full = kind.messages.len() + 1 >= COMBINE_FROM;
                if !full {
                    kind.messages.insert(text);
                }
                !kind.messages.contains(&text)
            }
            _ => {
                let messages = BTreeSet::from([text]);
                let kind = Kind {
                    messages,
                    last: now,
                };
                self.kinds.insert(key, kind);
                false
            }
        };
        if combined {
            event.message = Some(format!("{COMBINED}{message}"));
            return (event, key);
        }
        (event, digest((key, text)))
    }

    fn count(&mut self, mut event: Event, key: Key) -> Event {
        if let Some(seen) = self.seen.get_mut(&key) {
            seen.count = seen.count.saturating_add(1);
            event.metadata.name = Some(seen.name.clone());
            event.first_timestamp.clone_from(&seen.first);
            event.count = Some(seen.count);
        } else {
            let seen = Seen {
                name: event.metadata.name.clone().unwrap_or_default(),
                count: 1,
                first: event.first_timestamp.clone(),
            };
            event.count = Some(1);
            self.seen.insert(key, seen);
        }
        event
    }

    fn admit(&mut self, source: Key, now: Timestamp) -> bool {
        let mut left = SPAM_BURST;
        if let Some(tokens) = self.sources.get_mut(&source) {
            let refill = since(tokens.last, now).as_secs_f64() / SPAM_REFILL_SECONDS;
            left = (tokens.left + refill).min(SPAM_BURST);
        }
        let admitted = left >= 1.0;
        let left = if admitted { left - 1.0 } else { left };
        self.sources.insert(source, Tokens { left, last: now });
        admitted
    }
}

/// Source, object and type.
fn source_key(event: &Event) -> Key {
    let object = &event.involved_object;
    let component = event.source.as_ref().and_then(|s| s.component.as_ref());
    digest([
        component,
        object.api_version.as_ref(),
        object.kind.as_ref(),
        object.namespace.as_ref(),
        object.name.as_ref(),
        object.uid.as_ref(),
        event.type_.as_ref(),
    ])
}

/// The same in every run, unlike a map's hasher.
fn digest(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

fn since(earlier: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(earlier)).unwrap_or_default()
}
