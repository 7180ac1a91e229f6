//! Which load balancers of a list are worth a closer look.

use bowline_core::{BalancerRequest, SERVICE_MARK, Service, hands_over_to, service_mark};

use super::{SERVICE_LABEL, label_value};
use crate::api::LoadBalancer;
use crate::balancer::settings::{Settings, default_name, id_of};

/// Which load balancers a Service may turn out to manage, besides those that its annotations name by id: those that
/// name it, those that it names, and those of Services that hand theirs over to it. Each is then judged by itself
/// ([`claim`](super::OwnershipContext::claim)).
pub(crate) struct Candidates<'a> {
    /// The name that the Service gives it.
    name: Option<&'a String>,
    label: String,
    default_name: String,
    mark: String,
    /// The Services that hand theirs over to this one.
    givers: Vec<&'a Service>,
}

impl<'a> Candidates<'a> {
    pub(crate) fn of(request: &'a BalancerRequest, settings: &'a Settings) -> Self {
        let service = &*request.service;
        let givers = request.all.iter().map(|it| &**it);
        let gives = |it: &&Service| hands_over_to(it).as_ref() == Some(&service.key);
        Self {
            name: settings.name.as_ref(),
            label: label_value(&service.uid),
            default_name: default_name(&service.uid),
            mark: label_value(&service_mark(&service.key)),
            givers: givers.filter(gives).collect(),
        }
    }

    pub(crate) fn include(&self, balancer: &LoadBalancer) -> bool {
        let label = |key: &str| balancer.labels.get(key);
        let is_givers = |it: &&Service| {
            label(SERVICE_LABEL) == Some(&label_value(&it.uid))
                || balancer.name == default_name(&it.uid)
                || id_of(it) == Some(balancer.id)
        };
        label(SERVICE_LABEL) == Some(&self.label)
            || label(SERVICE_MARK) == Some(&self.mark)
            || balancer.name == self.default_name
            || self.name == Some(&balancer.name)
            || self.givers.iter().any(is_givers)
    }
}
