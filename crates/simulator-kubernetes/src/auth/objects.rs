//! The part of the store that decisions about access read.

use serde_json::Value;

use super::super::kinds::{KINDS, Kind};

/// A read-only view of the stored objects.
pub trait Objects: Send + Sync {
    /// One object; the namespace is empty for cluster-scoped kinds.
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value>;

    /// All objects of a kind, or those of one namespace.
    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Value>;

    /// Shows every object of a kind without copying, where the store can.
    fn visit(&self, kind: &Kind, namespace: Option<&str>, look: &mut dyn FnMut(&Value)) {
        for object in self.list(kind, namespace) {
            look(&object);
        }
    }

    /// Shows one object without copying, where the store can; false if there is none.
    fn look(&self, kind: &Kind, namespace: &str, name: &str, look: &mut dyn FnMut(&Value)) -> bool {
        let object = self.get(kind, namespace, name);
        if let Some(object) = &object {
            look(object);
        }
        object.is_some()
    }
}

/// The row of a kind that is known to be in the table, by name alone.
///
/// Kind names are unique in the table (a test says so), but for Events: of those, the form in which they are kept.
pub(crate) fn kind(name: &str) -> &'static Kind {
    KINDS
        .iter()
        .find(|kind| kind.kind == name)
        .unwrap_or(&KINDS[0])
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kinds;
    use crate::object::text;

    /// Objects in memory, for tests of decisions.
    #[derive(Default)]
    pub(crate) struct Memory(BTreeMap<(&'static str, String, String), Value>);

    impl Memory {
        pub(crate) fn with(objects: impl IntoIterator<Item = Value>) -> Self {
            let mut memory = Self::default();
            for object in objects {
                memory.put(object);
            }
            memory
        }

        pub(crate) fn put(&mut self, object: Value) {
            self.0.insert(key(&object), object);
        }

        pub(crate) fn remove(&mut self, object: &Value) {
            self.0.remove(&key(object));
        }
    }

    fn key(object: &Value) -> (&'static str, String, String) {
        let api = text(object, "/apiVersion");
        let (group, version) = api.split_once('/').unwrap_or(("", api));
        let kind = kinds::by_kind(group, version, text(object, "/kind"))
            .unwrap_or_else(|| panic!("no such kind: {object}"));
        (
            kind.kind,
            text(object, "/metadata/namespace").to_owned(),
            text(object, "/metadata/name").to_owned(),
        )
    }

    impl Objects for Memory {
        fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
            self.0
                .get(&(kind.kind, namespace.to_owned(), name.to_owned()))
                .cloned()
        }

        fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Value> {
            self.0
                .iter()
                .filter(|((name, space, _), _)| {
                    *name == kind.kind && namespace.is_none_or(|wanted| wanted == space)
                })
                .map(|(_, object)| object.clone())
                .collect()
        }
    }

    #[test]
    fn a_kind_name_stands_for_one_row() {
        for row in KINDS.iter().filter(|row| row.group != "events.k8s.io") {
            assert_eq!(kind(row.kind), row);
        }
    }
}
