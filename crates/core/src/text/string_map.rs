//! A small map of texts, packed: for labels and annotations of thousands of objects.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};

/// Labels or annotations of an object of which there are thousands: all texts in one allocation, and where they end
/// in another. Reading is what it is made for; each change packs it anew.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StringMap {
    /// Keys in order, each with its value after it.
    text: Box<str>,
    /// The end of each key and value in the text.
    ends: Box<[u32]>,
}

impl StringMap {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value of that key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let place = self.place(key).ok()?;
        Some(self.pair(place).1)
    }

    /// Whether there is that key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.ends.len() / 2
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All pairs, in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        (0..self.len()).map(|place| self.pair(place))
    }

    /// All keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.iter().map(|(_, value)| value)
    }

    /// Sets the value of that key.
    pub fn insert(&mut self, key: String, value: String) {
        self.extend([(key, value)]);
    }

    /// Removes that key.
    pub fn remove(&mut self, key: &str) {
        *self = self.iter().filter(|(it, _)| *it != key).collect();
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The same as a map that is made for changes.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        self.iter().map(owned).collect()
    }

    fn place(&self, key: &str) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.pair(middle).0.cmp(key) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    fn pair(&self, place: usize) -> (&str, &str) {
        let end = |number: usize| self.ends[number] as usize;
        let start = if place == 0 { 0 } else { end(2 * place - 1) };
        let (middle, last) = (end(2 * place), end(2 * place + 1));
        (&self.text[start..middle], &self.text[middle..last])
    }

    /// Those pairs, which are in any order; of two with the same key the later counts.
    fn packed<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut packing = Packing::default();
        for (key, value) in pairs.collect::<BTreeMap<_, _>>() {
            packing.add(key);
            packing.add(value);
        }
        packing.finish()
    }
}

/// Texts one after the other.
struct Packing {
    text: String,
    ends: Vec<u32>,
}

/// With room for the labels of a node.
impl Default for Packing {
    fn default() -> Self {
        Self {
            text: String::with_capacity(512),
            ends: Vec::with_capacity(32),
        }
    }
}

impl Packing {
    fn add(&mut self, text: &str) {
        self.text.push_str(text);
        // Objects of the API server have a megabyte at most.
        self.ends
            .push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// The map, packed once more if its keys came in another order than their own.
    fn finish(self) -> StringMap {
        let map = StringMap {
            text: self.text.into(),
            ends: self.ends.into(),
        };
        let is_sorted = map.keys().is_sorted_by(|one, next| one < next);
        if is_sorted {
            map
        } else {
            StringMap::packed(map.iter())
        }
    }
}

impl fmt::Debug for StringMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for StringMap {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut packing = Packing::default();
        for (key, value) in pairs {
            packing.add(key.as_ref());
            packing.add(value.as_ref());
        }
        packing.finish()
    }
}

impl Extend<(String, String)> for StringMap {
    fn extend<I: IntoIterator<Item = (String, String)>>(&mut self, pairs: I) {
        let pairs: Vec<(String, String)> = pairs.into_iter().collect();
        let further = pairs.iter().map(|(key, value)| (&**key, &**value));
        *self = self.iter().chain(further).collect();
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Pairs)
    }
}

/// Reads pairs right into the text.
struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = StringMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringMap, A::Error> {
        let mut packing = Packing::default();
        while map.next_key_seed(Text(&mut packing))?.is_some() {
            map.next_value_seed(Text(&mut packing))?;
        }
        Ok(packing.finish())
    }
}

struct Text<'a>(&'a mut Packing);

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_str(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.add(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_read_from_json_in_any_order_and_the_last_of_a_key_counts() {
        let text = r#"{"b": "2", "a": "eins\n", "": "", "b": "drei", "ü": "\u0000"}"#;
        let map: StringMap = serde_json::from_str(text).unwrap();
        let pairs: Vec<_> = map.iter().collect();
        let wanted = [("", ""), ("a", "eins\n"), ("b", "drei"), ("ü", "\0")];
        assert_eq!(pairs, wanted);
        for wrong in [
            r#"{"a": null}"#,
            r#"{"a": 1}"#,
            r#"{"a": ["b"]}"#,
            "[]",
            "null",
        ] {
            assert!(serde_json::from_str::<StringMap>(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn it_is_what_a_map_is(
            pairs in prop::collection::vec(("[a-cä]{0,2}", "[a-c]{0,2}"), 0..12),
            (key, value) in ("[a-cä]{0,2}", "[a-c]{0,2}"),
        ) {
            let mut map: StringMap = pairs.iter().map(|(key, value)| (key, value)).collect();
            let mut model: BTreeMap<String, String> = pairs.into_iter().collect();
            let same = |map: &StringMap, model: &BTreeMap<String, String>| {
                map.iter().eq(model.iter().map(|(key, value)| (&**key, &**value)))
                    && map.len() == model.len()
                    && map.get(&key) == model.get(&key).map(String::as_str)
                    && map.contains_key(&key) == model.contains_key(&key)
            };
            prop_assert!(same(&map, &model));
            let text = serde_json::to_string(&model).unwrap();
            prop_assert_eq!(&serde_json::from_str::<StringMap>(&text).unwrap(), &map);
            map.insert(key.clone(), value.clone());
            model.insert(key.clone(), value);
            prop_assert!(same(&map, &model));
            map.remove(&key);
            model.remove(&key);
            prop_assert!(same(&map, &model));
        }
    }
}
