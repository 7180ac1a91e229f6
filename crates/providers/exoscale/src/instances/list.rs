//! All instances of a zone.

use uuid::Uuid;

use crate::api::Instance;

/// The instances of a list. They stay where they were read to: to move thousands of them takes their room once more.
#[derive(Debug, Default)]
pub(crate) struct InstanceList {
    instances: Vec<Instance>,
    /// Their places, in the order of their ids.
    by_id: Vec<u32>,
}

impl InstanceList {
    /// These; of two with one id the later counts.
    pub(crate) fn new(instances: Vec<Instance>) -> Self {
        let id = |place: &u32| instances.get(*place as usize).map(|it| it.id);
        let places = u32::try_from(instances.len()).unwrap_or(u32::MAX);
        let mut by_id: Vec<u32> = (0..places).rev().collect();
        by_id.sort_by_key(id);
        by_id.dedup_by_key(|place| id(place));
        Self { instances, by_id }
    }

    fn at(&self, place: u32) -> Option<&Instance> {
        self.instances.get(place as usize)
    }

    pub(crate) fn get(&self, id: Uuid) -> Option<&Instance> {
        let id_at = |place: &u32| self.at(*place).map(|it| it.id);
        let found = self.by_id.binary_search_by_key(&Some(id), id_at).ok()?;
        self.at(*self.by_id.get(found)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Instance> {
        self.by_id.iter().filter_map(|place| self.at(*place))
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_and_the_later_of_two_counts() {
        let instance = |id: u128, name: &str| {
            let id = Uuid::from_u128(id);
            let text = format!(r#"{{"id": "{id}", "name": "{name}"}}"#);
            serde_json::from_str::<Instance>(&text).unwrap()
        };
        let all = [(3, "c"), (1, "old"), (2, "b"), (1, "new")];
        let list = InstanceList::new(all.map(|(id, name)| instance(id, name)).into());
        let names = [1, 2, 3, 4].map(|id| list.get(Uuid::from_u128(id))?.name.as_deref());
        assert_eq!(names, [Some("new"), Some("b"), Some("c"), None]);
        assert_eq!((list.len(), list.iter().count()), (3, 3));
    }
}
