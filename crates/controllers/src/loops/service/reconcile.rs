//! Runs one reconcile of one Service: asks core for the next command, carries it out, records the result.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::reconcile::{
    Event, Next, Phase, Remembered, Retry, State, Stepped, reconcile, record,
};
use bowline_core::{CloudName, Responsibility, Service, ServiceKey};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tracing::{debug, warn};

use super::ServiceController;
use super::conditions;
use super::errors::ReconcileError;
use super::execute::InFlightPlan;
use super::gather::Drafted;
use super::triggers::Triggers;
use crate::kube::store::Found;
use crate::queue::Work;
use tokio_util::sync::CancellationToken;

/// One reconcile of one Service.
pub(super) struct Reconcile<'a> {
    pub(super) controller: &'a ServiceController,
    pub(super) key: ServiceKey,
    pub(super) triggers: Triggers,
    pub(super) state: State,
    /// What carries out the plan of `state`.
    pub(super) in_flight: Option<InFlightPlan>,
    /// Where the load balancer is of a Service that names no cloud.
    pub(super) home: Option<CloudName>,
    /// The clouds that are looked at for a removal, together.
    pub(super) looks: Option<FuturesUnordered<BoxFuture<'a, Drafted>>>,
    /// The annotations that name what is gone.
    pub(super) withdrawn: BTreeSet<String>,
    /// What went wrong in a cloud.
    pub(super) error: Option<ReconcileError>,
}

/// What came of it.
enum ReconcileOutcome {
    Done,
    Stopped,
    Again,
    Later(Duration),
    Waiting(Duration),
    Audit(Option<Duration>),
}

impl ServiceController {
    pub(super) async fn reconcile(
        self: Arc<Self>,
        work: Work<ServiceKey>,
        stop: CancellationToken,
    ) {
        let key = work.key().clone();
        let lock = self.parts.locks.lock(format!("Service {key}"));
        let Some(_lock) = stop.run_until_cancelled(lock).await else {
            return;
        };
        let mut this = Reconcile::new(&self, key.clone());
        let done = Box::pin(this.run(&stop)).await;
        let triggers = this.triggers.clone();
        match done {
            Ok(ReconcileOutcome::Audit(after)) => {
                self.queue.forget(&key);
                if let Some(after) = after {
                    self.queue.add_after(key, after);
                }
            }
            Ok(ReconcileOutcome::Done) => self.queue.forget(&key),
            Ok(ReconcileOutcome::Waiting(delay)) => {
                self.queue.add_after(key, delay);
            }
            Ok(ReconcileOutcome::Later(delay)) => {
                self.states.add_trigger(&key, triggers);
                self.queue.add_after(key, delay);
            }
            Ok(ReconcileOutcome::Again) => {
                self.states.end_reports(&key, false);
                self.states.add_trigger(&key, triggers);
                self.queue.add(key);
            }
            Ok(ReconcileOutcome::Stopped) => {}
            Err(error) => {
                self.states.end_reports(&key, false);
                Box::pin(this.fail(&error, &stop)).await;
            }
        }
    }
}

impl<'a> Reconcile<'a> {
    /// Takes up what is known of a Service, and the plan that waits.
    fn new(controller: &'a ServiceController, key: ServiceKey) -> Self {
        let states = &controller.states;
        let mut triggers = states.take_triggers(&key);
        let targets_changed = triggers.nodes.is_some();
        let waiting = states
            .take_in_flight(&key)
            .map(|(mut in_flight, mut plan)| {
                triggers.merge(in_flight.triggers.clone());
                in_flight.triggers = triggers.clone();
                plan.targets_changed = targets_changed;
                (in_flight, plan)
            });
        let (in_flight, plan) = waiting.unzip();
        let remembered = states.recall(&key);
        let mut state = State::default();
        state.remembered = remembered.map(|(service, clouds)| Remembered { service, clouds });
        state.targets_alone = triggers.is_nodes_alone();
        state.plan = plan;
        Self {
            controller,
            key,
            triggers,
            state,
            in_flight,
            home: None,
            looks: None,
            withdrawn: BTreeSet::new(),
            error: None,
        }
    }

    async fn run(&mut self, stop: &CancellationToken) -> Result<ReconcileOutcome, ReconcileError> {
        self.find_home().await?;
        loop {
            let found = self.controller.parts.services.find(&self.key);
            let next = reconcile(&self.state, &self.observe(&found, stop));
            let event = match (next, found) {
                (Next::End, Found::Unreadable) => {
                    warn!(service = %self.key, "it cannot be read; its load balancer stays as it is");
                    return Ok(ReconcileOutcome::Done);
                }
                (Next::Stop, _) => return Ok(ReconcileOutcome::Stopped),
                (Next::Restart, _) => {
                    debug!(service = %self.key, "what was planned for has changed; planning anew");
                    return Ok(ReconcileOutcome::Again);
                }
                (Next::Later(delay), _) => return Ok(ReconcileOutcome::Later(delay)),
                (Next::Audit(after), _) => return Ok(ReconcileOutcome::Audit(after)),
                (Next::Wait(delay), _) => {
                    self.put_aside(delay).await;
                    return Ok(ReconcileOutcome::Waiting(delay));
                }
                (Next::Report, Found::Object(service)) => {
                    let left = self.report_unserved(&service);
                    return Ok(left.map_or(ReconcileOutcome::Done, ReconcileOutcome::Later));
                }
                (Next::AddFinalizer(cloud), Found::Object(service)) => {
                    self.hold(service, cloud).await?
                }
                (Next::Prove(clouds), Found::Object(service)) => {
                    self.prove(&service, &clouds).await
                }
                (Next::RemoveFinalizer, _) => {
                    self.release().await?;
                    return Ok(ReconcileOutcome::Done);
                }
                (Next::End | Next::Report | Next::AddFinalizer(_) | Next::Prove(_), _) => {
                    return Ok(ReconcileOutcome::Done);
                }
                (Next::ForgetLost, _) => self.let_go(),
                (Next::Remove(removal), _) => self.begin_removal(removal).await,
                (Next::Draft, _) => self.draft().await,
                (Next::Discard, _) => self.discard(),
                (Next::Show, _) => self.show(),
                (Next::Begin, _) => self.begin().await?,
                (Next::Step(_), _) => self.step().await?,
                (Next::FinishCloud, _) => self.finish(),
                (Next::Publish, _) => self.publish().await?,
                (Next::Forget, _) => self.forget(),
                (Next::Move, _) => self.move_home().await?,
                (Next::Fail | Next::Retry(_), _) => {
                    let error = self.error.take();
                    return error.map_or(Ok(ReconcileOutcome::Again), Err);
                }
                (Next::FailWaiting(waited), _) => return Err(self.waited_too_long(waited)),
                (Next::FailIncomplete, _) => return Err(self.incomplete()),
            };
            record(&mut self.state, event);
            if self.state.phase == Phase::Executing(Stepped::Over { progress: true }) {
                // What has come further is tried again soon, however often it failed before.
                self.controller.queue.forget(&self.key);
            }
        }
    }

    /// Reports a failure and plans the next try.
    async fn fail(&mut self, error: &ReconcileError, stop: &CancellationToken) {
        record(&mut self.state, Event::Failed(error.failure()));
        let (controller, key) = (self.controller, self.key.clone());
        let found = controller.parts.services.find(&key);
        let Next::Retry(retry) = reconcile(&self.state, &self.observe(&found, stop)) else {
            debug!(service = %key, error = error.text(), "it is gone; the watch will tell");
            return;
        };
        let current = controller.parts.services.get(&key);
        let old = controller.states.recall(&key).map(|it| it.0);
        let Some(service) = current.clone().or_else(|| old.clone()) else {
            controller.queue.retry(key);
            return;
        };
        // Not about the Service that is there now, but about what is left of one before it.
        let is_old = old.is_some_and(|old| {
            let names = controller.clouds.names();
            let ours = |it: &Arc<Service>| {
                it.uid == old.uid && names.responsibility(it) != Responsibility::Nothing
            };
            !current.as_ref().is_some_and(ours)
        });
        let targets_alone = self.state.targets_alone && !error.is_reported();
        warn!(service = %key, error = error.text(), "working on its load balancer failed");
        controller.report_failure(&service, is_old, targets_alone, error);
        controller.states.set_troubled(&key, error.may_be_a_lack());
        let delay = match retry {
            Retry::AsService => {
                controller.states.add_trigger(&key, Triggers::service());
                controller.queue.add(key);
                return;
            }
            Retry::After(hint) => {
                controller.queue.add_after(key.clone(), hint);
                hint
            }
            Retry::BackOff => controller.queue.retry(key.clone()),
        };
        controller.states.add_trigger(&key, self.triggers.clone());
        if let Some(current) = current.filter(|_| !is_old) {
            let condition = conditions::failing(
                error.is_cloud_known(),
                error.reason(),
                &error.text(),
                Some(controller.parts.clock.now() + delay),
            );
            controller.set_condition(&current, condition).await;
        }
    }

    /// Why nobody serves it is reported; the answer is when it is time for that, if it is not yet.
    fn report_unserved(&self, service: &Service) -> Option<Duration> {
        if self.state.phase == Phase::Disproven {
            let unproven = bowline_core::Unserved::Unproven;
            return self.controller.report_why(service, &unproven);
        }
        self.controller.report_unserved(service)
    }
}
