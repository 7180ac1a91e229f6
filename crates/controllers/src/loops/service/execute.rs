//! Carries out decisions: steps of plans and removals. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::reconcile::{BalancerRemoval, Event, Phase, Remembered, RemovalKind};
use bowline_core::{
    BalancerRequest, CloudError, CloudName, Executor, Goal, PlanProgress, Problem, Service, Step,
    StepId, StepOutcome, StepState, format_duration,
};
use tokio::time::Instant;
use tracing::{debug, info};

use super::ServiceController;
use super::conditions;
use super::errors::ReconcileError;
use super::home;
use super::reconcile::Reconcile;
use super::triggers::Triggers;
use crate::kube::events::EventType;
use crate::report::{Fact, emit};

/// How often the progress of a long plan is reported. Most plans end sooner, and report only their end.
const PROGRESS_PERIOD: Duration = Duration::from_secs(5);

/// What carries out a plan, beside its [state](bowline_core::reconcile::PlanState).
pub(super) struct InFlightPlan {
    pub(super) request: BalancerRequest,
    pub(super) cloud: CloudName,
    pub(super) executor: Box<dyn Executor>,
    pub(super) triggers: Triggers,
    pub(super) begun: Instant,
    /// When its progress was last reported.
    pub(super) reported: Instant,
}

impl Reconcile<'_> {
    /// Remembers a Service, and makes sure that it stays until its load balancer is gone.
    pub(super) async fn hold(
        &mut self,
        service: Arc<Service>,
        cloud: CloudName,
    ) -> Result<Event, ReconcileError> {
        let clouds = vec![cloud];
        self.controller.states.remember(&service, &clouds);
        let service = self.controller.add_finalizer(service).await?;
        self.controller.states.set_removing(&service.key, false);
        Ok(Event::Held(Remembered { service, clouds }))
    }

    /// What was found before anything is done is worth as much as what comes of doing it.
    pub(super) async fn begin(&mut self) -> Result<Event, ReconcileError> {
        self.publish_annotations().await?;
        if let Some(plan) = &self.state.plan
            && plan.goal == Goal::Absent
            && plan.step.is_some()
        {
            let (service, cloud) = (plan.service.clone(), plan.cloud.clone());
            self.controller.announce_removal(&service, &cloud).await;
        }
        Ok(Event::Begun)
    }

    /// Carries out the next step.
    pub(super) async fn step(&mut self) -> Result<Event, ReconcileError> {
        let controller = self.controller;
        let (Some(plan), Some(in_flight)) = (&self.state.plan, &mut self.in_flight) else {
            return Ok(Event::Discarded);
        };
        let Some(step) = plan.step else {
            return Ok(Event::Discarded);
        };
        if in_flight.reported.elapsed() >= PROGRESS_PERIOD && plan.run.waiting().is_none() {
            in_flight.reported = Instant::now();
            let text = conditions::progress(&plan.run, step);
            let condition = conditions::progressing(text);
            controller.report_condition(&plan.service, condition).await;
        }
        let executor = &mut *in_flight.executor;
        let planned = plan.run.step(step);
        let done = controller
            .clouds
            .carry_out(&plan.cloud, executor, (step, planned))
            .await;
        let result = match &done {
            Ok(StepOutcome::Done) => "done",
            Ok(StepOutcome::Wait { .. }) => "waiting",
            Ok(StepOutcome::Skipped(_)) => "skipped",
            Err(_) => "failed",
        };
        let metrics = &controller.parts.metrics.services;
        metrics.step(plan.cloud.as_str(), planned.verb, result);
        info!(service = %self.key, cloud = %plan.cloud, result, "{} {}", planned.verb, planned.object);
        let done = done.map_err(|error| failed(plan.goal, &plan.run, step, error));
        // Also after a failure: what it left behind must be found again.
        self.publish_annotations().await?;
        let outcome = match done {
            Ok(outcome) => Some(outcome),
            Err(error) => {
                self.error = Some(error);
                None
            }
        };
        if let (Some(StepOutcome::Skipped(notice)), Some(plan)) = (&outcome, &self.state.plan) {
            controller.report_notice(&plan.service, notice);
        }
        Ok(Event::Stepped(outcome, controller.parts.clock.now()))
    }

    /// Keeps the plan for later; its worker is free.
    pub(super) async fn put_aside(&mut self, pause: Duration) {
        let (Some(mut in_flight), Some(mut plan)) = (self.in_flight.take(), self.state.plan.take())
        else {
            return;
        };
        let now = Instant::now();
        if matches!(self.state.phase, Phase::Executing(_))
            && in_flight.reported.elapsed() >= PROGRESS_PERIOD
            && let Some(what) = plan.run.waiting()
        {
            let condition = conditions::waiting(conditions::pause(&plan.run, what));
            let text = format!("waiting for {what}");
            self.controller.announce_waiting(&plan.service, &text);
            in_flight.reported = now;
            self.controller
                .report_condition(&plan.service, condition)
                .await;
        }
        plan.due = (now + pause).into_std();
        self.controller.states.put_aside(&self.key, in_flight, plan);
    }

    pub(super) fn discard(&mut self) -> Event {
        debug!(service = %self.key, "the plan that waited is out of date");
        self.controller.states.end_reports(&self.key, false);
        self.in_flight = None;
        Event::Discarded
    }

    // Removal.

    pub(super) async fn begin_removal(&mut self, removal: BalancerRemoval) -> Event {
        let controller = self.controller;
        (self.looks, self.withdrawn) = (None, std::collections::BTreeSet::new());
        if removal.kind == RemovalKind::CurrentService {
            let service = &removal.service;
            controller.states.remember(service, &removal.clouds);
            if !service.is_load_balancer && !service.was_served_by_us() {
                // Who goes on after a crash finds no load balancer any more, and has to know which program set the finalizer.
                controller
                    .report_condition(service, conditions::removing())
                    .await;
            }
            controller.states.set_targets(&service.key, None);
        }
        Event::Removing(removal)
    }

    /// Nothing is left in one of the clouds.
    pub(super) fn finish(&mut self) -> Event {
        self.controller.states.end_reports(&self.key, true);
        if let Some(in_flight) = &self.in_flight {
            self.withdrawn
                .extend(in_flight.executor.publication(true).withdrawn);
        }
        Event::Finished
    }

    /// The Service stays, or goes, without a load balancer.
    pub(super) async fn release(&mut self) -> Result<(), ReconcileError> {
        let controller = self.controller;
        let Some(service) = self.state.removal.as_ref().map(|it| it.service.clone()) else {
            return Ok(());
        };
        // While it is held: whatever fails here is tried again.
        controller.clear_status(&service.key, &service.uid).await?;
        let withdrawn = std::mem::take(&mut self.withdrawn);
        controller.withdraw(&service, withdrawn).await?;
        controller.remove_finalizer(&service).await?;
        self.forget();
        Ok(())
    }

    /// Forgets a Service whose load balancer is gone.
    pub(super) fn forget(&mut self) -> Event {
        let controller = self.controller;
        if controller.clouds.is_observing() {
            controller.states.forget(&self.key);
        } else if let Some(removal) = &self.state.removal {
            let text = "Deleted load balancer";
            controller.report(
                &removal.service,
                EventType::Normal,
                "DeletedLoadBalancer",
                text,
            );
            controller.forget(&self.key);
        }
        Event::Forgotten
    }

    /// Nothing is left where the Service was before, and the other cloud does not look for it.
    pub(super) async fn move_home(&mut self) -> Result<Event, ReconcileError> {
        let controller = self.controller;
        self.forget();
        let Some(removal) = &self.state.removal else {
            return Ok(Event::Moved);
        };
        let service = removal.service.clone();
        let left = removal.clouds.iter();
        let naming = left.filter_map(|it| controller.clouds.naming_annotation(it));
        let naming = naming.map(str::to_owned).collect();
        controller.clear_status(&service.key, &service.uid).await?;
        controller.withdraw(&service, naming).await?;
        let service = controller.current(&service).unwrap_or(service);
        let responsibility = controller.clouds.names().responsibility(&service);
        if let bowline_core::Responsibility::Ensure(cloud) = responsibility {
            controller
                .record(&service, vec![home::record(&cloud)])
                .await?;
        }
        Ok(Event::Moved)
    }

    /// Forgets a Service that the API server lacks since it was restored to an earlier state: nobody deleted it, so
    /// that its load balancer stays, and is reported like one without a Service.
    pub(super) fn let_go(&mut self) -> Event {
        let (controller, key) = (self.controller, &self.key);
        self.in_flight = None;
        controller.states.forget(key);
        if let Some(Remembered { service, clouds }) = &self.state.remembered {
            let clouds: Vec<&str> = clouds.iter().map(CloudName::as_str).collect();
            let text = format!(
                "Service {key} (uid {}) is missing since the API server was restored to an earlier state. Its load \
                 balancer in cloud {} is kept: apply the Service again, or remove the load balancer in the cloud",
                service.uid,
                clouds.join(", ")
            );
            let fact = Fact::warning(controller.options.lease.clone(), "ServiceLost", text);
            emit!(controller.parts.recorder, fact, service = %key);
        }
        Event::Forgotten
    }

    // Failures.

    pub(super) fn waited_too_long(&self, waited: Duration) -> ReconcileError {
        let plan = self.state.plan.as_ref();
        let trying = match plan.map(|it| it.goal) {
            Some(Goal::Absent) => "delete",
            Some(Goal::Present) | None => "ensure",
        };
        let what = plan.and_then(|it| it.run.waiting()).unwrap_or_default();
        ReconcileError::Wait {
            trying,
            what: what.to_owned(),
            waited: format_duration(waited),
        }
    }

    /// What is wrong with a plan that was carried out as far as it could be. Problems have been reported by then.
    pub(super) fn incomplete(&self) -> ReconcileError {
        if self.state.removal.is_some() {
            self.controller.states.end_reports(&self.key, true);
        }
        let Some(plan) = &self.state.plan else {
            return ReconcileError::Gaps(String::new());
        };
        let (run, plan) = (&plan.run, plan.run.plan());
        if let Some(Problem { reason, .. }) = plan.problems.first() {
            let messages: Vec<&str> = plan.problems.iter().map(|it| it.message.as_str()).collect();
            let message = messages.join("; ");
            return ReconcileError::Problems { reason, message };
        }
        let skipped = (0..plan.steps.len()).filter(|id| *run.state(*id) == StepState::Skipped);
        let text = |step: &Step| format!("{} {}", step.verb, step.object);
        let skipped: Vec<String> = skipped.map(|id| text(run.step(id))).collect();
        ReconcileError::Gaps(skipped.join(", "))
    }
}

impl ServiceController {
    /// Forgets a Service whose load balancer is gone. What it used may be what others lacked (an
    /// address, a name, a quota), so that those in trouble are looked at again at once.
    fn forget(&self, key: &bowline_core::ServiceKey) {
        self.states.forget(key);
        for troubled in self.states.troubled() {
            self.states.add_trigger(&troubled, Triggers::service());
            self.queue.add(troubled);
        }
    }
}

fn failed(goal: Goal, run: &PlanProgress, step: StepId, error: CloudError) -> ReconcileError {
    match goal {
        Goal::Absent => ReconcileError::Delete(error),
        Goal::Present => ReconcileError::Step {
            at: conditions::progress(run, step),
            source: error,
        },
    }
}
