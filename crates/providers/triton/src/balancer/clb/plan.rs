//! From what is wanted and what is there to the steps between. Pure.
//!
//! The order: labels on the nodes and their name; machines that are missing, each until it runs; what
//! changes in place; firewall rules; at last the machines that go. A machine that is replaced goes only
//! when its successor runs, first from DNS, and a minute later for good.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::{Change, Impact, Notice, Object, Problem, Remark, StepId, Thing};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::backend::Form;
use super::machines::{Blueprint, Leaving, Lineup, NAMES_TAG, SERVICE_TAG, address};
use super::memory::{DRAIN, Hold};
use super::metadata::{Difference, PORTMAP};
use crate::api::{Machine, MachineState, Network, TagValue};
use crate::balancer::firewall::RuleChange;

// What things are called.
pub(crate) const MACHINE: &str = "machine";
pub(crate) const LABEL: &str = "DNS service";
pub(crate) const NAME: &str = "DNS name";
pub(crate) const RULE: &str = "firewall rule";

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    /// Puts the label of the backends on nodes, and takes it from others.
    Label(Labelling),
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
pub(crate) type Sketch = bowline_core::Sketch<Action>;

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

/// What is wanted, and what is known beside the machines.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) blueprint: &'a Blueprint,
    pub(crate) networks: &'a BTreeMap<Uuid, Network>,
    pub(crate) labelling: &'a Labelling,
    /// The name to wait for before the first machine is made.
    pub(crate) awaited: Option<&'a str>,
    /// What a new machine is to be told, for people.
    pub(crate) metadata: &'a BTreeMap<String, String>,
    /// What is to be changed in the metadata of machines that stay.
    pub(crate) differences: &'a BTreeMap<Uuid, Difference>,
    /// Machines of the other controller that are taken over with this plan.
    pub(crate) adopted: &'a BTreeSet<Uuid>,
    /// Why nothing may be made now.
    pub(crate) hold: Option<&'a Hold>,
    /// Whether protection is ours to take away.
    pub(crate) may_unprotect: bool,
    /// For how long machines that go have been out of DNS.
    pub(crate) drained: &'a BTreeMap<Uuid, Duration>,
    pub(crate) rules: &'a [RuleChange],
}

/// What came of planning beside the plan.
#[derive(Debug, Default)]
pub(crate) struct Planned {
    pub(crate) sketch: Sketch,
    /// When time alone changes what is to be done.
    pub(crate) again: Option<Duration>,
}

impl Planned {
    pub(crate) fn sooner(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }
}

/// An object that exists.
pub(crate) fn seen(machine: &Machine) -> Object {
    Object {
        kind: MACHINE,
        name: machine.name.clone(),
        id: Some(machine.id.to_string()),
    }
}

pub(crate) fn new(kind: &'static str, name: &str) -> Object {
    Object {
        kind,
        name: name.to_owned(),
        id: None,
    }
}

fn remark<'a>(impact: Impact, reason: Option<&'a str>, needs: &'a [StepId]) -> Remark<'a> {
    Remark {
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

/// The plan for machines that are to be as the blueprint says.
pub(crate) fn reconcile(wanted: &Wanted<'_>, lineup: &Lineup) -> Planned {
    let mut planner = Planner {
        wanted,
        lineup,
        out: Planned::default(),
        base: Vec::new(),
        ready: Vec::new(),
    };
    planner.label();
    planner.make_room_for_the_address();
    planner.missing();
    planner.kept();
    planner.rules();
    planner.leaving();
    planner.out
}

/// The steps of the label on nodes.
pub(crate) fn push_label(sketch: &mut Sketch, labelling: &Labelling, why: &str) -> Option<StepId> {
    let Labelling {
        label,
        on,
        off,
        left,
    } = labelling;
    if on.is_empty() && off.is_empty() && left.is_empty() {
        return None;
    }
    let names = |machines: &BTreeMap<Uuid, String>| -> Value {
        let names: BTreeSet<&String> = machines.values().collect();
        json!(names)
    };
    let mut changes = Vec::new();
    if !on.is_empty() {
        changes.push(change("added to", Value::Null, names(on)));
    }
    for (field, machines) in [("removed from", off), ("left the cluster", left)] {
        if !machines.is_empty() {
            changes.push(change(field, names(machines), Value::Null));
        }
    }
    let action = Action::Label(labelling.clone());
    let remark = remark(Impact::InPlace, Some(why), &[]);
    Some(sketch.change(new(LABEL, label), changes, &remark, action))
}

/// The steps of firewall rules.
pub(crate) fn push_rules(sketch: &mut Sketch, rules: &[RuleChange]) {
    for rule in rules {
        let plain = |impact| remark(impact, None, &[]);
        let object = |id: Option<Uuid>| Object {
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
                let changes = vec![change("rule", Value::Null, rule.rule.clone())];
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
    sketch: &mut Sketch,
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

/// Adds steps.
struct Planner<'a> {
    wanted: &'a Wanted<'a>,
    lineup: &'a Lineup,
    out: Planned,
    /// What new machines have to wait for.
    base: Vec<StepId>,
    /// The steps after which all seats are taken.
    ready: Vec<StepId>,
}

impl<'a> Planner<'a> {
    fn sketch(&mut self) -> &mut Sketch {
        &mut self.out.sketch
    }

    fn notice(&mut self, warning: bool, reason: &'static str, message: String) {
        self.sketch().plan.notices.push(Notice {
            warning,
            reason,
            message,
        });
    }

    fn label(&mut self) {
        let why = "load balancer machines find the nodes by it";
        let step = push_label(&mut self.out.sketch, self.wanted.labelling, why);
        self.base.extend(step);
    }

    /// An address that only one machine can have is free before the next one is made.
    fn make_room_for_the_address(&mut self) {
        let wanted = self.wanted;
        for leaving in self.in_the_way() {
            let why = format!("{}, and its successor gets its address", leaving.why);
            let (machine, base) = (&leaving.machine, self.base.clone());
            let gone = push_removal(self.sketch(), machine, &why, wanted.may_unprotect, &base);
            match gone {
                Some(gone) => self.base.push(gone),
                None => self.tell_protected(machine),
            }
        }
    }

    /// Machines that go and have the one address.
    fn in_the_way(&self) -> Vec<&'a Leaving> {
        let (blueprint, lineup) = (self.wanted.blueprint, self.lineup);
        let taken = |it: &&Leaving| it.is_replaced && blueprint.has_the_address(&it.machine);
        lineup.leaving.iter().filter(taken).collect()
    }

    fn missing(&mut self) {
        let (wanted, lineup) = (self.wanted, self.lineup);
        if lineup.missing.is_empty() {
            return;
        }
        if let Some(hold) = wanted.hold {
            self.sketch().plan.problems.push(Problem {
                reason: hold.reason,
                message: hold.message.clone(),
            });
            return;
        }
        if let Some(name) = wanted.awaited {
            let why = "the name of one network is used if it is published within 30 s";
            let (object, base) = (new(NAME, name), self.base.clone());
            let remark = remark(Impact::None, Some(why), &base);
            let step = self.sketch().wait(object, &remark, Action::AwaitName);
            self.base.push(step);
        }
        for seat in lineup.missing.clone() {
            self.create(seat);
        }
    }

    fn create(&mut self, seat: u8) {
        let wanted = self.wanted;
        let name = wanted.blueprint.name(seat);
        let mut needs = self.base.clone();
        let in_the_way: BTreeSet<Uuid> = self.in_the_way().iter().map(|it| it.machine.id).collect();
        let mut leaving = self.lineup.leaving.iter();
        let former = leaving.find(|it| it.machine.name == name);
        if let Some(former) = former.filter(|it| !in_the_way.contains(&it.machine.id)) {
            let id = former.machine.id;
            let other = wanted.blueprint.former_name(seat, id);
            let changes = vec![change("name", &*name, &*other)];
            let why = format!("it makes room for its successor: {}", former.why);
            let (object, why) = (
                seen(&former.machine),
                remark(Impact::None, Some(&why), &needs),
            );
            let action = Action::Rename { id, name: other };
            let step = self.out.sketch.change(object, changes, &why, action);
            needs.push(step);
        }
        let machine = wanted.blueprint.machine(seat, wanted.metadata.clone());
        let shown = shown(&machine.body());
        let why = remark(Impact::None, None, &needs);
        let action = Action::Create { seat };
        let made = self
            .out
            .sketch
            .create(new(MACHINE, &name), &shown, &why, action);
        let needs = [made];
        let why = remark(Impact::None, Some("it is being made"), &needs);
        let action = Action::AwaitRunning { seat };
        let ready = self.out.sketch.wait(new(MACHINE, &name), &why, action);
        self.ready.push(ready);
    }

    fn kept(&mut self) {
        let lineup = self.lineup;
        for (seat, machine) in &lineup.kept {
            self.adopt(machine);
            self.power(*seat, machine);
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
        let remark = remark(Impact::InPlace, Some(why), &[]);
        let action = Action::Adopt {
            id: machine.id,
            tags: tags.clone(),
        };
        self.sketch()
            .change(seen(machine), changes, &remark, action);
    }

    fn power(&mut self, seat: u8, machine: &Machine) {
        let mut needs = Vec::new();
        match machine.state {
            MachineState::Stopped => {
                let changes = vec![change("state", "stopped", "running")];
                let why = remark(Impact::None, Some("a load balancer has to run"), &[]);
                let action = Action::Start { seat };
                needs.push(self.sketch().change(seen(machine), changes, &why, action));
                let text = format!("machine {} ({}) was stopped", machine.name, machine.id);
                self.notice(false, "CLBStarted", format!("{text}, and is started"));
            }
            MachineState::Provisioning => {}
            _ => return,
        }
        let why = remark(Impact::None, Some("it does not run yet"), &needs);
        let action = Action::AwaitRunning { seat };
        let step = self.out.sketch.wait(seen(machine), &why, action);
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
        let remark = remark(Impact::InPlace, None, &self.base);
        let sketch = &mut self.out.sketch;
        sketch.change(seen(machine), changes, &remark, action);
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
        let remark = remark(Impact::InPlace, None, &[]);
        self.sketch()
            .change(seen(machine), changes, &remark, action);
    }

    fn protection(&mut self, machine: &Machine) {
        let wanted = self.wanted.blueprint.protection;
        let Some(on) = wanted.filter(|it| *it != machine.deletion_protection) else {
            return;
        };
        let changes = vec![change("deletion_protection", !on, on)];
        let remark = remark(Impact::None, None, &[]);
        let id = machine.id;
        let action = Action::Protect { id, on };
        self.sketch()
            .change(seen(machine), changes, &remark, action);
    }

    /// Rules, and only then the firewalls that need them.
    fn rules(&mut self) {
        let first = self.out.sketch.plan.steps.len();
        push_rules(&mut self.out.sketch, self.wanted.rules);
        let rules: Vec<StepId> = (first..self.out.sketch.plan.steps.len()).collect();
        let lineup = self.lineup;
        for machine in lineup.kept.values() {
            if machine.firewall_enabled || !self.wanted.blueprint.firewall {
                continue;
            }
            let changes = vec![change("firewall_enabled", false, true)];
            let remark = remark(Impact::InPlace, None, &rules);
            let action = Action::Firewall(machine.id);
            self.out
                .sketch
                .change(seen(machine), changes, &remark, action);
        }
    }

    fn leaving(&mut self) {
        let held = self.wanted.hold.is_some() && !self.lineup.missing.is_empty();
        let first: BTreeSet<Uuid> = self.in_the_way().iter().map(|it| it.machine.id).collect();
        let goes = |it: &&Leaving| !first.contains(&it.machine.id) && !(it.is_replaced && held);
        let leaving = self.lineup.leaving.iter().filter(goes);
        let leaving: Vec<Leaving> = leaving.cloned().collect();
        let farewell = Farewell {
            may_unprotect: self.wanted.may_unprotect,
            drained: self.wanted.drained,
            needs: &self.ready,
        };
        farewell.push(&mut self.out, &leaving);
    }

    fn tell_protected(&mut self, machine: &Machine) {
        let (reason, message) = protected(machine);
        self.notice(true, reason, message);
    }
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

/// What a new machine is asked to be; its name is said already.
fn shown(body: &Value) -> Map<String, Value> {
    let mut shown = body.as_object().cloned().unwrap_or_default();
    shown.retain(|key, value| {
        !matches!(key.as_str(), "name" | "allow_shared_images")
            && (key != "deletion_protection" || *value == true)
    });
    shown
}

/// A machine that is there, as people compare it.
pub(crate) fn found_thing(machine: &Machine, networks: &BTreeMap<Uuid, Network>) -> Thing {
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
    Thing {
        object: seen(machine),
        attributes: attributes.as_object().cloned().unwrap_or_default(),
    }
}

/// A machine as it is wanted.
pub(crate) fn wanted_thing(name: &str, package: &str, portmap: &str) -> Thing {
    let attributes = json!({"package": package, "portmap": portmap});
    Thing {
        object: new(MACHINE, name),
        attributes: attributes.as_object().cloned().unwrap_or_default(),
    }
}

/// The name that is waited for when the first machine is made: only if it is not there, and may come.
pub(crate) fn awaited<'a>(
    names: &'a super::backend::Names,
    form: Form,
    shown: Option<bool>,
    is_first: bool,
    has_members: bool,
) -> Option<&'a str> {
    let waits = is_first && has_members && form == Form::Plain && shown == Some(false);
    waits.then_some(names.qualified.as_str())
}
