//! Who the targets of a Service are, and which stay until a second look.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudName, Fingerprint, Node, Responsibility, Roster, Service, ServiceKey};
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::ServiceController;
use super::triggers::Triggers;
use crate::kube::consistent;
use crate::kube::endpoints::depends_on_endpoints;
use crate::stop::Stop;

/// How long reading all nodes may take: the client itself would wait for ever on a half-open connection.
const READ_LIMIT: Duration = Duration::from_secs(30);
/// The pause between two such reads: one list of metadata.
const READ_PAUSE: Duration = Duration::from_secs(5);

impl ServiceController {
    /// What tells the targets of that Service apart from others.
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
                    self.memory.add_trigger(&key, Triggers::service());
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
}
