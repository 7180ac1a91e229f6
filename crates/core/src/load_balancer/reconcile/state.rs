//! The types of the state machine: state, observation, next command and event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::{
    CloudName, DraftError, Fingerprint, Goal, Impact, PlanProgress, Responsibility, Service,
    StepId, StepOutcome, needs_update,
};

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
    pub removal: Option<BalancerRemoval>,
    /// How far it is.
    pub phase: Phase,
    /// The clouds that an old Service has just left.
    pub(super) left: Vec<CloudName>,
    /// Whether the Service has left the cloud that its condition names.
    pub(super) moved: bool,
    /// Whether a cloud has shown that a Service with our finalizer was ours.
    pub(super) proven: bool,
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
        run: PlanProgress,
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
    pub(super) fn is_overtaken(&self, observed: &Observed<'_>) -> bool {
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

/// The Service that loses its load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalKind {
    /// That of a Service that is gone, another one by now, or in the hands of others: what is there now is
    /// not written.
    FormerService,
    /// That of a Service that a person has moved to another cloud.
    MovedService,
    /// That of a Service that is to have none.
    CurrentService,
}

/// A removal that is under way.
#[derive(Clone, Debug, PartialEq)]
pub struct BalancerRemoval {
    /// Of which Service.
    pub service: Arc<Service>,
    /// In which relation it is to the present one.
    pub kind: RemovalKind,
    /// The clouds that must have nothing of it.
    pub clouds: Vec<CloudName>,
    /// Error of the first cloud that could not be read.
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
    Failed(ReconcileFailure),
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
    NeedsServices,
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
            DraftError::NeedsServices => Self::NeedsServices,
            DraftError::Later { after, .. } => Self::Later(*after),
            DraftError::Account { after, .. } => Self::Unproven(*after),
            DraftError::Cloud(_) => Self::Failed,
        }
    }
}

/// What a failure is about, as far as the next try depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconcileFailure {
    /// A Service was to be written that is gone, or another one by now.
    pub of_the_past: bool,
    /// When the cloud asked to be tried again.
    pub hint: Option<Duration>,
    /// Whether it is problems or gaps, which were reported one by one.
    pub reported: bool,
}

/// How a Service shows itself.
#[derive(Clone, Copy, Debug)]
pub enum ServicePresence<'a> {
    /// Something is there that cannot be read.
    Unreadable,
    /// The API server lacks it since it was restored to an earlier state: nobody deleted it.
    Lost,
    /// It is proven to be gone.
    Gone,
    /// It is there.
    There(&'a Arc<Service>),
}

impl<'a> ServicePresence<'a> {
    pub(super) fn of(&self, uid: &str) -> Option<&'a Service> {
        match self {
            Self::There(service) if service.uid == uid => Some(service),
            _ => None,
        }
    }
}

/// The world as it is before a command.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Observed<'a> {
    /// The Service of that name.
    pub service: ServicePresence<'a>,
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
    Restart,
    /// Once more after that time; the cause stays the same.
    Later(Duration),
    /// The Service is forgotten, its load balancer stays, and that is reported.
    ForgetLost,
    /// Nobody serves it: that is reported, where people may think that we do.
    Report,
    /// It is remembered, and gets a finalizer.
    AddFinalizer(CloudName),
    /// Nothing says that its finalizer is ours: these clouds are asked whether they have something for it.
    Prove(Vec<CloudName>),
    /// Nothing of that Service is to be left there.
    Remove(BalancerRemoval),
    /// A plan is made, or the next of several is looked at.
    Draft,
    /// The plan does not hold any more.
    Discard,
    /// The plan is put aside for that long.
    Wait(Duration),
    /// What would be done is shown.
    Show,
    /// The plan is begun, or gone on with: what was found is published.
    Begin,
    /// A step is carried out.
    Step(StepId),
    /// One cloud of a removal is done.
    FinishCloud,
    /// Addresses and condition are written; addresses only if there are any where something is wrong.
    Publish,
    /// All is as wanted; compared with the cloud after that time.
    Audit(Option<Duration>),
    /// The Service stays or goes without a load balancer: status and annotations are cleared, then the finalizer goes.
    RemoveFinalizer,
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
    Removing(BalancerRemoval),
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
    Failed(ReconcileFailure),
}

impl BalancerRemoval {
    /// One that has not begun.
    pub fn new(service: Arc<Service>, kind: RemovalKind, clouds: Vec<CloudName>) -> Self {
        Self {
            service,
            kind,
            clouds,
            open: None,
            unproven: None,
        }
    }
}
