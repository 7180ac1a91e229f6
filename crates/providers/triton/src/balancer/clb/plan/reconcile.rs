//! The machines of a Service's own, from what is there to what is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::{Change, Impact, Notice, Problem, StepId};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    AWAITED, Action, Departure, Labelling, PlanBuilder, Planned, Rules, protected, push_label,
    push_removal, push_rules,
};
use crate::api::{Machine, MachineState, TagValue};
use crate::balancer::clb::machines::{Blueprint, Leaving, NAMES_TAG, ReplicaDiff, SERVICE_TAG};
use crate::balancer::clb::metadata::Difference;
use crate::balancer::clb::state::Hold;
use crate::balancer::steps::{MACHINE, NAME, change, new, note, seen};

#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) blueprint: &'a Blueprint,
    pub(crate) labelling: &'a Labelling,
    /// The name to wait for before the first machine is made.
    pub(crate) awaited: Option<&'a str>,
    /// The metadata of a new machine, for the preview.
    pub(crate) metadata: &'a BTreeMap<String, String>,
    /// What is to be changed in the metadata of machines that stay.
    pub(crate) differences: &'a BTreeMap<Uuid, Difference>,
    /// Machines of the other controller that are taken over with this plan.
    pub(crate) adopted: &'a BTreeSet<Uuid>,
    pub(crate) hold: Option<&'a Hold>,
    /// Whether protection is ours to take away.
    pub(crate) may_unprotect: bool,
    /// For how long machines that go have been out of DNS.
    pub(crate) drained: &'a BTreeMap<Uuid, Duration>,
    pub(crate) rules: &'a Rules,
}

/// The plan that brings the machines to the blueprint.
pub(crate) fn reconcile(wanted: &Wanted<'_>, diff: &ReplicaDiff) -> Planned {
    let mut planner = Planner {
        wanted,
        diff,
        out: Planned::default(),
        base: Vec::new(),
        ready: Vec::new(),
    };
    planner.label();
    planner.make_room();
    planner.missing();
    planner.kept();
    planner.rules();
    planner.leaving();
    planner.out
}

struct Planner<'a> {
    wanted: &'a Wanted<'a>,
    diff: &'a ReplicaDiff,
    out: Planned,
    /// What new machines have to wait for.
    base: Vec<StepId>,
    /// The steps after which all seats are taken.
    ready: Vec<StepId>,
}

impl<'a> Planner<'a> {
    fn builder(&mut self) -> &mut PlanBuilder {
        &mut self.out.builder
    }

    fn notice(&mut self, warning: bool, reason: &'static str, message: String) {
        self.builder().plan.notices.push(Notice {
            warning,
            reason,
            message,
        });
    }

    fn label(&mut self) {
        let why = "load balancer machines find the nodes by it";
        let step = push_label(&mut self.out.builder, self.wanted.labelling, why);
        self.base.extend(step);
    }

    /// An address that only one machine can have, and the name of one that came to nothing, are
    /// free before the next one is made.
    fn make_room(&mut self) {
        let wanted = self.wanted;
        for leaving in self.in_the_way() {
            let why = if leaving.has_failed {
                leaving.why.clone()
            } else {
                format!("{}, and its successor gets its address", leaving.why)
            };
            let (machine, base) = (&leaving.machine, self.base.clone());
            let gone = push_removal(self.builder(), machine, &why, wanted.may_unprotect, &base);
            match gone {
                Some(gone) => self.base.push(gone),
                None => self.report_protected(machine),
            }
        }
    }

    /// Machines that go and have the one address, or came to nothing.
    fn in_the_way(&self) -> Vec<&'a Leaving> {
        let (blueprint, diff) = (self.wanted.blueprint, self.diff);
        let taken = |it: &&Leaving| {
            it.has_failed || it.is_replaced && blueprint.has_the_address(&it.machine)
        };
        diff.leaving.iter().filter(taken).collect()
    }

    fn missing(&mut self) {
        let (wanted, diff) = (self.wanted, self.diff);
        if diff.missing.is_empty() {
            return;
        }
        if let Some(hold) = wanted.hold {
            self.builder().plan.problems.push(Problem {
                reason: hold.reason,
                message: hold.message.clone(),
            });
            return;
        }
        if let Some(name) = wanted.awaited {
            let (object, base) = (new(NAME, name), self.base.clone());
            let note = note(Impact::None, Some(AWAITED), &base);
            let step = self.builder().wait(object, &note, Action::AwaitName);
            self.base.push(step);
        }
        for ordinal in diff.missing.clone() {
            self.create(ordinal);
        }
    }

    fn create(&mut self, ordinal: u8) {
        let wanted = self.wanted;
        let name = wanted.blueprint.name(ordinal);
        let mut needs = self.base.clone();
        let in_the_way: BTreeSet<Uuid> = self.in_the_way().iter().map(|it| it.machine.id).collect();
        let mut leaving = self.diff.leaving.iter();
        let former = leaving.find(|it| it.machine.name == name);
        if let Some(former) = former.filter(|it| !in_the_way.contains(&it.machine.id)) {
            let id = former.machine.id;
            let other = wanted.blueprint.former_name(ordinal, id);
            let changes = vec![change("name", &*name, &*other)];
            let why = format!("it makes room for its successor: {}", former.why);
            let (object, why) = (
                seen(&former.machine),
                note(Impact::None, Some(&why), &needs),
            );
            let action = Action::Rename { id, name: other };
            let step = self.out.builder.change(object, changes, &why, action);
            needs.push(step);
        }
        let machine = wanted.blueprint.machine(ordinal, wanted.metadata.clone());
        let shown = shown(&machine.body());
        let why = note(Impact::None, None, &needs);
        let action = Action::Create { ordinal };
        let made = self
            .out
            .builder
            .create(new(MACHINE, &name), &shown, &why, action);
        let needs = [made];
        let why = note(Impact::None, Some("it is being made"), &needs);
        let action = Action::AwaitRunning { ordinal };
        let ready = self.out.builder.wait(new(MACHINE, &name), &why, action);
        self.ready.push(ready);
    }

    fn kept(&mut self) {
        let diff = self.diff;
        for (ordinal, machine) in &diff.kept {
            self.adopt(machine);
            self.power(*ordinal, machine);
            self.metadata(machine);
            self.tags(machine);
            self.protection(machine);
        }
    }

    fn adopt(&mut self, machine: &Machine) {
        if !self.wanted.adopted.contains(&machine.id) {
            return;
        }
        let tags = &self.wanted.blueprint.tags;
        let changes = tag_changes(machine, tags);
        let why = "it is the machine of the former controller for this Service";
        let note = note(Impact::InPlace, Some(why), &[]);
        let action = Action::Adopt {
            id: machine.id,
            tags: tags.clone(),
        };
        self.builder().change(seen(machine), changes, &note, action);
    }

    fn power(&mut self, ordinal: u8, machine: &Machine) {
        let mut needs = Vec::new();
        match machine.state {
            MachineState::Stopped => {
                let changes = vec![change("state", "stopped", "running")];
                let why = note(Impact::None, Some("a load balancer has to run"), &[]);
                let action = Action::Start { ordinal };
                needs.push(self.builder().change(seen(machine), changes, &why, action));
                let text = format!("machine {} ({}) was stopped", machine.name, machine.id);
                self.notice(false, "CLBStarted", format!("{text}, and is started"));
            }
            MachineState::Provisioning => {}
            _ => return,
        }
        let why = note(Impact::None, Some("it does not run yet"), &needs);
        let action = Action::AwaitRunning { ordinal };
        let step = self.out.builder.wait(seen(machine), &why, action);
        self.ready.push(step);
    }

    fn metadata(&mut self, machine: &Machine) {
        let Some(difference) = self.wanted.differences.get(&machine.id) else {
            return;
        };
        if difference.is_empty() {
            return;
        }
        let before = |key: &str| -> Value {
            let value = machine.metadata.get(key);
            value.map_or(Value::Null, |it| json!(it.to_string()))
        };
        let set = difference.set.iter();
        let mut changes: Vec<Change> = set
            .map(|(key, value)| change(key, before(key), value.clone()))
            .collect();
        let removed = difference.removed.iter();
        changes.extend(removed.map(|key| change(key, before(key), Value::Null)));
        let action = Action::Metadata {
            id: machine.id,
            difference: difference.clone(),
        };
        let note = note(Impact::InPlace, None, &self.base);
        let builder = &mut self.out.builder;
        builder.change(seen(machine), changes, &note, action);
    }

    /// Tags that somebody took away, and another label. One that is taken over gets them anyway.
    fn tags(&mut self, machine: &Machine) {
        if self.wanted.adopted.contains(&machine.id) {
            return;
        }
        let kept = [SERVICE_TAG, NAMES_TAG];
        let tags = self.wanted.blueprint.tags.iter();
        let differs = |(key, value): &(&String, &String)| {
            let there = machine.tags.get(*key).and_then(TagValue::as_text);
            kept.contains(&key.as_str()) && there != Some(value)
        };
        let tags: BTreeMap<String, String> = tags
            .filter(differs)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if tags.is_empty() {
            return;
        }
        let changes = tag_changes(machine, &tags);
        let action = Action::Tag {
            id: machine.id,
            tags,
        };
        let note = note(Impact::InPlace, None, &[]);
        self.builder().change(seen(machine), changes, &note, action);
    }

    fn protection(&mut self, machine: &Machine) {
        let wanted = self.wanted.blueprint.protection;
        let Some(on) = wanted.filter(|it| *it != machine.deletion_protection) else {
            return;
        };
        let changes = vec![change("deletion_protection", !on, on)];
        let note = note(Impact::None, None, &[]);
        let id = machine.id;
        let action = Action::Protect { id, on };
        self.builder().change(seen(machine), changes, &note, action);
    }

    /// Rules, and only then the firewalls that need them.
    fn rules(&mut self) {
        let first = self.out.builder.plan.steps.len();
        push_rules(&mut self.out.builder, self.wanted.rules);
        let rules: Vec<StepId> = (first..self.out.builder.plan.steps.len()).collect();
        let diff = self.diff;
        for machine in diff.kept.values() {
            if machine.firewall_enabled || !self.wanted.blueprint.firewall {
                continue;
            }
            let changes = vec![change("firewall_enabled", false, true)];
            let note = note(Impact::InPlace, None, &rules);
            let action = Action::Firewall(machine.id);
            self.out
                .builder
                .change(seen(machine), changes, &note, action);
        }
    }

    fn leaving(&mut self) {
        let held = self.wanted.hold.is_some() && !self.diff.missing.is_empty();
        let first: BTreeSet<Uuid> = self.in_the_way().iter().map(|it| it.machine.id).collect();
        let stays = |it: &Leaving| first.contains(&it.machine.id) || (it.is_replaced && held);
        let leaving = self.diff.leaving.iter().filter(|it| !stays(it));
        let leaving: Vec<Leaving> = leaving.cloned().collect();
        let departure = Departure {
            may_unprotect: self.wanted.may_unprotect,
            drained: self.wanted.drained,
            needs: &self.ready,
        };
        departure.push(&mut self.out, &leaving);
    }

    fn report_protected(&mut self, machine: &Machine) {
        let (reason, message) = protected(machine);
        self.notice(true, reason, message);
    }
}

fn tag_changes(machine: &Machine, tags: &BTreeMap<String, String>) -> Vec<Change> {
    let differs = |(key, value): &(&String, &String)| {
        machine.tags.get(*key).and_then(TagValue::as_text) != Some(value)
    };
    let of = |(key, value): (&String, &String)| {
        let before = machine.tags.get(key).map(ToString::to_string);
        change(&format!("tag.{key}"), before, value.clone())
    };
    tags.iter().filter(differs).map(of).collect()
}

/// The attributes of a new machine, without its name.
fn shown(body: &Value) -> Map<String, Value> {
    let mut shown = body.as_object().cloned().unwrap_or_default();
    shown.retain(|key, value| {
        !matches!(key.as_str(), "name" | "allow_shared_images")
            && (key != "deletion_protection" || *value == true)
    });
    shown
}
