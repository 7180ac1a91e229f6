//! Which Nodes have which provider ID: of two with the same one, the older Node has the machine.
//!
//! A kubelet may register its Node with any provider ID. The newer Node therefore stays unmanaged until
//! one of them is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_core::Node;
use bowline_core::ownership::machine_key;
use jiff::Timestamp;

use crate::kube::nodes::{NodeChange, Nodes};
use crate::kube::store::Found;

/// The age of a Node, and its uid: the smaller of two is the older.
type Age = (Timestamp, String);

/// The Nodes of each machine. Clones share them. Bounded by the Nodes that there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Machines(Arc<Mutex<MachineIndex>>);

#[derive(Debug, Default)]
struct MachineIndex {
    /// By machine, the names of the Nodes that show it, the oldest first: almost always one.
    claimants: BTreeMap<String, Vec<(Age, String)>>,
    /// The machines of Nodes (by uid) that do not show them yet.
    expected: BTreeMap<String, String>,
    /// Nodes that wait for a cloud, and do not say which machine they have.
    fresh: BTreeSet<Age>,
}

fn age(node: &Node) -> Age {
    (node.created, node.uid.clone())
}

/// Whether both versions of a Node are the same to the index.
fn is_same(before: &Node, after: &Node) -> bool {
    let shown = |it: &Node| (it.created, it.is_uninitialized());
    before.uid == after.uid
        && before.provider_id == after.provider_id
        && shown(before) == shown(after)
}

impl Machines {
    /// Those of these Nodes.
    pub(crate) fn of<'a>(nodes: impl IntoIterator<Item = &'a Arc<Node>>) -> Self {
        let machines = Self::default();
        for node in nodes {
            machines.lock().add(node);
        }
        machines
    }

    /// Those of a store, kept in step with it. Call it before whoever decides listens.
    pub(crate) fn following(nodes: &Nodes) -> Self {
        let machines = Self::default();
        let (index, store) = (machines.clone(), nodes.clone());
        nodes.on_change(move |change| index.take(&store, change));
        for node in nodes.all() {
            machines.lock().add(&node);
        }
        machines
    }

    fn take(&self, nodes: &Nodes, change: &NodeChange) {
        // Most changes are heartbeats.
        if let (Some(before), Some(after)) = (&change.before, &change.after)
            && is_same(before, after)
        {
            return;
        }
        // Who cannot be read lives, and shows what it showed.
        let is_unreadable = matches!(nodes.find(&change.key), Found::Unreadable);
        let mut state = self.lock();
        if let Some(before) = change.before.as_ref().filter(|_| !is_unreadable) {
            state.remove(before, change.after.as_deref());
        }
        if let Some(after) = &change.after {
            state.add(after);
        }
    }

    /// The name of the Node that has the machine which this one shows; none if that is its own.
    pub(crate) fn of_another(&self, node: &Node) -> Option<String> {
        self.holder(node.provider_id.as_deref()?, node)
    }

    /// The name of an older Node that has the machine of that id.
    pub(crate) fn holder(&self, id: &str, node: &Node) -> Option<String> {
        let state = self.lock();
        let claimants = state.claimants.get(&machine_key(id))?;
        let (first, name) = claimants.first()?;
        (*first < age(node)).then(|| name.clone())
    }

    /// The machine of that id was found to be that Node's, which is about to show it.
    pub(crate) fn expect(&self, id: &str, node: &Node) {
        let (key, mut state) = (machine_key(id), self.lock());
        state.forget_expected(node);
        state.expected.insert(node.uid.clone(), key.clone());
        state.claim(key, node);
    }

    /// The uids of older Nodes that wait for a cloud and do not say which machine they have.
    pub(crate) fn older_fresh(&self, node: &Node) -> Vec<String> {
        let state = self.lock();
        let older = state.fresh.range(..age(node));
        older.map(|(_, uid)| uid.clone()).collect()
    }

    /// The names of all Nodes that show the same machine as this one, itself apart.
    pub(crate) fn rivals(&self, node: &Node) -> Vec<String> {
        let Some(id) = &node.provider_id else {
            return Vec::new();
        };
        let state = self.lock();
        let claimants = state.claimants.get(&machine_key(id)).into_iter().flatten();
        let others = claimants.filter(|((_, uid), _)| *uid != node.uid);
        others.map(|(_, name)| name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, MachineIndex> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MachineIndex {
    fn add(&mut self, node: &Node) {
        match &node.provider_id {
            Some(id) => {
                self.forget_expected(node);
                self.claim(machine_key(id), node);
            }
            None if node.is_uninitialized() => drop(self.fresh.insert(age(node))),
            None => {}
        }
    }

    /// What is expected of a Node that stays is still expected.
    fn remove(&mut self, node: &Node, after: Option<&Node>) {
        self.fresh.remove(&age(node));
        if let Some(id) = &node.provider_id {
            self.unclaim(&machine_key(id), node);
        }
        if after.is_none_or(|after| after.uid != node.uid) {
            self.forget_expected(node);
        }
    }

    fn claim(&mut self, key: String, node: &Node) {
        let age = age(node);
        let claimants = self.claimants.entry(key).or_default();
        if let Err(place) = claimants.binary_search_by(|(other, _)| other.cmp(&age)) {
            claimants.reserve_exact(1);
            claimants.insert(place, (age, node.name.clone()));
        }
    }

    fn unclaim(&mut self, key: &str, node: &Node) {
        if let Some(claimants) = self.claimants.get_mut(key) {
            claimants.retain(|((_, uid), _)| *uid != node.uid);
            if claimants.is_empty() {
                self.claimants.remove(key);
            }
        }
    }

    fn forget_expected(&mut self, node: &Node) {
        if let Some(key) = self.expected.remove(&node.uid) {
            self.unclaim(&key, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::objects::NodeObject;

    fn node(name: &str, age: i64, id: Option<&str>) -> Arc<Node> {
        let mut node = Node::from(NodeObject::default());
        name.clone_into(&mut node.name);
        node.uid = format!("uid-{name}");
        node.created = Timestamp::from_second(1000 - age).unwrap();
        node.provider_id = id.map(str::to_owned);
        Arc::new(node)
    }

    #[test]
    fn proof_case_48_the_older_of_two_nodes_has_the_machine_however_its_id_is_written() {
        let id = "cloudscale://3F9B1C52-6a7d-4e08-9c41-d2f0a8b7e613";
        let (old, new) = (
            node("cp-1", 10, Some(id)),
            node(
                "w9",
                5,
                Some("cloudscale://3f9b1c526a7d4e089c41d2f0a8b7e613"),
            ),
        );
        let machines = Machines::of([&new, &old]);
        assert_eq!(machines.of_another(&old), None);
        assert_eq!(machines.of_another(&new).as_deref(), Some("cp-1"));
        assert_eq!(machines.rivals(&old), ["w9"]);
        machines.lock().remove(&old, None);
        assert_eq!(machines.of_another(&new), None, "it ends when one is gone");
        for (id, same) in [("demo://a", true), ("demo://A", true), ("demo://b", false)] {
            let (old, new) = (node("a", 2, Some("demo://a")), node("b", 1, Some(id)));
            let machines = Machines::of([&old, &new]);
            assert_eq!(machines.of_another(&new).is_some(), same, "{id}");
        }
    }

    #[test]
    fn proof_case_48_a_machine_that_an_older_node_is_about_to_show_is_not_the_newers() {
        let (old, new) = (node("cp-1", 10, None), node("w9", 5, Some("demo://m")));
        let machines = Machines::of([&old, &new]);
        assert_eq!(machines.of_another(&new), None);
        assert_eq!(machines.holder("demo://m", &old), None, "the older has it");
        machines.expect("demo://m", &old);
        assert_eq!(machines.of_another(&new).as_deref(), Some("cp-1"));
        machines.lock().remove(&old, Some(&old));
        assert!(machines.of_another(&new).is_some(), "it changed, and stays");
        machines.lock().remove(&old, None);
        assert_eq!(machines.of_another(&new), None, "it is gone");
    }
}
