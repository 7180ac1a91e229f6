//! Carrying out a plan: which step is next, what is waited for, what has been done.
//!
//! A [`PlanProgress`] records one plan. It makes no calls; the controller records the outcome of each step. A
//! step that waits holds nobody: the run is put aside and taken up again. When a process dies, its
//! runs are gone, and the next plan begins with what the cloud shows, which is why every step must
//! leave something that the next look finds again: a name, a tag, an id.

use std::time::Duration;

use jiff::Timestamp;

use crate::{Plan, Step, StepId};

/// What has become of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Its turn has not come.
    Pending,
    /// It was begun, and the cloud is not done with it.
    Waiting {
        /// What for, in words that follow "waiting for".
        what: String,
        /// Since when.
        since: Timestamp,
    },
    /// It is done.
    Done,
    /// It could not be done, and the rest can do without it.
    Skipped,
}

/// The state of a plan that is being carried out.
#[derive(Clone, Debug)]
pub struct PlanProgress {
    plan: Plan,
    states: Vec<StepState>,
}

impl PlanProgress {
    /// A run that has not begun. It may wait for minutes, so that it keeps the steps alone: what was
    /// found and what is wanted is for those who read the plan.
    pub fn new(mut plan: Plan) -> Self {
        (plan.found, plan.wanted) = (Vec::new(), Vec::new());
        let states = vec![StepState::Pending; plan.steps.len()];
        Self { plan, states }
    }

    /// What is carried out; it does not change meanwhile.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// A step of it.
    pub fn step(&self, id: StepId) -> &Step {
        &self.plan.steps[id]
    }

    /// What has become of a step.
    pub fn state(&self, id: StepId) -> &StepState {
        &self.states[id]
    }

    /// The first step that is not over, to be carried out or, if it waits, looked at again; none when all that
    /// could be done is done. What it needs is done: steps need earlier ones alone.
    pub fn next_step(&self) -> Option<StepId> {
        let is_over = |state: &StepState| matches!(state, StepState::Done | StepState::Skipped);
        self.states.iter().position(|state| !is_over(state))
    }

    /// Whether no step is left.
    pub fn is_finished(&self) -> bool {
        self.next_step().is_none()
    }

    /// That step is done.
    pub fn done(&mut self, id: StepId) {
        self.states[id] = StepState::Done;
    }

    /// That step cannot be done; those that need it are skipped as well, and the others go on.
    pub fn skip(&mut self, id: StepId) {
        self.states[id] = StepState::Skipped;
        for later in id + 1..self.states.len() {
            let mut needs = self.plan.steps[later].needs.iter();
            if needs.any(|&needed| self.states[needed] == StepState::Skipped) {
                self.states[later] = StepState::Skipped;
            }
        }
    }

    /// That step is under way in the cloud. Says how long it has been.
    pub fn wait(&mut self, id: StepId, what: String, now: Timestamp) -> Duration {
        let since = match &self.states[id] {
            StepState::Waiting { since, .. } => *since,
            _ => now,
        };
        self.states[id] = StepState::Waiting { what, since };
        Duration::try_from(now.duration_since(since)).unwrap_or_default()
    }

    /// What is being waited for.
    pub fn waiting(&self) -> Option<&str> {
        self.states.iter().find_map(|state| match state {
            StepState::Waiting { what, .. } => Some(what.as_str()),
            _ => None,
        })
    }

    /// How many steps are done, and how many there are.
    pub fn progress(&self) -> (usize, usize) {
        let done = self.states.iter().filter(|it| **it == StepState::Done);
        (done.count(), self.states.len())
    }

    /// Whether a step was skipped.
    pub fn has_gaps(&self) -> bool {
        self.states.contains(&StepState::Skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Impact, ResourceRef, Verb};

    fn plan(needs: &[&[StepId]]) -> Plan {
        let mut plan = Plan::default();
        for (number, needs) in needs.iter().enumerate() {
            plan.push(Step {
                verb: Verb::Create,
                object: ResourceRef {
                    kind: "thing",
                    name: number.to_string(),
                    id: None,
                },
                changes: Vec::new(),
                impact: Impact::None,
                reason: None,
                needs: needs.to_vec(),
            });
        }
        plan
    }

    #[test]
    fn steps_come_in_order_and_only_when_their_needs_are_met() {
        let mut run = PlanProgress::new(plan(&[&[], &[0], &[], &[1, 2]]));
        for id in 0..4 {
            assert_eq!(run.next_step(), Some(id));
            run.done(id);
        }
        assert_eq!(run.next_step(), None);
        assert_eq!(run.progress(), (4, 4));
    }

    #[test]
    fn what_needs_a_skipped_step_is_skipped_and_the_rest_goes_on() {
        let mut run = PlanProgress::new(plan(&[&[], &[0], &[1], &[]]));
        run.skip(0);
        assert_eq!(run.next_step(), Some(3));
        run.done(3);
        assert_eq!(run.next_step(), None);
        assert!(run.has_gaps());
        assert_eq!(run.progress(), (1, 4));
    }

    #[test]
    fn a_waiting_step_stays_next_and_remembers_since_when() {
        let mut run = PlanProgress::new(plan(&[&[], &[0]]));
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(run.wait(0, "it to be ready".into(), at(10)), Duration::ZERO);
        assert_eq!(run.next_step(), Some(0));
        let waited = run.wait(0, "it to be ready".into(), at(14));
        assert_eq!(waited, Duration::from_secs(4));
        assert_eq!(run.waiting(), Some("it to be ready"));
        run.done(0);
        assert_eq!(run.waiting(), None);
        assert_eq!(run.next_step(), Some(1));
    }
}
