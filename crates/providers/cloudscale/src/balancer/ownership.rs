//! Whose load balancer is it? Pure. See `CLOUDSCALE_OWNERSHIP_TAGS`: without it nobody asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_core::{Node, Notice, Service, Whose, Wish, names_a_cluster};
use uuid::Uuid;

use super::settings::{TAKE_OVER, default_name, may_be_ours, name_of, uuid_of};
use crate::api::LoadBalancer;

/// The tag with the uid of the Service, on load balancers alone.
pub(crate) const SERVICE_TAG: &str = "k8s-service-uid";
/// The tag with the name of the cluster.
pub(crate) const CLUSTER_TAG: &str = "k8s-cluster-name";

/// What a Service may do with a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its own, or nobody's.
    Ours,
    /// Another Service's until now, which is gone, or a person has said so.
    TakenOver(Notice),
    /// Another's: hands off. Says why.
    Other(String),
}

/// The name of the cluster, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cluster {
    /// One that tells it from others.
    Named(String),
    /// Its nodes have several.
    Ambiguous(BTreeSet<String>),
    /// None.
    Nameless,
}

impl Cluster {
    /// By the flag, or else by the annotation of nodes.
    pub(crate) fn of(flag: &str, nodes: &[Arc<Node>], annotation: &str) -> Self {
        if names_a_cluster(flag) {
            return Self::Named(flag.to_owned());
        }
        let names: BTreeSet<String> = nodes
            .iter()
            .filter_map(|node| node.annotations.get(annotation))
            .filter(|name| !name.is_empty())
            .cloned()
            .collect();
        match (names.first(), names.len()) {
            (None, _) => Self::Nameless,
            (Some(name), 1) => Self::Named(name.clone()),
            (Some(_), _) => Self::Ambiguous(names),
        }
    }

    /// The name, if there is one.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Ambiguous(_) | Self::Nameless => None,
        }
    }

    /// What there is to say about it.
    pub(crate) fn notice(&self, annotation: &str) -> Option<Notice> {
        let Self::Ambiguous(names) = self else {
            return None;
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Some(Notice {
            warning: true,
            reason: "ClusterNameTagAmbiguous",
            message: format!(
                "nodes have different values of annotation {annotation} ({}); load balancers are \
                 not tagged with the name of the cluster",
                names.join(", ")
            ),
        })
    }

    /// Whose a load balancer is that a Service of the cluster `tag` was made for. A cluster without
    /// a name does not take one for its own that names another; there may be many.
    pub(crate) fn whose(&self, tag: Option<&str>) -> Whose {
        let Some(tag) = tag else {
            return Whose::Unclear("names no cluster");
        };
        if !names_a_cluster(tag) {
            return Whose::Unclear("has the name that every cluster has by default");
        }
        match self {
            Self::Named(name) if name == tag => Whose::Ours,
            Self::Ambiguous(names) if names.contains(tag) => {
                Whose::Unclear("has one of several names that nodes of this cluster give it")
            }
            Self::Named(_) | Self::Ambiguous(_) | Self::Nameless => Whose::Foreign,
        }
    }
}

/// The tags of a load balancer of that Service, and those of its children.
pub(crate) fn tags(
    service: &Service,
    cluster: Option<&str>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let children: BTreeMap<String, String> = cluster
        .map(|name| (CLUSTER_TAG.to_owned(), name.to_owned()))
        .into_iter()
        .collect();
    let mut own = children.clone();
    own.insert(SERVICE_TAG.to_owned(), service.uid.clone());
    (own, children)
}

/// Whether that Service may have that load balancer.
pub(crate) fn judge(balancer: &LoadBalancer, wish: &Wish, cluster: Option<&str>) -> Standing {
    let (service, all) = (&*wish.service, &wish.all);
    let told = service
        .annotation(TAKE_OVER)
        .and_then(|text| Uuid::try_parse(text.trim()).ok());
    let told = told == Some(balancer.uuid);
    match balancer.tags.get(SERVICE_TAG) {
        Some(uid) if *uid == service.uid => Standing::Ours,
        Some(uid) => {
            let theirs = balancer.tags.get(CLUSTER_TAG).map(String::as_str);
            let same_cluster = cluster.is_some() && theirs == cluster;
            let orphaned = wish.all_known && all.iter().all(|other| other.uid != *uid);
            let orphaned = same_cluster && orphaned;
            if told || orphaned {
                Standing::TakenOver(taken_over(balancer, uid))
            } else {
                Standing::Other(owned_by_other(balancer, uid, service))
            }
        }
        None if told => Standing::Ours,
        None => match older(balancer, service, all) {
            Some(other) => Standing::Other(format!(
                "load balancer {:?} ({}) has no tag {SERVICE_TAG}, and Service {}, which is older, \
                 refers to it; annotation {TAKE_OVER}: {} says that it is this Service's",
                balancer.name, balancer.uuid, other.key, balancer.uuid
            )),
            None => Standing::Ours,
        },
    }
}

fn taken_over(balancer: &LoadBalancer, uid: &str) -> Notice {
    Notice {
        warning: false,
        reason: "LoadBalancerTakenOver",
        message: format!(
            "load balancer {:?} ({}) belonged to the Service with uid {uid} and is this Service's now",
            balancer.name, balancer.uuid
        ),
    }
}

fn owned_by_other(balancer: &LoadBalancer, uid: &str, service: &Service) -> String {
    format!(
        "load balancer {:?} ({}) belongs to another Service: its tag {SERVICE_TAG} is {uid}, and this \
         Service's uid is {}; annotation {TAKE_OVER}: {} says that it is this Service's",
        balancer.name, balancer.uuid, service.uid, balancer.uuid
    )
}

/// The oldest other Service that refers to the load balancer, if it is older than this one. The uid
/// decides between Services of one second.
fn older<'a>(
    balancer: &LoadBalancer,
    service: &Service,
    all: &'a [Arc<Service>],
) -> Option<&'a Arc<Service>> {
    let age = |service: &Service| (service.created, service.uid.clone());
    all.iter()
        .filter(|other| other.uid != service.uid && may_be_ours(other))
        .filter(|other| other.is_load_balancer || other.has_finalizer())
        .filter(|other| age(other) < age(service))
        .filter(|other| {
            uuid_of(other) == Some(balancer.uuid)
                || name_of(other) == balancer.name
                || default_name(&other.uid) == balancer.name
        })
        .min_by_key(|other| age(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_ours_by_the_name_that_marks_are_made_with() {
        let named = || Cluster::Named("prod-1".into());
        let several = || Cluster::Ambiguous(["prod-1".to_owned(), "prod-2".to_owned()].into());
        let unnamed = Whose::Unclear("names no cluster");
        let default = Whose::Unclear("has the name that every cluster has by default");
        let one_of = Whose::Unclear("has one of several names that nodes of this cluster give it");
        for (cluster, tag, whose) in [
            (named(), Some("prod-1"), Whose::Ours),
            (named(), Some("prod-2"), Whose::Foreign),
            (named(), Some("kubernetes"), default.clone()),
            (named(), None, unnamed.clone()),
            (several(), Some("prod-2"), one_of),
            (several(), Some("prod-3"), Whose::Foreign),
            (Cluster::Nameless, Some("prod-1"), Whose::Foreign),
            (Cluster::Nameless, Some("kubernetes"), default),
            (Cluster::Nameless, None, unnamed),
        ] {
            assert_eq!(cluster.whose(tag), whose, "{cluster:?} {tag:?}");
        }
    }
}
