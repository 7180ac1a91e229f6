//! Decides who owns a load balancer, and each service of it. Pure.
//!
//! ```text
//!  a load balancer ─▶ external? attached? ─▶ mark, name, consent (core) ─▶ what is on it ─▶ Claim
//!  a service of it ─▶ its name ─▶ the record ─▶ does it serve a port of ours? left over? ─▶ ServiceOwner
//! ```
//!
//! What a decision lacks ([`Lack`]) is read only then: the pools of the cluster's nodes, and the
//! list of Services.

mod candidates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_core::{
    ADOPTED_MARK, BalancerMark, BalancerRequest, CLUSTER_UID_MARK, Candidature, DraftError,
    OwnershipVerdict, SERVICE_MARK, Service, ServicePort, hands_over_to, match_by_uid,
    names_a_cluster, service_mark, standing, unproven,
};
use uuid::Uuid;

pub(crate) use self::candidates::Candidates;
use super::desire::entrance;
use super::record::Record;
use super::settings::{
    External, Settings, default_name, external, id_of, may_be_ours, take_over, uid_in_name,
};
use crate::api::{LoadBalancer, LoadBalancerService};
use crate::id::hyphenated;

pub(crate) const SERVICE_LABEL: &str = "bowline-service-uid";
/// The label with namespace and name of the Service, for people.
const NAME_LABEL: &str = "bowline-service";
pub(crate) const CLUSTER_LABEL: &str = "bowline-cluster";
/// Labels that show that a controller of ours made it, or has it.
const MARKS: [&str; 5] = [
    SERVICE_LABEL,
    NAME_LABEL,
    CLUSTER_LABEL,
    CLUSTER_UID_MARK,
    SERVICE_MARK,
];
const LONGEST_VALUE: usize = 63;

/// This Service, and the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnershipContext<'a> {
    pub(crate) request: &'a BalancerRequest,
    pub(crate) record: &'a Record,
    /// The pools that the cluster's nodes are in; none as long as nobody has looked.
    pub(crate) pools: Option<&'a BTreeSet<Uuid>>,
    /// Whether it is about a load balancer that the Service names or has: what serves its ports
    /// there is its own.
    pub(crate) by_ports: bool,
}

/// What must be known before a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// The pools of the cluster's nodes.
    Pools,
    /// A consistent list of Services.
    Services,
}

impl From<DraftError> for Lack {
    /// Decisions about marks lack nothing else.
    fn from(_: DraftError) -> Self {
        Self::Services
    }
}

/// What a Service may do with a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is this Service's.
    Managed(By),
    /// It is somebody else's, and the Service has its own ports on it.
    Attached,
    /// It was this Service's, and another one has it by now, as this one wanted.
    HandedAway,
    NotOurs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Mark,
    /// Its name, which only controllers give.
    Name,
    /// What is on it: the original made it, with a name of its user's.
    Services,
    /// Somebody's consent, or the end of a Service of the same name; it has another mark, or none.
    Consent(OwnershipVerdict),
}

impl By {
    /// Whether the load balancer must be marked before anything else happens: only then it is known
    /// again.
    pub(crate) fn needs_mark(&self) -> bool {
        matches!(self, Self::Services | Self::Consent(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ServiceOwner<'a> {
    Ours,
    /// That of another Service, which exists.
    Another(&'a Service),
    /// That of a Service of this cluster which is proven not to exist: it may be replaced.
    LeftOver,
    /// Somebody else's, or perhaps somebody else's.
    Foreign,
}

impl<'a> OwnershipContext<'a> {
    fn service(&self) -> &'a Service {
        &self.request.service
    }

    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let key = &self.service().key;
        let name = format!("{}.{}", key.namespace, key.name);
        let mark = service_mark(key);
        [
            (SERVICE_LABEL, self.service().uid.as_str()),
            (NAME_LABEL, name.as_str()),
            (SERVICE_MARK, mark.as_str()),
            (CLUSTER_LABEL, self.request.cluster_name.as_str()),
            (
                CLUSTER_UID_MARK,
                self.request.cluster_uid.as_deref().unwrap_or_default(),
            ),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(label, value)| (label.to_owned(), label_value(value)))
        .collect()
    }

    /// Whether it was certainly made for this Service: by its mark or its name.
    pub(crate) fn is_own(&self, balancer: &LoadBalancer) -> bool {
        self.is_marked(balancer) || self.has_our_name(balancer)
    }

    /// Whether it carries this Service's mark, and no mark of another cluster.
    pub(crate) fn is_marked(&self, balancer: &LoadBalancer) -> bool {
        balancer.labels.get(SERVICE_LABEL) == Some(&label_value(&self.service().uid))
            && self.is_of_cluster(balancer)
    }

    fn has_our_name(&self, balancer: &LoadBalancer) -> bool {
        is_unmarked(balancer) && balancer.name == default_name(&self.service().uid)
    }

    /// Whether no mark names another cluster. Names count only where a uid is not known.
    fn is_of_cluster(&self, balancer: &LoadBalancer) -> bool {
        let marked = balancer.labels.get(CLUSTER_UID_MARK).map(String::as_str);
        let ours = self.request.cluster_uid.as_deref().map(label_value);
        if let Some(owner) = match_by_uid(marked, ours.as_deref()) {
            return owner == bowline_core::ClusterMatch::Ours;
        }
        let ours = label_value(&self.request.cluster_name);
        balancer
            .labels
            .get(CLUSTER_LABEL)
            .is_none_or(|it| !names_a_cluster(it) || !names_a_cluster(&ours) || *it == ours)
    }

    pub(crate) fn claim(
        &self,
        balancer: &LoadBalancer,
        settings: &Settings,
    ) -> Result<Claim, Lack> {
        if settings.external == External::Yes {
            return Ok(Claim::Attached);
        }
        let candidate = self.candidature(balancer);
        let verdict = if !is_unmarked(balancer) && !self.is_of_cluster(balancer) {
            unproven(&candidate, self.request)
        } else {
            standing(&candidate, self.request)?
        };
        let is_attached = self.record.attached.contains(&balancer.id);
        Ok(match verdict {
            consent @ (OwnershipVerdict::HandedOver(_) | OwnershipVerdict::Adopted) => {
                Claim::Managed(By::Consent(consent))
            }
            // It was ours once; what is on it now may be others'.
            OwnershipVerdict::Ours
                if is_attached
                    && unproven(&candidate, self.request) == OwnershipVerdict::Adopted =>
            {
                Claim::Managed(By::Consent(OwnershipVerdict::Adopted))
            }
            OwnershipVerdict::Unproven => match unproven(&candidate, self.request) {
                OwnershipVerdict::NotOurs if is_attached => Claim::Attached,
                OwnershipVerdict::NotOurs if self.is_the_originals(balancer, settings)? => {
                    Claim::Managed(By::Services)
                }
                OwnershipVerdict::NotOurs => Claim::NotOurs,
                consent => Claim::Managed(By::Consent(consent)),
            },
            _ if is_attached => Claim::Attached,
            OwnershipVerdict::Ours if is_unmarked(balancer) => Claim::Managed(By::Name),
            OwnershipVerdict::Ours => Claim::Managed(By::Mark),
            OwnershipVerdict::Returned => Claim::Managed(By::Consent(OwnershipVerdict::Returned)),
            OwnershipVerdict::NotOurs if self.is_handed_away(balancer) => Claim::HandedAway,
            OwnershipVerdict::NotOurs => Claim::NotOurs,
        })
    }

    /// The marks on the load balancer.
    fn candidature<'b>(&'b self, balancer: &'b LoadBalancer) -> Candidature<'b> {
        let label = |key: &str| balancer.labels.get(key).cloned();
        let cluster = self.request.cluster_uid.clone();
        let mark = (!is_unmarked(balancer)).then(|| BalancerMark {
            service_uid: label(SERVICE_LABEL).unwrap_or_default(),
            // As it was before it became a label.
            cluster_uid: label(CLUSTER_UID_MARK)
                .map(|it| cluster.filter(|ours| label_value(ours) == it).unwrap_or(it)),
            service: label(SERVICE_MARK),
        });
        let users = self.request.all.iter();
        let mut users = users.filter(|it| it.uid != self.service().uid && may_be_ours(it));
        Candidature {
            mark,
            uid_in_name: uid_in_name(&balancer.name),
            asked_for: take_over(self.service()) == Some(balancer.id),
            used_by: users.find(|it| has(it, balancer)),
        }
    }

    /// Whether the original made it for this Service, with a name that its user chose: all that is
    /// on it is this Service's, and only this Service's controllers could have put it there, or say
    /// so in its status.
    fn is_the_originals(&self, balancer: &LoadBalancer, settings: &Settings) -> Result<bool, Lack> {
        let services = &balancer.services;
        let is_named = settings.name.as_deref() == Some(&balancer.name)
            && settings.id.is_none_or(|id| id == balancer.id);
        if !is_named || services.items.is_empty() || !services.bad.is_empty() {
            return Ok(false);
        }
        let has_our_uid = |it: &LoadBalancerService| is_named_by(it, &self.service().uid);
        let is_as_named = |it: &LoadBalancerService| {
            settings.service_name.as_deref() == Some(&it.name) && self.serves_us(it)
        };
        if !services
            .items
            .iter()
            .all(|it| has_our_uid(it) || is_as_named(it))
        {
            return Ok(false);
        }
        if shows(self.service(), balancer) {
            return Ok(true);
        }
        // Names that users choose prove nothing, and uids are nobody's choice.
        let pools = self.pools.ok_or(Lack::Pools)?;
        let mut ours = services.items.iter().filter(|it| has_our_uid(it));
        Ok(ours.any(|it| it.instance_pool.is_some_and(|pool| pools.contains(&pool))))
    }

    /// Whether the Service to which this one gives its load balancer has it.
    fn is_handed_away(&self, balancer: &LoadBalancer) -> bool {
        let Some(heir) = hands_over_to(self.service()) else {
            return false;
        };
        let uid = balancer.labels.get(SERVICE_LABEL);
        let mut all = self.request.all.iter();
        all.any(|it| it.key == heir && Some(&it.uid) == uid)
    }

    fn others(&self) -> impl Iterator<Item = &'a Service> + use<'a> {
        let uid = self.service().uid.as_str();
        let all = self.request.all.iter().map(|it| &**it);
        all.filter(move |it| it.uid != uid && may_be_ours(it))
    }

    /// The owner of that service; foreign if it cannot be decided.
    pub(crate) fn owner(&self, service: &LoadBalancerService) -> ServiceOwner<'a> {
        self.judge(service).unwrap_or(ServiceOwner::Foreign)
    }

    /// Whether it is this Service's by its name or by what is remembered, wherever it is.
    pub(crate) fn is_surely_ours(&self, service: &LoadBalancerService) -> bool {
        let is_anothers = || self.others().any(|it| is_named_by(service, &it.uid));
        is_named_by(service, &self.service().uid)
            || self.record.services.contains(&service.id) && !is_anothers()
    }

    /// Whose that service is, or what must be known first.
    pub(crate) fn judge(&self, service: &LoadBalancerService) -> Result<ServiceOwner<'a>, Lack> {
        if is_named_by(service, &self.service().uid) {
            return Ok(ServiceOwner::Ours);
        }
        if let Some(other) = self.others().find(|it| is_named_by(service, &it.uid)) {
            return Ok(ServiceOwner::Another(other));
        }
        if self.record.services.contains(&service.id) {
            return Ok(ServiceOwner::Ours);
        }
        let remembers = |it: &&Service| Record::of(it).services.contains(&service.id);
        if let Some(other) = self.others().find(remembers) {
            return Ok(ServiceOwner::Another(other));
        }
        if !self.by_ports || self.port_of(service).is_none() {
            return Ok(ServiceOwner::Foreign);
        }
        let uid = uid_in(&service.name);
        if uid.is_none() && !self.serves_us(service) {
            return Ok(ServiceOwner::Foreign);
        }
        let pools = self.pools.ok_or(Lack::Pools)?;
        if !service.instance_pool.is_some_and(|it| pools.contains(&it)) {
            return Ok(ServiceOwner::Foreign);
        }
        let Some(uid) = uid else {
            return Ok(ServiceOwner::Ours);
        };
        let living = self.request.living.as_ref().ok_or(Lack::Services)?;
        Ok(if living.contains(uid) {
            ServiceOwner::Foreign
        } else {
            ServiceOwner::LeftOver
        })
    }

    /// The Service's port that clients of that service enter.
    fn port_of(&self, service: &LoadBalancerService) -> Option<&'a ServicePort> {
        let mut ports = self.service().ports.iter();
        ports.find(|port| {
            let entrance = entrance(port);
            entrance.is_some_and(|it| it.port == service.port && it.protocol == service.protocol)
        })
    }

    /// Whether that service sends what enters a port of the Service to this port's node port.
    fn serves_us(&self, service: &LoadBalancerService) -> bool {
        let port = self.port_of(service);
        port.is_some_and(|port| port.node_port != 0 && port.node_port == service.target_port)
    }

    /// Whether a foreign service at a wanted port may be replaced: the operator lets Services of
    /// this namespace adopt, and no Service that may own it is missing.
    pub(crate) fn may_replace(&self) -> bool {
        let namespace = &self.service().key.namespace;
        self.request.all_known && self.request.rules.adoption.allows(namespace)
    }

    /// The ids to be remembered of services that are ours although not by their names.
    pub(crate) fn nameless<'b>(
        &self,
        services: impl IntoIterator<Item = (&'b str, Uuid)>,
    ) -> BTreeSet<Uuid> {
        let prefix = format!("{}-", self.service().uid);
        let nameless = services
            .into_iter()
            .filter(|(name, _)| !name.starts_with(&prefix));
        nameless.map(|(_, id)| id).collect()
    }
}

/// Whether no controller of ours has marked it.
pub(crate) fn is_unmarked(balancer: &LoadBalancer) -> bool {
    !MARKS.iter().any(|it| balancer.labels.contains_key(*it))
}

/// Whether no controller has made it: it outlives its Service, and keeps its name.
pub(crate) fn is_adopted(balancer: &LoadBalancer) -> bool {
    balancer.labels.contains_key(ADOPTED_MARK)
}

/// Whether another Service has it without a mark, as those that the original made: it names it, and
/// its status shows its address.
fn has(other: &Arc<Service>, balancer: &LoadBalancer) -> bool {
    id_of(other) == Some(balancer.id)
        && shows(other, balancer)
        && external(other) != External::Yes
        && !Record::of(other).attached.contains(&balancer.id)
}

/// Whether the status of that Service shows the load balancer's address.
pub(crate) fn shows(service: &Service, balancer: &LoadBalancer) -> bool {
    let Some(address) = balancer.address() else {
        return false;
    };
    let mut shown = service.ingress.iter().filter_map(|it| it.ip.as_deref());
    shown.any(|it| it.parse() == Ok(address))
}

fn is_named_by(service: &LoadBalancerService, uid: &str) -> bool {
    let rest = service.name.strip_prefix(uid);
    !uid.is_empty() && rest.is_some_and(|rest| rest.starts_with('-'))
}

/// The uid that the name of a service begins with, if a controller gave it that name.
fn uid_in(name: &str) -> Option<&str> {
    let uid = name.get(..36)?;
    let is_uid = hyphenated(uid).is_some() && name.get(36..)?.starts_with('-');
    is_uid.then_some(uid)
}

/// Whose cluster's a load balancer is, by its labels.
pub(crate) fn cluster_match(
    cluster_name: &str,
    cluster_uid: Option<&str>,
    balancer: &LoadBalancer,
) -> bowline_core::ClusterMatch {
    use bowline_core::ClusterMatch::{Foreign, Unclear};
    let marked = balancer.labels.get(CLUSTER_UID_MARK).map(String::as_str);
    let uid = cluster_uid.map(label_value);
    if let Some(owner) = match_by_uid(marked, uid.as_deref()) {
        return owner;
    }
    match balancer.labels.get(CLUSTER_LABEL) {
        None => Unclear("names no cluster"),
        Some(label) if !names_a_cluster(label) => {
            Unclear("has the name that every cluster has by default")
        }
        Some(label) if names_a_cluster(cluster_name) && *label == label_value(cluster_name) => {
            Unclear(
                "names this cluster and not its uid, which another cluster of that name may have",
            )
        }
        Some(_) => Foreign,
    }
}

pub(crate) fn label_value(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let replaced = text.chars().map(|c| if allowed(c) { c } else { '-' });
    replaced.take(LONGEST_VALUE).collect()
}

#[cfg(test)]
mod tests;
