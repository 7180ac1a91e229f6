//! A map that keeps only what was used last: the bound on every cache of this crate.

use std::collections::BTreeMap;

/// At most `limit` entries; a further one displaces the one that was not used for longest.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    limit: usize,
    uses: u64,
    entries: BTreeMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
}

impl<K: Ord + Clone, V> Lru<K, V> {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// An empty map of at most `limit` entries (at least one).
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            uses: 0,
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
        }
    }

    /// The value of that key, which counts as a use of it.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (used, value) = self.entries.get_mut(key)?;
        self.uses += 1;
        self.order.remove(used);
        self.order.insert(self.uses, key.clone());
        *used = self.uses;
        Some(value)
    }

    /// Sets the value of that key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        if let Some((used, _)) = self.entries.insert(key, (self.uses, value)) {
            self.order.remove(&used);
        }
        while self.entries.len() > self.limit {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            self.entries.remove(&oldest);
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (used, value) = self.entries.remove(key)?;
        self.order.remove(&used);
        Some(value)
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let order = &mut self.order;
        self.entries.retain(|key, (used, value)| {
            let is_kept = keep(key, value);
            if !is_kept {
                order.remove(used);
            }
            is_kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_not_used_for_longest_is_displaced() {
        let mut recent = Lru::new(2);
        recent.insert("a", 1);
        recent.insert("b", 2);
        assert_eq!(recent.get_mut(&"a"), Some(&mut 1));
        recent.insert("c", 3);
        assert_eq!(recent.get_mut(&"b"), None);
        assert_eq!(recent.get_mut(&"a"), Some(&mut 1));
        recent.insert("a", 4);
        recent.remove(&"c");
        recent.insert("d", 5);
        assert_eq!(recent.get_mut(&"a"), Some(&mut 4));
        recent.retain(|key, _| *key == "d");
        assert_eq!(recent.get_mut(&"a"), None);
        assert_eq!(recent.entries.len(), recent.order.len());
    }
}
