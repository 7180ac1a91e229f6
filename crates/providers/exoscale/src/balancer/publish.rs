//! What a Service is told about its load balancer. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{Ingress, Publication};
use uuid::Uuid;

use super::settings::table::{ID, INSTANCE_POOL, OWNED_SERVICES};
use crate::api::LoadBalancer;

/// How a load balancer is shown.
#[derive(Clone, Debug)]
pub(crate) enum Publisher {
    /// It is being removed; what names it goes with it.
    Farewell(BTreeSet<String>),
    /// It is, or will be.
    Present {
        /// The entrances until all is done.
        before: Vec<Ingress>,
        /// The pool, if it was found out.
        pool: Option<Uuid>,
        /// Whether the Service remembers ids of services.
        remembers: bool,
    },
}

impl Publisher {
    /// What may be said by now. `remembered` are the services that are the Service's although their
    /// names do not say so.
    pub(crate) fn publication(
        &self,
        balancer: Option<&Known>,
        remembered: &BTreeSet<Uuid>,
        finished: bool,
    ) -> Publication {
        let (before, pool, remembers) = match self {
            Self::Farewell(withdrawn) => {
                return Publication {
                    withdrawn: withdrawn.clone(),
                    ..Publication::default()
                };
            }
            Self::Present {
                before,
                pool,
                remembers,
            } => (before, pool, *remembers),
        };
        let mut annotations = BTreeMap::new();
        let mut say = |key: &str, value: String| {
            annotations.insert(key.to_owned(), value);
        };
        if let Some(pool) = pool {
            say(INSTANCE_POOL.key, pool.to_string());
        }
        if let Some(balancer) = balancer {
            say(ID.key, balancer.id.to_string());
        }
        if remembers || !remembered.is_empty() {
            let ids: Vec<String> = remembered.iter().map(Uuid::to_string).collect();
            say(OWNED_SERVICES, ids.join(","));
        }
        let ip = balancer.and_then(|it| it.ip.clone());
        let ingress = match ip.filter(|_| finished) {
            Some(ip) => vec![Ingress {
                ip: Some(ip),
                ..Ingress::default()
            }],
            None => before.clone(),
        };
        Publication {
            annotations,
            ingress,
            ..Publication::default()
        }
    }
}

/// What is known of a load balancer while its plan is carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) id: Uuid,
    pub(crate) ip: Option<String>,
}

impl From<&LoadBalancer> for Known {
    fn from(balancer: &LoadBalancer) -> Self {
        Self {
            id: balancer.id,
            ip: balancer.address().map(|ip| ip.to_string()),
        }
    }
}
