//! State of each cloud that outlives an active configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_core::CloudName;

/// One thing for each cloud, by name. Clones share them. There are as many as clouds that were ever configured in this
/// process.
pub struct PerCloud<T>(Arc<Mutex<BTreeMap<CloudName, Arc<Mutex<T>>>>>);

impl<T> PerCloud<T> {
    /// That of a cloud; `make` makes it if there is none.
    pub fn of(&self, cloud: &CloudName, make: impl FnOnce() -> T) -> Arc<Mutex<T>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = all.entry(cloud.clone());
        one.or_insert_with(|| Arc::new(Mutex::new(make()))).clone()
    }

    /// What was remembered about clouds under their former names is remembered under the new ones.
    pub fn rename(&self, renamed: &BTreeMap<CloudName, CloudName>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let moving: Vec<_> = renamed
            .iter()
            .filter_map(|(before, now)| Some((now.clone(), all.remove(before)?)))
            .collect();
        all.extend(moving);
    }
}

impl<T> Clone for PerCloud<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for PerCloud<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> fmt::Debug for PerCloud<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_set().entries(all.keys()).finish()
    }
}
