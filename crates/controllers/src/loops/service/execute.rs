//! Carrying out a plan, step by step, for as long as it holds.

use std::time::Duration;

use bowline_core::{
    CloudError, Goal, Handling, Impact, Problem, Progress, Step, StepId, Verb, format_duration,
    needs_update,
};
use tokio::time::Instant;
use tracing::{debug, info};

use super::ServiceController;
use super::conditions;
use super::errors::TurnError;
use super::reconcile::{Outcome, Ran};
use super::state::Errand;
use crate::stop::Stop;

/// How long one step may wait for the cloud. Load balancers take a minute or two, some more than ten:
/// a cloud with operations waits ten minutes for one and then says so itself. After this somebody has
/// to look.
const WAIT_LIMIT: Duration = Duration::from_secs(660);
/// The shortest pause between two looks at a step that waits: a cloud that says "now" would
/// otherwise be asked without end.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// How often people are told how a long run goes. Most are over sooner, and tell only their end.
const TELLING_PERIOD: Duration = Duration::from_secs(5);

impl ServiceController {
    /// Carries out steps until none is left, one waits, or the plan no longer holds.
    pub(super) async fn carry_on(&self, errand: Errand, stop: &Stop) -> Result<Ran, TurnError> {
        let mut errand = errand;
        // What was found before anything is done is worth as much as what comes of doing it.
        self.publish_annotations(&mut errand).await?;
        if errand.wish.goal == Goal::Absent && errand.run.next_step().is_some() {
            let (service, cloud) = (errand.wish.service.clone(), errand.cloud.clone());
            self.announce_removal(&service, &cloud).await;
        }
        while let Some(step) = errand.run.next_step() {
            if stop.is_given() {
                return Ok(Ran::Not(Outcome::Stopped));
            }
            if self.is_overtaken(&errand) || self.is_too_risky(&errand, step) {
                debug!(service = %errand.wish.service.key, "the plan is out of date; planning anew");
                return Ok(Ran::Not(Outcome::Again));
            }
            if errand.told.elapsed() >= TELLING_PERIOD && errand.run.waiting().is_none() {
                errand.told = Instant::now();
                let text = conditions::progress(&errand.run, step);
                self.tell_state(&errand.wish.service.clone(), conditions::progressing(text))
                    .await;
            }
            let progress = self.carry_out(&mut errand, step).await;
            // Also after a failure: what it left behind must be found again.
            self.publish_annotations(&mut errand).await?;
            let pause = self.take_note(&mut errand, step, progress?)?;
            if let Some(pause) = pause {
                return Ok(Ran::Not(self.put_aside(errand, pause).await));
            }
        }
        Ok(Ran::ToItsEnd(Box::new(errand)))
    }

    async fn carry_out(&self, errand: &mut Errand, step: StepId) -> Result<Progress, TurnError> {
        let (cloud, executor) = (&errand.cloud, &mut *errand.executor);
        let done = self.clouds.carry_out(cloud, executor, step).await;
        let planned = errand.run.step(step);
        let result = match &done {
            Ok(Progress::Done) => "done",
            Ok(Progress::Wait { .. }) => "waiting",
            Ok(Progress::Skipped(_)) => "skipped",
            Err(_) => "failed",
        };
        let metrics = &self.parts.metrics.services;
        metrics.step(errand.cloud.as_str(), planned.verb, result);
        info!(service = %errand.wish.service.key, cloud = %errand.cloud, result,
              "{} {}", planned.verb, planned.object);
        done.map_err(|error| failed(errand, step, error))
    }

    /// Writes down what came of a step; the answer is how long it waits.
    fn take_note(
        &self,
        errand: &mut Errand,
        step: StepId,
        progress: Progress,
    ) -> Result<Option<Duration>, TurnError> {
        match progress {
            Progress::Done => {
                errand.run.done(step);
                // What has come further is tried again soon, however often it failed before. To have waited is
                // no progress: a cloud that is at work after every failure would be tried without a pause.
                if errand.run.step(step).verb != Verb::Wait {
                    self.queue.forget(&errand.wish.service.key);
                }
            }
            Progress::Skipped(notice) => {
                errand.run.skip(step);
                self.tell_notice(&errand.wish.service, &notice);
            }
            Progress::Wait { what, after } => {
                let now = self.parts.clock.now();
                let waited = errand.run.wait(step, what.clone(), now);
                if waited >= WAIT_LIMIT {
                    let trying = match errand.wish.goal {
                        Goal::Present => "ensure",
                        Goal::Absent => "delete",
                    };
                    return Err(TurnError::Wait {
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
    async fn put_aside(&self, mut errand: Errand, pause: Duration) -> Outcome {
        let now = Instant::now();
        if errand.told.elapsed() >= TELLING_PERIOD
            && let Some(what) = errand.run.waiting()
        {
            let service = errand.wish.service.clone();
            let condition = conditions::waiting(conditions::pause(&errand.run, what));
            self.announce_waiting(&service, &format!("waiting for {what}"));
            errand.told = now;
            self.tell_state(&service, condition).await;
        }
        errand.due = now + pause;
        self.memory.put_aside(errand);
        Outcome::Waiting(pause)
    }

    /// Whether the Service or the members are no longer what the plan was made for.
    pub(super) fn is_overtaken(&self, errand: &Errand) -> bool {
        let planned = &errand.wish.service;
        let current = self.current(planned);
        let handling = current.as_ref().map(|it| self.clouds.names().handling(it));
        match errand.wish.goal {
            Goal::Absent => handling == Some(Handling::Ensure(errand.cloud.clone())),
            Goal::Present => {
                let own = self.clouds.own_annotations(&errand.cloud);
                let published = self.memory.published(&planned.key);
                handling != Some(Handling::Ensure(errand.cloud.clone()))
                    || current.is_none_or(|it| needs_update(planned, &it, own, &published))
                    || self.memory.has_node_cause(&planned.key)
            }
        }
    }

    /// Before a step that interrupts or destroys, the members are looked at as they are now, and
    /// not as they were when changes last settled.
    fn is_too_risky(&self, errand: &Errand, step: StepId) -> bool {
        let risky = errand.run.step(step).impact >= Impact::Interrupts;
        let service = &errand.wish.service;
        risky && errand.wish.goal == Goal::Present && {
            let roster = self
                .clouds
                .roster(&errand.cloud, &self.parts.nodes.sighting());
            self.fingerprint(service, &errand.cloud, &roster) != errand.members
        }
    }
}

fn failed(errand: &Errand, step: StepId, error: CloudError) -> TurnError {
    match errand.wish.goal {
        Goal::Absent => TurnError::Delete(error),
        Goal::Present => TurnError::Step {
            at: conditions::progress(&errand.run, step),
            source: error,
        },
    }
}

impl Errand {
    /// Whether it reached its goal; what stands in the way was told already.
    pub(super) fn check(&self) -> Result<(), TurnError> {
        let plan = self.run.plan();
        if let Some(Problem { reason, .. }) = plan.problems.first() {
            let messages: Vec<&str> = plan.problems.iter().map(|it| it.message.as_str()).collect();
            return Err(TurnError::Problems {
                reason,
                message: messages.join("; "),
            });
        }
        if self.run.has_gaps() {
            let skipped = |id: &usize| *self.run.state(*id) == bowline_core::StepState::Skipped;
            let skipped = (0..plan.steps.len()).filter(skipped);
            let text = |step: &Step| format!("{} {}", step.verb, step.object);
            let skipped: Vec<String> = skipped.map(|id| text(self.run.step(id))).collect();
            return Err(TurnError::Gaps(skipped.join(", ")));
        }
        Ok(())
    }
}
