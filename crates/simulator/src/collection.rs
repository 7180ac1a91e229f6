//! Objects by id, listed in the order in which they were made.

use std::collections::BTreeMap;

/// Objects by id, listed in the order in which they were made.
#[derive(Debug)]
pub struct Collection<T> {
    positions: BTreeMap<String, u64>,
    items: BTreeMap<u64, T>,
    next: u64,
}

impl<T> Default for Collection<T> {
    fn default() -> Self {
        Self {
            positions: BTreeMap::new(),
            items: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T> Collection<T> {
    /// Adds an item; one of that id is replaced.
    pub fn insert(&mut self, id: &str, item: T) {
        let position = *self.positions.entry(id.to_owned()).or_insert(self.next);
        self.next += 1;
        self.items.insert(position, item);
    }

    pub fn get(&self, id: &str) -> Option<&T> {
        self.items.get(self.positions.get(id)?)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.items.get_mut(self.positions.get(id)?)
    }

    /// Takes the item of that id out.
    pub fn remove(&mut self, id: &str) -> Option<T> {
        self.items.remove(&self.positions.remove(id)?)
    }

    /// Keeps only what the test wants to keep.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.items.retain(|_, item| keep(item));
        let items = &self.items;
        self.positions
            .retain(|_, position| items.contains_key(position));
    }

    pub fn all(&self) -> impl Iterator<Item = &T> + Clone {
        self.items.values()
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.values_mut()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_lists_in_the_order_of_making() {
        let mut items = Collection::default();
        for name in ["c", "a", "b"] {
            items.insert(name, name);
        }
        items.remove("a");
        assert_eq!(items.all().copied().collect::<Vec<_>>(), ["c", "b"]);
        assert_eq!((items.get("b"), items.get("a")), (Some(&"b"), None));
        items.retain(|name| *name == "b");
        assert_eq!((items.get("b"), items.get("c")), (Some(&"b"), None));
    }
}
