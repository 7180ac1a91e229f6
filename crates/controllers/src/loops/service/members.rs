//! Who the members are, and when a change of nodes is worth a turn.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudName, Fingerprint, Node, Responsibility, Roster, Service, ServiceKey};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use super::ServiceController;
use super::state::{Pass, Triggers};
use crate::kube::consistent;
use crate::kube::endpoints::depends_on_endpoints;
use crate::stop::Stop;

/// A change of nodes or endpoints is acted upon when no other has come for this long: nodes come and go in
/// groups, and one update for all of them is enough.
const QUIET: Duration = Duration::from_secs(1);
/// But it waits no longer than this for quiet.
const LONGEST_UNREST: Duration = Duration::from_secs(5);

/// How long reading all nodes may take: the client itself would wait for ever on a half-open connection.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// The pause between two such reads: one list of metadata.
const READ_PAUSE: Duration = Duration::from_secs(5);

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
        let Responsibility::Ensure(cloud) = self.clouds.names().responsibility(service) else {
            return Vec::new();
        };
        let balancers = self.clouds.balancers(&cloud);
        let roster = self.clouds.roster(&cloud, &self.parts.nodes.view());
        let (mut nodes, _) = roster.targets();
        nodes.retain(|node| balancers.is_none_or(|it| it.selects(service, node)));
        nodes
    }

    /// Gathers changes of nodes and endpoints, and queues the Services whose members they changed. Owners that were
    /// found out are no unrest: somebody waits for them.
    pub(super) async fn follow_nodes(&self, stop: &Stop) {
        let mut news = self.clouds.news();
        loop {
            let change = async {
                tokio::select! {
                    biased;
                    () = self.unrest() => {}
                    Ok(()) = news.changed() => {}
                }
            };
            if stop.unless_given(change).await.is_none() {
                return;
            }
            self.look_at_members();
        }
    }

    /// Looks a second time at nodes that have lost their owners, with a read that no cache answers, and queues the Services
    /// that have kept targets because of them.
    pub(super) async fn look_twice(&self, stop: &Stop) {
        loop {
            if stop
                .unless_given(self.clouds.until_second_look())
                .await
                .is_none()
            {
                return;
            }
            let reading = timeout(READ_LIMIT, consistent::uids::<Node>(&self.parts.reader));
            let Some(read) = stop.unless_given(reading).await else {
                return;
            };
            let Ok(Ok(living)) = read else {
                warn!("nodes not listed for a second look; targets stay meanwhile");
                if stop.unless_given(sleep(READ_PAUSE)).await.is_none() {
                    return;
                }
                continue;
            };
            let living = living.values().map(String::as_str).collect();
            if self.clouds.look_again(&self.parts.nodes.view(), &living) {
                for key in self.memory.holding() {
                    self.memory.add_cause(&key, Triggers::service());
                    self.queue.add(key);
                }
            }
            // Whoever was not listed is looked at again.
            if stop.unless_given(sleep(READ_PAUSE)).await.is_none() {
                return;
            }
        }
    }

    /// Notes for which nodes targets of a Service stay, and counts them.
    pub(super) fn note_held(&self, key: &ServiceKey, cloud: &CloudName, held: &[String]) {
        let nodes = self.memory.set_held(key, cloud, held);
        let metrics = &self.parts.metrics.services;
        metrics.targets_held(cloud.as_str(), nodes);
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
        let nodes = self.parts.nodes.view();
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
                    self.memory.add_cause(&key, Triggers::service());
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
                let cause = Triggers {
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
