//! What people and other programs see: finalizer, annotations, status, conditions, events.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use bowline_core::{
    Balancers, CLEANUP_FINALIZER, CONDITION_PREFIX, Condition, Goal, Ingress, Node, Notice,
    READY_CONDITION, Service, ServiceKey, Verb, ingress_to_write, name_list,
};
use tracing::{debug, info};

use super::ServiceController;
use super::conditions;
use super::errors::ReconcileError;
use super::reconcile::Outcome;
use super::state::InFlightPlan;
use crate::kube::events::{EventType, service_reference};

/// Steps that a message names; more are counted.
const STEPS_TOLD: usize = 5;

impl ServiceController {
    /// Makes sure that the Service stays until its load balancer is gone.
    pub(super) async fn hold(&self, service: Arc<Service>) -> Result<Arc<Service>, ReconcileError> {
        if service.has_finalizer() || self.clouds.is_observing() {
            return Ok(service);
        }
        self.announce(&service, "EnsuringLoadBalancer", "Ensuring load balancer");
        let written = self.parts.writer.add_finalizer(&service).await;
        let written = written.map_err(ReconcileError::AddFinalizer)?;
        debug!(service = %service.key, finalizer = CLEANUP_FINALIZER, "held");
        self.parts.services.note(written.clone());
        Ok(written)
    }

    /// Lets the Service go.
    pub(super) async fn release(&self, service: &Service) -> Result<(), ReconcileError> {
        if !service.has_finalizer() || self.clouds.is_observing() {
            return Ok(());
        }
        match self.parts.writer.remove_finalizer(service).await {
            Ok(written) => {
                self.parts.services.note(written);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(ReconcileError::RemoveFinalizer(error)),
        }
    }

    /// A Service that stays, without a load balancer, shows no address.
    pub(super) async fn clear_status(
        &self,
        key: &ServiceKey,
        uid: &str,
    ) -> Result<(), ReconcileError> {
        let current = self.parts.services.get(key);
        let Some(service) = current.filter(|it| it.uid == uid && !it.deleting) else {
            return Ok(());
        };
        let ingress: Option<&[Ingress]> = (!service.ingress.is_empty()).then_some(&[]);
        let condition = conditions::if_there(&service, conditions::removed());
        self.set_status(&service, ingress, condition.as_slice())
            .await?;
        self.withdraw_records(&service).await
    }

    /// What was remembered in conditions is about a load balancer that is gone.
    async fn withdraw_records(&self, service: &Service) -> Result<(), ReconcileError> {
        let records = service.conditions.iter().map(|it| &it.kind);
        let records =
            records.filter(|it| it.starts_with(CONDITION_PREFIX) && *it != READY_CONDITION);
        let records: Vec<String> = records.cloned().collect();
        if records.is_empty() || self.clouds.is_observing() {
            return Ok(());
        }
        let writer = &self.parts.writer;
        match writer.remove_conditions(service, &records).await {
            Ok(written) => {
                self.parts.services.note(written);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(ReconcileError::Status(error)),
        }
    }

    /// Writes what the cloud wants to be remembered, as soon as it is known.
    pub(super) async fn publish_annotations(
        &self,
        in_flight: &mut InFlightPlan,
    ) -> Result<(), ReconcileError> {
        if in_flight.wish.goal == Goal::Absent {
            return Ok(());
        }
        let Some(service) = self.current(&in_flight.wish.service) else {
            return Ok(());
        };
        let publication = in_flight.executor.publication();
        self.record(&service, publication.records).await?;
        let mut annotations = publication.annotations;
        annotations.retain(|key, value| service.annotation(key) != Some(value));
        if annotations.is_empty() {
            return Ok(());
        }
        // Before the write: its echo must be known for what it is.
        self.memory.set_published(&service.key, &annotations);
        let written = self
            .parts
            .writer
            .set_annotations(&service, &annotations)
            .await;
        let written = written.map_err(ReconcileError::Annotations)?;
        debug!(service = %service.key, ?annotations, "annotated");
        self.parts.services.note(written);
        Ok(())
    }

    /// Writes what has to be remembered and what tenants must not write, if it is not there.
    pub(super) async fn record(
        &self,
        service: &Service,
        mut records: Vec<Condition>,
    ) -> Result<(), ReconcileError> {
        records.retain(|it| !service.conditions.contains(it));
        self.set_status(service, None, &records).await
    }

    /// Takes away, from a Service that stays, the annotations that name what is gone.
    pub(super) async fn withdraw(
        &self,
        service: &Service,
        annotations: BTreeSet<String>,
    ) -> Result<(), ReconcileError> {
        let current = self.current(service).filter(|it| !it.deleting);
        let Some(service) = current else {
            return Ok(());
        };
        let there = annotations.into_iter();
        let there: Vec<String> = there
            .filter(|it| service.annotation(it).is_some())
            .collect();
        if there.is_empty() || self.clouds.is_observing() {
            return Ok(());
        }
        match self.parts.writer.remove_annotations(&service, &there).await {
            Ok(written) => {
                debug!(service = %service.key, annotations = ?there, "annotations removed");
                self.parts.services.note(written);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(ReconcileError::Annotations(error)),
        }
    }

    /// The end of a run: address, condition, events.
    pub(super) async fn publish(
        &self,
        mut in_flight: InFlightPlan,
    ) -> Result<Outcome, ReconcileError> {
        self.memory.all_is_said(&in_flight.wish.service.key);
        self.publish_annotations(&mut in_flight).await?;
        let reached = in_flight.check();
        let Some(service) = self.current(&in_flight.wish.service) else {
            return Ok(Outcome::Again);
        };
        let publication = in_flight.executor.publication();
        let wanted = &publication.ingress;
        let ingress = ingress_to_write(&service.ingress, wanted, self.has_ip_mode());
        // What works is not taken away because something else is wrong.
        let ingress = ingress.filter(|it| reached.is_ok() || !it.is_empty());
        let condition = match (&reached, &ingress) {
            (Ok(()), _) if publication.without_targets || self.is_without_targets(&in_flight) => {
                let reasons = in_flight.wish.excluded.reasons();
                conditions::if_news(&service, conditions::no_targets(&reasons))
            }
            (Ok(()), Some(_)) => conditions::if_news(&service, conditions::ready()),
            (Ok(()), None) => conditions::if_there(&service, conditions::ready()),
            (Err(_), _) => None,
        };
        self.set_status(&service, ingress.as_deref(), condition.as_slice())
            .await?;
        self.tell_end(&service, &in_flight, reached.is_ok());
        reached.map(|()| Outcome::Reached(in_flight.executor.again()))
    }

    /// Writes the condition if it says something new. It is no failure if that cannot be done.
    pub(super) async fn set_condition(&self, service: &Service, condition: Condition) {
        let Some(condition) = conditions::if_news(service, condition) else {
            return;
        };
        if let Err(error) = self.set_status(service, None, &[condition]).await {
            debug!(service = %service.key, error = error.text(), "condition not written");
        }
    }

    async fn set_status(
        &self,
        service: &Service,
        ingress: Option<&[Ingress]>,
        conditions: &[Condition],
    ) -> Result<(), ReconcileError> {
        if ingress.is_none() && conditions.is_empty() || self.clouds.is_observing() {
            return Ok(());
        }
        let now = self.parts.clock.now();
        let writer = &self.parts.writer;
        match writer.set_status(service, ingress, conditions, now).await {
            Ok(written) => {
                if let Some(ingress) = ingress {
                    let shown: Vec<String> = ingress.iter().map(ToString::to_string).collect();
                    info!(service = %service.key, ingress = ?shown, "published");
                }
                self.parts.services.note(written);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(ReconcileError::Status(error)),
        }
    }

    /// Tells, once, what would be done if this manager did more than observe.
    pub(super) fn show(&self, in_flight: &InFlightPlan) {
        let service = &in_flight.wish.service;
        let mut lines: Vec<String> = Vec::new();
        let plan = in_flight.run.plan();
        for step in plan.steps.iter().filter(|it| it.verb != Verb::Wait) {
            let mut line = format!("{} {} ({})", step.verb, step.object, step.impact);
            if step.verb == Verb::Update {
                for change in &step.changes {
                    let (before, after) = (&change.before, &change.after);
                    let _ = write!(line, ", {}: {before} → {after}", change.field);
                }
            }
            lines.push(line);
        }
        for problem in &plan.problems {
            lines.push(format!("{}: {}", problem.reason, problem.message));
        }
        if in_flight.wish.goal == Goal::Present {
            let publication = in_flight.executor.publication();
            for (key, value) in &publication.annotations {
                if service.annotation(key) != Some(value) {
                    lines.push(format!("annotate {key}={value}"));
                }
            }
            let wanted = &publication.ingress;
            let wanted = ingress_to_write(&service.ingress, wanted, self.has_ip_mode());
            for entrance in wanted.into_iter().flatten() {
                lines.push(format!("publish {entrance}"));
            }
        }
        for line in lines {
            if self.memory.is_news(&service.key, "observing", &line) {
                info!(service = %service.key, cloud = %in_flight.cloud, "observing: not done: {line}");
            }
        }
        self.memory.all_is_said(&service.key);
    }

    /// The same Service as it is now; none if it is gone, or another one of its name is there.
    pub(super) fn current(&self, service: &Service) -> Option<Arc<Service>> {
        let current = self.parts.services.get(&service.key);
        current.filter(|it| it.uid == service.uid)
    }

    // Events.

    /// Tells that work begins, and what is wrong with what is wanted.
    pub(super) fn tell_plan(&self, service: &Service, in_flight: &InFlightPlan) {
        let plan = in_flight.run.plan();
        self.memory
            .set_troubled(&service.key, !plan.problems.is_empty());
        self.note_held(&service.key, &in_flight.cloud, &plan.held);
        if !plan.is_empty() {
            match in_flight.wish.goal {
                Goal::Absent => {
                    self.announce(service, "DeletingLoadBalancer", "Deleting load balancer");
                }
                Goal::Present if in_flight.triggers.is_nodes_alone() => {}
                Goal::Present => {
                    if in_flight.triggers.is_audit() {
                        self.tell_drift(service, in_flight);
                    }
                    self.announce(service, "EnsuringLoadBalancer", "Ensuring load balancer");
                }
            }
        }
        if in_flight.wish.goal == Goal::Present && self.is_without_members(in_flight) {
            let text = "There are no available nodes for LoadBalancer";
            self.tell_once(service, EventType::Warning, "UnAvailableLoadBalancer", text);
        }
        for problem in &plan.problems {
            self.tell_once(
                service,
                EventType::Warning,
                problem.reason,
                &problem.message,
            );
        }
        for notice in &plan.notices {
            self.tell_notice(service, notice);
        }
    }

    fn tell_drift(&self, service: &Service, in_flight: &InFlightPlan) {
        let steps = &in_flight.run.plan().steps;
        let named = steps.iter().take(STEPS_TOLD);
        let mut text: Vec<String> = named
            .map(|step| format!("{} {}", step.verb, step.object))
            .collect();
        if steps.len() > STEPS_TOLD {
            text.push(format!("{} more", steps.len() - STEPS_TOLD));
        }
        let text = format!(
            "Load balancer is not as it was left; repairing: {}",
            text.join(", ")
        );
        self.tell_once(service, EventType::Warning, "LoadBalancerDrifted", &text);
    }

    /// Tells that all is as wanted, if it was told that it was not.
    fn tell_end(&self, service: &Service, in_flight: &InFlightPlan, reached: bool) {
        let worked = !in_flight.run.plan().is_empty();
        if in_flight.triggers.is_nodes_alone() {
            let took = in_flight.begun.elapsed().as_secs_f64();
            self.parts.metrics.services.host_latency.observe(took);
            if worked && !self.is_without_members(in_flight) {
                let text = "Updated load balancer with new hosts";
                self.tell(service, EventType::Normal, "UpdatedLoadBalancer", text);
            }
        }
        if reached && self.memory.conclude(&service.key) {
            let text = "Ensured load balancer";
            self.tell(service, EventType::Normal, "EnsuredLoadBalancer", text);
        }
    }

    pub(super) fn tell_notice(&self, service: &Service, notice: &Notice) {
        let kind = if notice.warning {
            EventType::Warning
        } else {
            EventType::Normal
        };
        self.tell_once(service, kind, notice.reason, &notice.message);
    }

    /// Tells once per wait that there is one.
    pub(super) fn announce_waiting(&self, service: &Service, what: &str) {
        let mut text = what.to_owned();
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        self.tell_once(service, EventType::Normal, "WaitingForLoadBalancer", &text);
    }

    pub(super) async fn tell_waiting(&self, service: &Service, what: &str) {
        self.announce_waiting(service, what);
        let condition = conditions::waiting(what.to_owned());
        self.tell_state(service, condition).await;
    }

    /// Tells how it stands.
    pub(super) async fn tell_state(&self, service: &Service, condition: Condition) {
        if let Some(current) = self.current(service) {
            self.set_condition(&current, condition).await;
        }
    }

    pub(super) fn tell_failure(
        &self,
        service: &Service,
        is_old: bool,
        nodes_alone: bool,
        error: &ReconcileError,
    ) {
        if nodes_alone {
            self.parts.metrics.services.node_errors.inc();
        }
        if error.is_told() {
            return;
        }
        let (reason, text) = if is_old {
            let text = format!("Error deleting load balancer: {}", error.cause());
            ("DeleteLoadBalancerFailed", text)
        } else if nodes_alone {
            let text = format!("{}, error: {}", self.hosts(service), error.cause());
            ("UpdateLoadBalancerFailed", text)
        } else {
            let text = format!("Error syncing load balancer: {}", error.text());
            ("SyncLoadBalancerFailed", text)
        };
        self.tell(service, EventType::Warning, reason, &text);
    }

    fn hosts(&self, service: &Service) -> String {
        let members = self.members(service);
        let names = name_list(members.iter().map(|node| node.name.as_str()));
        format!(
            "Error updating load balancer with new hosts [{names}] [node names limited, total \
             number of nodes: {}]",
            members.len()
        )
    }

    /// Whether it is certain that no node is a member.
    fn is_without_members(&self, in_flight: &InFlightPlan) -> bool {
        let balancers = self.clouds.balancers(&in_flight.cloud);
        let wish = &in_flight.wish;
        let selects = |node: &Node| balancers.is_none_or(|it| it.selects(&wish.service, node));
        let certain = wish.excluded.unknown.is_empty() && in_flight.run.plan().held.is_empty();
        certain && !wish.nodes.iter().any(|node| selects(node))
    }

    /// Whether it is certain that traffic has no target. A cloud whose load balancers follow machines by
    /// themselves is not judged by the nodes.
    fn is_without_targets(&self, in_flight: &InFlightPlan) -> bool {
        let balancers = self.clouds.balancers(&in_flight.cloud);
        balancers.is_none_or(Balancers::has_members) && self.is_without_members(in_flight)
    }

    /// Tells that work begins; once until it has ended.
    fn announce(&self, service: &Service, reason: &'static str, text: &str) {
        if self.memory.announce(&service.key, reason) {
            self.tell(service, EventType::Normal, reason, text);
        }
    }

    pub(super) fn tell_once(
        &self,
        service: &Service,
        kind: EventType,
        reason: &'static str,
        text: &str,
    ) {
        if self.memory.is_news(&service.key, reason, text) {
            self.tell(service, kind, reason, text);
        }
    }

    pub(super) fn tell(
        &self,
        service: &Service,
        kind: EventType,
        reason: &'static str,
        text: &str,
    ) {
        let reference = service_reference(&service.key, &service.uid, &service.resource_version);
        self.parts.recorder.event(&reference, kind, reason, text);
    }
}
