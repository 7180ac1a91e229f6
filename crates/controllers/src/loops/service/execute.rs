//! Carrying out a plan, step by step, for as long as it holds.

use std::time::Duration;

use bowline_core::{
    CloudError, Goal, Impact, Problem, Responsibility, Step, StepId, StepOutcome, Verb,
    format_duration, needs_update,
};
use tokio::time::Instant;
use tracing::{debug, info};

use super::ServiceController;
use super::conditions;
use super::errors::ReconcileError;
use super::reconcile::{Outcome, Ran};
use super::state::InFlightPlan;
use crate::stop::Stop;

/// How long one step may wait for the cloud. Load balancers take a minute or two, some more than ten:
/// a cloud with operations waits ten minutes for one and then says so itself. After this somebody has
/// to look.
const WAIT_LIMIT: Duration = Duration::from_secs(660);
/// The shortest pause between two looks at a step that waits: a cloud that says "now" would
/// otherwise be asked without end.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// How often the progress of a long plan is reported. Most plans end sooner, and report only their end.
const TELLING_PERIOD: Duration = Duration::from_secs(5);

impl ServiceController {
    /// Carries out steps until none is left, one waits, or the plan no longer holds.
    pub(super) async fn carry_on(
        &self,
        in_flight: InFlightPlan,
        stop: &Stop,
    ) -> Result<Ran, ReconcileError> {
        let mut in_flight = in_flight;
        // What was found before anything is done is worth as much as what comes of doing it.
        self.publish_annotations(&mut in_flight).await?;
        if in_flight.wish.goal == Goal::Absent && in_flight.run.next_step().is_some() {
            let (service, cloud) = (in_flight.wish.service.clone(), in_flight.cloud.clone());
            self.announce_removal(&service, &cloud).await;
        }
        while let Some(step) = in_flight.run.next_step() {
            if stop.is_given() {
                return Ok(Ran::Not(Outcome::Stopped));
            }
            if self.is_overtaken(&in_flight) || self.is_too_risky(&in_flight, step) {
                debug!(service = %in_flight.wish.service.key, "the plan is out of date; planning anew");
                return Ok(Ran::Not(Outcome::Again));
            }
            if in_flight.told.elapsed() >= TELLING_PERIOD && in_flight.run.waiting().is_none() {
                in_flight.told = Instant::now();
                let text = conditions::progress(&in_flight.run, step);
                self.tell_state(
                    &in_flight.wish.service.clone(),
                    conditions::progressing(text),
                )
                .await;
            }
            let progress = self.carry_out(&mut in_flight, step).await;
            // Also after a failure: what it left behind must be found again.
            self.publish_annotations(&mut in_flight).await?;
            let pause = self.take_note(&mut in_flight, step, progress?)?;
            if let Some(pause) = pause {
                return Ok(Ran::Not(self.put_aside(in_flight, pause).await));
            }
        }
        Ok(Ran::ToItsEnd(Box::new(in_flight)))
    }

    async fn carry_out(
        &self,
        in_flight: &mut InFlightPlan,
        step: StepId,
    ) -> Result<StepOutcome, ReconcileError> {
        let (cloud, executor) = (&in_flight.cloud, &mut *in_flight.executor);
        let done = self.clouds.carry_out(cloud, executor, step).await;
        let planned = in_flight.run.step(step);
        let result = match &done {
            Ok(StepOutcome::Done) => "done",
            Ok(StepOutcome::Wait { .. }) => "waiting",
            Ok(StepOutcome::Skipped(_)) => "skipped",
            Err(_) => "failed",
        };
        let metrics = &self.parts.metrics.services;
        metrics.step(in_flight.cloud.as_str(), planned.verb, result);
        info!(service = %in_flight.wish.service.key, cloud = %in_flight.cloud, result,
              "{} {}", planned.verb, planned.object);
        done.map_err(|error| failed(in_flight, step, error))
    }

    /// Writes down what came of a step; the answer is how long it waits.
    fn take_note(
        &self,
        in_flight: &mut InFlightPlan,
        step: StepId,
        progress: StepOutcome,
    ) -> Result<Option<Duration>, ReconcileError> {
        match progress {
            StepOutcome::Done => {
                in_flight.run.done(step);
                // What has come further is tried again soon, however often it failed before. To have waited is
                // no progress: a cloud that is at work after every failure would be tried without a pause.
                if in_flight.run.step(step).verb != Verb::Wait {
                    self.queue.forget(&in_flight.wish.service.key);
                }
            }
            StepOutcome::Skipped(notice) => {
                in_flight.run.skip(step);
                self.tell_notice(&in_flight.wish.service, &notice);
            }
            StepOutcome::Wait { what, after } => {
                let now = self.parts.clock.now();
                let waited = in_flight.run.wait(step, what.clone(), now);
                if waited >= WAIT_LIMIT {
                    let trying = match in_flight.wish.goal {
                        Goal::Present => "ensure",
                        Goal::Absent => "delete",
                    };
                    return Err(ReconcileError::Wait {
                        trying,
                        what,
                        waited: format_duration(waited),
                    });
                }
                return Ok(Some(after.clamp(SHORTEST_WAIT, WAIT_LIMIT)));
            }
        }
        Ok(None)
    }

    /// Keeps the run for later; its worker is free.
    async fn put_aside(&self, mut in_flight: InFlightPlan, pause: Duration) -> Outcome {
        let now = Instant::now();
        if in_flight.told.elapsed() >= TELLING_PERIOD
            && let Some(what) = in_flight.run.waiting()
        {
            let service = in_flight.wish.service.clone();
            let condition = conditions::waiting(conditions::pause(&in_flight.run, what));
            self.announce_waiting(&service, &format!("waiting for {what}"));
            in_flight.told = now;
            self.tell_state(&service, condition).await;
        }
        in_flight.due = now + pause;
        self.memory.put_aside(in_flight);
        Outcome::Waiting(pause)
    }

    /// Whether the Service or the members are no longer what the plan was made for.
    pub(super) fn is_overtaken(&self, in_flight: &InFlightPlan) -> bool {
        let planned = &in_flight.wish.service;
        let current = self.current(planned);
        let responsibility = current
            .as_ref()
            .map(|it| self.clouds.names().responsibility(it));
        match in_flight.wish.goal {
            Goal::Absent => responsibility == Some(Responsibility::Ensure(in_flight.cloud.clone())),
            Goal::Present => {
                let own = self.clouds.own_annotations(&in_flight.cloud);
                let published = self.memory.published(&planned.key);
                responsibility != Some(Responsibility::Ensure(in_flight.cloud.clone()))
                    || current.is_none_or(|it| needs_update(planned, &it, own, &published))
                    || self.memory.has_node_cause(&planned.key)
            }
        }
    }

    /// Before a step that interrupts or destroys, the members are looked at as they are now, and
    /// not as they were when changes last settled.
    fn is_too_risky(&self, in_flight: &InFlightPlan, step: StepId) -> bool {
        let risky = in_flight.run.step(step).impact >= Impact::Interrupts;
        let service = &in_flight.wish.service;
        risky && in_flight.wish.goal == Goal::Present && {
            let roster = self
                .clouds
                .roster(&in_flight.cloud, &self.parts.nodes.view());
            self.fingerprint(service, &in_flight.cloud, &roster) != in_flight.members
        }
    }
}

fn failed(in_flight: &InFlightPlan, step: StepId, error: CloudError) -> ReconcileError {
    match in_flight.wish.goal {
        Goal::Absent => ReconcileError::Delete(error),
        Goal::Present => ReconcileError::Step {
            at: conditions::progress(&in_flight.run, step),
            source: error,
        },
    }
}

impl InFlightPlan {
    /// Whether it reached its goal. Problems have been reported by then.
    pub(super) fn check(&self) -> Result<(), ReconcileError> {
        let plan = self.run.plan();
        if let Some(Problem { reason, .. }) = plan.problems.first() {
            let messages: Vec<&str> = plan.problems.iter().map(|it| it.message.as_str()).collect();
            return Err(ReconcileError::Problems {
                reason,
                message: messages.join("; "),
            });
        }
        if self.run.has_gaps() {
            let skipped = |id: &usize| *self.run.state(*id) == bowline_core::StepState::Skipped;
            let skipped = (0..plan.steps.len()).filter(skipped);
            let text = |step: &Step| format!("{} {}", step.verb, step.object);
            let skipped: Vec<String> = skipped.map(|id| text(self.run.step(id))).collect();
            return Err(ReconcileError::Gaps(skipped.join(", ")));
        }
        Ok(())
    }
}
