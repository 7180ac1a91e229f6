//! What a draft starts from: one Service, its settings, and what the cloud shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{BalancerRequest, CloudError, CloudErrorKind, Exclusion, Goal};
use futures::future::try_join_all;
use futures::try_join;
use uuid::Uuid;

use super::Shared;
use super::naming::label_of;
use super::settings::Settings;
use super::targets::{Chosen, Nodes, Target, carries};
use crate::api::{Account, Machine, Network, TagValue};
use crate::id::{hyphenated, machine_id};
use crate::machine_cache::Listing;
use crate::tags::NODE;

/// A list of machines of that age is good enough: Services are reconciled in groups.
const LIST_AGE: Duration = Duration::from_secs(5);

pub(crate) struct DraftContext<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) request: &'a BalancerRequest,
    pub(crate) cluster: &'a str,
    pub(crate) settings: Settings,
    /// The label of the Service's name: on nodes in mode `cns`, on the machines in mode `clb`.
    pub(crate) label: String,
    pub(crate) account: Account,
    pub(crate) networks: Arc<BTreeMap<Uuid, Network>>,
    pub(crate) listing: Arc<Listing>,
    pub(crate) nodes: Nodes,
    /// The machines of all nodes of the cluster, targets or not.
    node_machines: BTreeSet<Uuid>,
}

impl<'a> DraftContext<'a> {
    pub(crate) async fn look(
        shared: &'a Arc<Shared>,
        request: &'a BalancerRequest,
        settings: Settings,
    ) -> Result<Self, CloudError> {
        let Some(cluster) = request.cluster_uid.as_deref() else {
            let why = "the uid of the cluster is not known";
            return Err(CloudError::new(CloudErrorKind::Unavailable, why));
        };
        let data_center = &shared.data_center;
        let networks = async {
            match (data_center.networks().await, request.goal) {
                // A removal does not need them.
                (Err(_), Goal::Absent) => Ok(Arc::default()),
                (read, _) => read,
            }
        };
        let (account, networks, listing) = try_join!(
            data_center.account(),
            networks,
            data_center.machines.recent(LIST_AGE)
        )?;
        let targets = request
            .nodes
            .iter()
            .filter_map(|it| it.provider_id.as_deref());
        let others = request.excluded.excluded.iter().map(String::as_str);
        let held = request.excluded.held.iter();
        let held = held.filter_map(|it| it.provider_id.as_deref());
        let others = others.chain(held);
        let node_machines = targets.chain(others).filter_map(machine_id).collect();
        let (style, name) = (shared.config.cns_label_style, &shared.cluster_name);
        Ok(Self {
            shared,
            request,
            cluster,
            label: label_of(&request.service, &settings, style, name),
            settings,
            account,
            networks,
            nodes: Nodes::new(&request.nodes, &listing, cluster).with_held(
                &request.excluded.held,
                &listing,
                cluster,
            ),
            listing,
            node_machines,
        })
    }

    /// Whether a machine is of a node of the cluster, target or not.
    pub(crate) fn is_node(&self, machine: Uuid) -> bool {
        self.node_machines.contains(&machine)
    }

    /// Machines that bear the cluster's mark and belong to no known node.
    fn strangers(&self) -> impl Iterator<Item = Uuid> {
        let ours = TagValue::from(self.cluster);
        let machines = self.listing.machines.values();
        let marked = machines.filter(move |it| it.tags.get(NODE) == Some(&ours));
        marked.map(|it| it.id).filter(|id| !self.is_node(*id))
    }

    /// Whether there may be nodes with an unknown machine.
    fn has_unknown_nodes(&self) -> bool {
        let excluded = &self.request.excluded;
        !excluded.unknown.is_empty() || excluded.left_out.contains_key(&Exclusion::Unidentified)
    }

    /// Machines that have left the cluster, for certain.
    pub(crate) fn left(&self) -> BTreeSet<Uuid> {
        if self.has_unknown_nodes() {
            return BTreeSet::new();
        }
        self.strangers().collect()
    }

    /// Machines that may be of a node that is not known, and those of nodes that keep what they
    /// have.
    pub(crate) fn unclear(&self) -> BTreeSet<Uuid> {
        let mut unclear: BTreeSet<Uuid> = self.held().map(|it| it.machine.id).collect();
        if self.has_unknown_nodes() {
            unclear.extend(self.strangers());
        }
        unclear
    }

    /// The names of nodes that keep that label although their owner is not known for the moment.
    pub(crate) fn holding(&self, label: &str) -> Vec<String> {
        let holding = self.held().filter(|it| carries(&it.machine.tags, label));
        holding.map(|it| it.node.name.clone()).collect()
    }

    /// Nodes whose owner is not known for the moment, as far as the Service's own settings leave
    /// them in.
    fn held(&self) -> impl Iterator<Item = &Target> {
        let selector = &self.settings.node_selector;
        let all = self.nodes.ours.values();
        all.filter(move |it| it.held && selector.matches(&it.node.labels))
    }

    /// The network that somebody named, and where; none: in the Service's annotation.
    pub(crate) fn named_network(&self) -> Option<(&str, Option<&'static str>)> {
        if let Some(name) = &self.settings.cns_network {
            return Some((name, None));
        }
        let config = &self.shared.config;
        let (name, key) = if self.settings.internal {
            (&config.private_network, "private-network")
        } else {
            (&config.public_network, "public-network")
        };
        name.as_deref().map(|name| (name, Some(key)))
    }

    /// The network of that id or name; the first of several.
    pub(crate) fn network_named(&self, name: &str) -> Option<Uuid> {
        let id = hyphenated(name).filter(|id| self.networks.contains_key(id));
        let mut networks = self.networks.values();
        id.or_else(|| networks.find(|it| it.name == name).map(|it| it.id))
    }

    /// The configured zone, for networks that do not report theirs.
    pub(crate) fn configured_zone(&self) -> Option<&str> {
        let config = &self.shared.config;
        if self.settings.internal {
            config.cns_suffix_private.as_deref()
        } else {
            config.cns_suffix_public.as_deref()
        }
    }

    pub(crate) fn published(&self) -> Option<&str> {
        let mut entrances = self.request.service.ingress.iter();
        entrances.find_map(|it| it.hostname.as_deref())
    }

    /// The machines of targets, by id, with their cards.
    pub(crate) async fn with_nics(&self, chosen: &Chosen) -> Result<Vec<Machine>, CloudError> {
        let targets = chosen.targets.values();
        let read = targets.map(|it| self.shared.data_center.with_nics(&it.machine));
        try_join_all(read).await
    }
}
