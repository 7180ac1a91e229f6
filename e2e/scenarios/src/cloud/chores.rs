//! Chores: objects that the cloud keeps in the cluster, and the nodes that it sees there.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bowline_core::{
    BoxFuture, Chores, Cluster, ManagedObject, ProviderEvent, Regarding, error_chain,
};
use tokio::sync::Notify;
use tokio::time::sleep;

use super::ScriptedCloud;

/// How often objects are looked at although nothing is known to have changed.
const PERIOD: Duration = Duration::from_secs(5);
/// The reason of the event about an object that is not kept.
pub const NOT_KEPT: &str = "NotKept";

#[derive(Default)]
struct State {
    wanted: Option<Vec<ManagedObject>>,
    /// The rounds so far: uid of the cluster and names of nodes.
    rounds: Vec<(String, Vec<String>)>,
    reported: Vec<String>,
}

/// What is kept, and what was seen.
#[derive(Default)]
pub(super) struct Errands {
    state: Mutex<State>,
    wanted: Notify,
}

impl Errands {
    pub(super) fn is_offered(&self) -> bool {
        self.state().wanted.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl ScriptedCloud {
    /// From the next start of a manager on it has chores: these objects are kept, now or as soon as they are wanted.
    pub fn keep(&self, objects: Vec<ManagedObject>) {
        self.errands.state().wanted = Some(objects);
        self.errands.wanted.notify_one();
    }

    /// Every round of its chores so far: the uid of the cluster, and the names of nodes.
    pub fn rounds(&self) -> Vec<(String, Vec<String>)> {
        self.errands.state().rounds.clone()
    }

    async fn round(&self, cluster: &dyn Cluster) {
        let Ok(uid) = cluster.uid().await else {
            return;
        };
        let names = cluster.nodes();
        let names = names.iter().map(|node| self.names.plain(&node.name));
        let names = names.collect();
        let wanted = {
            let mut state = self.errands.state();
            state.rounds.push((uid, names));
            state.wanted.clone().unwrap_or_default()
        };
        for object in wanted {
            if let Err(error) = cluster.keep(&object).await {
                self.complain(cluster, &object, error_chain(&error));
            }
        }
    }

    fn complain(&self, cluster: &dyn Cluster, object: &ManagedObject, message: String) {
        let is_told = {
            let mut state = self.errands.state();
            let is_told = state.reported.contains(&message);
            state.reported.push(message.clone());
            is_told
        };
        if !is_told {
            let regarding = Regarding {
                namespace: cluster.namespace().to_owned(),
                kind: object.kind.as_str(),
                name: object.name.clone(),
                uid: String::new(),
            };
            cluster.tell(ProviderEvent::warning(regarding, NOT_KEPT, message));
        }
    }
}

impl Chores for ScriptedCloud {
    fn run<'a>(&'a self, cluster: &'a dyn Cluster) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            loop {
                self.round(cluster).await;
                tokio::select! {
                    biased;
                    () = cluster.changed() => {}
                    () = self.errands.wanted.notified() => {}
                    () = sleep(PERIOD) => {}
                }
            }
        })
    }
}
