//! The nodes behind load balancer machines, and the label by which the machines find them.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{CloudError, Service};
use futures::future::try_join_all;
use uuid::Uuid;

use super::plan::Labelling;
use crate::api::{Machine, TagValue};
use crate::balancer::draft_context::DraftContext;
use crate::balancer::naming::{nodes_label, selected_nodes_label};
use crate::balancer::settings::{Mode, Settings};
use crate::balancer::targets::{Target, carries};
use crate::tags::{NODE, Ports};

/// A label without a port: load balancers know the ports.
fn portless() -> Ports {
    BTreeSet::from([None])
}

pub(crate) fn label(context: &DraftContext<'_>) -> String {
    label_of(&context.request.service, &context.settings, context.cluster)
}

fn label_of(service: &Service, settings: &Settings, cluster: &str) -> String {
    if settings.node_selector.is_everything() {
        nodes_label(cluster)
    } else {
        selected_nodes_label(&service.uid)
    }
}

/// All labels that nodes of this cluster can have behind load balancer machines.
pub(crate) fn labels(context: &DraftContext<'_>) -> BTreeSet<String> {
    let selected = context
        .request
        .all
        .iter()
        .map(|it| selected_nodes_label(&it.uid));
    let own = selected_nodes_label(&context.request.service.uid);
    let shared = nodes_label(context.cluster);
    selected.chain([own, shared]).collect()
}

/// The machines of the target nodes, by id, with their cards. Ready or not: load balancers check
/// them.
pub(crate) async fn targets(context: &DraftContext<'_>) -> Result<Vec<Machine>, CloudError> {
    let selector = &context.settings.node_selector;
    let nodes = context.nodes.ours.values();
    let label = label(context);
    let stays = |it: &&Target| !it.held || carries(&it.machine.tags, &label);
    let selected = nodes.filter(|it| selector.matches(&it.node.labels));
    let selected = selected.filter(stays);
    let data_center = &context.shared.data_center;
    try_join_all(selected.map(|Target { machine, .. }| data_center.with_nics(machine))).await
}

/// The changes after which these targets have the label, and no other node.
pub(crate) fn labelling(context: &DraftContext<'_>, label: &str, targets: &[Machine]) -> Labelling {
    let reconciler = &context.shared.tags;
    let shows = |machine: &Machine, ports: Option<&Ports>| {
        reconciler.shows(context.cluster, (machine.id, &machine.tags), label, ports)
    };
    let named = |machine: &Machine| (machine.id, machine.name.clone());
    let wanted = portless();
    let lacking = targets.iter().filter(|it| !shows(it, Some(&wanted)));
    let is_target = |id: Uuid| targets.iter().any(|it| it.id == id);
    let (left, unclear) = (context.left(), context.unclear());
    let marked = marked(context).filter(|it| !is_target(it.id) && !unclear.contains(&it.id));
    let (gone, others): (Vec<&Machine>, Vec<&Machine>) =
        marked.partition(|it| left.contains(&it.id));
    let off = others.into_iter().filter(|it| !shows(it, None));
    Labelling {
        label: label.to_owned(),
        on: lacking.map(named).collect(),
        off: off.map(named).collect(),
        left: gone.into_iter().map(named).collect(),
    }
}

/// The label goes from all nodes, if no Service needs it any more.
pub(crate) fn unlabelling(context: &DraftContext<'_>) -> Labelling {
    let own = &context.request.service;
    let label = label(context);
    let mut unlabelling = Labelling {
        label: label.clone(),
        ..Labelling::default()
    };
    if is_needed(context, &label, own) {
        return unlabelling;
    }
    let reconciler = &context.shared.tags;
    let carriers = marked(context).filter(|it| {
        carries(&it.tags, &label)
            || !reconciler.shows(context.cluster, (it.id, &it.tags), &label, None)
    });
    unlabelling.off = carriers.map(|it| (it.id, it.name.clone())).collect();
    unlabelling
}

/// Whether another Service needs that label, or may.
fn is_needed(context: &DraftContext<'_>, label: &str, own: &Service) -> bool {
    if !context.request.all_known {
        return true;
    }
    let config = &context.shared.config;
    let mut others = context.request.all.iter().filter(|it| it.uid != own.uid);
    others.any(|it| {
        let (settings, faults) = Settings::read(it, config);
        let wants = settings.mode_or(config) == Some(Mode::Clb) || !faults.is_empty();
        let is_served = it.is_load_balancer && !it.deleting;
        is_served && wants && label_of(it, &settings, context.cluster) == label
    })
}

fn marked<'a>(context: &'a DraftContext<'_>) -> impl Iterator<Item = &'a Machine> {
    let ours = TagValue::from(context.cluster);
    let machines = context.listing.machines.values();
    machines.filter(move |it| it.tags.get(NODE) == Some(&ours))
}

pub(crate) fn references(machines: &[Machine]) -> Vec<&Machine> {
    let by_id: BTreeMap<Uuid, &Machine> = machines.iter().map(|it| (it.id, it)).collect();
    by_id.into_values().collect()
}
