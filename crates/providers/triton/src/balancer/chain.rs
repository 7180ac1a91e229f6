//! Several plans as one, carried out one after the other.

use std::time::Duration;

use bowline_core::{
    BoxFuture, CloudError, Executor, PreparedPlan, Publication, Step, StepId, StepOutcome,
};

use super::targets::sooner;

/// Publishes what the first part publishes.
struct Chain {
    /// Each with the number of its first step.
    parts: Vec<(StepId, Box<dyn Executor>)>,
    /// The one that is being carried out; those before it are finished.
    at: usize,
    /// When to plan anew, whatever the parts answer.
    again: Option<Duration>,
}

/// The first plan, and then the others, with the problems and notices of all.
pub(super) fn chain(
    first: PreparedPlan,
    others: impl IntoIterator<Item = PreparedPlan>,
) -> PreparedPlan {
    let mut plan = first.plan;
    let mut parts = vec![(0, first.executor)];
    for other in others {
        let before = plan.steps.len();
        parts.push((before, other.executor));
        for mut step in other.plan.steps {
            for need in &mut step.needs {
                *need += before;
            }
            plan.push(step);
        }
        plan.found.extend(other.plan.found);
        plan.problems.extend(other.plan.problems);
        plan.notices.extend(other.plan.notices);
        plan.held.extend(other.plan.held);
    }
    PreparedPlan::new(plan, Box::new(Chain::new(parts, None)))
}

/// The same plan, and another one after that time.
pub(super) fn again_after(draft: PreparedPlan, pause: Duration) -> PreparedPlan {
    let executor = Box::new(Chain::new(vec![(0, draft.executor)], Some(pause)));
    PreparedPlan { executor, ..draft }
}

impl Chain {
    fn new(parts: Vec<(StepId, Box<dyn Executor>)>, again: Option<Duration>) -> Self {
        let at = part_of(&parts, 0);
        Self { parts, at, again }
    }
}

/// The part that a step is of.
fn part_of(parts: &[(StepId, Box<dyn Executor>)], id: StepId) -> usize {
    parts.partition_point(|(first, _)| *first <= id) - 1
}

impl Executor for Chain {
    fn carry_out<'a>(
        &'a mut self,
        id: StepId,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<StepOutcome, CloudError>> {
        self.at = part_of(&self.parts, id);
        let (first, executor) = &mut self.parts[self.at];
        executor.carry_out(id - *first, step)
    }

    fn publication(&self, finished: bool) -> Publication {
        let parts = self.parts.iter().enumerate();
        let mut all = parts.map(|(at, (_, it))| it.publication(finished || at < self.at));
        let mut first = all.next().unwrap_or_default();
        for other in all {
            first.withdrawn.extend(other.withdrawn);
        }
        first
    }

    fn again(&self) -> Option<Duration> {
        let pauses = self.parts.iter().filter_map(|(_, it)| it.again());
        pauses.fold(self.again, sooner)
    }
}
