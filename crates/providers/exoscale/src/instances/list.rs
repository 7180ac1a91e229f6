//! All instances of a zone.

use uuid::Uuid;

use crate::api::Instance;

/// The instances of a list, in the order of their ids: one allocation for thousands of them.
#[derive(Debug, Default)]
pub(crate) struct InstanceList(Vec<Instance>);

impl InstanceList {
    /// These; of two with one id the later counts.
    pub(crate) fn new(mut instances: Vec<Instance>) -> Self {
        instances.reverse();
        instances.sort_by_key(|it| it.id);
        instances.dedup_by_key(|it| it.id);
        Self(instances)
    }

    pub(crate) fn get(&self, id: Uuid) -> Option<&Instance> {
        let place = self.0.binary_search_by_key(&id, |it| it.id).ok()?;
        self.0.get(place)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Instance> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
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
