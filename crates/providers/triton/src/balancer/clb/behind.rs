//! The nodes behind load balancer machines: which they are, and the label by which they are found.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{CloudError, Service};
use futures::future::try_join_all;
use uuid::Uuid;

use super::plan::Labelling;
use crate::api::{Machine, TagValue};
use crate::balancer::members::{Member, carries};
use crate::balancer::naming::{nodes_label, selected_nodes_label};
use crate::balancer::scene::DraftContext;
use crate::balancer::settings::{Mode, Settings};
use crate::tags::{NODE, Ports};

/// A label without a port: load balancers know the ports.
fn portless() -> Ports {
    BTreeSet::from([None])
}

pub(crate) fn label(scene: &DraftContext<'_>) -> String {
    label_of(&scene.request.service, &scene.settings, scene.cluster)
}

fn label_of(service: &Service, settings: &Settings, cluster: &str) -> String {
    if settings.node_selector.is_everything() {
        nodes_label(cluster)
    } else {
        selected_nodes_label(&service.uid)
    }
}

/// All labels that nodes of this cluster can have behind load balancer machines.
pub(crate) fn labels(scene: &DraftContext<'_>) -> BTreeSet<String> {
    let selected = scene
        .request
        .all
        .iter()
        .map(|it| selected_nodes_label(&it.uid));
    let own = selected_nodes_label(&scene.request.service.uid);
    let shared = nodes_label(scene.cluster);
    selected.chain([own, shared]).collect()
}

/// The machines of the nodes behind, by id, with their cards. Whether a node is Ready does not matter: load
/// balancers check.
pub(crate) async fn members(scene: &DraftContext<'_>) -> Result<Vec<Machine>, CloudError> {
    let selector = &scene.settings.node_selector;
    let nodes = scene.nodes.ours.values();
    let label = label(scene);
    let stays = |it: &&Member| !it.held || carries(&it.machine.tags, &label);
    let selected = nodes.filter(|it| selector.matches(&it.node.labels));
    let selected = selected.filter(stays);
    let site = &scene.shared.site;
    try_join_all(selected.map(|Member { machine, .. }| site.with_nics(machine))).await
}

/// What has to change about the label on nodes, so that these have it and no others.
pub(crate) fn labelling(scene: &DraftContext<'_>, label: &str, members: &[Machine]) -> Labelling {
    let keeper = &scene.shared.keeper;
    let shows = |machine: &Machine, ports: Option<&Ports>| {
        keeper.shows(scene.cluster, (machine.id, &machine.tags), label, ports)
    };
    let named = |machine: &Machine| (machine.id, machine.name.clone());
    let wanted = portless();
    let lacking = members.iter().filter(|it| !shows(it, Some(&wanted)));
    let is_member = |id: Uuid| members.iter().any(|it| it.id == id);
    let (left, unclear) = (scene.left(), scene.unclear());
    let marked = marked(scene).filter(|it| !is_member(it.id) && !unclear.contains(&it.id));
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
pub(crate) fn unlabelling(scene: &DraftContext<'_>) -> Labelling {
    let own = &scene.request.service;
    let label = label(scene);
    let mut unlabelling = Labelling {
        label: label.clone(),
        ..Labelling::default()
    };
    if is_needed(scene, &label, own) {
        return unlabelling;
    }
    let keeper = &scene.shared.keeper;
    let carriers = marked(scene).filter(|it| {
        carries(&it.tags, &label) || !keeper.shows(scene.cluster, (it.id, &it.tags), &label, None)
    });
    unlabelling.off = carriers.map(|it| (it.id, it.name.clone())).collect();
    unlabelling
}

/// Whether another Service needs that label, or may.
fn is_needed(scene: &DraftContext<'_>, label: &str, own: &Service) -> bool {
    if !scene.request.all_known {
        return true;
    }
    let config = &scene.shared.config;
    let mut others = scene.request.all.iter().filter(|it| it.uid != own.uid);
    others.any(|it| {
        let (settings, faults) = Settings::read(it, config);
        let wants = settings.mode_or(config) == Some(Mode::Clb) || !faults.is_empty();
        let is_served = it.is_load_balancer && !it.deleting;
        is_served && wants && label_of(it, &settings, scene.cluster) == label
    })
}

fn marked<'a>(scene: &'a DraftContext<'_>) -> impl Iterator<Item = &'a Machine> {
    let ours = TagValue::from(scene.cluster);
    let machines = scene.listing.machines.values();
    machines.filter(move |it| it.tags.get(NODE) == Some(&ours))
}

pub(crate) fn references(machines: &[Machine]) -> Vec<&Machine> {
    let by_id: BTreeMap<Uuid, &Machine> = machines.iter().map(|it| (it.id, it)).collect();
    by_id.into_values().collect()
}
