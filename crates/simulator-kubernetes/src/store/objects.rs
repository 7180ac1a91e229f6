//! The view that decisions about access have of the store.

use serde_json::Value;

use super::{State, Store, path};
use crate::auth::Objects;
use crate::kinds::Kind;

impl Objects for Store {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        self.lock()
            .get(kind, &path(namespace, name))
            .map(|object| (*object).clone())
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Value> {
        self.lock()
            .list(kind, namespace)
            .into_iter()
            .map(|object| (*object).clone())
            .collect()
    }

    fn visit(&self, kind: &Kind, namespace: Option<&str>, look: &mut dyn FnMut(&Value)) {
        let objects = self.lock().list(kind, namespace);
        for object in objects {
            look(&object);
        }
    }

    fn look(&self, kind: &Kind, namespace: &str, name: &str, look: &mut dyn FnMut(&Value)) -> bool {
        let object = self.lock().get(kind, &path(namespace, name));
        object.inspect(|object| look(object)).is_some()
    }
}

/// For decisions in the middle of a write, when the store is locked.
impl Objects for State {
    fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        let object = State::get(self, kind, &path(namespace, name))?;
        Some((*object).clone())
    }

    fn list(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Value> {
        let objects = State::list(self, kind, namespace).into_iter();
        objects.map(|object| (*object).clone()).collect()
    }

    fn visit(&self, kind: &Kind, namespace: Option<&str>, look: &mut dyn FnMut(&Value)) {
        for object in State::list(self, kind, namespace) {
            look(&object);
        }
    }
}
