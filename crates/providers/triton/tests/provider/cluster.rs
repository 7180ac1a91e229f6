//! A cluster: nodes, and what is kept in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bowline_core::{
    BoxFuture, Cluster, ClusterError, Kept, ManagedObject, ManagedObjectKind, Node, ProviderEvent,
    Secret,
};
use tokio::sync::Notify;

use crate::common::{CLUSTER, node};

type Content = BTreeMap<String, Secret>;

#[derive(Default)]
pub(crate) struct FakeCluster {
    nodes: Mutex<BTreeMap<u32, Arc<Node>>>,
    changed: Notify,
    objects: Mutex<BTreeMap<(&'static str, String), Content>>,
    foreign: Mutex<BTreeSet<String>>,
    events: Mutex<Vec<ProviderEvent>>,
    pub(crate) observing: std::sync::atomic::AtomicBool,
    pub(crate) writes: std::sync::atomic::AtomicUsize,
}

impl FakeCluster {
    pub(crate) fn add(&self, number: u32) {
        self.change(number, Some(node(number)));
    }

    pub(crate) fn change(&self, number: u32, node: Option<Node>) {
        let mut nodes = self.nodes.lock().unwrap();
        match node {
            Some(node) => drop(nodes.insert(number, Arc::new(node))),
            None => drop(nodes.remove(&number)),
        }
        self.changed.notify_one();
    }

    pub(crate) fn node(&self, number: u32) -> Node {
        Node::clone(&self.nodes.lock().unwrap()[&number])
    }

    pub(crate) fn object(&self, kind: &'static str, name: &str) -> BTreeMap<String, String> {
        let objects = self.objects.lock().unwrap();
        let data = objects.get(&(kind, name.to_owned()));
        let entry = |(key, value): (&String, &Secret)| (key.clone(), value.reveal().to_owned());
        data.into_iter().flatten().map(entry).collect()
    }

    /// Somebody has made an object of that name.
    pub(crate) fn occupy(&self, name: &str) {
        self.foreign.lock().unwrap().insert(name.to_owned());
    }

    /// `reason kind name: message` of every event.
    pub(crate) fn reported(&self) -> Vec<String> {
        let line = |it: &ProviderEvent| {
            let about = &it.regarding;
            format!(
                "{} {} {}: {}",
                it.reason, about.kind, about.name, it.message
            )
        };
        self.events.lock().unwrap().iter().map(line).collect()
    }
}

impl Cluster for FakeCluster {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn namespace(&self) -> &'static str {
        "kube-system"
    }

    fn address(&self) -> &'static str {
        "https://bowline-metrics.kube-system.svc:10258"
    }

    fn uid(&self) -> BoxFuture<'_, Result<String, ClusterError>> {
        Box::pin(async { Ok(CLUSTER.to_owned()) })
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().unwrap().values().cloned().collect()
    }

    fn knows_all_nodes(&self) -> bool {
        true
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn is_observing(&self) -> bool {
        self.observing.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn read<'a>(
        &'a self,
        kind: ManagedObjectKind,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Content>, ClusterError>> {
        let key = (kind.as_str(), name.to_owned());
        let found = self.objects.lock().unwrap().get(&key).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn keep<'a>(&'a self, object: &'a ManagedObject) -> BoxFuture<'a, Result<Kept, ClusterError>> {
        Box::pin(async move {
            if self.foreign.lock().unwrap().contains(&object.name) {
                let object = object.name.clone();
                return Err(ClusterError::Foreign { object });
            }
            let key = (object.kind.as_str(), object.name.clone());
            let mut objects = self.objects.lock().unwrap();
            if objects.get(&key) == Some(&object.data) {
                return Ok(Kept::Same);
            }
            if self.is_observing() {
                return Ok(Kept::Observed);
            }
            objects.insert(key, object.data.clone());
            let count = &self.writes;
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(Kept::Written)
        })
    }

    fn tell(&self, events: ProviderEvent) {
        self.events.lock().unwrap().push(events);
    }
}
