//! From what is wanted and what is there to the steps between. Pure.
//!
//! The order is the specification's: the load balancer itself; services that nobody wants; then the
//! wanted services in the order of the ports. A service whose pool changes goes before its
//! successor comes: the cloud has no two services on one port, and a service keeps its pool.

mod compare;
mod remove;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bowline_core::{Change, Impact, Notice, Problem, ResourceRef, ServiceKey, StepId, StepNote};
pub(crate) use bowline_provider::plan::{new, seen};
use serde_json::{Value, json};
use uuid::Uuid;

use super::desire::{Entrance, WantedService};
use super::ownership::{OwnershipContext, ServiceOwner};
use super::resource_states::fields;
use super::settings::INVALID;
use super::settings::table::LABELS;
use crate::api::{
    LoadBalancer, LoadBalancerChange, LoadBalancerService, LoadBalancerState, NewLoadBalancer,
    NewService, ServiceChange, ServiceState,
};
use compare::compare;
pub(crate) use remove::remove;

// Kinds of objects in plans.
pub(crate) const BALANCER: &str = "load balancer";
pub(crate) const SERVICE: &str = "service";

/// The reason of events about load balancers that several Services use.
const SHARED: &str = "LoadBalancerShared";
/// The reason of events about ports of a load balancer that somebody else has.
const PORT_IN_USE: &str = "PortInUse";

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    CreateBalancer(NewLoadBalancer),
    /// Until it is there and has an address.
    AwaitAddress,
    AwaitEnd(Uuid),
    /// Gives it these labels, all of them.
    MarkBalancer(BTreeMap<String, String>),
    /// The same with labels that the Service asks for.
    LabelBalancer(BTreeMap<String, String>),
    ChangeBalancer(LoadBalancerChange),
    ResetDescription,
    DeleteBalancer(Uuid),
    AddService(NewService),
    ChangeService {
        id: Uuid,
        change: ServiceChange,
    },
    ResetServiceDescription(Uuid),
    DeleteService {
        balancer: Uuid,
        id: Uuid,
    },
}

/// A plan and, for each step, what it does.
pub(crate) type PlanBuilder = bowline_core::PlanBuilder<Action>;

/// What a load balancer of a Service is to be, if it is not somebody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Managed {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Those of ours; others stay.
    pub(crate) labels: BTreeMap<String, String>,
    /// Those that the Service asks for. Ours go before them.
    pub(crate) asked_labels: BTreeMap<String, String>,
    /// Whether it gets them before anything else happens. Otherwise they come with the next change:
    /// what the original made is ours without them.
    pub(crate) mark_first: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) context: OwnershipContext<'a>,
    /// None: the load balancer is external.
    pub(crate) managed: Option<&'a Managed>,
    pub(crate) services: &'a [WantedService],
    pub(crate) pool: Uuid,
    /// Whether descriptions can be emptied; some roles do not allow it.
    pub(crate) may_reset: bool,
}

fn note<'a>(impact: Impact, reason: Option<&'a str>, needs: &'a [StepId]) -> StepNote<'a> {
    StepNote {
        impact,
        reason,
        needs,
    }
}

/// The plan of a load balancer that does not exist.
pub(crate) fn build(wanted: &Wanted<'_>, managed: &Managed) -> PlanBuilder {
    let mut builder = PlanBuilder::default();
    let body = NewLoadBalancer {
        name: managed.name.clone(),
        description: managed.description.clone(),
        labels: managed.labels.clone(),
    };
    let object = new(BALANCER, &managed.name);
    let shown = fields(&body);
    let nothing = note(Impact::None, None, &[]);
    let action = Action::CreateBalancer(body);
    let made = builder.create(object.clone(), &shown, &nothing, action);
    let needs = [made];
    let why = note(Impact::None, Some("it is being made"), &needs);
    let ready = builder.wait(object.clone(), &why, Action::AwaitAddress);
    for service in wanted.services {
        add(&mut builder, &service.body(wanted.pool), None, &[ready]);
    }
    label(&mut builder, object, managed, &managed.labels, &[ready]);
    builder
}

/// Gives a load balancer with these labels those that the Service asks for: a step of its own, so
/// that a label which the cloud refuses keeps it from neither its marks nor anything else.
fn label(
    builder: &mut PlanBuilder,
    object: ResourceRef,
    managed: &Managed,
    there: &BTreeMap<String, String>,
    needs: &[StepId],
) {
    let mut labels = there.clone();
    labels.extend(managed.asked_labels.clone());
    if labels == *there {
        return;
    }
    labels.extend(managed.labels.clone());
    let changes = vec![change("labels", json!(there), json!(labels))];
    let why = note(Impact::None, Some("the Service asks for them"), needs);
    builder.change(object, changes, &why, Action::LabelBalancer(labels));
}

fn add(builder: &mut PlanBuilder, body: &NewService, why: Option<&str>, needs: &[StepId]) {
    let object = new(SERVICE, &body.name);
    let note = note(Impact::None, why, needs);
    let action = Action::AddService(body.clone());
    builder.create(object, &fields(body), &note, action);
}

/// The plan of a load balancer that exists.
pub(crate) fn reconcile(wanted: &Wanted<'_>, there: &LoadBalancer) -> PlanBuilder {
    let mut builder = PlanBuilder::default();
    let mut base = Vec::new();
    if there.state == LoadBalancerState::Creating || there.address().is_none() {
        let object = seen(BALANCER, &there.name, there.id);
        let why = note(Impact::None, Some("it is being made"), &[]);
        base.push(builder.wait(object, &why, Action::AwaitAddress));
    }
    let mut planner = Planner {
        wanted,
        there,
        builder: &mut builder,
        base,
    };
    if let Some(managed) = wanted.managed {
        planner.balancer(managed);
    }
    planner.stale_services();
    planner.wanted_services();
    builder
}

struct Planner<'a> {
    wanted: &'a Wanted<'a>,
    there: &'a LoadBalancer,
    builder: &'a mut PlanBuilder,
    /// What every step has to wait for.
    base: Vec<StepId>,
}

impl Planner<'_> {
    fn balancer(&mut self, managed: &Managed) {
        let there = self.there;
        let object = || seen(BALANCER, &there.name, there.id);
        let mut labels = there.labels.clone();
        labels.extend(managed.labels.clone());
        let is_marked = labels == there.labels;
        if managed.mark_first && !is_marked {
            let changes = vec![change("labels", json!(there.labels), json!(labels))];
            let why = note(Impact::None, Some("it is this Service's"), &self.base);
            let action = Action::MarkBalancer(labels.clone());
            let marked = self.builder.change(object(), changes, &why, action);
            self.base.push(marked);
        }
        let mut body = LoadBalancerChange::default();
        let mut changes = Vec::new();
        if there.name != managed.name {
            changes.push(change("name", &*there.name, &*managed.name));
            body.name = Some(managed.name.clone());
        }
        let described = !managed.description.is_empty();
        if described && there.description != managed.description {
            let before = text(&there.description);
            changes.push(change("description", before, &*managed.description));
            body.description = Some(managed.description.clone());
        }
        if !changes.is_empty() {
            if !is_marked && !managed.mark_first {
                changes.push(change("labels", json!(there.labels), json!(labels)));
                body.labels = Some(labels);
            }
            let why = note(Impact::None, None, &self.base);
            let action = Action::ChangeBalancer(body);
            self.builder.change(object(), changes, &why, action);
        }
        label(self.builder, object(), managed, &there.labels, &self.base);
        // One that no annotation asked for is somebody else's words.
        let is_ours = self.wanted.context.record.describes_balancer;
        if !described && is_ours && !there.description.is_empty() {
            let changes = vec![change("description", &*there.description, Value::Null)];
            self.reset(object(), changes, Action::ResetDescription);
        }
    }

    fn reset(&mut self, object: ResourceRef, changes: Vec<Change>, action: Action) {
        if !self.wanted.may_reset {
            self.builder.plan.notices.push(cannot_reset(&object));
            return;
        }
        let why = note(Impact::None, None, &self.base);
        self.builder.change(object, changes, &why, action);
    }

    fn stale_services(&mut self) {
        let is_wanted = |service: &LoadBalancerService| {
            let mut all = self.wanted.services.iter();
            all.any(|it| is_at(service, &it.entrance))
        };
        for service in &self.there.services.items {
            if is_wanted(service) {
                continue;
            }
            match self.wanted.context.owner(service) {
                ServiceOwner::Ours => {
                    let why = "no port of the Service wants it";
                    self.delete(service, why, Impact::Interrupts);
                }
                ServiceOwner::Another(other) if self.wanted.managed.is_some() => {
                    let notice = shared(self.there, service, &other.key);
                    self.builder.plan.notices.push(notice);
                }
                ServiceOwner::Another(_) | ServiceOwner::LeftOver | ServiceOwner::Foreign => {}
            }
        }
    }

    fn delete(&mut self, service: &LoadBalancerService, why: &str, impact: Impact) -> StepId {
        let object = seen(SERVICE, &service.name, service.id);
        let why = note(impact, Some(why), &self.base);
        let action = Action::DeleteService {
            balancer: self.there.id,
            id: service.id,
        };
        self.builder.delete(object, &why, action)
    }

    fn wanted_services(&mut self) {
        for wanted in self.wanted.services {
            let mut all = self.there.services.items.iter();
            let Some(there) = all.find(|it| is_at(it, &wanted.entrance)) else {
                let body = wanted.body(self.wanted.pool);
                add(self.builder, &body, None, &self.base);
                continue;
            };
            let context = self.wanted.context;
            let problem = match context.owner(there) {
                ServiceOwner::Ours | ServiceOwner::LeftOver => None,
                ServiceOwner::Foreign if context.may_replace() => None,
                ServiceOwner::Foreign => Some(in_use(there, None)),
                ServiceOwner::Another(other) => Some(in_use(there, Some(&other.key))),
            };
            match problem {
                Some(problem) => self.builder.plan.problems.push(problem),
                None => self.service(wanted, there),
            }
        }
    }

    fn service(&mut self, wanted: &WantedService, there: &LoadBalancerService) {
        let pool = self.wanted.pool;
        if there.instance_pool != Some(pool) {
            let why = "another pool is wanted, and a service keeps its pool";
            let mut needs = self.base.clone();
            needs.push(self.delete(there, why, Impact::Interrupts));
            let why = Some("replaces the one with another pool");
            add(self.builder, &wanted.body(pool), why, &needs);
            return;
        }
        let object = || seen(SERVICE, &there.name, there.id);
        let difference = compare(wanted, there);
        if !difference.changes.is_empty() {
            let why = note(difference.impact, None, &self.base);
            let action = Action::ChangeService {
                id: there.id,
                change: difference.body,
            };
            let changes = difference.changes;
            self.builder.change(object(), changes, &why, action);
        }
        let is_ours = self.wanted.context.record.describes_services;
        if wanted.description.is_empty() && is_ours && !there.description.is_empty() {
            let changes = vec![change("description", &*there.description, Value::Null)];
            self.reset(object(), changes, Action::ResetServiceDescription(there.id));
        }
    }
}

/// Whether the cloud is at work on something that the plan is about: what it does next is not
/// known.
pub(crate) fn is_unsettled(wanted: &Wanted<'_>, there: &LoadBalancer) -> bool {
    let concerns = |service: &LoadBalancerService| {
        let mut all = wanted.services.iter();
        all.any(|it| is_at(service, &it.entrance))
    };
    let mut all = there.services.items.iter();
    all.any(|it| is_changing(it) && concerns(it)) || is_at_work(wanted.context, there)
}

/// Whether the cloud is at work on a service of the Service's.
pub(crate) fn is_at_work(context: OwnershipContext<'_>, there: &LoadBalancer) -> bool {
    let mut all = there.services.items.iter();
    all.any(|it| is_changing(it) && context.owner(it) == ServiceOwner::Ours)
}

fn is_changing(service: &LoadBalancerService) -> bool {
    use ServiceState::{Creating, Deleting, Updating};
    matches!(service.state, Creating | Updating | Deleting)
}

pub(crate) fn is_at(service: &LoadBalancerService, entrance: &Entrance) -> bool {
    service.port == entrance.port && service.protocol == entrance.protocol
}

/// The notice when the cloud refuses the Service's labels.
pub(crate) fn labels_refused(error: &dyn std::fmt::Display) -> Notice {
    Notice {
        warning: true,
        reason: INVALID,
        message: format!(
            "annotation {}: the cloud refuses these labels: {error}",
            LABELS.key
        ),
    }
}

/// The notice when a description cannot be emptied.
pub(crate) fn cannot_reset(object: &ResourceRef) -> Notice {
    Notice {
        warning: true,
        reason: "DescriptionStays",
        message: format!(
            "the description of {object} stays: the role of the API key does not allow to reset it"
        ),
    }
}

fn shared(there: &LoadBalancer, service: &LoadBalancerService, other: &ServiceKey) -> Notice {
    let LoadBalancerService { port, protocol, .. } = service;
    Notice {
        warning: true,
        reason: SHARED,
        message: format!(
            "load balancer {:?} serves port {port}/{protocol} of Service {other}, which stays",
            there.name
        ),
    }
}

/// The problem of a port that somebody else has; it does not reveal what that is.
fn in_use(service: &LoadBalancerService, holder: Option<&ServiceKey>) -> Problem {
    let holder = holder.map_or_else(
        || "something that is not this Service's".to_owned(),
        |key| format!("Service {key}"),
    );
    let LoadBalancerService { port, protocol, .. } = service;
    Problem {
        reason: PORT_IN_USE,
        message: format!(
            "port {port}/{protocol} of the load balancer is used by {holder}, and stays so; the other ports of this \
             Service are served. Use another port, or remove what is there"
        ),
    }
}

fn change(field: &str, before: impl Into<Value>, after: impl Into<Value>) -> Change {
    Change {
        field: field.to_owned(),
        before: before.into(),
        after: after.into(),
    }
}

/// A text that is not there is null.
fn text(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        json!(text)
    }
}
