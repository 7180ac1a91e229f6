//! From what is wanted and what is there to the steps between. Pure.
//!
//! The order: labels on the nodes and their name; machines that are missing, each until it runs; what
//! changes in place; firewall rules; at last the machines that go. A machine that is replaced goes only
//! when its successor runs, first from DNS, and a minute later for good.

mod reconcile;

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::{Change, Impact, Notice, ResourceRef, ResourceState, StepId, StepNote};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::machines::{Leaving, NAMES_TAG, address};
use super::memory::DRAIN;
use super::metadata::{Difference, PORTMAP};
use crate::api::{Machine, Network};
use crate::balancer::firewall::RuleChange;

pub(crate) use reconcile::{Wanted, reconcile};

// What things are called.
pub(crate) const MACHINE: &str = "machine";
pub(crate) const LABEL: &str = "DNS service";
pub(crate) const NAME: &str = "DNS name";
pub(crate) const RULE: &str = "firewall rule";

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Puts the label of the backends on a node's machine, or takes it away.
    Label {
        id: Uuid,
        label: String,
        change: LabelChange,
    },
    /// Until the nodes show it.
    AwaitLabels(Labelling),
    /// Switches the name service on for the account.
    EnableNames,
    /// Until the name of the backends is published, for a while.
    AwaitName,
    /// Marks a machine of the other controller as ours.
    Adopt {
        id: Uuid,
        tags: BTreeMap<String, String>,
    },
    Rename {
        id: Uuid,
        name: String,
    },
    Create {
        seat: u8,
    },
    /// Until the machine in that seat runs.
    AwaitRunning {
        seat: u8,
    },
    Start {
        seat: u8,
    },
    Tag {
        id: Uuid,
        tags: BTreeMap<String, String>,
    },
    Metadata {
        id: Uuid,
        difference: Difference,
    },
    /// Switches the firewall of a machine on.
    Firewall(Uuid),
    Protect {
        id: Uuid,
        on: bool,
    },
    Rule(RuleChange),
    /// Takes a machine that goes out of DNS.
    Drain(Uuid),
    Delete(Uuid),
    AwaitGone(Uuid),
    /// Brings the entries of the Service into the port map of a machine that somebody else looks after, or
    /// out of it.
    ShareMap {
        id: Uuid,
        /// Whether they are brought in.
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
    /// Machines that lose it.
    pub(crate) off: BTreeMap<Uuid, String>,
    /// Machines that have left the cluster, from which everything of ours goes.
    pub(crate) left: BTreeMap<Uuid, String>,
}

/// What becomes of the label on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelChange {
    /// It gets it.
    On,
    /// It loses it.
    Off,
    /// It has left the cluster, and everything of ours goes.
    Left,
}

/// What came of planning beside the plan.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    pub(crate) sketch: PlanBuilder,
    /// When time alone changes what is to be done.
    pub(crate) again: Option<Duration>,
}

impl Planned {
    pub(crate) fn sooner(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }
}

/// An object that exists.
pub(crate) fn seen(machine: &Machine) -> ResourceRef {
    ResourceRef {
        kind: MACHINE,
        name: machine.name.clone(),
        id: Some(machine.id.to_string()),
    }
}

pub(crate) fn new(kind: &'static str, name: &str) -> ResourceRef {
    ResourceRef {
        kind,
        name: name.to_owned(),
        id: None,
    }
}

fn remark<'a>(impact: Impact, reason: Option<&'a str>, needs: &'a [StepId]) -> StepNote<'a> {
    StepNote {
        impact,
        reason,
        needs,
    }
}

pub(crate) fn change(field: &str, before: impl Into<Value>, after: impl Into<Value>) -> Change {
    Change {
        field: field.to_owned(),
        before: before.into(),
        after: after.into(),
    }
}

/// The steps of the label on nodes, a machine each: says the step after which they show it.
pub(crate) fn push_label(
    sketch: &mut PlanBuilder,
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
        let object = ResourceRef {
            kind: MACHINE,
            name: name.clone(),
            id: Some(id.to_string()),
        };
        let why = match what {
            LabelChange::On | LabelChange::Off => why,
            LabelChange::Left => "the machine is no node of the cluster any more",
        };
        let action = Action::Label {
            id: *id,
            label: label.clone(),
            change: what,
        };
        let remark = remark(Impact::InPlace, Some(why), &[]);
        sketch.change(object, vec![change(LABEL, before, after)], &remark, action);
    }
    let remark = remark(
        Impact::None,
        Some("machines show it some seconds later"),
        &[],
    );
    let action = Action::AwaitLabels(labelling.clone());
    Some(sketch.wait(new(LABEL, label), &remark, action))
}

/// Changes of firewall rules, and the texts that rules have now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) changes: Vec<RuleChange>,
    pub(crate) texts: BTreeMap<Uuid, String>,
}

/// The steps of firewall rules.
pub(crate) fn push_rules(sketch: &mut PlanBuilder, rules: &Rules) {
    for rule in &rules.changes {
        let plain = |impact| remark(impact, None, &[]);
        let object = |id: Option<Uuid>| ResourceRef {
            kind: RULE,
            name: rule.name().to_owned(),
            id: id.map(|id| id.to_string()),
        };
        let action = Action::Rule(rule.clone());
        match rule {
            RuleChange::Create(rule) => {
                let mut body = Map::new();
                body.insert("rule".to_owned(), json!(rule.rule));
                sketch.create(object(None), &body, &plain(Impact::None), action);
            }
            RuleChange::Update { id, rule } => {
                let changes = vec![change(
                    "rule",
                    rules.texts.get(id).cloned(),
                    rule.rule.clone(),
                )];
                sketch.change(object(Some(*id)), changes, &plain(Impact::InPlace), action);
            }
            RuleChange::Delete { id, .. } => {
                sketch.delete(object(Some(*id)), &plain(Impact::InPlace), action);
            }
        }
    }
}

/// The removal of a machine: says the step after which it is gone; none if it is protected, which is not
/// ours to change.
pub(crate) fn push_removal(
    sketch: &mut PlanBuilder,
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
        let why = remark(Impact::None, Some("it was asked for here"), &needs);
        let action = Action::Protect {
            id: machine.id,
            on: false,
        };
        needs = vec![sketch.change(seen(machine), changes, &why, action)];
    }
    let why = remark(Impact::Destroys, Some(why), &needs);
    let begun = sketch.delete(seen(machine), &why, Action::Delete(machine.id));
    let needs = [begun];
    let why = remark(Impact::None, Some("it is being destroyed"), &needs);
    Some(sketch.wait(seen(machine), &why, Action::AwaitGone(machine.id)))
}

/// What is told about a machine that somebody protects.
pub(crate) fn protected(machine: &Machine) -> (&'static str, String) {
    let text = format!(
        "machine {} ({}) is protected from deletion, and that was not asked for here: it stays until \
         somebody takes the protection away",
        machine.name, machine.id
    );
    ("DeletionProtected", text)
}

/// How machines go.
pub(crate) struct Farewell<'a> {
    pub(crate) may_unprotect: bool,
    /// For how long they have been out of DNS.
    pub(crate) drained: &'a BTreeMap<Uuid, Duration>,
    pub(crate) needs: &'a [StepId],
}

impl Farewell<'_> {
    /// First from DNS, and a minute later for good.
    pub(crate) fn push(&self, out: &mut Planned, leaving: &[Leaving]) {
        for Leaving { machine, why, .. } in leaving {
            if machine.deletion_protection && !self.may_unprotect {
                let (reason, message) = protected(machine);
                out.sketch.plan.notices.push(Notice {
                    warning: true,
                    reason,
                    message,
                });
            }
            if machine.tags.contains_key(NAMES_TAG) {
                let before = machine.tags.get(NAMES_TAG).map(ToString::to_string);
                let changes = vec![change(NAMES_TAG, before, Value::Null)];
                let why = format!("{why}; it is deleted when it has been out of DNS for a minute");
                let remark = remark(Impact::Interrupts, Some(&why), self.needs);
                let action = Action::Drain(machine.id);
                out.sketch.change(seen(machine), changes, &remark, action);
                out.sooner(DRAIN);
                continue;
            }
            let drained = self.drained.get(&machine.id).copied();
            let left = DRAIN.saturating_sub(drained.unwrap_or_default());
            if left.is_zero() {
                push_removal(
                    &mut out.sketch,
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
pub(crate) fn found_thing(machine: &Machine, networks: &BTreeMap<Uuid, Network>) -> ResourceState {
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

/// A machine as it is wanted.
pub(crate) fn wanted_thing(name: &str, package: &str, portmap: &str) -> ResourceState {
    let attributes = json!({"package": package, "portmap": portmap});
    ResourceState {
        object: new(MACHINE, name),
        attributes: attributes.as_object().cloned().unwrap_or_default(),
    }
}
