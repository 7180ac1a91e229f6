//! One turn of one Service: what is wanted, what is planned, and what comes of it.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    Balancers, CloudName, Draft, DraftError, Fingerprint, Goal, Handling, Need, Roster, Run,
    Service, ServiceKey, Wish,
};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::ServiceController;
use super::conditions;
use super::errors::TurnError;
use super::home;
use super::requirements::SERVICES_PAUSE;
use super::state::{Causes, Errand};
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
    ToItsEnd(Box<Errand>),
    /// Something else came in between.
    Not(Outcome),
}

impl ServiceController {
    pub(super) async fn take_turn(&self, work: Work<ServiceKey>, stop: &Stop) {
        let key = work.key().clone();
        let turn = self.parts.turns.take(format!("Service {key}"));
        let Some(_turn) = stop.unless_given(turn).await else {
            return;
        };
        let (causes, errand) = self.take_up(&key);
        let done = Box::pin(self.sync(&key, &causes, errand, stop)).await;
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
                self.memory.add_cause(&key, causes);
                self.queue.add_after(key, delay);
            }
            Ok(Outcome::Again) => {
                self.memory.not_all_is_said(&key);
                self.memory.add_cause(&key, causes);
                self.queue.add(key);
            }
            Ok(Outcome::Stopped) => {}
            Err(error) if error.is_about_the_past() => {
                debug!(service = %key, error = error.text(), "it is gone; the watch will tell");
                self.memory.not_all_is_said(&key);
            }
            Err(error) => {
                self.memory.not_all_is_said(&key);
                Box::pin(self.fail(&key, causes, &error)).await;
            }
        }
    }

    /// Why the Service has its turn, and the plan that waited, unless its members changed since.
    fn take_up(&self, key: &ServiceKey) -> (Causes, Option<Errand>) {
        let mut causes = self.memory.take_causes(key);
        let Some(mut errand) = self.memory.take_errand(key) else {
            return (causes, None);
        };
        let overtaken = causes.nodes.is_some() && errand.wish.goal == Goal::Present;
        causes.merge(errand.causes);
        errand.causes = causes.clone();
        (causes, Some(errand).filter(|_| !overtaken))
    }

    async fn sync(
        &self,
        key: &ServiceKey,
        causes: &Causes,
        errand: Option<Errand>,
        stop: &Stop,
    ) -> Result<Outcome, TurnError> {
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
        let handling = service.as_ref().map_or(Handling::Nothing, |service| {
            self.clouds.names().handling(service)
        });
        let handling = match &service {
            Some(service) => self.at_home(service, handling).await?,
            None => handling,
        };
        let mut errand = errand.filter(|_| !self.let_go_of_lost(key));
        if let Some((old, mut clouds)) = self.memory.recall(key) {
            let same = service.as_ref().is_some_and(|it| it.uid == old.uid);
            match &handling {
                // Another class by now: what other clouds made for it is to go.
                Handling::Ensure(cloud) if same => clouds.retain(|it| it != cloud),
                Handling::CleanUp(_) if same => clouds.clear(),
                _ => {}
            }
            if !clouds.is_empty() {
                let gone = self.remove_old(&old, &clouds, errand.take(), stop).await?;
                if let Some(outcome) = gone {
                    return Ok(outcome);
                }
                if matches!(&handling, Handling::Ensure(cloud) if !clouds.contains(cloud)) {
                    // The rest is another cloud's work, for which this one's workers do not wait.
                    return Ok(Outcome::Again);
                }
            }
        }
        let Some(mut service) = service else {
            return Ok(Outcome::Done);
        };
        if let Some(former) = self.former_home(&service, &handling) {
            let clouds = std::slice::from_ref(&former);
            if let Some(outcome) = self
                .remove_old(&service, clouds, errand.take(), stop)
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
            if let Handling::Ensure(cloud) = &handling {
                self.record(&service, vec![home::record(cloud)]).await?;
            }
        }
        match handling {
            Handling::Nothing => Ok(self.tell_unserved(&service)),
            Handling::Ensure(cloud) => self.ensure(service, &cloud, causes, errand, stop).await,
            Handling::CleanUp(clouds) => self.clean_up(service, clouds, errand, stop).await,
        }
    }

    async fn ensure(
        &self,
        service: Arc<Service>,
        cloud: &CloudName,
        causes: &Causes,
        errand: Option<Errand>,
        stop: &Stop,
    ) -> Result<Outcome, TurnError> {
        let balancers = self.clouds.balancers(cloud);
        if !service.has_finalizer() && balancers.is_some_and(|it| !it.serves(&service)) {
            return Ok(Outcome::Done);
        }
        self.memory.remember(&service, std::slice::from_ref(cloud));
        let service = self.hold(service).await?;
        self.memory.set_removing(&service.key, false);
        let waiting = match self.still_good(errand, Goal::Present) {
            Some(errand) => match self.not_yet(errand) {
                Ok(errand) => Some(errand),
                Err(outcome) => return Ok(outcome),
            },
            None => None,
        };
        let errand = match waiting {
            Some(errand) => errand,
            None => match self.draft(&service, cloud, causes).await {
                Ok(errand) => errand,
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
                Err(DraftError::Cloud(error)) => return Err(TurnError::Look(error)),
            },
        };
        if self.clouds.is_observing() {
            self.show(&errand);
            return Ok(Outcome::Reached(errand.executor.again()));
        }
        match Box::pin(self.carry_on(errand, stop)).await? {
            Ran::ToItsEnd(errand) => Box::pin(self.publish(*errand)).await,
            Ran::Not(outcome) => Ok(outcome),
        }
    }

    /// Plans a load balancer as the Service describes it, with the members as of now.
    async fn draft(
        &self,
        service: &Arc<Service>,
        cloud: &CloudName,
        causes: &Causes,
    ) -> Result<Errand, DraftError> {
        self.check_known(cloud)?;
        let roster = self.clouds.roster(cloud, &self.parts.nodes.sighting());
        let members = self.fingerprint(service, cloud, &roster);
        let remembered = Some(members.clone());
        self.memory.set_members(&service.key, remembered);
        let mut wish = self.wish(service.clone(), Goal::Present, cloud, roster);
        let draft = self.drafted(cloud, &mut wish).await?;
        let errand = self.errand(wish, cloud, members, draft, causes);
        self.tell_plan(service, &errand);
        Ok(errand)
    }

    /// Puts a run aside again whose time has not come.
    pub(super) fn not_yet(&self, errand: Errand) -> Result<Errand, Outcome> {
        let left = errand.due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(errand);
        }
        self.memory.put_aside(errand);
        Err(Outcome::Waiting(left))
    }

    /// The run that was put aside, if what it was planned for still holds.
    pub(super) fn still_good(&self, errand: Option<Errand>, goal: Goal) -> Option<Errand> {
        let errand = errand?;
        let good = errand.wish.goal == goal && !self.is_overtaken(&errand);
        if !good {
            debug!(service = %errand.wish.service.key, "the plan that waited is out of date");
            self.memory.not_all_is_said(&errand.wish.service.key);
        }
        good.then_some(errand)
    }

    pub(super) fn wish(
        &self,
        service: Arc<Service>,
        goal: Goal,
        cloud: &CloudName,
        roster: Roster,
    ) -> Wish {
        let needs = self.clouds.needs(cloud);
        let (nodes, census) = roster.targets();
        let seen = self.parts.services.sighting();
        let last_known = seen.unreadable.values().flatten();
        let all = seen.objects.values().chain(last_known).cloned();
        Wish {
            service,
            goal,
            nodes,
            census,
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

    pub(super) fn errand(
        &self,
        wish: Wish,
        cloud: &CloudName,
        members: Fingerprint,
        draft: Draft,
        causes: &Causes,
    ) -> Errand {
        let now = Instant::now();
        if causes.is_nodes_alone() {
            self.parts.metrics.services.syncs.inc();
        }
        Errand {
            wish,
            cloud: cloud.clone(),
            members,
            run: Run::new(draft.plan),
            executor: draft.executor,
            causes: causes.clone(),
            begun: now,
            told: now,
            due: now,
        }
    }

    /// Tells about a failure and plans the next try.
    async fn fail(&self, key: &ServiceKey, causes: Causes, error: &TurnError) {
        let current = self.parts.services.get(key);
        let old = self.memory.recall(key).map(|it| it.0);
        let Some(service) = current.clone().or_else(|| old.clone()) else {
            self.queue.retry(key.clone());
            return;
        };
        // Not about the Service that is there now, but about what is left of one before it.
        let is_old = old.is_some_and(|old| {
            let ours = |it: &Arc<Service>| {
                it.uid == old.uid && self.clouds.names().handling(it) != Handling::Nothing
            };
            !current.as_ref().is_some_and(ours)
        });
        let nodes_alone = causes.is_nodes_alone() && !error.is_told();
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
                self.memory.add_cause(key, Causes::service());
                self.queue.add(key.clone());
                return;
            }
            None => self.queue.retry(key.clone()),
        };
        self.memory.add_cause(key, causes);
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
