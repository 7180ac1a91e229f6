//! Whose load balancer, and whose service of it? Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_core::{Notice, Service, TAKE_OVER, names_a_cluster};
use uuid::Uuid;

use super::settings::table::EXTERNAL;
use super::settings::{default_name, may_be_ours, owned_services, take_over};
use crate::api::{LoadBalancer, LoadBalancerService};

/// The label with the uid of the Service.
pub(crate) const SERVICE_LABEL: &str = "bowline-service-uid";
/// The label with namespace and name of the Service, for people.
const NAME_LABEL: &str = "bowline-service";
/// The label with the name of the cluster.
pub(crate) const CLUSTER_LABEL: &str = "bowline-cluster";
/// The longest value of a label.
const LONGEST_VALUE: usize = 63;

/// Who we are, and who else is there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family<'a> {
    pub(crate) service: &'a Service,
    /// All Services of the cluster, this one included.
    pub(crate) all: &'a [Arc<Service>],
    /// Whether these are really all.
    pub(crate) all_known: bool,
    /// `--cluster-name`.
    pub(crate) cluster_name: &'a str,
}

/// Whose a service of a load balancer is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Whose<'a> {
    /// This Service's.
    Ours,
    /// That of another Service, which exists.
    Another(&'a Service),
    /// Nobody's that is known here.
    Foreign,
    /// Nobody's that is known here, or that of a Service that cannot be read.
    Unclear,
}

impl<'a> Family<'a> {
    /// The labels of a load balancer that is made for the Service.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        let key = &self.service.key;
        let name = format!("{}.{}", key.namespace, key.name);
        [
            (SERVICE_LABEL, self.service.uid.as_str()),
            (NAME_LABEL, name.as_str()),
            (CLUSTER_LABEL, self.cluster_name),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(label, value)| (label.to_owned(), label_value(value)))
        .collect()
    }

    /// Whether the labels say that it was made for this Service, in this cluster.
    pub(crate) fn is_labelled(&self, balancer: &LoadBalancer) -> bool {
        balancer.labels.get(SERVICE_LABEL) == Some(&label_value(&self.service.uid))
            && self.is_of_cluster(balancer)
    }

    /// Whether nothing says that it is another cluster's.
    fn is_of_cluster(&self, balancer: &LoadBalancer) -> bool {
        let ours = label_value(self.cluster_name);
        balancer
            .labels
            .get(CLUSTER_LABEL)
            .is_none_or(|it| !names_a_cluster(it) || !names_a_cluster(&ours) || *it == ours)
    }

    /// Whether it is, beyond doubt, one that was made for this Service.
    pub(crate) fn is_own(&self, balancer: &LoadBalancer) -> bool {
        balancer.name == default_name(&self.service.uid) || self.is_labelled(balancer)
    }

    /// Whether the Service may manage a load balancer that its annotation names: `wanted` is the
    /// name that it would have. Otherwise only its own services on it are looked after.
    pub(crate) fn may_manage(&self, balancer: &LoadBalancer, wanted: &str) -> bool {
        let told = take_over(self.service) == Some(balancer.id);
        if told || self.is_own(balancer) {
            return true;
        }
        balancer.name == wanted && !self.is_held(balancer) && self.is_of_cluster(balancer)
    }

    /// Whether it carries the labels of another Service that exists, or may.
    fn is_held(&self, balancer: &LoadBalancer) -> bool {
        let uid = balancer.labels.get(SERVICE_LABEL);
        uid.is_some_and(|uid| !self.all_known || self.others().any(|it| it.uid == *uid))
    }

    fn others(&self) -> impl Iterator<Item = &'a Service> + use<'a> {
        let uid = self.service.uid.as_str();
        let all = self.all.iter().map(|it| &**it);
        all.filter(move |it| it.uid != uid && may_be_ours(it))
    }

    /// Whose that service is: its name says so, or else the Services do.
    pub(crate) fn whose(&self, service: &LoadBalancerService) -> Whose<'a> {
        let named = |uid: &str| {
            let rest = service.name.strip_prefix(uid);
            !uid.is_empty() && rest.is_some_and(|rest| rest.starts_with('-'))
        };
        if named(&self.service.uid) {
            return Whose::Ours;
        }
        if let Some(other) = self.others().find(|it| named(&it.uid)) {
            return Whose::Another(other);
        }
        let age = |it: &Service| (it.created, it.uid.clone());
        let claims = |it: &&Service| owned_services(it).contains(&service.id);
        let other = self.others().filter(claims).min_by_key(|it| age(it));
        match (claims(&self.service), other) {
            // Somebody has copied a Service with its annotations: the older one has it.
            (true, Some(other)) if age(other) < age(self.service) => Whose::Another(other),
            (true, _) => Whose::Ours,
            (false, Some(other)) => Whose::Another(other),
            (false, None) if self.all_known => Whose::Foreign,
            (false, None) => Whose::Unclear,
        }
    }

    /// The ids to be remembered of services that are ours although their names do not say so.
    pub(crate) fn nameless<'b>(
        &self,
        services: impl IntoIterator<Item = (&'b str, Uuid)>,
    ) -> BTreeSet<Uuid> {
        let prefix = format!("{}-", self.service.uid);
        let nameless = services
            .into_iter()
            .filter(|(name, _)| !name.starts_with(&prefix));
        nameless.map(|(_, id)| id).collect()
    }
}

/// Whose cluster's a load balancer is, by its label.
pub(crate) fn whose_cluster(cluster_name: &str, balancer: &LoadBalancer) -> bowline_core::Whose {
    use bowline_core::Whose::{Foreign, Ours, Unclear};
    match balancer.labels.get(CLUSTER_LABEL) {
        None => Unclear("names no cluster"),
        Some(label) if !names_a_cluster(label) => {
            Unclear("has the name that every cluster has by default")
        }
        Some(label) if names_a_cluster(cluster_name) && *label == label_value(cluster_name) => Ours,
        Some(_) => Foreign,
    }
}

/// What is said when the Service's annotation names a load balancer that is not its own.
pub(crate) fn not_ours(balancer: &LoadBalancer) -> Notice {
    Notice {
        warning: true,
        reason: "LoadBalancerNotOurs",
        message: format!(
            "load balancer {:?} ({id}) was not made for this Service: only the services of its ports are \
             looked after; annotation {}: \"true\" says that this is meant, and {TAKE_OVER}: {id} that it \
             is this Service's from now on",
            balancer.name,
            EXTERNAL.key,
            id = balancer.id
        ),
    }
}

/// A value that a label can have.
pub(crate) fn label_value(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let replaced = text.chars().map(|c| if allowed(c) { c } else { '-' });
    replaced.take(LONGEST_VALUE).collect()
}

#[cfg(test)]
mod tests;
