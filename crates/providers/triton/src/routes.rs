//! Routes to pods on the account's fabric networks.
//!
//! ```text
//!  observe ─▶ networks, machines ─▶ which networks get routes ─▶ read each ─▶ want (pure)
//!  write   ─▶ read a network ─▶ change (pure) ─▶ PUT all its routes ─▶ read again ─ not as written ─▶ again
//! ```
//!
//! The routes of a network are one map, which machines get at their next boot. The API can neither
//! change one route alone nor show that somebody else changed another in between. So each network
//! is read right before it is written, and again right after. Routes that are not to pods, or
//! cannot be parsed, stay.

#[cfg(test)]
mod tests;
mod want;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::routes::{Advice, ObservedRoutes, Question, RouteNote, RouteStep, Routes};
use bowline_core::{BoxFuture, CloudError, CloudErrorKind, Node};
use tokio::time::Instant;
use uuid::Uuid;

use crate::api::{ApiError, Network};
use crate::context::Context;
use crate::id;
use crate::lock;
use crate::machine_cache::Listing;
use want::{Machines, Managed, changed, hop, is_kept};

pub use want::{
    IPV6_IGNORED, MOST_ENTRIES, NO_FABRIC_NIC, OUTSIDE_CLUSTER, OVERLAPS_SUBNET, SHARED, TOO_MANY,
};

/// The reason of the event about what an operator of the data center has to allow.
pub const NEED_SPOOFING: &str = "RoutesNeedSpoofing";
/// Writes of one network while somebody else changes it at the same time.
const WRITES: usize = 3;
/// A list of that age is not asked for again to look for machines that it does not show.
const LIST_AGE: Duration = Duration::from_secs(5);

const ADVICE: &str = "Routes to pods on fabric networks reach nobody as long as node machines may only send \
    from their own addresses. An operator of the data center has to set allow_ip_spoofing on the network \
    cards of all node machines, or allowed_ips with the range of their pods; CloudAPI can neither show nor \
    change that. Machines that run take on routes at their next boot.";

/// What was found out about a network, for the writes that follow.
#[derive(Clone, Debug)]
struct Known {
    vlan: u16,
    hops: BTreeMap<String, Ipv4Addr>,
}

pub(crate) struct FabricRoutes {
    context: Arc<Context>,
    pod: Option<(String, String)>,
    /// By network, as last observed. Networks seen earlier stay: what was written there is ours.
    known: Mutex<BTreeMap<Uuid, Known>>,
}

impl FabricRoutes {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        let variable = |name: &str| (context.environment)(name).filter(|it| !it.is_empty());
        Self {
            context: Arc::clone(context),
            pod: variable("POD_NAMESPACE").zip(variable("POD_NAME")),
            known: Mutex::default(),
        }
    }

    async fn look(&self, question: &Question) -> Result<ObservedRoutes, CloudError> {
        self.context.activity.record();
        let networks = self.context.data_center.api.networks().await?;
        let listing = self.list(question).await?;
        let machines = self.machines(question, &listing).await;
        let managed = self.read(&networks, question, &machines).await?;
        self.remember(&managed, &machines);
        Ok(want::observe(question, &managed, &machines))
    }

    async fn list(&self, question: &Question) -> Result<Arc<Listing>, CloudError> {
        let begun = Instant::now();
        let machine_cache = &self.context.data_center.machines;
        let listing = machine_cache.recent(self.context.config.resync).await?;
        let old = begun.saturating_duration_since(listing.asked) > LIST_AGE;
        let lacks = |node: &Arc<Node>| {
            let machine = machine_of(node);
            machine.is_some_and(|id| !listing.machines.contains_key(&id))
        };
        if old && question.nodes.iter().any(lacks) {
            return machine_cache.recent(LIST_AGE).await;
        }
        Ok(listing)
    }

    async fn machines(&self, question: &Question, listing: &Listing) -> Machines {
        let mut machines = Machines::default();
        for node in question.nodes.iter().chain(&question.others) {
            let Some(id) = machine_of(node) else {
                continue;
            };
            let Some(machine) = listing.machines.get(&id) else {
                let why = format!("machine {id} is not listed");
                machines.lost.insert(node.name.clone(), why);
                continue;
            };
            match self.context.data_center.with_nics(machine).await {
                Ok(machine) => machines.add_cards(&node.name, &machine),
                Err(error) => drop(machines.lost.insert(node.name.clone(), error.chain())),
            }
        }
        machines
    }

    /// The networks that get routes, as they are now.
    async fn read(
        &self,
        networks: &[Network],
        question: &Question,
        machines: &Machines,
    ) -> Result<Vec<Managed>, CloudError> {
        let known: BTreeSet<Uuid> = lock(&self.known).keys().copied().collect();
        let mut managed = Vec::new();
        for network in networks {
            let is_used = || {
                let mut nodes = question.nodes.iter();
                known.contains(&network.id)
                    || nodes.any(|node| machines.is_on(network.id, &node.name))
            };
            let is_named = self.context.config.routes.networks.is_empty() && is_used()
                || names(&self.context.config.routes.networks, network);
            let Some(vlan) = network.vlan_id.filter(|_| network.fabric && is_named) else {
                continue;
            };
            let read = self
                .context
                .data_center
                .api
                .fabric_network(vlan, network.id);
            let network = read.await.map_err(refused)?;
            self.context
                .metrics
                .route_entries(network.id, network.routes.len());
            managed.push(Managed { network, vlan });
        }
        Ok(managed)
    }

    fn remember(&self, managed: &[Managed], machines: &Machines) {
        let mut known = lock(&self.known);
        for Managed { network, vlan } in managed {
            let hops = machines.cards.get(&network.id).cloned();
            let now = Known {
                vlan: *vlan,
                hops: hops.unwrap_or_default(),
            };
            known.insert(network.id, now);
        }
    }

    /// Writes a network until it is as it was written.
    async fn replace(&self, question: &Question, steps: &[RouteStep]) -> Result<(), CloudError> {
        let table = steps.first().map(|step| step.route().table.as_str());
        let table = table.and_then(|it| Uuid::try_parse(it).ok());
        let known = table.and_then(|id| Some((id, lock(&self.known).get(&id)?.clone())));
        let Some((id, Known { vlan, hops })) = known else {
            let text = format!("writing routes of network {table:?}, which was never seen");
            return Err(CloudError::new(CloudErrorKind::Unknown, text));
        };
        let api = &self.context.data_center.api;
        let mut current = api.fabric_network(vlan, id).await.map_err(refused)?.routes;
        for _ in 0..WRITES {
            let routes = changed(&current, steps, &hops);
            if routes == current {
                return Ok(());
            }
            api.set_routes(vlan, id, &routes).await.map_err(refused)?;
            let seen = api.fabric_network(vlan, id).await.map_err(refused)?.routes;
            self.context.metrics.route_entries(id, seen.len());
            if is_kept(&question.ranges, &current, &routes, &seen) {
                return Ok(());
            }
            current = seen;
        }
        let text = format!("routes of network {id} keep being changed by somebody else");
        Err(CloudError::new(CloudErrorKind::Unavailable, text))
    }

    async fn carry_out(
        &self,
        question: &Question,
        steps: &[RouteStep],
    ) -> Vec<Result<(), CloudError>> {
        self.context.activity.record();
        let outcome = self.replace(question, steps).await;
        let hops = |step: &RouteStep| {
            let table = Uuid::try_parse(&step.route().table).ok()?;
            Some(lock(&self.known).get(&table)?.hops.clone())
        };
        let one = |step: &RouteStep| match (&outcome, step) {
            (Err(error), _) => Err(error.copy()),
            (Ok(()), RouteStep::Delete(_)) => Ok(()),
            (Ok(()), RouteStep::Create { route, .. }) => {
                let address = hops(step).and_then(|hops| hop(route, &hops));
                address.map(|_| ()).ok_or_else(|| {
                    let text = format!("making route {route}, whose node has no address there");
                    CloudError::new(CloudErrorKind::Unknown, text)
                })
            }
        };
        steps.iter().map(one).collect()
    }
}

fn machine_of(node: &Node) -> Option<Uuid> {
    id::machine_id(node.provider_id.as_deref()?)
}

fn names(list: &[String], network: &Network) -> bool {
    let id = network.id.to_string();
    list.iter()
        .any(|it| *it == network.name || it.eq_ignore_ascii_case(&id))
}

/// A data center without fabrics can have no routes, whatever is asked.
fn refused(error: ApiError) -> CloudError {
    if error.status() == Some(501) {
        let text =
            "fabric networks are switched off in this data center, so that there can be no routes";
        return CloudError::new(CloudErrorKind::Invalid, text).caused_by(error);
    }
    error.into()
}

impl Routes for FabricRoutes {
    fn survey<'a>(
        &'a self,
        question: &'a Question,
    ) -> BoxFuture<'a, Result<ObservedRoutes, CloudError>> {
        Box::pin(self.look(question))
    }

    fn write<'a>(
        &'a self,
        question: &'a Question,
        steps: &'a [RouteStep],
    ) -> BoxFuture<'a, Vec<Result<(), CloudError>>> {
        Box::pin(self.carry_out(question, steps))
    }

    fn advice(&self) -> Option<Advice> {
        Some(Advice {
            pod: self.pod.clone(),
            remark: RouteNote {
                reason: NEED_SPOOFING,
                message: ADVICE.to_owned(),
            },
        })
    }

    fn writes_tables(&self) -> bool {
        true
    }
}
