//! Builds the request for a cloud, for the manager and for `bowline plan` alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_core::{BalancerRequest, CloudName, Endpoints, Goal, Need, Roster, Service};

use super::ServiceController;
use super::clouds::ServiceClouds;

/// The cluster, as far as clouds get to know it.
pub(crate) struct ClusterFacts<'a> {
    /// All Services; one that cannot be read as it was last known.
    pub(crate) services: Vec<Arc<Service>>,
    /// Whether that is really all of them.
    pub(crate) all_known: bool,
    pub(crate) cluster_name: &'a str,
    pub(crate) cluster_uid: Option<String>,
    pub(crate) has_ip_mode: bool,
    /// The uids of all Services by a consistent list, if there is one.
    pub(crate) living: Option<BTreeSet<String>>,
}

impl ServiceClouds {
    /// What that cloud gets to know: only what it needs.
    pub(crate) fn request(
        &self,
        (service, goal, cloud): (Arc<Service>, Goal, &CloudName),
        roster: Roster,
        facts: ClusterFacts<'_>,
        endpoints: impl FnOnce() -> Arc<Endpoints>,
    ) -> BalancerRequest {
        let needs = self.needs(cloud);
        let (nodes, excluded) = roster.targets();
        BalancerRequest {
            service,
            goal,
            nodes,
            excluded,
            all: Arc::new(facts.services),
            all_known: facts.all_known,
            cluster_name: facts.cluster_name.to_owned(),
            has_ip_mode: facts.has_ip_mode,
            cluster_uid: facts.cluster_uid.filter(|_| needs.cluster_uid > Need::No),
            living: facts.living.map(Arc::new),
            rules: self.rules(cloud),
            endpoints: needs.endpoints.then(endpoints),
        }
    }
}

impl ServiceController {
    pub(super) fn request(
        &self,
        service: Arc<Service>,
        goal: Goal,
        cloud: &CloudName,
        roster: Roster,
    ) -> BalancerRequest {
        let seen = self.parts.services.view();
        let last_known = seen.unreadable.values().flatten();
        let facts = ClusterFacts {
            services: seen.objects.values().chain(last_known).cloned().collect(),
            all_known: seen.unreadable.values().all(Option::is_some),
            cluster_name: &self.options.cluster_name,
            cluster_uid: self.cluster_uid(),
            has_ip_mode: self.has_ip_mode(),
            living: None,
        };
        let about = (service, goal, cloud);
        self.clouds
            .request(about, roster, facts, || self.endpoints())
    }
}
