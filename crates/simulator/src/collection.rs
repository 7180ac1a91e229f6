//! Things by id, listed in the order in which they were made.

use std::collections::BTreeMap;

/// Things by id, listed in the order in which they were made.
#[derive(Debug)]
pub struct Collection<T> {
    places: BTreeMap<String, u64>,
    things: BTreeMap<u64, T>,
    next: u64,
}

impl<T> Default for Collection<T> {
    fn default() -> Self {
        Self {
            places: BTreeMap::new(),
            things: BTreeMap::new(),
            next: 0,
        }
    }
}

impl<T> Collection<T> {
    /// Puts a thing there; one of that id is replaced.
    pub fn insert(&mut self, id: &str, thing: T) {
        let place = *self.places.entry(id.to_owned()).or_insert(self.next);
        self.next += 1;
        self.things.insert(place, thing);
    }

    pub fn get(&self, id: &str) -> Option<&T> {
        self.things.get(self.places.get(id)?)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut T> {
        self.things.get_mut(self.places.get(id)?)
    }

    /// Takes the thing of that id out.
    pub fn remove(&mut self, id: &str) -> Option<T> {
        self.things.remove(&self.places.remove(id)?)
    }

    /// Keeps only what the test wants to keep.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.things.retain(|_, thing| keep(thing));
        let things = &self.things;
        self.places.retain(|_, place| things.contains_key(place));
    }

    pub fn all(&self) -> impl Iterator<Item = &T> + Clone {
        self.things.values()
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.things.values_mut()
    }

    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    pub fn len(&self) -> usize {
        self.things.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_lists_in_the_order_of_making() {
        let mut things = Collection::default();
        for name in ["c", "a", "b"] {
            things.insert(name, name);
        }
        things.remove("a");
        assert_eq!(things.all().copied().collect::<Vec<_>>(), ["c", "b"]);
        assert_eq!((things.get("b"), things.get("a")), (Some(&"b"), None));
        things.retain(|name| *name == "b");
        assert_eq!((things.get("b"), things.get("c")), (Some(&"b"), None));
    }
}
