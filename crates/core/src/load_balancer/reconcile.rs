//! The life of one Service's load balancer as a state machine: what is to be done next, asked before every command.
//!
//! [Phases] and the commands between them:
//!
//! ```text
//!  [Idle] ─ AddFinalizer ─▶ [Planning] ─ Draft ─▶ [Drafted] ─ Begin ─▶ [Executing] ─ Publish ─▶ [Published] ─▶ [Idle]
//!    │                        ▲  ▲                                      │  ▲ Step: still valid?
//!    │                        │  └─ Discard, Wait: a plan that waits ───┘  └──┘
//!    ├─ Remove ───────────────┘  one plan for each cloud, until all are [Looked] at
//!    │  (Prove before it, if nothing shows that the finalizer is ours)
//!    └◀─ Forget, Move or RemoveFinalizer ─ [Looked]
//!
//!  [Failed], from anywhere ─▶ End, retry hint, or back-off
//! ```
//!
//! [`reconcile`] decides and [`record`] notes what came of it. Neither makes calls or knows a clock: the
//! controller gathers an [`Observed`], carries out what [`Next`] says, and records the [`Event`].
//! What is remembered is forgotten only once its removal was shown to be complete.

mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use self::state::{
    BalancerRemoval, Event, Next, NotDrafted, Observed, Phase, PlanState, ReconcileFailure,
    Remembered, RemovalKind, Retry, ServicePresence, State, Stepped,
};
use crate::{CloudName, Goal, Responsibility, Service, StepOutcome, Verb};

/// The shortest time after which a cloud is tried again because it asked for that: one that says
/// "now" would otherwise be asked without end.
pub const SOONEST_RETRY: Duration = Duration::from_secs(1);
/// The longest: nobody wants to wait for an hour because of one wrong header.
pub const LATEST_RETRY: Duration = Duration::from_secs(600);
/// How long one step may wait for the cloud. Load balancers take a minute or two, some more than ten:
/// a cloud with operations waits ten minutes for one and then says so itself. After this somebody has
/// to look.
pub const WAIT_LIMIT: Duration = Duration::from_secs(660);
/// The shortest pause between two looks at a step that waits.
pub const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// After what time a Service is looked at again for which all Services could not be listed.
pub const SERVICES_PAUSE: Duration = Duration::from_secs(5);

/// Notes what came of a command.
pub fn record(state: &mut State, event: Event) {
    state.phase = match event {
        Event::Held(remembered) => {
            state.remembered = Some(remembered);
            Phase::Planning
        }
        Event::Proven(found) => {
            state.proven = found;
            if found { Phase::Idle } else { Phase::Disproven }
        }
        Event::Removing(removal) => {
            if removal.kind == RemovalKind::CurrentService {
                let (service, clouds) = (removal.service.clone(), removal.clouds.clone());
                state.remembered = Some(Remembered { service, clouds });
            }
            state.removal = Some(removal);
            Phase::Planning
        }
        Event::Drafted(plan) => {
            state.plan = Some(*plan);
            Phase::Drafted
        }
        Event::NotDrafted(why) => match &mut state.removal {
            None => Phase::NotDrafted(why),
            Some(removal) => {
                match why {
                    NotDrafted::Elsewhere => {}
                    NotDrafted::Unproven(after) => {
                        removal.unproven.get_or_insert(after);
                    }
                    why => {
                        removal.open.get_or_insert(why);
                    }
                }
                Phase::Planning
            }
        },
        Event::AllLooked => Phase::Looked,
        Event::Discarded | Event::Finished => {
            state.plan = None;
            Phase::Planning
        }
        Event::Begun => Phase::Executing(Stepped::NotYet),
        Event::Stepped(outcome, now) => Phase::Executing(stepped(state, outcome, now)),
        Event::Shown(again) => {
            state.plan = None;
            match state.removal {
                Some(_) => Phase::Planning,
                None => Phase::Shown(again),
            }
        }
        Event::Published(again) => Phase::Published(again),
        Event::Forgotten => {
            state.remembered = None;
            state.left = state.removal.take().map_or_else(Vec::new, |it| it.clouds);
            state.plan = None;
            Phase::Idle
        }
        Event::Moved => {
            (state.remembered, state.removal, state.moved) = (None, None, true);
            Phase::Idle
        }
        Event::Failed(failure) => Phase::Failed(failure),
    };
}

/// What came of the step of a plan.
fn stepped(state: &mut State, outcome: Option<StepOutcome>, now: Timestamp) -> Stepped {
    let Some((plan, outcome)) = state.plan.as_mut().zip(outcome) else {
        return Stepped::Failed;
    };
    let Some(step) = plan.step else {
        return Stepped::Failed;
    };
    let stepped = match outcome {
        StepOutcome::Done => {
            plan.run.done(step);
            // To have waited is no progress: a cloud that is at work after every failure would be tried without a
            // pause.
            let progress = plan.run.step(step).verb != Verb::Wait;
            Stepped::Over { progress }
        }
        StepOutcome::Skipped(_) => {
            plan.run.skip(step);
            Stepped::Over { progress: false }
        }
        StepOutcome::Wait { what, after } => {
            let waited = plan.run.wait(step, what, now);
            Stepped::Waits { waited, after }
        }
    };
    plan.step = plan.run.next_step();
    stepped
}

/// What is to be done next; the first rule that fits.
pub fn reconcile(state: &State, observed: &Observed<'_>) -> Next {
    match (&state.phase, &state.plan) {
        (Phase::Idle, _) => at_start(state, observed),
        (Phase::Planning, Some(plan)) => with_waiting(state, plan, observed),
        (Phase::Planning, None) => Next::Draft,
        (Phase::NotDrafted(why), _) => not_drafted(*why),
        (Phase::Drafted, _) if observed.is_observing => Next::Show,
        (Phase::Drafted, _) => Next::Begin,
        (Phase::Executing(last), Some(plan)) => executing(last, plan, observed),
        (Phase::Published(_), Some(plan)) if !plan.is_good() => Next::FailIncomplete,
        (Phase::Published(again) | Phase::Shown(again), _) => {
            let again = again.map(|it| it.max(SOONEST_RETRY));
            Next::Audit(observed.audit.into_iter().chain(again).min())
        }
        (Phase::Looked, _) => looked(state, observed),
        (Phase::Disproven, _) => Next::Report,
        (Phase::Failed(failure), _) => failed(state, failure),
        (Phase::Executing(_), None) => Next::End,
    }
}

fn at_start(state: &State, observed: &Observed<'_>) -> Next {
    let service = match observed.service {
        ServicePresence::Unreadable => return Next::End,
        _ if state.remembered.is_some() && observed.is_lost => return Next::ForgetLost,
        ServicePresence::Lost => return Next::End,
        ServicePresence::Gone => None,
        ServicePresence::There(service) => Some(service),
    };
    if let Some(removal) = to_leave(state, service, observed) {
        return Next::Remove(removal);
    }
    let Some(service) = service else {
        return Next::End;
    };
    let leave = |kind, clouds: Vec<CloudName>| {
        Next::Remove(BalancerRemoval::new(service.clone(), kind, clouds))
    };
    match &observed.responsibility {
        // The rest is another cloud's work, for which this one's workers do not wait.
        Responsibility::Ensure(cloud) if !state.left.is_empty() && !state.left.contains(cloud) => {
            Next::Restart
        }
        Responsibility::Ensure(cloud) => match &observed.former {
            Some(former) if !state.moved => leave(RemovalKind::MovedService, vec![former.clone()]),
            _ if !service.has_finalizer() && !observed.serves => Next::End,
            _ => Next::AddFinalizer(cloud.clone()),
        },
        Responsibility::CleanUp(named) => {
            // Where it was made is better known to us than to a Service that lost its class.
            let known = state.remembered.as_ref().map(|it| it.clouds.clone());
            let is_ours = known.is_some() || service.is_load_balancer || service.was_served_by_us();
            let clouds = known.unwrap_or_else(|| named.clone());
            if is_ours || state.proven {
                leave(RemovalKind::CurrentService, clouds)
            } else {
                Next::Prove(clouds)
            }
        }
        Responsibility::Nothing => Next::Report,
    }
}

/// What other clouds made for the Service, or for one before it, is to go first.
fn to_leave(
    state: &State,
    service: Option<&Arc<Service>>,
    observed: &Observed<'_>,
) -> Option<BalancerRemoval> {
    let Remembered {
        service: old,
        clouds,
    } = state.remembered.as_ref()?;
    let same = service.is_some_and(|it| it.uid == old.uid);
    let clouds = clouds
        .iter()
        .filter(|cloud| match &observed.responsibility {
            Responsibility::Ensure(by) if same => *cloud != by,
            Responsibility::CleanUp(_) if same => false,
            _ => true,
        });
    let clouds: Vec<CloudName> = clouds.cloned().collect();
    (!clouds.is_empty())
        .then(|| BalancerRemoval::new(old.clone(), RemovalKind::FormerService, clouds))
}

fn with_waiting(state: &State, plan: &PlanState, observed: &Observed<'_>) -> Next {
    let fits = match &state.removal {
        None => plan.goal == Goal::Present,
        Some(removal) => plan.goal == Goal::Absent && removal.clouds.contains(&plan.cloud),
    };
    if !fits || plan.is_overtaken(observed) {
        return Next::Discard;
    }
    let left = plan.due.saturating_duration_since(observed.now);
    if left.is_zero() {
        Next::Begin
    } else {
        Next::Wait(left)
    }
}

fn not_drafted(why: NotDrafted) -> Next {
    match why {
        NotDrafted::Elsewhere => Next::End,
        NotDrafted::NeedsServices => Next::Later(SERVICES_PAUSE),
        NotDrafted::Later(after) | NotDrafted::Unproven(after) => {
            Next::Later(after.clamp(SOONEST_RETRY, LATEST_RETRY))
        }
        NotDrafted::Failed => Next::Fail,
    }
}

fn executing(last: &Stepped, plan: &PlanState, observed: &Observed<'_>) -> Next {
    match last {
        Stepped::Failed => return Next::Fail,
        Stepped::Waits { waited, .. } if *waited >= WAIT_LIMIT => {
            return Next::FailWaiting(*waited);
        }
        Stepped::Waits { after, .. } => {
            return Next::Wait((*after).clamp(SHORTEST_WAIT, WAIT_LIMIT));
        }
        Stepped::NotYet | Stepped::Over { .. } => {}
    }
    match (plan.step, plan.goal) {
        (Some(_), _) if observed.is_stopping => Next::Stop,
        (Some(step), _) => {
            // Targets as they are now, and not as they were when changes last settled.
            let differ = plan.is_risky() && observed.targets.as_ref() != Some(&plan.targets);
            if differ || plan.is_overtaken(observed) {
                Next::Restart
            } else {
                Next::Step(step)
            }
        }
        (None, Goal::Absent) if plan.is_good() => Next::FinishCloud,
        (None, Goal::Absent) => Next::FailIncomplete,
        (None, Goal::Present) if observed.service.of(&plan.service.uid).is_none() => Next::Restart,
        (None, Goal::Present) => Next::Publish,
    }
}

fn looked(state: &State, observed: &Observed<'_>) -> Next {
    let removal = state.removal.as_ref();
    let unproven = removal.and_then(|it| it.unproven).map(NotDrafted::Unproven);
    match removal.and_then(|it| it.open).or(unproven) {
        Some(why) => not_drafted(why),
        None => removed(state, observed),
    }
}

fn removed(state: &State, observed: &Observed<'_>) -> Next {
    match state.removal.as_ref().map(|it| it.kind) {
        Some(RemovalKind::FormerService) => Next::Forget,
        Some(RemovalKind::MovedService) => Next::Move,
        // It is there as before, and what would be done was shown.
        Some(RemovalKind::CurrentService) if !observed.is_observing => Next::RemoveFinalizer,
        Some(RemovalKind::CurrentService) | None => Next::End,
    }
}

fn failed(state: &State, failure: &ReconcileFailure) -> Next {
    match failure.hint {
        _ if failure.of_the_past => Next::End,
        Some(hint) => Next::Retry(Retry::After(hint.clamp(SOONEST_RETRY, LATEST_RETRY))),
        None if state.targets_alone && !failure.reported => Next::Retry(Retry::AsService),
        None => Next::Retry(Retry::BackOff),
    }
}
