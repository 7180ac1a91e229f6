//! Who the members are, and when a change of nodes is worth a turn.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudName, Fingerprint, Handling, Node, Roster, Service, ServiceKey};
use tokio::time::Instant;
use tracing::debug;

use super::ServiceController;
use super::memory::{Causes, Pass};
use crate::endpoints::depends_on_endpoints;
use crate::stop::Stop;

/// A change of nodes or endpoints is acted upon when no other has come for this long: nodes come and go in
/// groups, and one update for all of them is enough.
const QUIET: Duration = Duration::from_secs(1);
/// But it waits no longer than this for quiet.
const LONGEST_UNREST: Duration = Duration::from_secs(5);

impl ServiceController {
    /// What tells the members of that Service apart from others.
    pub(super) fn fingerprint(
        &self,
        service: &Service,
        cloud: &CloudName,
        roster: &Roster,
    ) -> Fingerprint {
        let balancers = self.clouds.balancers(cloud);
        if balancers.is_some_and(|it| !it.has_members()) {
            return Fingerprint::default();
        }
        let needs = self.clouds.needs(cloud);
        let selects = |node: &Node| balancers.is_none_or(|it| it.selects(service, node));
        let print = roster.fingerprint(selects, needs.readiness);
        if needs.endpoints && depends_on_endpoints(service) {
            let nodes = self.endpoints().get(&service.key).cloned();
            return print.with_endpoints(nodes.unwrap_or_default());
        }
        print
    }

    /// The members of that Service as of now.
    pub(super) fn members(&self, service: &Service) -> Vec<Arc<Node>> {
        let Handling::Ensure(cloud) = self.clouds.names().handling(service) else {
            return Vec::new();
        };
        let balancers = self.clouds.balancers(&cloud);
        let roster = self.clouds.roster(&cloud, &self.parts.nodes.sighting());
        let (mut nodes, _) = roster.targets();
        nodes.retain(|node| balancers.is_none_or(|it| it.selects(service, node)));
        nodes
    }

    /// Gathers changes of nodes and endpoints, and queues the Services whose members they changed.
    pub(super) async fn follow_nodes(&self, stop: &Stop) {
        while stop.unless_given(self.unrest()).await.is_some() {
            self.look_at_members();
        }
    }

    /// Waits for a change, and then for quiet.
    async fn unrest(&self) {
        self.members_changed.notified().await;
        let limit = Instant::now() + LONGEST_UNREST;
        loop {
            let quiet = (Instant::now() + QUIET).min(limit);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(quiet) => return,
                () = self.members_changed.notified() => {}
            }
        }
    }

    fn look_at_members(&self) {
        let nodes = self.parts.nodes.sighting();
        let pass = Arc::new(Pass {
            begun: Instant::now(),
            latency: self.parts.metrics.services.node_latency.clone(),
        });
        let clouds = self.clouds.names().all().iter();
        let rosters: Vec<(&CloudName, Roster)> = clouds
            .map(|cloud| (cloud, self.clouds.roster(cloud, &nodes)))
            .collect();
        let troubled: BTreeSet<ServiceKey> = self.memory.troubled().into_iter().collect();
        for (key, cloud, before) in self.memory.planned() {
            let follows = self.clouds.balancers(&cloud);
            if follows.is_some_and(|it| !it.has_members()) {
                // It follows its machines by itself, but what was wrong may have been about nodes.
                if troubled.contains(&key) {
                    self.memory.add_cause(&key, Causes::service());
                    self.queue.add(key);
                }
                continue;
            }
            let roster = rosters.iter().find(|(name, _)| **name == cloud);
            let Some((service, (_, roster))) = self.parts.services.get(&key).zip(roster) else {
                continue;
            };
            let now = self.fingerprint(&service, &cloud, roster);
            if now != before {
                debug!(service = %key, "its members changed");
                let cause = Causes {
                    service: false,
                    nodes: Some(pass.clone()),
                };
                self.memory.add_cause(&key, cause);
                // Addresses of deleted machines are given to others: they go before new ones come elsewhere.
                if before.loses_to(&now) {
                    self.queue.add_urgent(key);
                } else {
                    self.queue.add(key);
                }
            }
        }
    }
}
