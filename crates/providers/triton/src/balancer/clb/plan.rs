//! Compares what is wanted with what exists: the steps between. Pure.
//!
//! The order: labels on the nodes and their name; machines that are missing, each until it runs;
//! what changes in place; firewall rules; at last the machines that go. A machine that is replaced
//! goes only when its successor runs, first from DNS, and a minute later for good.

mod reconcile;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Impact, Notice, ResourceState, StepId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::machines::{Leaving, NAMES_TAG, address};
use super::metadata::{Difference, PORTMAP};
use super::state::DRAIN;
use crate::api::{FirewallRule, Machine, Network};
use crate::balancer::firewall::RuleChange;
use crate::balancer::steps::{LABEL, MACHINE, change, new, note, push_rule, seen, there};

pub(crate) use reconcile::{Wanted, reconcile};

/// Why the name of the backends is waited for.
pub(crate) const AWAITED: &str = "the name of one network is used if it is published within 30 s";

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Puts the label of the backends on a node's machine, or takes it away.
    Label {
        id: Uuid,
        label: String,
        change: LabelChange,
    },
    AwaitLabels(Labelling),
    EnableNames,
    /// Until the name of the backends is published, for a while.
    AwaitName,
    Adopt {
        id: Uuid,
        tags: BTreeMap<String, String>,
    },
    Rename {
        id: Uuid,
        name: String,
    },
    Create {
        ordinal: u8,
    },
    AwaitRunning {
        ordinal: u8,
    },
    Start {
        ordinal: u8,
    },
    Tag {
        id: Uuid,
        tags: BTreeMap<String, String>,
    },
    Metadata {
        id: Uuid,
        difference: Difference,
    },
    Firewall(Uuid),
    Protect {
        id: Uuid,
        on: bool,
    },
    Rule(RuleChange),
    Drain(Uuid),
    Delete(Uuid),
    AwaitGone(Uuid),
    /// Adds the entries of the Service to the port map of a shared appliance, or removes them.
    ShareMap {
        id: Uuid,
        brings: bool,
    },
}

/// A plan and, for each step, what it does.
pub(crate) type PlanBuilder = bowline_core::PlanBuilder<Action>;

/// The label of the backends, as far as it has to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Labelling {
    pub(crate) label: String,
    /// Machines that get it, with their names.
    pub(crate) on: BTreeMap<Uuid, String>,
    pub(crate) off: BTreeMap<Uuid, String>,
    /// Machines that have left the cluster, from which everything of ours goes.
    pub(crate) left: BTreeMap<Uuid, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelChange {
    On,
    Off,
    /// It has left the cluster, and everything of ours goes.
    Left,
}

#[derive(Debug, Default)]
pub(crate) struct Planned {
    pub(crate) builder: PlanBuilder,
    /// When time alone changes what is to be done.
    pub(crate) again: Option<Duration>,
}

impl Planned {
    pub(crate) fn sooner(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }
}

/// The steps of the label on nodes, one for each machine; returns the step after which they show
/// it.
pub(crate) fn push_label(
    builder: &mut PlanBuilder,
    labelling: &Labelling,
    why: &str,
) -> Option<StepId> {
    let Labelling {
        label,
        on,
        off,
        left,
    } = labelling;
    if on.is_empty() && off.is_empty() && left.is_empty() {
        return None;
    }
    let all = [
        (LabelChange::On, on),
        (LabelChange::Off, off),
        (LabelChange::Left, left),
    ];
    for (what, (id, name)) in all
        .into_iter()
        .flat_map(|(it, of)| of.iter().map(move |m| (it, m)))
    {
        let (before, after) = match what {
            LabelChange::On => (Value::Null, json!(label)),
            LabelChange::Off | LabelChange::Left => (json!(label), Value::Null),
        };
        let object = there(MACHINE, name, id);
        let why = match what {
            LabelChange::On | LabelChange::Off => why,
            LabelChange::Left => "the machine is no node of the cluster any more",
        };
        let action = Action::Label {
            id: *id,
            label: label.clone(),
            change: what,
        };
        let note = note(Impact::InPlace, Some(why), &[]);
        builder.change(object, vec![change(LABEL, before, after)], &note, action);
    }
    let why = "machines show it some seconds later";
    let note = note(Impact::None, Some(why), &[]);
    let action = Action::AwaitLabels(labelling.clone());
    Some(builder.wait(new(LABEL, label), &note, action))
}

/// Changes of firewall rules, and the rules that there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) changes: Vec<RuleChange>,
    pub(crate) there: Arc<Vec<FirewallRule>>,
}

pub(crate) fn push_rules(builder: &mut PlanBuilder, rules: &Rules) {
    for rule in &rules.changes {
        push_rule(builder, rule, &rules.there, Action::Rule(rule.clone()));
    }
}

/// The removal of a machine: says the step after which it is gone; none if it is protected, which
/// is not ours to change.
pub(crate) fn push_removal(
    builder: &mut PlanBuilder,
    machine: &Machine,
    why: &str,
    may_unprotect: bool,
    needs: &[StepId],
) -> Option<StepId> {
    let mut needs = needs.to_vec();
    if machine.deletion_protection {
        if !may_unprotect {
            return None;
        }
        let changes = vec![change("deletion_protection", true, false)];
        let why = note(Impact::None, Some("it was asked for here"), &needs);
        let action = Action::Protect {
            id: machine.id,
            on: false,
        };
        needs = vec![builder.change(seen(machine), changes, &why, action)];
    }
    let why = note(Impact::Destroys, Some(why), &needs);
    let begun = builder.delete(seen(machine), &why, Action::Delete(machine.id));
    let needs = [begun];
    let why = note(Impact::None, Some("it is being destroyed"), &needs);
    Some(builder.wait(seen(machine), &why, Action::AwaitGone(machine.id)))
}

/// The notice about a machine that somebody has protected.
pub(crate) fn protected(machine: &Machine) -> (&'static str, String) {
    let text = format!(
        "machine {} ({}) is protected from deletion, and that was not asked for here: it stays until \
         somebody takes the protection away",
        machine.name, machine.id
    );
    ("DeletionProtected", text)
}

pub(crate) struct Departure<'a> {
    pub(crate) may_unprotect: bool,
    /// For how long they have been out of DNS.
    pub(crate) drained: &'a BTreeMap<Uuid, Duration>,
    pub(crate) needs: &'a [StepId],
}

impl Departure<'_> {
    /// First from DNS, and a minute later for good.
    pub(crate) fn push(&self, out: &mut Planned, leaving: &[Leaving]) {
        for Leaving { machine, why, .. } in leaving {
            if machine.deletion_protection && !self.may_unprotect {
                let (reason, message) = protected(machine);
                out.builder.plan.notices.push(Notice {
                    warning: true,
                    reason,
                    message,
                });
            }
            if machine.tags.contains_key(NAMES_TAG) {
                let before = machine.tags.get(NAMES_TAG).map(ToString::to_string);
                let changes = vec![change(NAMES_TAG, before, Value::Null)];
                let why = format!("{why}; it is deleted when it has been out of DNS for a minute");
                let note = note(Impact::Interrupts, Some(&why), self.needs);
                let action = Action::Drain(machine.id);
                out.builder.change(seen(machine), changes, &note, action);
                out.sooner(DRAIN);
                continue;
            }
            let drained = self.drained.get(&machine.id).copied();
            let left = DRAIN.saturating_sub(drained.unwrap_or_default());
            if left.is_zero() {
                push_removal(
                    &mut out.builder,
                    machine,
                    why,
                    self.may_unprotect,
                    self.needs,
                );
            } else {
                out.sooner(left);
            }
        }
    }
}

/// A machine that is there, as people compare it.
pub(crate) fn found_state(machine: &Machine, networks: &BTreeMap<Uuid, Network>) -> ResourceState {
    let map = machine.metadata.get(PORTMAP).map(ToString::to_string);
    let addresses: Vec<String> = [true, false]
        .into_iter()
        .filter_map(|public| address(machine, public, networks))
        .map(|it| it.to_string())
        .collect();
    let attributes = json!({
        "state": machine.state.as_str(),
        "package": machine.package,
        "portmap": map,
        "addresses": addresses,
    });
    ResourceState {
        object: seen(machine),
        attributes: attributes.as_object().cloned().unwrap_or_default(),
    }
}

pub(crate) fn wanted_state(name: &str, package: &str, portmap: &str) -> ResourceState {
    let attributes = json!({"package": package, "portmap": portmap});
    ResourceState {
        object: new(MACHINE, name),
        attributes: attributes.as_object().cloned().unwrap_or_default(),
    }
}
