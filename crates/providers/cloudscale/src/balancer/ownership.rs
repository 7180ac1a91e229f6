//! Decides who owns a load balancer. Pure. What all clouds decide alike is in `core::standing`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use bowline_core::{
    ADOPTED_MARK, BalancerMark, CLUSTER_UID_MARK, ClusterMatch, Node, Notice, SERVICE_MARK,
    Service, match_by_uid, names_a_cluster, service_mark,
};
use uuid::Uuid;

use super::desire::Wanted;
use super::plan::{Seen, SeenPool};
use super::settings::{DEFAULT_NAME, name_of, uuid_of};
use crate::api::{Listener, LoadBalancer, Member};

/// The tag with the uid of the Service, on load balancers alone.
pub(crate) const SERVICE_TAG: &str = "k8s-service-uid";
pub(crate) const CLUSTER_TAG: &str = "k8s-cluster-name";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cluster {
    /// A name that distinguishes it.
    Named(String),
    Ambiguous(BTreeSet<String>),
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
            .map(str::to_owned)
            .collect();
        match (names.first(), names.len()) {
            (None, _) => Self::Nameless,
            (Some(name), 1) => Self::Named(name.clone()),
            (Some(_), _) => Self::Ambiguous(names),
        }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Ambiguous(_) | Self::Nameless => None,
        }
    }

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

    /// Whose a marked load balancer is. Only the uid of the cluster makes it ours: names are given
    /// twice. A cluster without a name does not take one for its own that names another; there may
    /// be many.
    pub(crate) fn cluster_match(
        &self,
        tags: &BTreeMap<String, String>,
        uid: Option<&str>,
    ) -> ClusterMatch {
        let of = |key: &str| tags.get(key).map(String::as_str);
        if let Some(owner) = match_by_uid(of(CLUSTER_UID_MARK), uid) {
            return owner;
        }
        let Some(name) = of(CLUSTER_TAG) else {
            return ClusterMatch::Unclear("names no cluster");
        };
        if !names_a_cluster(name) {
            return ClusterMatch::Unclear("has the name that every cluster has by default");
        }
        match self {
            Self::Named(own) if own == name => {
                ClusterMatch::Unclear("has the name of this cluster, but not its uid")
            }
            Self::Ambiguous(names) if names.contains(name) => {
                ClusterMatch::Unclear("has one of several names that nodes of this cluster give it")
            }
            Self::Named(_) | Self::Ambiguous(_) | Self::Nameless => ClusterMatch::Foreign,
        }
    }
}

/// The tags of a load balancer of that Service, and those of its children.
pub(crate) fn tags(
    service: &Service,
    cluster: Option<&str>,
    cluster_uid: Option<&str>,
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let children: BTreeMap<String, String> = cluster
        .map(|name| (CLUSTER_TAG.to_owned(), name.to_owned()))
        .into_iter()
        .collect();
    let mut own = children.clone();
    own.insert(SERVICE_TAG.to_owned(), service.uid.clone());
    own.insert(SERVICE_MARK.to_owned(), service_mark(&service.key));
    if let Some(uid) = cluster_uid {
        own.insert(CLUSTER_UID_MARK.to_owned(), uid.to_owned());
    }
    (own, children)
}

pub(crate) fn mark_of(balancer: &LoadBalancer) -> Option<BalancerMark> {
    let of = |key: &str| balancer.tags.get(key).cloned();
    Some(BalancerMark {
        service_uid: of(SERVICE_TAG)?,
        cluster_uid: of(CLUSTER_UID_MARK),
        service: of(SERVICE_MARK),
    })
}

/// The tags that remain when no Service owns it any more.
pub(crate) fn without_mark(balancer: &LoadBalancer) -> BTreeMap<String, String> {
    let mut tags = balancer.tags.clone();
    for key in [
        SERVICE_TAG,
        CLUSTER_TAG,
        SERVICE_MARK,
        CLUSTER_UID_MARK,
        ADOPTED_MARK,
    ] {
        tags.remove(key);
    }
    tags
}

/// Whether it was there before any controller, and outlives its Service.
pub(crate) fn is_adopted(balancer: &LoadBalancer) -> bool {
    balancer.tags.contains_key(ADOPTED_MARK)
}

/// The uid in the name that controllers give by default.
pub(crate) fn uid_in_name(name: &str) -> Option<&str> {
    let uid = name.strip_prefix(DEFAULT_NAME)?;
    Uuid::try_parse(uid).is_ok().then_some(uid)
}

pub(crate) fn is_shown(service: &Service, balancer: &LoadBalancer) -> bool {
    let shown = service.ingress.iter().filter_map(|it| it.ip.as_deref());
    let shown: Vec<IpAddr> = shown.filter_map(|it| it.parse().ok()).collect();
    let mut own = balancer.vip_addresses.iter();
    own.any(|vip| vip.address.parse().is_ok_and(|ip| shown.contains(&ip)))
}

/// Whether everything on an unmarked load balancer is that Service's: the third rule. Every member
/// is at the Service's node ports, everything is called as the original calls it, and either a
/// member is a node of this cluster or the Service's status shows the load balancer. A tenant can
/// choose ports and annotations, but neither.
pub(crate) fn is_proven(
    service: &Service,
    there: &Seen,
    nodes: &BTreeSet<IpAddr>,
    all: &[Arc<Service>],
) -> bool {
    let members = || there.pools.iter().flat_map(|pool| &pool.members);
    let is_node = |it: &Member| it.ip().is_some_and(|ip| nodes.contains(&ip));
    let own: BTreeSet<u16> = node_ports(service).collect();
    let fits = if own.is_empty() {
        // Another type by now: its node ports were given back, and its status is empty.
        let taken = all.iter().filter(|it| it.uid != service.uid);
        let taken: BTreeSet<u16> = taken.flat_map(|it| node_ports(it)).collect();
        let ports: Vec<u16> = service.ports.iter().map(|it| it.port).collect();
        !service.is_load_balancer
            && listeners(there).all(|it| ports.contains(&it.protocol_port))
            && members().all(|it| is_node(it) && !taken.contains(&it.protocol_port))
    } else {
        members().all(|it| own.contains(&it.protocol_port))
    };
    fits && members().next().is_some()
        && is_called_as_the_originals(there)
        && (members().any(is_node) || is_shown(service, &there.balancer))
}

fn node_ports(service: &Service) -> impl Iterator<Item = u16> + '_ {
    let ports = service.ports.iter().map(|it| it.node_port);
    ports.filter(|port| *port != 0)
}

fn listeners(there: &Seen) -> impl Iterator<Item = &Listener> {
    let of_pools = there.pools.iter().flat_map(|pool| &pool.listeners);
    of_pools.chain(&there.loose)
}

fn is_called_as_the_originals(there: &Seen) -> bool {
    let pool = |name: &str| {
        let kind = name.split_once('/').map_or(name, |it| it.0);
        matches!(kind, "tcp" | "udp")
    };
    let member = |it: &Member| match it.ip() {
        Some(IpAddr::V4(_)) => it.name == format!("{}:{}", it.address, it.protocol_port),
        Some(IpAddr::V6(_)) => it.name == format!("[{}]:{}", it.address, it.protocol_port),
        None => false,
    };
    let listener =
        |it: &Listener| it.name == format!("{}/{}", it.protocol, it.protocol_port).to_lowercase();
    there
        .pools
        .iter()
        .all(|it| pool(&it.pool.name) && it.members.iter().all(member))
        && listeners(there).all(listener)
}

/// Whether that Service names that load balancer, by id or by name.
pub(crate) fn is_named_by(service: &Service, balancer: &LoadBalancer) -> bool {
    uuid_of(service) == Some(balancer.uuid) || name_of(service) == balancer.name
}

/// What is ours on an adopted load balancer: the pools that we made. Of the others only the
/// listeners at wanted ports are shown, as if they had no pool.
pub(crate) fn own_part(there: Seen, service_uid: &str, wanted: &Wanted) -> Seen {
    let is_ours =
        |it: &SeenPool| it.pool.tags.get(SERVICE_TAG).map(String::as_str) == Some(service_uid);
    let (pools, others): (Vec<_>, Vec<_>) = there.pools.into_iter().partition(is_ours);
    let mut loose = there.loose;
    let in_the_way = others.into_iter().flat_map(|it| it.listeners);
    loose.extend(in_the_way.filter(|listener| {
        let mut wanted = wanted.pools.iter().map(|it| &it.listener);
        wanted.any(|it| {
            it.protocol == listener.protocol && it.protocol_port == listener.protocol_port
        })
    }));
    Seen {
        balancer: there.balancer,
        pools,
        loose,
    }
}

#[cfg(test)]
mod tests;
