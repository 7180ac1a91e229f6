//! Who the members are, and when a change of nodes is worth a turn.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudName, Fingerprint, Handling, Node, Service, may_be_target};
use tokio::time::Instant;
use tracing::debug;

use super::ServiceController;
use super::memory::{Causes, Pass};
use crate::stop::Stop;

/// A change of nodes is acted upon when no other has come for this long: nodes come and go in
/// groups, and one update for all of them is enough.
const QUIET: Duration = Duration::from_secs(1);
/// But it waits no longer than this for quiet.
const LONGEST_UNREST: Duration = Duration::from_secs(5);

impl ServiceController {
    /// What tells the members of that Service apart from others, among nodes of its cloud.
    pub(super) fn fingerprint(
        &self,
        service: &Service,
        cloud: &CloudName,
        owned: &[Arc<Node>],
    ) -> Fingerprint {
        let balancers = self.clouds.balancers(cloud);
        if balancers.is_some_and(|it| !it.has_members()) {
            return Fingerprint::default();
        }
        let selected = owned
            .iter()
            .filter(|node| balancers.is_none_or(|it| it.selects(service, node)));
        Fingerprint::of(selected.map(|node| &**node))
    }

    /// The members of that Service as of now.
    pub(super) fn members(&self, service: &Service) -> Vec<Arc<Node>> {
        let Handling::Ensure(cloud) = self.clouds.names().handling(service) else {
            return Vec::new();
        };
        let balancers = self.clouds.balancers(&cloud);
        let mut nodes = self.clouds.owned(&cloud, &self.parts.nodes.all());
        nodes.retain(|node| {
            may_be_target(node) && balancers.is_none_or(|it| it.selects(service, node))
        });
        nodes
    }

    /// Gathers changes of nodes and queues the Services whose members they changed.
    pub(super) async fn follow_nodes(&self, stop: &Stop) {
        while stop.unless_given(self.unrest()).await.is_some() {
            self.look_at_members();
        }
    }

    /// Waits for a change, and then for quiet.
    async fn unrest(&self) {
        self.nodes_changed.notified().await;
        let limit = Instant::now() + LONGEST_UNREST;
        loop {
            let quiet = (Instant::now() + QUIET).min(limit);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(quiet) => return,
                () = self.nodes_changed.notified() => {}
            }
        }
    }

    fn look_at_members(&self) {
        let nodes = self.parts.nodes.all();
        let pass = Arc::new(Pass {
            begun: Instant::now(),
            latency: self.parts.metrics.services.node_latency.clone(),
        });
        let clouds = self.clouds.names().all().iter();
        let owned: Vec<(&CloudName, Vec<Arc<Node>>)> = clouds
            .map(|cloud| (cloud, self.clouds.owned(cloud, &nodes)))
            .collect();
        for (key, cloud, before) in self.memory.planned() {
            let owned = owned.iter().find(|(name, _)| **name == cloud);
            let Some((service, (_, owned))) = self.parts.services.get(&key).zip(owned) else {
                continue;
            };
            if self.fingerprint(&service, &cloud, owned) != before {
                debug!(service = %key, "its members changed");
                let cause = Causes {
                    service: false,
                    nodes: Some(pass.clone()),
                };
                self.memory.add_cause(&key, cause);
                self.queue.add(key);
            }
        }
    }
}
