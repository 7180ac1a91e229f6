//! The targets of a Service, and which of them stay until a second look.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bowline_core::{
    CloudName, Fingerprint, Node, NodeOwner, Responsibility, Roster, Service, ServiceKey,
    TargetGuard,
};
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::ServiceController;
use super::clouds::ServiceClouds;
use super::triggers::Triggers;
use crate::kube::consistent;
use crate::kube::endpoints::depends_on_endpoints;
use crate::kube::store::StoreView;
use tokio_util::sync::CancellationToken;

/// How long reading all nodes may take: the client itself would wait for ever on a half-open connection.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// The pause between two such reads: one list of metadata.
const READ_PAUSE: Duration = Duration::from_secs(5);

impl ServiceController {
    /// What distinguishes the targets of that Service from others.
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

    /// The targets of that Service as of now.
    pub(super) fn targets(&self, service: &Service) -> Vec<Arc<Node>> {
        let Responsibility::Ensure(cloud) = self.clouds.names().responsibility(service) else {
            return Vec::new();
        };
        let balancers = self.clouds.balancers(&cloud);
        let roster = self.clouds.roster(&cloud, &self.parts.nodes.view());
        let (mut nodes, _) = roster.targets();
        nodes.retain(|node| balancers.is_none_or(|it| it.selects(service, node)));
        nodes
    }

    /// Looks a second time at nodes that have lost their owners, with a read that no cache answers, and queues the Services
    /// that have kept targets because of them.
    pub(super) async fn look_twice(&self, stop: &CancellationToken) {
        loop {
            let Some(()) = stop
                .run_until_cancelled(self.clouds.until_second_look())
                .await
            else {
                return;
            };
            let reading = timeout(READ_LIMIT, consistent::uids::<Node>(&self.parts.reader));
            let Some(read) = stop.run_until_cancelled(reading).await else {
                return;
            };
            let Ok(Ok(living)) = read else {
                warn!("nodes not listed for a second look; targets stay meanwhile");
                if stop.run_until_cancelled(sleep(READ_PAUSE)).await.is_none() {
                    return;
                }
                continue;
            };
            let living = living.values().map(String::as_str).collect();
            if self.clouds.look_again(&self.parts.nodes.view(), &living) {
                for key in self.states.holding() {
                    self.states.add_trigger(&key, Triggers::service());
                    self.queue.add(key);
                }
            }
            // Whoever was not listed is looked at again.
            if stop.run_until_cancelled(sleep(READ_PAUSE)).await.is_none() {
                return;
            }
        }
    }

    /// Notes for which nodes targets of a Service stay, and counts them.
    pub(super) fn note_held(&self, key: &ServiceKey, cloud: &CloudName, held: &[String]) {
        let nodes = self.states.set_held(key, cloud, held);
        let metrics = &self.parts.metrics.services;
        metrics.targets_held(cloud.as_str(), nodes);
    }
}

impl ServiceClouds {
    /// The nodes of the cluster, as this cloud's load balancers see them.
    pub(crate) fn roster(&self, name: &CloudName, nodes: &StoreView<Node>) -> Roster {
        let last_known = nodes.unreadable.values().flatten();
        let all = nodes.objects.values().chain(last_known);
        let owners: BTreeMap<&str, (&Arc<Node>, NodeOwner)> = all
            .map(|node| (&*node.name, (node, self.resolver.node_owner(node, name))))
            .collect();
        let guard = self.guards.of(name, TargetGuard::default);
        let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
        let unowned = owners.values().filter(|it| it.1 == NodeOwner::Unowned);
        let unowned = unowned.map(|(node, _)| &*node.uid);
        if guard.look(unowned, Instant::now().into_std()) {
            self.doubts.notify_one();
        }
        Roster::new(nodes.objects.values(), &nodes.unreadable, |node| {
            let owner = owners.get(&*node.name).map(|it| it.1);
            match owner.unwrap_or(NodeOwner::Foreign) {
                NodeOwner::Unowned if !guard.holds(&node.uid) => NodeOwner::Foreign,
                owner => owner,
            }
        })
    }

    /// Waits until some node that has lost its owner is to be looked at again.
    pub(crate) async fn until_second_look(&self) {
        loop {
            let due = self.names().all().iter().filter_map(|name| {
                let guard = self.guards.of(name, TargetGuard::default);
                guard.lock().unwrap_or_else(PoisonError::into_inner).due()
            });
            match due.min() {
                Some(due) => return tokio::time::sleep_until(due.into()).await,
                None => self.doubts.notified().await,
            }
        }
    }

    /// A second look at nodes that have lost their owners, `living` being all nodes there are, by uid. Says whether some
    /// keep their targets no more.
    pub(crate) fn look_again(&self, nodes: &StoreView<Node>, living: &BTreeSet<&str>) -> bool {
        let mut changed = false;
        for name in self.names().all() {
            // As it is now; whoever has an owner again is not among them.
            let _ = self.roster(name, nodes);
            let guard = self.guards.of(name, TargetGuard::default);
            let mut guard = guard.lock().unwrap_or_else(PoisonError::into_inner);
            changed |= guard.confirm(living, Instant::now().into_std());
        }
        changed
    }
}
