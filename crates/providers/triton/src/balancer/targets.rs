//! Which machines are targets of a Service. Pure: durations come in as values.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Node, Notice, Ready, name_list};
use uuid::Uuid;

use super::settings::Settings;
use crate::api::{Machine, MachineState, TagValue};
use crate::id::machine_id;
use crate::machine_cache::Listing;
use crate::tags::{NODE, Tags};

/// A target stays for so long although its node is not Ready: its kubelet may just be late.
pub(crate) const NOT_READY: Duration = Duration::from_secs(5);
/// Former targets stay for so long when no node has an endpoint: pods are being replaced.
pub(crate) const NO_ENDPOINT: Duration = Duration::from_secs(30);
/// The annotation of a Node whose machine bears another cluster's mark, and is this cluster's now.
const TAKE_OVER: &str = "cloud.tritoncompute/take_over";
const HIDDEN: &str = "triton.cns.disable";

#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) node: Arc<Node>,
    pub(crate) machine: Machine,
    pub(crate) take_over: bool,
    /// Whether its owner is unknown for the moment: it stays a target where it is one, and becomes
    /// no new one.
    pub(crate) held: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Nodes {
    /// Those whose machines are this cluster's to write to, by machine.
    pub(crate) ours: BTreeMap<Uuid, Target>,
    /// Those whose machines bear another cluster's mark.
    pub(crate) foreign: BTreeMap<Uuid, Arc<Node>>,
}

impl Nodes {
    /// Of these nodes, as far as the list shows their machines.
    pub(crate) fn new(nodes: &[Arc<Node>], listing: &Listing, cluster: &str) -> Self {
        let mut found = Self::default();
        for node in nodes {
            let id = node.provider_id.as_deref().and_then(machine_id);
            let machine = id.and_then(|id| listing.machines.get(&id));
            let Some(machine) = machine.filter(|it| !it.state.is_over()) else {
                continue;
            };
            let owner = machine.tags.get(NODE);
            let others = owner.is_some_and(|it| *it != TagValue::from(cluster));
            let take_over = node
                .annotations
                .get(TAKE_OVER)
                .is_some_and(|it| it == "true");
            if others && !take_over {
                found.foreign.insert(machine.id, node.clone());
            } else {
                let target = Target {
                    node: node.clone(),
                    machine: machine.clone(),
                    take_over: others,
                    held: false,
                };
                found.ours.insert(machine.id, target);
            }
        }
        found
    }

    /// With those of nodes whose owner is not known for the moment.
    #[must_use]
    pub(crate) fn with_held(
        mut self,
        nodes: &[Arc<Node>],
        listing: &Listing,
        cluster: &str,
    ) -> Self {
        for (id, target) in Self::new(nodes, listing, cluster).ours {
            let held = Target {
                held: true,
                ..target
            };
            self.ours.entry(id).or_insert(held);
        }
        self
    }

    pub(crate) fn notices(&self) -> Option<Notice> {
        let names = self.foreign.values().map(|node| node.name.as_str());
        warning(names, "MachineOwnedByOtherCluster", |names| {
            format!(
                "the machines of nodes [{names}] bear the mark of another cluster ({NODE}) and are left \
                 out; annotation {TAKE_OVER}: \"true\" on a Node takes its machine over"
            )
        })
    }
}

fn warning<'a>(
    names: impl Iterator<Item = &'a str>,
    reason: &'static str,
    text: impl FnOnce(String) -> String,
) -> Option<Notice> {
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| Notice {
        warning: true,
        reason,
        message: text(name_list(names)),
    })
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) label: &'a str,
    /// The names of the nodes with endpoints, if only those may serve.
    pub(crate) serving: Option<&'a BTreeSet<String>>,
    /// For how long nodes have been seen not to be Ready, by name.
    pub(crate) not_ready: &'a BTreeMap<String, Duration>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) targets: BTreeMap<Uuid, Target>,
    /// Whether no node has an endpoint, so that these are who served before.
    pub(crate) lacks_endpoints: bool,
    pub(crate) notices: Vec<Notice>,
    /// When time alone changes the answer.
    pub(crate) again: Option<Duration>,
}

/// Chooses the targets of a DNS name, which has no health check.
pub(crate) fn choose(nodes: &Nodes, here: Circumstances<'_>) -> Chosen {
    let mut chosen = Chosen::default();
    let mut hidden = Vec::new();
    for (id, target) in &nodes.ours {
        let Target { node, machine, .. } = target;
        if !here.settings.node_selector.matches(&node.labels) {
            continue;
        }
        if is_hidden(machine) {
            hidden.push(node.name.as_str());
            continue;
        }
        if machine.state != MachineState::Running {
            continue;
        }
        if target.held && !carries(&machine.tags, here.label) {
            continue;
        }
        if node.ready != Ready::True {
            let lasting = here.not_ready.get(&node.name).copied().unwrap_or_default();
            let left = NOT_READY.saturating_sub(lasting);
            if left.is_zero() || !carries(&machine.tags, here.label) {
                continue;
            }
            chosen.again = sooner(chosen.again, left);
        }
        chosen.targets.insert(*id, target.clone());
    }
    chosen
        .notices
        .extend(warning(hidden.into_iter(), "CNSDisabledOnNode", |names| {
            format!(
                "nodes [{names}] are left out: tag {HIDDEN} of their machines hides them from CNS"
            )
        }));
    if let Some(serving) = here.serving {
        chosen.keep_serving(serving, here.label);
    }
    chosen
}

impl Chosen {
    /// Keeps nodes with endpoints; if there is none, those that were targets before.
    fn keep_serving(&mut self, serving: &BTreeSet<String>, label: &str) {
        let has_endpoints = |target: &Target| serving.contains(&target.node.name);
        self.lacks_endpoints = !self.targets.values().any(has_endpoints);
        if self.lacks_endpoints {
            self.targets
                .retain(|_, target| carries(&target.machine.tags, label));
        } else {
            self.targets.retain(|_, target| has_endpoints(target));
        }
    }

    /// There has been no endpoint for so long: former targets stay for a while.
    pub(crate) fn without_endpoints_for(&mut self, lasting: Duration) {
        if !self.lacks_endpoints || self.targets.is_empty() {
            return;
        }
        let left = NO_ENDPOINT.saturating_sub(lasting);
        if left.is_zero() {
            self.targets.clear();
        } else {
            self.again = sooner(self.again, left);
        }
    }
}

pub(crate) fn sooner(
    one: Option<Duration>,
    other: impl Into<Option<Duration>>,
) -> Option<Duration> {
    one.into_iter().chain(other.into()).min()
}

/// Whether the name service leaves a machine out. Every value but `false` hides it.
fn is_hidden(machine: &Machine) -> bool {
    let tag = machine.tags.get(HIDDEN);
    tag.is_some_and(|tag| *tag != TagValue::Boolean(false))
}

pub(crate) fn recorded(tags: &Tags) -> BTreeSet<&str> {
    let text = tags.get(crate::tags::SERVICES_RECORD);
    let text = text.and_then(TagValue::as_text).unwrap_or_default();
    text.split(',').filter(|it| !it.is_empty()).collect()
}

pub(crate) fn carries(tags: &Tags, label: &str) -> bool {
    recorded(tags).contains(label)
}
