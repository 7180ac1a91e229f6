//! Status and annotations of a Service. Pure.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bowline_core::{Condition, Ingress, IpMode, Publication};

use super::settings::table::{CONFIG_VERSION, UUID, ZONE};
use crate::api::LoadBalancer;

#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    showing: Showing,
    record: Option<Condition>,
    pub(crate) again: Option<Duration>,
}

#[derive(Clone, Debug)]
pub(crate) enum Showing {
    /// It is being removed: nothing is published.
    Silent,
    /// Something is wrong: its id may be published, and the ingress stays as it is.
    AsBefore(Vec<Ingress>),
    /// The entrances follow from the load balancer.
    Entrances {
        /// Until all is done.
        before: Vec<Ingress>,
        hostname: Option<String>,
        ip_mode: Option<IpMode>,
        /// Shown after its own addresses.
        floating_ips: Vec<IpAddr>,
        without_targets: bool,
    },
}

impl Publisher {
    pub(crate) fn new(showing: Showing) -> Self {
        Self {
            showing,
            record: None,
            again: None,
        }
    }

    /// The same, with what has to be remembered.
    pub(crate) fn recording(self, record: Option<Condition>) -> Self {
        Self { record, ..self }
    }

    /// The same, looking again after a while.
    pub(crate) fn again(self, again: Option<Duration>) -> Self {
        Self { again, ..self }
    }

    pub(crate) fn publication(
        &self,
        balancer: Option<&LoadBalancer>,
        finished: bool,
    ) -> Publication {
        let mut publication = self.showing.publication(balancer, finished);
        publication.records.extend(self.record.clone());
        publication
    }
}

impl Showing {
    fn publication(&self, balancer: Option<&LoadBalancer>, finished: bool) -> Publication {
        let mut annotations = BTreeMap::new();
        let mut say = |key: &str, value: &str| {
            annotations.insert(key.to_owned(), value.to_owned());
        };
        let ingress = match (self, balancer) {
            (Self::Silent, _) => return Publication::default(),
            (Self::AsBefore(before) | Self::Entrances { before, .. }, None) => before.clone(),
            (Self::AsBefore(before), Some(balancer)) => {
                say(UUID.key, &balancer.uuid.to_string());
                before.clone()
            }
            (Self::Entrances { before, .. }, Some(balancer)) => {
                say(UUID.key, &balancer.uuid.to_string());
                if finished {
                    say(CONFIG_VERSION.key, CONFIG_VERSION.default);
                    say(ZONE.key, &balancer.zone);
                    self.entrances(balancer)
                } else {
                    before.clone()
                }
            }
        };
        Publication {
            annotations,
            ingress,
            without_targets: matches!(
                self,
                Self::Entrances {
                    without_targets: true,
                    ..
                }
            ),
            ..Publication::default()
        }
    }

    fn entrances(&self, balancer: &LoadBalancer) -> Vec<Ingress> {
        let Self::Entrances {
            hostname,
            ip_mode,
            floating_ips,
            ..
        } = self
        else {
            return Vec::new();
        };
        if let Some(hostname) = hostname {
            return vec![Ingress {
                hostname: Some(hostname.clone()),
                ..Ingress::default()
            }];
        }
        let own = balancer.vip_addresses.iter().map(|it| it.address.clone());
        let floating = floating_ips.iter().map(IpAddr::to_string);
        own.chain(floating)
            .map(|address| Ingress {
                ip: Some(address),
                hostname: None,
                ip_mode: *ip_mode,
            })
            .collect()
    }
}
