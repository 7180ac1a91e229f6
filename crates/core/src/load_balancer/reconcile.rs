//! The life of one Service's load balancer as a state machine: what is to be done next, asked before every command.
//!
//! ```text
//!          ┌────────────── forgotten, moved ────────────────┐
//!          ▼                                                │
//!        Idle ──▶ hold ──▶ Planning ──▶ Drafted ──▶ Executing ──▶ published ──▶ Settled
//!          │                ▲  │ plan waits: discard, or aside    │   ▲
//!          └──▶ remove ─────┘  └──────────────────────────────────┘   └ each step: still valid?
//!                              removal: all clouds looked at ──▶ Looked
//!  Failed, from anywhere ──▶ end, retry hint, or back-off
//! ```
//!
//! [`reconcile`] decides and [`record`] notes what came of it. Neither makes calls or knows a clock: the
//! controller gathers an [`Observed`], carries out what [`Next`] says, and records the [`Event`].
//! What is remembered is forgotten only once its removal was shown to be complete.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::{
    CloudName, DraftError, Fingerprint, Goal, Impact, PlanProgress, Responsibility, Service,
    StepId, StepOutcome, Verb, needs_update,
};

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

/// A Service that has, or may have, a load balancer of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// As it was last worked on.
    pub service: Arc<Service>,
    /// Where its load balancer is, or may be.
    pub clouds: Vec<CloudName>,
}

/// What is known of one Service while it is reconciled.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// What outlives this reconcile.
    pub remembered: Option<Remembered>,
    /// Whether targets alone are the cause.
    pub targets_alone: bool,
    /// The plan that waits, or is carried out.
    pub plan: Option<PlanState>,
    /// What is being removed.
    pub removal: Option<Removal>,
    /// How far it is.
    pub phase: Phase,
    /// The clouds that an old Service has just left.
    left: Vec<CloudName>,
    /// Whether the Service has left the cloud that its condition names.
    moved: bool,
    /// Whether a cloud has shown that a Service with our finalizer was ours.
    proven: bool,
}

/// A plan, and what it was made for.
#[derive(Clone, Debug)]
pub struct PlanState {
    /// What is wanted.
    pub goal: Goal,
    /// Where.
    pub cloud: CloudName,
    /// The Service as planned.
    pub service: Arc<Service>,
    /// The targets as planned.
    pub targets: Fingerprint,
    /// How far it is.
    pub run: PlanProgress,
    /// The step to be carried out, or looked at again.
    pub step: Option<StepId>,
    /// When it is to be gone on with.
    pub due: Instant,
    /// Whether targets changed since it was put aside.
    pub targets_changed: bool,
}

impl PlanState {
    /// A plan that has not begun.
    pub fn new(
        (goal, cloud, service): (Goal, CloudName, Arc<Service>),
        targets: Fingerprint,
        mut run: PlanProgress,
        due: Instant,
    ) -> Self {
        Self {
            step: run.next_step(),
            goal,
            cloud,
            service,
            targets,
            run,
            due,
            targets_changed: false,
        }
    }

    /// Whether its next step interrupts or destroys something that is there now.
    pub fn is_risky(&self) -> bool {
        let step = self.step.map(|id| self.run.step(id));
        self.goal == Goal::Present && step.is_some_and(|it| it.impact >= Impact::Interrupts)
    }

    /// Whether nothing is wrong with it, and no step was skipped.
    pub fn is_good(&self) -> bool {
        self.run.plan().problems.is_empty() && !self.run.has_gaps()
    }

    /// Whether what it was made for has changed.
    fn is_overtaken(&self, observed: &Observed<'_>) -> bool {
        let current = observed.service.of(&self.service.uid);
        let ensures = current.is_some()
            && observed.responsibility == Responsibility::Ensure(self.cloud.clone());
        match self.goal {
            Goal::Absent => ensures,
            Goal::Present => {
                let (own, published) = (observed.own_annotations, &observed.published);
                !ensures
                    || self.targets_changed
                    || observed.targets_changed
                    || current.is_none_or(|it| needs_update(&self.service, it, own, published))
            }
        }
    }
}

/// Whose load balancer is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// That of a Service that is gone, another one by now, or in the hands of others: what is there now is
    /// not written.
    Old,
    /// That of a Service that a person has moved to another cloud.
    Moved,
    /// That of a Service that is to have none.
    Present,
}

/// A removal that is under way.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// Of which Service.
    pub service: Arc<Service>,
    /// In which relation it is to the present one.
    pub whose: Whose,
    /// The clouds that must have nothing of it.
    pub clouds: Vec<CloudName>,
    /// Why the first cloud of those that could not be looked at could not.
    pub open: Option<NotDrafted>,
    /// After what time one is tried again whose account is not proven.
    pub unproven: Option<Duration>,
}

/// How far a reconcile is.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Phase {
    /// Nothing was done.
    #[default]
    Idle,
    /// A plan is to be made, unless one waits that still holds.
    Planning,
    /// There is none.
    NotDrafted(NotDrafted),
    /// There is one.
    Drafted,
    /// It is carried out; this came of the last step.
    Executing(Stepped),
    /// All of it is written to the Service.
    Published(Option<Duration>),
    /// What would be done was shown. Nothing else happens.
    Shown(Option<Duration>),
    /// All clouds were looked at for a removal.
    Looked,
    /// No cloud shows that a Service with our finalizer was ours.
    Disproven,
    /// It did not reach its end.
    Failed(Failure),
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Stepped {
    /// None was made.
    NotYet,
    /// It is over, done or skipped. `progress`: something was written.
    Over {
        /// Whether the next failure is tried again as the first one.
        progress: bool,
    },
    /// The cloud is not done with it.
    Waits {
        /// How long it has been.
        waited: Duration,
        /// When to look again.
        after: Duration,
    },
    /// It failed.
    Failed,
}

/// Why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDrafted {
    /// Another program serves it.
    Elsewhere,
    /// Which Services live has to be read consistently first, and could not.
    Doubtful,
    /// Something is waited for: a requirement, the account, the cloud itself.
    Later(Duration),
    /// The account is not proven.
    Unproven(Duration),
    /// The cloud could not be read.
    Failed,
}

impl From<&DraftError> for NotDrafted {
    fn from(error: &DraftError) -> Self {
        match error {
            DraftError::Elsewhere => Self::Elsewhere,
            DraftError::NeedsServices => Self::Doubtful,
            DraftError::Later { after, .. } => Self::Later(*after),
            DraftError::Account { after, .. } => Self::Unproven(*after),
            DraftError::Cloud(_) => Self::Failed,
        }
    }
}

/// What a failure is about, as far as the next try depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// A Service was to be written that is gone, or another one by now.
    pub of_the_past: bool,
    /// When the cloud asked to be tried again.
    pub hint: Option<Duration>,
    /// Whether it is problems or gaps, which were reported one by one.
    pub reported: bool,
}

/// How a Service shows itself.
#[derive(Clone, Copy, Debug)]
pub enum Sight<'a> {
    /// Something is there that cannot be read.
    Unreadable,
    /// The API server lacks it since it was restored to an earlier state: nobody deleted it.
    Lost,
    /// It is proven to be gone.
    Gone,
    /// It is there.
    There(&'a Arc<Service>),
}

impl<'a> Sight<'a> {
    fn of(&self, uid: &str) -> Option<&'a Service> {
        match self {
            Self::There(service) if service.uid == uid => Some(service),
            _ => None,
        }
    }
}

/// The world as it is before a command.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The Service of that name.
    pub service: Sight<'a>,
    /// Who serves it.
    pub responsibility: Responsibility,
    /// The cloud that it has to leave, because a person has named another one.
    pub former: Option<CloudName>,
    /// Whether the remembered Service is one that a restored API server lacks.
    pub is_lost: bool,
    /// Whether its cloud serves it.
    pub serves: bool,
    /// The annotations that its cloud writes, and what was last written there.
    pub own_annotations: &'a [&'a str],
    /// See `own_annotations`.
    pub published: BTreeMap<String, String>,
    /// Whether targets have changed, as far as changes have settled.
    pub targets_changed: bool,
    /// The targets as of now; needed before a [risky](PlanState::is_risky) step only.
    pub targets: Option<Fingerprint>,
    /// Whether nothing may be written.
    pub is_observing: bool,
    /// Whether it is time to stop.
    pub is_stopping: bool,
    /// When the next comparison with the cloud is due, jitter included.
    pub audit: Option<Duration>,
    /// The present moment.
    pub now: Instant,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing, until the watch tells something new.
    End,
    /// Nothing: it is time to stop.
    Stop,
    /// Once more, at once; the cause stays the same.
    Again,
    /// Once more after that time; the cause stays the same.
    Later(Duration),
    /// The Service is forgotten, its load balancer stays, and that is reported.
    LetGo,
    /// Nobody serves it: that is reported, where people may think that we do.
    Report,
    /// It is remembered, and gets a finalizer.
    Hold(CloudName),
    /// Nothing says that its finalizer is ours: these clouds are asked whether they have something for it.
    Prove(Vec<CloudName>),
    /// Nothing of that Service is to be left there.
    Remove(Removal),
    /// A plan is made, or the next of several is looked at.
    Draft,
    /// The plan does not hold any more.
    Discard,
    /// The plan is put aside for that long.
    Aside(Duration),
    /// What would be done is shown.
    Show,
    /// The plan is begun, or gone on with: what was found is published.
    Begin,
    /// A step is carried out.
    Step(StepId),
    /// One cloud of a removal is done.
    Finish,
    /// Addresses and condition are written; addresses only if there are any where something is wrong.
    Publish,
    /// All is as wanted; compared with the cloud after that time.
    Audit(Option<Duration>),
    /// The Service stays or goes without a load balancer: status and annotations are cleared, then the finalizer goes.
    Release,
    /// The Service is forgotten, and those in trouble are woken.
    Forget,
    /// Status and annotations of what was left are cleared, and the new cloud is remembered.
    Move,
    /// It ends with the failure of a cloud.
    Fail,
    /// It ends because a step takes too long.
    FailWaiting(Duration),
    /// It ends because of problems or gaps.
    FailIncomplete,
    /// It is tried again.
    Retry(Retry),
}

/// When it is tried again after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// When the cloud asked for it.
    After(Duration),
    /// At once, as the whole Service.
    AsService,
    /// With back-off.
    BackOff,
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Event {
    /// Remembered in that cloud, with a finalizer.
    Held(Remembered),
    /// Whether a cloud has something for a Service with our finalizer.
    Proven(bool),
    /// A removal begins.
    Removing(Removal),
    /// There is a plan.
    Drafted(Box<PlanState>),
    /// There is none.
    NotDrafted(NotDrafted),
    /// All clouds of a removal were looked at.
    AllLooked,
    /// The plan was thrown away.
    Discarded,
    /// The plan was begun.
    Begun,
    /// That came of its step, then.
    Stepped(Option<StepOutcome>, Timestamp),
    /// What would be done was shown. The time is when the executor asks for the next plan.
    Shown(Option<Duration>),
    /// One cloud has nothing left.
    Finished,
    /// Written to the Service.
    Published(Option<Duration>),
    /// Nothing is remembered any more.
    Forgotten,
    /// The new cloud is remembered.
    Moved,
    /// It ended with a failure.
    Failed(Failure),
}

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
            if removal.whose == Whose::Present {
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
        Sight::Unreadable => return Next::End,
        _ if state.remembered.is_some() && observed.is_lost => return Next::LetGo,
        Sight::Lost => return Next::End,
        Sight::Gone => None,
        Sight::There(service) => Some(service),
    };
    if let Some(removal) = to_leave(state, service, observed) {
        return Next::Remove(removal);
    }
    let Some(service) = service else {
        return Next::End;
    };
    let leave =
        |whose, clouds: Vec<CloudName>| Next::Remove(Removal::new(service.clone(), whose, clouds));
    match &observed.responsibility {
        // The rest is another cloud's work, for which this one's workers do not wait.
        Responsibility::Ensure(cloud) if !state.left.is_empty() && !state.left.contains(cloud) => {
            Next::Again
        }
        Responsibility::Ensure(cloud) => match &observed.former {
            Some(former) if !state.moved => leave(Whose::Moved, vec![former.clone()]),
            _ if !service.has_finalizer() && !observed.serves => Next::End,
            _ => Next::Hold(cloud.clone()),
        },
        Responsibility::CleanUp(named) => {
            // Where it was made is better known to us than to a Service that lost its class.
            let known = state.remembered.as_ref().map(|it| it.clouds.clone());
            let is_ours = known.is_some() || service.is_load_balancer || service.was_served_by_us();
            let clouds = known.unwrap_or_else(|| named.clone());
            if is_ours || state.proven {
                leave(Whose::Present, clouds)
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
) -> Option<Removal> {
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
    (!clouds.is_empty()).then(|| Removal::new(old.clone(), Whose::Old, clouds))
}

impl Removal {
    /// One that has not begun.
    pub fn new(service: Arc<Service>, whose: Whose, clouds: Vec<CloudName>) -> Self {
        Self {
            service,
            whose,
            clouds,
            open: None,
            unproven: None,
        }
    }
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
        Next::Aside(left)
    }
}

fn not_drafted(why: NotDrafted) -> Next {
    match why {
        NotDrafted::Elsewhere => Next::End,
        NotDrafted::Doubtful => Next::Later(SERVICES_PAUSE),
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
            return Next::Aside((*after).clamp(SHORTEST_WAIT, WAIT_LIMIT));
        }
        Stepped::NotYet | Stepped::Over { .. } => {}
    }
    match (plan.step, plan.goal) {
        (Some(_), _) if observed.is_stopping => Next::Stop,
        (Some(step), _) => {
            // Targets as they are now, and not as they were when changes last settled.
            let differ = plan.is_risky() && observed.targets.as_ref() != Some(&plan.targets);
            if differ || plan.is_overtaken(observed) {
                Next::Again
            } else {
                Next::Step(step)
            }
        }
        (None, Goal::Absent) if plan.is_good() => Next::Finish,
        (None, Goal::Absent) => Next::FailIncomplete,
        (None, Goal::Present) if observed.service.of(&plan.service.uid).is_none() => Next::Again,
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
    match state.removal.as_ref().map(|it| it.whose) {
        Some(Whose::Old) => Next::Forget,
        Some(Whose::Moved) => Next::Move,
        // It is there as before, and what would be done was shown.
        Some(Whose::Present) if !observed.is_observing => Next::Release,
        Some(Whose::Present) | None => Next::End,
    }
}

fn failed(state: &State, failure: &Failure) -> Next {
    match failure.hint {
        _ if failure.of_the_past => Next::End,
        Some(hint) => Next::Retry(Retry::After(hint.clamp(SOONEST_RETRY, LATEST_RETRY))),
        None if state.targets_alone && !failure.reported => Next::Retry(Retry::AsService),
        None => Next::Retry(Retry::BackOff),
    }
}
