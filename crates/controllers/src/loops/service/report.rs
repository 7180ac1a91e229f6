//! Reports of one reconcile: events of the Service, and what an observer would do.

use std::fmt::Write as _;

use bowline_core::reconcile::Event;
use bowline_core::{
    Balancers, Condition, Goal, Node, Notice, Plan, Service, Verb, ingress_to_write, name_list,
};
use tracing::info;

use super::ServiceController;
use super::conditions;
use super::errors::ReconcileError;
use super::execute::InFlightPlan;
use super::reconcile::Reconcile;
use crate::kube::events::{EventType, service_reference};
use crate::report::Fact;

/// Steps that a message names; more are counted.
const STEPS_NAMED: usize = 5;

impl Reconcile<'_> {
    /// Reports once what would be done if this manager did more than observe.
    pub(super) fn show(&mut self) -> Event {
        let controller = self.controller;
        let (Some(in_flight), Some(plan)) = (&self.in_flight, &self.state.plan) else {
            return Event::Shown(None);
        };
        let service = &in_flight.request.service;
        let mut lines: Vec<String> = Vec::new();
        let plan = plan.run.plan();
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
        if in_flight.request.goal == Goal::Present {
            let publication = in_flight.executor.publication(plan.is_empty());
            for (key, value) in &publication.annotations {
                if service.annotation(key) != Some(value) {
                    lines.push(format!("annotate {key}={value}"));
                }
            }
            let wanted = &publication.ingress;
            let wanted = ingress_to_write(&service.ingress, wanted, controller.has_ip_mode());
            for entrance in wanted.into_iter().flatten() {
                lines.push(format!("publish {entrance}"));
            }
        }
        for line in lines {
            if controller.states.is_new(&service.key, "observing", &line) {
                info!(service = %service.key, cloud = %in_flight.cloud, "observing: not done: {line}");
            }
        }
        controller.states.end_reports(&service.key, true);
        Event::Shown(in_flight.executor.again())
    }
}

impl ServiceController {
    /// Reports that work begins, and what is wrong with what is wanted.
    pub(super) fn report_plan(&self, in_flight: &InFlightPlan, plan: &Plan) {
        let service = &*in_flight.request.service;
        self.states
            .set_troubled(&service.key, !plan.problems.is_empty());
        self.note_held(&service.key, &in_flight.cloud, &plan.held);
        if !plan.is_empty() {
            match in_flight.request.goal {
                Goal::Absent => {
                    self.announce(service, "DeletingLoadBalancer", "Deleting load balancer");
                }
                Goal::Present if in_flight.triggers.is_nodes_alone() => {}
                Goal::Present => {
                    if in_flight.triggers.is_audit() {
                        self.report_drift(service, plan);
                    }
                    self.announce(service, "EnsuringLoadBalancer", "Ensuring load balancer");
                }
            }
        }
        if in_flight.request.goal == Goal::Present && self.is_without_nodes(in_flight, plan) {
            let text = "There are no available nodes for LoadBalancer";
            self.report_once(service, EventType::Warning, "UnAvailableLoadBalancer", text);
        }
        for problem in &plan.problems {
            self.report_once(
                service,
                EventType::Warning,
                problem.reason,
                &problem.message,
            );
        }
        for notice in &plan.notices {
            self.report_notice(service, notice);
        }
    }

    fn report_drift(&self, service: &Service, plan: &Plan) {
        let steps = &plan.steps;
        let named = steps.iter().take(STEPS_NAMED);
        let mut text: Vec<String> = named
            .map(|step| format!("{} {}", step.verb, step.object))
            .collect();
        if steps.len() > STEPS_NAMED {
            text.push(format!("{} more", steps.len() - STEPS_NAMED));
        }
        let text = format!(
            "Load balancer is not as it was left; repairing: {}",
            text.join(", ")
        );
        self.report_once(service, EventType::Warning, "LoadBalancerDrifted", &text);
    }

    /// Reports that all is as wanted, if it was announced that work begins.
    pub(super) fn report_end(
        &self,
        service: &Service,
        in_flight: &InFlightPlan,
        plan: &Plan,
        reached: bool,
    ) {
        let worked = !plan.is_empty();
        if in_flight.triggers.is_nodes_alone() {
            let took = in_flight.begun.elapsed().as_secs_f64();
            self.parts.metrics.services.host_latency.observe(took);
            if worked && !self.is_without_nodes(in_flight, plan) {
                let text = "Updated load balancer with new hosts";
                self.report(service, EventType::Normal, "UpdatedLoadBalancer", text);
            }
        }
        if reached && self.states.conclude(&service.key) {
            let text = "Ensured load balancer";
            self.report(service, EventType::Normal, "EnsuredLoadBalancer", text);
        }
    }

    pub(super) fn report_notice(&self, service: &Service, notice: &Notice) {
        let kind = EventType::warning_if(notice.warning);
        self.report_once(service, kind, notice.reason, &notice.message);
    }

    /// Reports each wait once.
    pub(super) fn announce_waiting(&self, service: &Service, what: &str) {
        let mut text = what.to_owned();
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        self.report_once(service, EventType::Normal, "WaitingForLoadBalancer", &text);
    }

    pub(super) async fn report_waiting(&self, service: &Service, what: &str) {
        self.announce_waiting(service, what);
        let condition = conditions::waiting(what.to_owned());
        self.report_condition(service, condition).await;
    }

    /// Writes the condition of the Service as it is now.
    pub(super) async fn report_condition(&self, service: &Service, condition: Condition) {
        if let Some(current) = self.current(service) {
            self.set_condition(&current, condition).await;
        }
    }

    pub(super) fn report_failure(
        &self,
        service: &Service,
        is_old: bool,
        targets_alone: bool,
        error: &ReconcileError,
    ) {
        if targets_alone {
            self.parts.metrics.services.node_errors.inc();
        }
        if error.is_reported() {
            return;
        }
        let (reason, text) = if is_old {
            let text = format!("Error deleting load balancer: {}", error.cause());
            ("DeleteLoadBalancerFailed", text)
        } else if targets_alone {
            let text = format!("{}, error: {}", self.hosts(service), error.cause());
            ("UpdateLoadBalancerFailed", text)
        } else {
            let text = format!("Error syncing load balancer: {}", error.text());
            ("SyncLoadBalancerFailed", text)
        };
        self.report(service, EventType::Warning, reason, &text);
    }

    fn hosts(&self, service: &Service) -> String {
        let targets = self.targets(service);
        let names = name_list(targets.iter().map(|node| node.name.as_str()));
        format!(
            "Error updating load balancer with new hosts [{names}] [node names limited, total \
             number of nodes: {}]",
            targets.len()
        )
    }

    /// Whether it is certain that no node is a target.
    fn is_without_nodes(&self, in_flight: &InFlightPlan, plan: &Plan) -> bool {
        let balancers = self.clouds.balancers(&in_flight.cloud);
        let request = &in_flight.request;
        let selects = |node: &Node| balancers.is_none_or(|it| it.selects(&request.service, node));
        let certain = request.excluded.unknown.is_empty() && plan.held.is_empty();
        certain && !request.nodes.iter().any(|node| selects(node))
    }

    /// Whether it is certain that traffic has no target. A cloud whose load balancers follow machines by
    /// themselves is not judged by the nodes.
    pub(super) fn is_without_targets(&self, in_flight: &InFlightPlan, plan: &Plan) -> bool {
        let balancers = self.clouds.balancers(&in_flight.cloud);
        balancers.is_none_or(Balancers::has_members) && self.is_without_nodes(in_flight, plan)
    }

    /// Reports that work begins; once until it has ended.
    pub(super) fn announce(&self, service: &Service, reason: &'static str, text: &str) {
        if self.states.announce(&service.key, reason) {
            self.report(service, EventType::Normal, reason, text);
        }
    }

    pub(super) fn report_once(
        &self,
        service: &Service,
        kind: EventType,
        reason: &'static str,
        text: &str,
    ) {
        if self.states.is_new(&service.key, reason, text) {
            self.report(service, kind, reason, text);
        }
    }

    pub(super) fn report(
        &self,
        service: &Service,
        kind: EventType,
        reason: &'static str,
        text: &str,
    ) {
        let fact = Fact::new(kind, service_reference(service), reason, text);
        self.parts.recorder.emit(fact);
    }
}
