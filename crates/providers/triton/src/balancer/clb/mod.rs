//! Mode `clb`: load balancer machines.

pub(crate) mod backend;
#[cfg(test)]
pub(crate) mod examples;
pub(crate) mod machines;
pub(crate) mod memory;
pub(crate) mod metadata;
pub(crate) mod portmap;
pub(crate) mod shared;

use bowline_core::{
    BoxFuture, CloudError, Draft, DraftError, Executor, Plan, Problem, Progress, Publication,
    StepId,
};

use super::scene::Scene;
use crate::api::TagValue;
use crate::tags::BALANCER;

/// The plan for a Service that is to be served so. Nothing is wrong with its annotations.
pub(crate) async fn draft(_: &Scene<'_>) -> Result<Draft, DraftError> {
    let mut plan = Plan::default();
    plan.problems.push(Problem {
        reason: "NotBuiltYet",
        message: "mode clb is not built yet".to_owned(),
    });
    Ok(Draft {
        plan,
        executor: Box::new(Nothing),
    })
}

/// The plan for a Service that is to be served so no more: empty if it has nothing of this mode.
pub(crate) async fn removal(_: &Scene<'_>) -> Result<Draft, DraftError> {
    Ok(Draft {
        plan: Plan::default(),
        executor: Box::new(Nothing),
    })
}

/// Whether there are machines of this Service.
pub(crate) fn is_involved(scene: &Scene<'_>) -> bool {
    let ours = TagValue::from(scene.cluster);
    let uid = TagValue::from(scene.wish.service.uid.as_str());
    let mut machines = scene.listing.machines.values();
    machines
        .any(|it| it.tags.get(BALANCER) == Some(&ours) && it.tags.get("bowline.uid") == Some(&uid))
}

struct Nothing;

impl Executor for Nothing {
    fn carry_out(&mut self, _: StepId) -> BoxFuture<'_, Result<Progress, CloudError>> {
        Box::pin(async { Ok(Progress::Done) })
    }

    fn publication(&self) -> Publication {
        Publication::default()
    }
}
