//! Finds load balancers with our mark whose Service is gone, or is served by another cloud now.
//!
//! Both are reported as event and metric. Those without a Service are removed if the operator allows it;
//! the others may be in use, and stay. A Service is missing only if two looks agree, because one list may
//! be outdated.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::{
    AccountState, Balancers, CloudName, ClusterMarks, ClusterMatch, Responsibility, Service,
    ServiceKey, TaggedBalancer,
};
use tracing::warn;

use super::ServiceController;
use crate::report::{Fact, Reported, emit};
use tokio_util::sync::CancellationToken;

/// How long after the first look the second one is made: longer than any watch lags, and longer
/// than a removal that is under way takes to be seen.
const SECOND_LOOK: Duration = Duration::from_secs(60);
/// Drawn on top of each period, so that clusters that share an account do not list together.
const JITTER: f64 = 0.25;

/// Load balancers whose report is remembered: more than an account has.
const REPORTED_LIMIT: usize = 10_000;

/// A load balancer that no Service uses.
struct Leftover {
    marked: TaggedBalancer,
    /// The Service it was made for, if that is there, and who serves it instead.
    misplaced: Option<(ServiceKey, Option<CloudName>)>,
}

impl ServiceController {
    /// Looks for orphans in one cloud until `stop`.
    pub(super) async fn sweep(&self, cloud: &CloudName, stop: &CancellationToken) {
        let balancers = self.clouds.balancers(cloud);
        let Some(period) = balancers.and_then(Balancers::audit_period) else {
            return stop.cancelled().await;
        };
        let reported = Reported::new(REPORTED_LIMIT);
        loop {
            let pause = self.parts.random.jitter(period, JITTER);
            let Some(()) = stop.run_until_cancelled(tokio::time::sleep(pause)).await else {
                return;
            };
            let Some(orphans) = stop.run_until_cancelled(self.orphans(cloud)).await else {
                return;
            };
            let Some(orphans) = orphans else { continue };
            self.parts
                .metrics
                .services
                .orphaned(cloud.as_str(), orphans.len());
            for (id, orphan) in &orphans {
                if reported.is_new(id.clone(), &()) {
                    self.report_orphan(cloud, orphan);
                }
                let is_ours = self.account_state(cloud) != AccountState::Contradicted;
                let remove = self.options.remove_orphans && !self.clouds.is_observing() && is_ours;
                let is_lost = self.parts.services.is_lost(&orphan.marked.service_uid);
                let is_orphan = orphan.misplaced.is_none()
                    && orphan.marked.cluster == ClusterMatch::Ours
                    && !is_lost;
                if remove && is_orphan && !stop.is_cancelled() {
                    let lock = self.parts.locks.lock(format!("orphans of {cloud}"));
                    let Some(_lock) = stop.run_until_cancelled(lock).await else {
                        return;
                    };
                    self.remove(cloud, &orphan.marked).await;
                }
            }
            reported.end_round(true);
        }
    }

    /// Those that two looks found without a Service; none if the cloud could not be read.
    async fn orphans(&self, cloud: &CloudName) -> Option<BTreeMap<String, Leftover>> {
        let first = self.look(cloud).await?;
        if first.is_empty() {
            return Some(first);
        }
        tokio::time::sleep(SECOND_LOOK).await;
        let mut second = self.look(cloud).await?;
        second.retain(|id, _| first.contains_key(id));
        Some(second)
    }

    async fn look(&self, cloud: &CloudName) -> Option<BTreeMap<String, Leftover>> {
        let roster = self.clouds.roster(cloud, &self.parts.nodes.view());
        let (nodes, _) = roster.targets();
        let uid = self.cluster_uid();
        let cluster = ClusterMarks {
            name: &self.options.cluster_name,
            uid: uid.as_deref(),
            nodes: &nodes,
        };
        let marked = match self.clouds.marked(cloud, cluster).await {
            Ok(marked) => marked,
            Err(error) => {
                warn!(%cloud, error = error.chain(), "load balancers not listed");
                return None;
            }
        };
        let services = self.parts.services.view();
        if services.has_unreadable() {
            warn!(%cloud, "not looking for orphans: a Service that cannot be read may own one");
            return None;
        }
        let remembered = self.states.uids();
        let there = services.objects.values();
        let there: BTreeMap<&str, _> = there.map(|it| (it.uid.as_str(), it)).collect();
        let leftover = |marked: TaggedBalancer| {
            let misplaced = match there.get(marked.service_uid.as_str()) {
                Some(service) => Some((service.key.clone(), self.elsewhere(service, cloud)?)),
                None if remembered.contains(&marked.service_uid) => return None,
                None => None,
            };
            Some((marked.id.clone(), Leftover { marked, misplaced }))
        };
        let ours = marked
            .into_iter()
            .filter(|it| it.cluster != ClusterMatch::Foreign);
        Some(ours.filter_map(leftover).collect())
    }

    /// Who serves a Service, if it is not that cloud, and nothing is under way there.
    #[expect(clippy::option_option, reason = "that nobody does is an answer, too")]
    fn elsewhere(&self, service: &Service, cloud: &CloudName) -> Option<Option<CloudName>> {
        let remembered = self.states.recall(&service.key);
        if remembered.is_some_and(|(_, clouds)| clouds.contains(cloud)) {
            return None;
        }
        match self.clouds.names().responsibility(service) {
            Responsibility::Ensure(by) => (by != *cloud).then_some(Some(by)),
            Responsibility::CleanUp(clouds) => (!clouds.contains(cloud)).then_some(None),
            Responsibility::Nothing => Some(None),
        }
    }

    fn report_orphan(&self, cloud: &CloudName, orphan: &Leftover) {
        let Leftover { marked, misplaced } = orphan;
        let Some((key, by)) = misplaced else {
            return self.report_missing(cloud, marked);
        };
        let by = match by {
            Some(by) => format!("cloud {by} serves now"),
            None => "no cloud serves now".to_owned(),
        };
        let text = format!(
            "Load balancer {} ({}) in cloud {cloud} was made for Service {key}, which {by}. It is left as it is: remove it \
             in the cloud when nothing uses it any more, or let {cloud} serve the Service again (services.defaultCloud, \
             or its class)",
            marked.name, marked.id
        );
        let fact = Fact::warning(self.options.lease.clone(), "MisplacedLoadBalancer", text);
        emit!(self.parts.recorder, fact, %cloud, id = marked.id);
    }

    fn report_missing(&self, cloud: &CloudName, orphan: &TaggedBalancer) {
        let doubt = match &orphan.cluster {
            ClusterMatch::Ours | ClusterMatch::Foreign => String::new(),
            ClusterMatch::Unclear(why) => {
                format!("; its mark {why}, so that it may be another cluster's")
            }
        };
        let text = format!(
            "Load balancer {} ({}) in cloud {cloud} was made for a Service with uid {} that does \
             not exist{doubt}",
            orphan.name, orphan.id, orphan.service_uid
        );
        let fact = Fact::warning(self.options.lease.clone(), "OrphanedLoadBalancer", text);
        emit!(self.parts.recorder, fact, %cloud, id = orphan.id);
    }

    async fn remove(&self, cloud: &CloudName, orphan: &TaggedBalancer) {
        match self.clouds.remove_orphan(cloud, orphan).await {
            Ok(()) => {
                let text = format!("Removed load balancer {} ({})", orphan.name, orphan.id);
                let fact = Fact::normal(self.options.lease.clone(), "RemovedOrphan", text);
                emit!(self.parts.recorder, fact, %cloud, id = orphan.id);
            }
            Err(error) => warn!(
                %cloud,
                id = orphan.id,
                error = error.chain(),
                "orphaned load balancer not removed; trying again in the next round"
            ),
        }
    }
}
