//! All nodes of the cluster, kept by one watch and shared by all controllers.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{Node, error_chain};
use bowline_http::Random;
use futures::StreamExt;
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::objects::NodeObject;
use crate::stop::Stop;

/// The first wait after a failed list or watch; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(500);
/// Long enough to spare a struggling server, short enough to be back soon after it is.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// One change of one node.
#[derive(Clone, Debug)]
pub struct NodeChange {
    /// Its name.
    pub name: String,
    /// The node before; none if it is new.
    pub before: Option<Arc<Node>>,
    /// The node now; none if it is gone.
    pub after: Option<Arc<Node>>,
}

impl NodeChange {
    /// Whether anything changed that a decision could depend on; heartbeats do not.
    pub fn is_relevant(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => {
                let versionless = Node {
                    resource_version: after.resource_version.clone(),
                    ..Node::clone(before)
                };
                versionless != **after
            }
            _ => true,
        }
    }
}

type Listener = Box<dyn Fn(&NodeChange) + Send + Sync>;

/// The nodes as last seen. Clones share them.
#[derive(Clone)]
pub struct Nodes(Arc<Shared>);

struct Shared {
    nodes: Mutex<BTreeMap<String, Arc<Node>>>,
    listeners: Mutex<Vec<Listener>>,
    synced: watch::Sender<bool>,
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Nodes({} known, synced: {})",
            self.nodes().len(),
            *self.0.synced.borrow()
        )
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self(Arc::new(Shared {
            nodes: Mutex::default(),
            listeners: Mutex::default(),
            synced: watch::Sender::new(false),
        }))
    }
}

impl Nodes {
    /// The node of that name.
    pub fn get(&self, name: &str) -> Option<Arc<Node>> {
        self.nodes().get(name).cloned()
    }

    /// All nodes, by name.
    pub fn all(&self) -> Vec<Arc<Node>> {
        self.nodes().values().cloned().collect()
    }

    /// Calls `listener` for every later change. It must not block.
    pub fn on_change(&self, listener: impl Fn(&NodeChange) + Send + Sync + 'static) {
        self.0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(listener));
    }

    /// Takes a node as the API server has given it: by the watch, or in answer to a write, which
    /// the watch then brings once more. One that is older than what is known is passed over.
    pub fn note(&self, node: Arc<Node>) {
        let known = self.get(&node.name);
        if !known.is_some_and(|known| is_newer(&known, &node)) {
            self.put(node);
        }
    }

    /// Waits until the first list has arrived whole.
    pub async fn synced(&self) {
        let mut receiver = self.0.synced.subscribe();
        // The sender lives as long as `self`.
        let _ = receiver.wait_for(|synced| *synced).await;
    }

    /// Keeps the nodes in step with the API server until `stop`.
    pub async fn follow(&self, client: kube::Client, random: Random, stop: Stop) {
        let mut mode = Mode::Streaming;
        let mut failures = 0;
        while !stop.is_given() {
            let api: Api<DeserializeGuard<NodeObject>> = Api::all(client.clone());
            let mut events = pin!(watcher::watcher(api, mode.config()));
            let mut arriving = BTreeMap::new();
            loop {
                match stop.unless_given(events.next()).await {
                    None => return,
                    Some(None) => break,
                    Some(Some(Ok(event))) => {
                        failures = 0;
                        self.take(event, &mut arriving);
                    }
                    Some(Some(Err(error))) => {
                        if mode == Mode::Streaming && refuses_streaming(&error) {
                            info!("the API server has no streaming lists; listing in pages");
                            mode = Mode::Paged;
                            break;
                        }
                        if is_expired(&error) {
                            // The server is well; it only wants the list to be made anew.
                            failures = 0;
                        }
                        let wait = wait_after(failures, &random);
                        failures += 1;
                        warn!(error = %error_chain(&error), ?wait, "watching nodes failed; trying again");
                        if stop.unless_given(tokio::time::sleep(wait)).await.is_none() {
                            return;
                        }
                    }
                }
            }
        }
    }

    fn take(
        &self,
        event: Event<DeserializeGuard<NodeObject>>,
        arriving: &mut BTreeMap<String, Arc<Node>>,
    ) {
        match event {
            Event::Init => arriving.clear(),
            Event::InitApply(object) => {
                if let Some(node) = decode(object) {
                    arriving.insert(node.name.clone(), node);
                }
            }
            Event::InitDone => {
                debug!(nodes = arriving.len(), "listed all nodes");
                self.replace(std::mem::take(arriving));
                self.0.synced.send_replace(true);
            }
            Event::Apply(object) => {
                let name = object.meta().name.clone().unwrap_or_default();
                match decode(object) {
                    Some(node) => self.note(node),
                    // Nobody may act on what it was before it broke.
                    None => self.remove(&name),
                }
            }
            Event::Delete(object) => {
                if let Some(name) = object.meta().name.clone() {
                    self.remove(&name);
                }
            }
        }
    }

    fn replace(&self, listed: BTreeMap<String, Arc<Node>>) {
        let known: Vec<String> = self.nodes().keys().cloned().collect();
        for name in known.iter().filter(|name| !listed.contains_key(*name)) {
            self.remove(name);
        }
        for node in listed.into_values() {
            self.put(node);
        }
    }

    fn put(&self, node: Arc<Node>) {
        let name = node.name.clone();
        let before = self.nodes().insert(name.clone(), node.clone());
        self.tell(&NodeChange {
            name,
            before,
            after: Some(node),
        });
    }

    fn remove(&self, name: &str) {
        let before = self.nodes().remove(name);
        if before.is_some() {
            self.tell(&NodeChange {
                name: name.to_owned(),
                before,
                after: None,
            });
        }
    }

    fn tell(&self, change: &NodeChange) {
        let listeners = self
            .0
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for listener in listeners.iter() {
            listener(change);
        }
    }

    fn nodes(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Node>>> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `a` is a later version of the same object than `b`; false if that cannot be told.
fn is_newer(a: &Node, b: &Node) -> bool {
    let version = |node: &Node| node.resource_version.parse::<u64>().ok();
    a.uid == b.uid && version(a).zip(version(b)).is_some_and(|(a, b)| a > b)
}

/// How the first list is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// As a stream: the server holds no page and we hold no list.
    Streaming,
    /// In pages, as servers before 1.32 need it.
    Paged,
}

impl Mode {
    fn config(self) -> watcher::Config {
        match self {
            Self::Streaming => watcher::Config::default().streaming_lists(),
            Self::Paged => watcher::Config::default().any_semantic(),
        }
    }
}

/// A server that knows no streaming lists says that the request is wrong.
fn refuses_streaming(error: &watcher::Error) -> bool {
    matches!(code(error), Some(400 | 422))
}

/// The version to watch from is forgotten: the list is made anew.
fn is_expired(error: &watcher::Error) -> bool {
    code(error) == Some(410)
}

/// What the API server answered, if that is the error.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

fn wait_after(failures: u32, random: &Random) -> Duration {
    let wait = FIRST_WAIT
        .saturating_mul(1 << failures.min(10))
        .min(LONGEST_WAIT);
    random.jitter(wait, 0.5)
}

fn decode(object: DeserializeGuard<NodeObject>) -> Option<Arc<Node>> {
    match object.0 {
        Ok(node) => Some(Arc::new(Node::from(node))),
        Err(broken) => {
            let name = broken.metadata.name.unwrap_or_default();
            warn!(
                node = name,
                error = broken.error,
                "cannot read this node; leaving it alone"
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(uid: &str, version: &str) -> Arc<Node> {
        let object =
            json!({ "metadata": { "name": "n1", "uid": uid, "resourceVersion": version } });
        Arc::new(serde_json::from_value::<NodeObject>(object).unwrap().into())
    }

    #[test]
    fn an_older_version_of_a_node_does_not_replace_a_newer_one() {
        let nodes = Nodes::default();
        for (uid, version, kept) in [
            ("a", "9", "9"),
            ("a", "11", "11"),
            ("a", "10", "11"),
            ("b", "5", "5"),
            ("b", "not a number", "not a number"),
            ("b", "4", "4"),
        ] {
            nodes.note(node(uid, version));
            assert_eq!(nodes.get("n1").unwrap().resource_version, kept);
        }
    }

    #[test]
    fn a_list_replaces_whatever_was_known() {
        let nodes = Nodes::default();
        nodes.note(node("a", "11"));
        nodes.replace(BTreeMap::from([("n1".to_owned(), node("a", "10"))]));
        assert_eq!(nodes.get("n1").unwrap().resource_version, "10");
        nodes.replace(BTreeMap::new());
        assert!(nodes.get("n1").is_none());
    }
}
