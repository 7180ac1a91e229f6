//! One turn of one Service: what is wanted, what is planned, and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BalancerRequest, Balancers, CloudName, DraftError, Fingerprint, Goal, Need, PlanProgress,
    PreparedPlan, Responsibility, Roster, Service, ServiceKey,
};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::ServiceController;
use super::conditions;
use super::errors::ReconcileError;
use super::home;
use super::requirements::SERVICES_PAUSE;
use super::state::{InFlightPlan, Triggers};
use crate::kube::store::Found;
use crate::queue::Work;
use crate::stop::Stop;

/// How far apart two comparisons with the cloud may be drawn: up to a quarter longer than asked.
const AUDIT_JITTER: f64 = 0.25;

/// The shortest time after which a cloud is tried again because it asked for that: one that says
/// "now" would otherwise be asked without end.
const SOONEST_RETRY: Duration = Duration::from_secs(1);
/// The longest: nobody wants to wait for an hour because of one wrong header.
const LATEST_RETRY: Duration = Duration::from_secs(600);

/// What came of a turn.
pub(super) enum Outcome {
    /// All is as wanted. Time alone may change that: then the cloud is looked at after so long.
    Reached(Option<Duration>),
    /// The Service does not concern us, or not any more.
    Done,
    /// The cloud works on a step; its run was put aside.
    Waiting(Duration),
    /// The cloud cannot begin yet. That is no failure.
    Later(Duration),
    /// The plan was overtaken by a change.
    Again,
    /// It is time to stop.
    Stopped,
}

/// What came of a run.
pub(super) enum Ran {
    /// No step is left.
    ToItsEnd(Box<InFlightPlan>),
    /// Something else came in between.
    Not(Outcome),
}

impl ServiceController {
    pub(super) async fn take_turn(&self, work: Work<ServiceKey>, stop: &Stop) {
        let key = work.key().clone();
        let turn = self.parts.turns.lock(format!("Service {key}"));
        let Some(_turn) = stop.unless_given(turn).await else {
            return;
        };
        let (triggers, in_flight) = self.take_up(&key);
        let done = Box::pin(self.sync(&key, &triggers, in_flight, stop)).await;
        match done {
            Ok(Outcome::Reached(again)) => {
                self.queue.forget(&key);
                self.plan_audit(&key, again);
            }
            Ok(Outcome::Done) => self.queue.forget(&key),
            Ok(Outcome::Waiting(delay)) => {
                self.queue.add_after(key, delay);
            }
            Ok(Outcome::Later(delay)) => {
                let delay = delay.clamp(SOONEST_RETRY, LATEST_RETRY);
                self.memory.add_cause(&key, triggers);
                self.queue.add_after(key, delay);
            }
            Ok(Outcome::Again) => {
                self.memory.not_all_is_said(&key);
                self.memory.add_cause(&key, triggers);
                self.queue.add(key);
            }
            Ok(Outcome::Stopped) => {}
            Err(error) if error.is_about_the_past() => {
                debug!(service = %key, error = error.text(), "it is gone; the watch will tell");
                self.memory.not_all_is_said(&key);
            }
            Err(error) => {
                self.memory.not_all_is_said(&key);
                Box::pin(self.fail(&key, triggers, &error)).await;
            }
        }
    }

    /// Why the Service has its turn, and the plan that waited, unless its members changed since.
    fn take_up(&self, key: &ServiceKey) -> (Triggers, Option<InFlightPlan>) {
        let mut triggers = self.memory.take_causes(key);
        let Some(mut in_flight) = self.memory.take_errand(key) else {
            return (triggers, None);
        };
        let overtaken = triggers.nodes.is_some() && in_flight.wish.goal == Goal::Present;
        triggers.merge(in_flight.triggers);
        in_flight.triggers = triggers.clone();
        (triggers, Some(in_flight).filter(|_| !overtaken))
    }

    async fn sync(
        &self,
        key: &ServiceKey,
        triggers: &Triggers,
        in_flight: Option<InFlightPlan>,
        stop: &Stop,
    ) -> Result<Outcome, ReconcileError> {
        let service = match self.parts.services.find(key) {
            Found::Object(service) => Some(service),
            Found::Nothing => None,
            Found::Lost => {
                self.let_go_of_lost(key);
                return Ok(Outcome::Done);
            }
            Found::Unreadable => {
                warn!(service = %key, "it cannot be read; its load balancer stays as it is");
                return Ok(Outcome::Done);
            }
        };
        let responsibility = service.as_ref().map_or(Responsibility::Nothing, |service| {
            self.clouds.names().responsibility(service)
        });
        let responsibility = match &service {
            Some(service) => self.at_home(service, responsibility).await?,
            None => responsibility,
        };
        let mut in_flight = in_flight.filter(|_| !self.let_go_of_lost(key));
        if let Some((old, mut clouds)) = self.memory.recall(key) {
            let same = service.as_ref().is_some_and(|it| it.uid == old.uid);
            match &responsibility {
                // Another class by now: what other clouds made for it is to go.
                Responsibility::Ensure(cloud) if same => clouds.retain(|it| it != cloud),
                Responsibility::CleanUp(_) if same => clouds.clear(),
                _ => {}
            }
            if !clouds.is_empty() {
                let gone = self
                    .remove_old(&old, &clouds, in_flight.take(), stop)
                    .await?;
                if let Some(outcome) = gone {
                    return Ok(outcome);
                }
                if matches!(&responsibility, Responsibility::Ensure(cloud) if !clouds.contains(cloud))
                {
                    // The rest is another cloud's work, for which this one's workers do not wait.
                    return Ok(Outcome::Again);
                }
            }
        }
        let Some(mut service) = service else {
            return Ok(Outcome::Done);
        };
        if let Some(former) = self.former_home(&service, &responsibility) {
            let clouds = std::slice::from_ref(&former);
            if let Some(outcome) = self
                .remove_old(&service, clouds, in_flight.take(), stop)
                .await?
            {
                return Ok(outcome);
            }
            // Nothing of it is there any more, and the other cloud does not look for it.
            let naming = self.clouds.naming_annotation(&former).map(str::to_owned);
            self.clear_status(&service.key, &service.uid).await?;
            self.withdraw(&service, naming.into_iter().collect())
                .await?;
            service = self.current(&service).unwrap_or(service);
            if let Responsibility::Ensure(cloud) = &responsibility {
                self.record(&service, vec![home::record(cloud)]).await?;
            }
        }
        match responsibility {
            Responsibility::Nothing => Ok(self.tell_unserved(&service)),
            Responsibility::Ensure(cloud) => {
                self.ensure(service, &cloud, triggers, in_flight, stop)
                    .await
            }
            Responsibility::CleanUp(clouds) => {
                self.clean_up(service, clouds, in_flight, stop).await
            }
        }
    }

    async fn ensure(
        &self,
        service: Arc<Service>,
        cloud: &CloudName,
        triggers: &Triggers,
        in_flight: Option<InFlightPlan>,
        stop: &Stop,
    ) -> Result<Outcome, ReconcileError> {
        let balancers = self.clouds.balancers(cloud);
        if !service.has_finalizer() && balancers.is_some_and(|it| !it.serves(&service)) {
            return Ok(Outcome::Done);
        }
        self.memory.remember(&service, std::slice::from_ref(cloud));
        let service = self.hold(service).await?;
        self.memory.set_removing(&service.key, false);
        let waiting = match self.still_good(in_flight, Goal::Present) {
            Some(in_flight) => match self.not_yet(in_flight) {
                Ok(in_flight) => Some(in_flight),
                Err(outcome) => return Ok(outcome),
            },
            None => None,
        };
        let in_flight = match waiting {
            Some(in_flight) => in_flight,
            None => match self.draft(&service, cloud, triggers).await {
                Ok(in_flight) => in_flight,
                Err(DraftError::Elsewhere) => {
                    debug!(service = %service.key, "another program serves it");
                    return Ok(Outcome::Done);
                }
                Err(DraftError::NeedsServices) => return Ok(Outcome::Later(SERVICES_PAUSE)),
                Err(DraftError::Later { what, after } | DraftError::Account { what, after }) => {
                    self.tell_waiting(&service, &format!("waiting for {what}"))
                        .await;
                    return Ok(Outcome::Later(after));
                }
                Err(DraftError::Cloud(error)) => return Err(ReconcileError::Look(error)),
            },
        };
        if self.clouds.is_observing() {
            self.show(&in_flight);
            return Ok(Outcome::Reached(in_flight.executor.again()));
        }
        match Box::pin(self.carry_on(in_flight, stop)).await? {
            Ran::ToItsEnd(in_flight) => Box::pin(self.publish(*in_flight)).await,
            Ran::Not(outcome) => Ok(outcome),
        }
    }

    /// Plans a load balancer as the Service describes it, with the members as of now.
    async fn draft(
        &self,
        service: &Arc<Service>,
        cloud: &CloudName,
        triggers: &Triggers,
    ) -> Result<InFlightPlan, DraftError> {
        self.check_known(cloud)?;
        let roster = self.clouds.roster(cloud, &self.parts.nodes.view());
        let members = self.fingerprint(service, cloud, &roster);
        let remembered = Some(members.clone());
        self.memory.set_members(&service.key, remembered);
        let mut wish = self.wish(service.clone(), Goal::Present, cloud, roster);
        let draft = self.drafted(cloud, &mut wish).await?;
        let in_flight = self.in_flight(wish, cloud, members, draft, triggers);
        self.tell_plan(service, &in_flight);
        Ok(in_flight)
    }

    /// Puts a run aside again whose time has not come.
    pub(super) fn not_yet(&self, in_flight: InFlightPlan) -> Result<InFlightPlan, Outcome> {
        let left = in_flight.due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(in_flight);
        }
        self.memory.put_aside(in_flight);
        Err(Outcome::Waiting(left))
    }

    /// The run that was put aside, if what it was planned for still holds.
    pub(super) fn still_good(
        &self,
        in_flight: Option<InFlightPlan>,
        goal: Goal,
    ) -> Option<InFlightPlan> {
        let in_flight = in_flight?;
        let good = in_flight.wish.goal == goal && !self.is_overtaken(&in_flight);
        if !good {
            debug!(service = %in_flight.wish.service.key, "the plan that waited is out of date");
            self.memory.not_all_is_said(&in_flight.wish.service.key);
        }
        good.then_some(in_flight)
    }

    pub(super) fn wish(
        &self,
        service: Arc<Service>,
        goal: Goal,
        cloud: &CloudName,
        roster: Roster,
    ) -> BalancerRequest {
        let needs = self.clouds.needs(cloud);
        let (nodes, excluded) = roster.targets();
        let seen = self.parts.services.view();
        let last_known = seen.unreadable.values().flatten();
        let all = seen.objects.values().chain(last_known).cloned();
        BalancerRequest {
            service,
            goal,
            nodes,
            excluded,
            all: Arc::new(all.collect()),
            all_known: seen.unreadable.values().all(Option::is_some),
            cluster_name: self.options.cluster_name.clone(),
            has_ip_mode: self.has_ip_mode(),
            cluster_uid: self.cluster_uid().filter(|_| needs.cluster_uid > Need::No),
            living: None,
            rules: self.clouds.rules(cloud),
            endpoints: needs.endpoints.then(|| self.endpoints()),
        }
    }

    pub(super) fn in_flight(
        &self,
        wish: BalancerRequest,
        cloud: &CloudName,
        members: Fingerprint,
        draft: PreparedPlan,
        triggers: &Triggers,
    ) -> InFlightPlan {
        let now = Instant::now();
        if triggers.is_nodes_alone() {
            self.parts.metrics.services.syncs.inc();
        }
        InFlightPlan {
            wish,
            cloud: cloud.clone(),
            members,
            run: PlanProgress::new(draft.plan),
            executor: draft.executor,
            triggers: triggers.clone(),
            begun: now,
            told: now,
            due: now,
        }
    }

    /// Tells about a failure and plans the next try.
    async fn fail(&self, key: &ServiceKey, triggers: Triggers, error: &ReconcileError) {
        let current = self.parts.services.get(key);
        let old = self.memory.recall(key).map(|it| it.0);
        let Some(service) = current.clone().or_else(|| old.clone()) else {
            self.queue.retry(key.clone());
            return;
        };
        // Not about the Service that is there now, but about what is left of one before it.
        let is_old = old.is_some_and(|old| {
            let ours = |it: &Arc<Service>| {
                it.uid == old.uid
                    && self.clouds.names().responsibility(it) != Responsibility::Nothing
            };
            !current.as_ref().is_some_and(ours)
        });
        let nodes_alone = triggers.is_nodes_alone() && !error.is_told();
        warn!(service = %key, error = error.text(), "working on its load balancer failed");
        self.tell_failure(&service, is_old, nodes_alone, error);
        self.memory.set_troubled(key, error.may_be_a_lack());
        let delay = match error.retry_hint() {
            Some(hint) => {
                let hint = hint.clamp(SOONEST_RETRY, LATEST_RETRY);
                self.queue.add_after(key.clone(), hint);
                hint
            }
            // Members that could not be updated: the whole Service is looked at, at once.
            None if nodes_alone => {
                self.memory.add_cause(key, Triggers::service());
                self.queue.add(key.clone());
                return;
            }
            None => self.queue.retry(key.clone()),
        };
        self.memory.add_cause(key, triggers);
        if let Some(current) = current.filter(|_| !is_old) {
            let condition = conditions::failing(
                error.is_cloud_known(),
                error.reason(),
                &error.text(),
                Some(self.parts.clock.now() + delay),
            );
            self.set_condition(&current, condition).await;
        }
    }

    /// When the Service is compared with the cloud next, although nothing is known to have changed.
    fn plan_audit(&self, key: &ServiceKey, again: Option<Duration>) {
        let cloud = self
            .memory
            .recall(key)
            .and_then(|it| it.1.into_iter().next());
        let balancers = cloud.and_then(|cloud| self.clouds.balancers(&cloud));
        let period = balancers.and_then(Balancers::audit_period);
        let audit = period.map(|it| self.parts.random.jitter(it, AUDIT_JITTER));
        let again = again.map(|it| it.max(SOONEST_RETRY));
        if let Some(delay) = audit.into_iter().chain(again).min() {
            self.queue.add_after(key.clone(), delay);
        }
    }
}
