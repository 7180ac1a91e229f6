//! Status and annotations of a Service. Pure.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{Ingress, Publication, Service};
use uuid::Uuid;

use super::record::Record;
use super::settings::table::{ID, INSTANCE_POOL, OWNED_SERVICES};
use crate::api::LoadBalancer;

#[derive(Clone, Debug)]
pub(crate) enum Publisher {
    /// It is being removed; what names it goes with it.
    Farewell(BTreeSet<String>),
    /// It is, or will be.
    Present {
        /// The entrances until all is done.
        before: Vec<Ingress>,
        pool: Option<Uuid>,
    },
}

impl Publisher {
    pub(crate) fn publication(
        &self,
        service: &Service,
        balancer: Option<&Known>,
        record: &Record,
        finished: bool,
    ) -> Publication {
        let (before, pool) = match self {
            Self::Farewell(withdrawn) => {
                return Publication {
                    withdrawn: withdrawn.clone(),
                    ..Publication::default()
                };
            }
            Self::Present { before, pool } => (before, pool),
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
        // Its valid part is remembered in the condition.
        if service.annotation(OWNED_SERVICES).is_some() {
            say(OWNED_SERVICES, String::new());
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
            records: record.condition(service).into_iter().collect(),
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
