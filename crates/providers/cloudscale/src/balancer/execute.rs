//! Carrying out a plan, step by step. No choices: a step is done as it was planned, waited for, or
//! an error.

mod create;
mod recover;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BoxFuture, CloudError, CloudErrorKind, Executor, Publication, Step, StepId, StepOutcome,
};
use bowline_http::CallError;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::plan::{Action, PoolRef};
use super::publish::Publisher;
use super::{Shared, plan::PlanBuilder};
use crate::api::LoadBalancer;

/// Looks at a load balancer that the cloud is at work on: soon at first, since a small change is
/// done in a second, then every two seconds, as the vendor's own client does.
const POLLS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
];
/// Waits for what was deleted to make room for what takes its place: 15 s in all.
const ROOM: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// Carries out one plan.
pub(crate) struct CloudscaleActions {
    shared: Arc<Shared>,
    service_uid: String,
    actions: Vec<Action>,
    balancer: Option<LoadBalancer>,
    /// Whether it was made in this run.
    is_new: bool,
    /// What was made by which step.
    made: BTreeMap<StepId, Uuid>,
    /// How often a step had to wait.
    waits: BTreeMap<StepId, usize>,
    publisher: Publisher,
}

impl CloudscaleActions {
    /// `balancer` is the one that exists.
    pub(crate) fn new(
        shared: Arc<Shared>,
        service_uid: String,
        builder: &PlanBuilder,
        balancer: Option<LoadBalancer>,
        publisher: Publisher,
    ) -> Self {
        Self {
            shared,
            service_uid,
            actions: builder.actions.clone(),
            balancer,
            is_new: false,
            made: BTreeMap::new(),
            waits: BTreeMap::new(),
            publisher,
        }
    }

    async fn carry(&mut self, step: StepId) -> Result<StepOutcome, CloudError> {
        let action = self.actions[step].clone();
        let own = self.balancer.as_ref().map(|balancer| balancer.uuid);
        let lock = match action.balancer().or(own) {
            Some(id) if action.writes() => Some(self.shared.locks.lock(id).await),
            _ => None,
        };
        let (shared, uid) = (Arc::clone(&self.shared), self.service_uid.clone());
        let writing = action.writes().then(|| shared.observer.writing(&uid));
        let progress = self.act(step, &action).await;
        drop(writing);
        drop(lock);
        // Another Service may ask for the same name or id at once: no list that still shows what is
        // gone says that it is somebody else's.
        if matches!(
            (&progress, &action),
            (Ok(StepOutcome::Done), Action::AwaitItsEnd(_))
        ) {
            self.shared.observer.forget();
        }
        progress
    }

    async fn act(&mut self, step: StepId, action: &Action) -> Result<StepOutcome, CloudError> {
        let shared = Arc::clone(&self.shared);
        let api = &shared.api;
        match action {
            Action::CreateBalancer(body) => self.create_balancer(body).await,
            Action::AwaitBalancer => self.look(step).await,
            Action::AwaitBalancerOrItsEnd(id) => self.look_at(step, *id).await,
            Action::AwaitItsEnd(id) => self.look_for_the_end(step, *id).await,
            Action::ChangeBalancer(body) => {
                changed(api.change_load_balancer(self.balancer_id()?, body).await)
            }
            Action::ReleaseBalancer { id, body } => {
                changed(api.change_load_balancer(*id, body).await)
            }
            Action::DeleteBalancer(id) => self.deleted(step, api.delete_load_balancer(*id).await),
            Action::CreatePool(body) => self.create_pool(step, body).await,
            Action::DeletePool(id) => self.deleted(step, api.delete_pool(*id).await),
            Action::CreateMember {
                pool,
                body,
                node,
                after_delete,
            } => {
                let pool = self.pool(*pool)?;
                self.create_member(step, pool, body, node, *after_delete)
                    .await
            }
            Action::ChangeMember { pool, id, body } => {
                changed(api.change_member(*pool, *id, body).await)
            }
            Action::DeleteMember { pool, id } => {
                self.deleted(step, api.delete_member(*pool, *id).await)
            }
            Action::CreateListener {
                pool,
                body,
                after_delete,
            } => {
                let pool = self.pool(*pool)?;
                self.create_listener(step, pool, body, *after_delete).await
            }
            Action::ChangeListener { id, body } => changed(api.change_listener(*id, body).await),
            Action::DeleteListener(id) => self.deleted(step, api.delete_listener(*id).await),
            Action::CreateMonitor {
                pool,
                body,
                after_delete,
            } => {
                let pool = self.pool(*pool)?;
                self.create_monitor(step, pool, body, *after_delete).await
            }
            Action::ChangeMonitor { id, body } => changed(api.change_monitor(*id, body).await),
            Action::DeleteMonitor(id) => self.deleted(step, api.delete_monitor(*id).await),
            Action::MoveFloatingIp(address) => {
                let body = with(&Map::new(), "load_balancer", self.balancer_id()?);
                changed(api.change_floating_ip(*address, &body).await)
            }
        }
    }

    /// Looks whether the cloud is still at work.
    async fn look(&mut self, step: StepId) -> Result<StepOutcome, CloudError> {
        let id = self.balancer_id()?;
        let Some(balancer) = self.shared.observer.read(id).await? else {
            if self.is_new && self.waits(step) < POLLS.len() {
                let what = format!("load balancer {id} to be seen");
                return Ok(self.wait(step, what, &POLLS));
            }
            let message = format!("load balancer {id} is gone; the plan is made anew");
            return Err(CloudError::new(CloudErrorKind::Conflict, message));
        };
        let progress = self.until_unchanging(step, &balancer);
        self.balancer = Some(balancer);
        Ok(progress)
    }

    /// The same of one that is about to go: gone is as good.
    async fn look_at(&mut self, step: StepId, id: Uuid) -> Result<StepOutcome, CloudError> {
        let found = self.shared.observer.read(id).await?;
        Ok(found.map_or(StepOutcome::Done, |it| self.until_unchanging(step, &it)))
    }

    fn until_unchanging(&mut self, step: StepId, balancer: &LoadBalancer) -> StepOutcome {
        if balancer.is_changing() {
            let what = format!("load balancer {:?}, which is changing", balancer.name);
            self.wait(step, what, &POLLS)
        } else {
            StepOutcome::Done
        }
    }

    async fn look_for_the_end(
        &mut self,
        step: StepId,
        id: Uuid,
    ) -> Result<StepOutcome, CloudError> {
        Ok(match self.shared.observer.read(id).await? {
            None => StepOutcome::Done,
            Some(balancer) => {
                let what = format!("load balancer {:?} to be gone", balancer.name);
                self.wait(step, what, &POLLS)
            }
        })
    }

    /// A deletion that is refused is not possible yet.
    fn deleted(
        &mut self,
        step: StepId,
        result: Result<(), CallError>,
    ) -> Result<StepOutcome, CloudError> {
        match result {
            Ok(()) => Ok(StepOutcome::Done),
            Err(error) if is_refused(&error) => {
                let what = format!("the cloud to allow it: {error}");
                Ok(self.wait(step, what, &ROOM))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What was deleted just now may still hold its place; not for ever, though.
    fn wait_for_room(&mut self, step: StepId, error: CallError) -> Result<StepOutcome, CloudError> {
        if self.waits(step) >= ROOM.len() {
            return Err(error.into());
        }
        let what = format!("room for what takes its place: {error}");
        Ok(self.wait(step, what, &ROOM))
    }

    /// How often a step had to wait.
    fn waits(&self, step: StepId) -> usize {
        self.waits.get(&step).copied().unwrap_or_default()
    }

    /// The next wait of a step; the last one is repeated.
    fn wait(&mut self, step: StepId, what: String, waits: &[Duration; 4]) -> StepOutcome {
        let before = self.waits.entry(step).or_default();
        let after = waits[(*before).min(waits.len() - 1)];
        *before += 1;
        StepOutcome::Wait { what, after }
    }

    fn balancer_id(&self) -> Result<Uuid, CloudError> {
        let id = self.balancer.as_ref().map(|balancer| balancer.uuid);
        id.ok_or_else(|| CloudError::new(CloudErrorKind::Invalid, "there is no load balancer yet"))
    }

    fn pool(&self, pool: PoolRef) -> Result<Uuid, CloudError> {
        match pool {
            PoolRef::Seen(id) => Ok(id),
            PoolRef::Made(step) => self.made.get(&step).copied().ok_or_else(|| {
                CloudError::new(CloudErrorKind::Invalid, "there is no such pool yet")
            }),
        }
    }
}

impl Executor for CloudscaleActions {
    fn carry_out<'a>(
        &'a mut self,
        id: StepId,
        _: &'a Step,
    ) -> BoxFuture<'a, Result<StepOutcome, CloudError>> {
        Box::pin(self.carry(id))
    }

    fn publication(&self, finished: bool) -> Publication {
        let balancer = self.balancer.as_ref();
        self.publisher.publication(balancer, finished)
    }

    fn again(&self) -> Option<Duration> {
        self.publisher.again
    }
}

impl Action {
    fn writes(&self) -> bool {
        !matches!(
            self,
            Self::AwaitBalancer | Self::AwaitBalancerOrItsEnd(_) | Self::AwaitItsEnd(_)
        )
    }

    /// The load balancer that it is about, if that is not the plan's own.
    fn balancer(&self) -> Option<Uuid> {
        match self {
            Self::ReleaseBalancer { id, .. } | Self::DeleteBalancer(id) => Some(*id),
            _ => None,
        }
    }
}

fn changed(result: Result<(), CallError>) -> Result<StepOutcome, CloudError> {
    result.map(|()| StepOutcome::Done).map_err(CloudError::from)
}

/// A body with the id of what it belongs to.
fn with(body: &Map<String, Value>, key: &str, id: Uuid) -> Map<String, Value> {
    let mut body = body.clone();
    body.insert(key.to_owned(), json!(id));
    body
}

/// The cloud understood and refused.
fn is_refused(error: &CallError) -> bool {
    error.status() == Some(400)
}

/// Whether it is open what came of a request.
fn is_lost(error: &CallError) -> bool {
    use CloudErrorKind::{Unavailable, Unknown};
    matches!(error.kind(), Unavailable | Unknown)
}
