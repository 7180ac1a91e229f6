//! Annotations that a Lease carries beside the election. They are read and written with it, so that
//! they need no further request and no further permission.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::coordination::v1::Lease;

/// What the keys of annotations begin with that are ours.
pub const NOTES: &str = "account.bowline.dev/";

/// The annotations of one Lease. Clones share them.
#[derive(Clone, Default)]
pub struct LeaseNotes(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    known: BTreeMap<String, String>,
    /// Those that this process has written, and knows better than the Lease.
    own: BTreeSet<String>,
}

impl LeaseNotes {
    /// What is noted under that name.
    pub fn get(&self, name: &str) -> Option<String> {
        self.lock().known.get(name).cloned()
    }

    /// Everything that is noted, by name.
    pub fn all(&self) -> BTreeMap<String, String> {
        self.lock().known.clone()
    }

    /// Notes it; the next write of the Lease carries it.
    pub fn set(&self, name: &str, value: String) {
        let mut notes = self.lock();
        notes.own.insert(name.to_owned());
        notes.known.insert(name.to_owned(), value);
    }

    /// Forgets it; the next write of the Lease carries it no longer.
    pub fn forget(&self, name: &str) {
        let mut notes = self.lock();
        notes.own.insert(name.to_owned());
        notes.known.remove(name);
    }

    /// Learns what the Lease carries.
    pub(crate) fn learn(&self, lease: &Lease) {
        let mut notes = self.lock();
        for (key, value) in lease.metadata.annotations.iter().flatten() {
            if let Some(name) = key.strip_prefix(NOTES)
                && !notes.own.contains(name)
            {
                notes.known.insert(name.to_owned(), value.clone());
            }
        }
    }

    /// Lets the Lease carry what this process has noted.
    pub(super) fn write_to(&self, lease: &mut Lease) {
        let notes = self.lock();
        for name in &notes.own {
            let key = format!("{NOTES}{name}");
            if let Some(value) = notes.known.get(name) {
                let annotations = lease.metadata.annotations.get_or_insert_default();
                annotations.insert(key, value.clone());
            } else if let Some(annotations) = &mut lease.metadata.annotations {
                annotations.remove(&key);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LeaseNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.lock().known.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_keeps_what_others_wrote_and_carries_what_we_noted() {
        let mut lease = Lease::default();
        lease.metadata.annotations = Some(BTreeMap::from([
            ("other".to_owned(), "kept".to_owned()),
            (format!("{NOTES}a"), "old".to_owned()),
            (format!("{NOTES}b"), "b".to_owned()),
        ]));
        let notes = LeaseNotes::default();
        notes.learn(&lease);
        assert_eq!(notes.get("a").as_deref(), Some("old"));
        assert_eq!(notes.get("other"), None);
        notes.set("a", "new".to_owned());
        notes.learn(&lease);
        assert_eq!(notes.get("a").as_deref(), Some("new"));
        notes.write_to(&mut lease);
        let carried = lease.metadata.annotations.unwrap();
        assert_eq!(carried["other"], "kept");
        assert_eq!(carried[&format!("{NOTES}a")], "new");
        assert_eq!(carried[&format!("{NOTES}b")], "b");
        notes.forget("b");
        let mut lease = Lease::default();
        lease.metadata.annotations = Some(carried);
        notes.learn(&lease);
        notes.write_to(&mut lease);
        let carried = lease.metadata.annotations.unwrap();
        assert_eq!(notes.get("b"), None);
        assert!(!carried.contains_key(&format!("{NOTES}b")), "{carried:?}");
        let mut untouched = Lease::default();
        LeaseNotes::default().write_to(&mut untouched);
        assert_eq!(untouched.metadata.annotations, None);
    }
}
