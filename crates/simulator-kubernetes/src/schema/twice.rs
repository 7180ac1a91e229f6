//! Fields that a JSON document gives twice: readers keep the last one, the server tells.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The paths of fields that are given twice, in the order of the document.
pub fn twice(json: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_slice(json);
    let seed = Walk {
        path: String::new(),
        found: &mut found,
    };
    // What is no JSON is refused elsewhere.
    let _ = seed.deserialize(&mut reader);
    found
}

struct Walk<'a> {
    path: String,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = match self.path.as_str() {
                "" => key.clone(),
                path => format!("{path}.{key}"),
            };
            if !seen.insert(key) {
                self.found.push(path.clone());
            }
            let found = &mut *self.found;
            map.next_value_seed(Walk { path, found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut index = 0;
        loop {
            let path = format!("{}[{index}]", self.path);
            let found = &mut *self.found;
            if list.next_element_seed(Walk { path, found })?.is_none() {
                return Ok(());
            }
            index += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_given_twice_are_found() {
        let json = br#"{"a":1,"b":{"c":"x","c":"y"},"d":[{"e":null},{"f":1.5,"f":true}],"a":2}"#;
        assert_eq!(twice(json), ["b.c", "d[1].f", "a"]);
        assert_eq!(twice(b"{\"a\":1,"), [""; 0]);
    }
}
