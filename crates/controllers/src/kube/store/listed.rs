//! A list, and what it proves about what it lacks.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Resource as _;

use super::versions::number;
use super::{StoreView, Stored, decode};
use crate::kube::objects::DeserializeGuard;

/// Objects whose uids are kept after a restore: more than any cluster has Services and nodes. What is beyond would be
/// treated like what was deleted.
const LOST_LIMIT: usize = 100_000;

/// Everything that a list brought.
pub(super) struct Listed<T: Stored> {
    pub(super) objects: BTreeMap<T::Key, Arc<T>>,
    /// The uids of those that cannot be read.
    pub(super) unreadable: BTreeMap<T::Key, String>,
    pub(super) version: String,
}

/// What a list is, compared with what was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListStanding {
    /// What it lacks is gone.
    Current,
    /// The API server was restored to an earlier state: what it lacks is lost, and nobody deleted it.
    Restored,
}

impl<T: Stored> Default for Listed<T> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            version: String::new(),
        }
    }
}

impl<T: Stored> Listed<T> {
    /// Takes one object.
    pub(super) fn add(&mut self, object: DeserializeGuard<T::Object>) {
        let key = T::key_in(object.meta());
        match decode::<T>(object) {
            Ok(object) => drop(self.objects.insert(key, object)),
            Err(uid) => drop(self.unreadable.insert(key, uid)),
        }
    }

    /// Whether it shows an earlier state than what was known when it was asked for: its version is older than
    /// `newest`, or one of its objects is older than it was then.
    pub(super) fn is_older_than(&self, seen: &StoreView<T>, newest: u64) -> bool {
        let is_older = |object: &Arc<T>, known: &Arc<T>| {
            let (then, now) = (
                number(known.resource_version()),
                number(object.resource_version()),
            );
            // What is newer than all that was known was written since.
            then.zip(now)
                .is_some_and(|(then, now)| now < then && then <= newest)
        };
        let mut both = self.objects.iter();
        number(&self.version).is_some_and(|it| it < newest)
            || both.any(|(key, object)| {
                let known = seen.objects.get(key);
                known.is_some_and(|known| is_older(object, known))
            })
    }

    /// What was known to be there and is not in it, lost objects apart: nobody expects those.
    pub(super) fn lacks(&self, seen: &StoreView<T>) -> Vec<T::Key> {
        let lost = |key: &T::Key| seen.lost.values().any(|it| it == key);
        let unreadable = seen.unreadable.keys().filter(|key| !lost(key));
        let known = seen.objects.keys().chain(unreadable);
        known.filter(|key| !self.has(key)).cloned().collect()
    }

    fn has(&self, key: &T::Key) -> bool {
        self.objects.contains_key(key) || self.unreadable.contains_key(key)
    }

    /// What there is, after what was seen before.
    pub(super) fn over(self, before: &StoreView<T>, standing: ListStanding) -> StoreView<T> {
        let last_known =
            |(key, uid): (&T::Key, &String)| (key.clone(), before.last_known(key, uid));
        let mut after = StoreView {
            unreadable: self.unreadable.iter().map(last_known).collect(),
            objects: self.objects,
            lost: before.lost.clone(),
        };
        match standing {
            ListStanding::Current => after.keep_newer(before),
            ListStanding::Restored => {
                let last_known = before.unreadable.values().flatten();
                for known in before.objects.values().chain(last_known) {
                    after.lost.insert(known.uid().to_owned(), known.key());
                }
            }
        }
        let there = after.objects.values().map(|it| it.uid());
        for uid in there.chain(self.unreadable.values().map(String::as_str)) {
            after.lost.remove(uid);
        }
        while after.lost.len() > LOST_LIMIT {
            after.lost.pop_last();
        }
        for (uid, key) in &after.lost {
            let last = before.last_known(key, uid);
            if last.is_some() && !after.objects.contains_key(key) {
                after.unreadable.entry(key.clone()).or_insert(last);
            }
        }
        after
    }
}

impl<T: Stored> StoreView<T> {
    /// Puts back what is known by the answer to a write that was made after the list.
    fn keep_newer(&mut self, before: &Self) {
        for (key, object) in &mut self.objects {
            if let Some(known) = before.objects.get(key)
                && known.uid() == object.uid()
                && super::is_newer(&**known, object)
            {
                *object = known.clone();
            }
        }
    }
}
