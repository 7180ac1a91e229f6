//! Several plans as one, carried out one after the other.

use std::time::Duration;

use bowline_core::{
    BoxFuture, CloudError, CloudErrorKind, Executor, PreparedPlan, Publication, StepId, StepOutcome,
};

use super::members::sooner;

/// What is published is what the first says.
struct Chain {
    /// Each with the number of its steps.
    parts: Vec<(usize, Box<dyn Executor>)>,
    /// When to plan anew, whatever the parts say.
    again: Option<Duration>,
}

/// The first plan, and then the others. What is wrong or worth telling is that of all.
pub(super) fn chain(
    first: PreparedPlan,
    others: impl IntoIterator<Item = PreparedPlan>,
) -> PreparedPlan {
    let mut plan = first.plan;
    let mut parts = vec![(plan.steps.len(), first.executor)];
    for other in others {
        let before = plan.steps.len();
        parts.push((other.plan.steps.len(), other.executor));
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
    let executor = Box::new(Chain { parts, again: None });
    PreparedPlan::new(plan, executor)
}

/// The same plan, and another one after that time.
pub(super) fn again_after(draft: PreparedPlan, pause: Duration) -> PreparedPlan {
    let parts = vec![(draft.plan.steps.len(), draft.executor)];
    let again = Some(pause);
    let executor = Box::new(Chain { parts, again });
    PreparedPlan { executor, ..draft }
}

impl Executor for Chain {
    fn carry_out(&mut self, step: StepId) -> BoxFuture<'_, Result<StepOutcome, CloudError>> {
        let mut left = step;
        for (count, executor) in &mut self.parts {
            if left < *count {
                return executor.carry_out(left);
            }
            left -= *count;
        }
        let text = format!("the plan has no step {step}");
        let error = CloudError::new(CloudErrorKind::Invalid, text);
        Box::pin(async { Err(error) })
    }

    fn publication(&self) -> Publication {
        let mut all = self.parts.iter().map(|(_, it)| it.publication());
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
