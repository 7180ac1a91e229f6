//! Which keys share workers: those of one cloud.

use std::fmt;

use bowline_core::CloudName;

/// Decides about the cloud of a key; none if that is open, or several clouds have to do with it.
type Decide<K> = Box<dyn Fn(&K) -> Option<CloudName> + Send + Sync>;

/// The lanes of a queue: one for each cloud, and a common one for keys that no single cloud has to do with. Where there
/// are fewer than two clouds there is one lane, because nobody is to be kept apart.
///
/// As many as there are clouds, and those are limited where they are configured.
pub struct Lanes<K> {
    clouds: Vec<CloudName>,
    decide: Decide<K>,
}

impl<K> Lanes<K> {
    /// One lane for all.
    pub fn one() -> Self {
        Self {
            clouds: Vec::new(),
            decide: Box::new(|_| None),
        }
    }

    /// A lane for each of these clouds. `decide` says which one a key has to do with; it makes no call, and it adds
    /// no key.
    pub fn of_clouds(
        clouds: impl IntoIterator<Item = CloudName>,
        decide: impl Fn(&K) -> Option<CloudName> + Send + Sync + 'static,
    ) -> Self {
        Self {
            clouds: clouds.into_iter().collect(),
            decide: Box::new(decide),
        }
    }

    pub(super) fn count(&self) -> usize {
        match self.clouds.len() {
            0 | 1 => 1,
            several => several + 1,
        }
    }

    pub(super) fn of(&self, key: &K) -> usize {
        let common = self.count() - 1;
        if common == 0 {
            return common;
        }
        let cloud = (self.decide)(key);
        let lane = cloud.and_then(|cloud| self.clouds.iter().position(|it| *it == cloud));
        lane.unwrap_or(common)
    }
}

impl<K> fmt::Debug for Lanes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.clouds).finish()
    }
}
