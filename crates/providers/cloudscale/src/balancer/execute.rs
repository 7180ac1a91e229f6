//! Carrying out a plan, step by step. No choices: a step is done as it was planned, waited for, or
//! an error.

mod find;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BoxFuture, CloudError, CloudErrorKind, Executor, Notice, Plan, Progress, Publication, StepId,
};
use bowline_http::CallError;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::plan::{Action, PoolRef};
use super::publish::Publisher;
use super::remarks::NODE_SKIPPED;
use super::{Shared, plan::Sketch};
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
pub(crate) struct Hands {
    shared: Arc<Shared>,
    service_uid: String,
    plan: Plan,
    actions: Vec<Action>,
    balancer: Option<LoadBalancer>,
    /// Whether it was made in this run.
    is_new: bool,
    /// What was made by which step.
    made: BTreeMap<StepId, Uuid>,
    /// How often a step was tried or looked at.
    tries: BTreeMap<StepId, usize>,
    done: BTreeSet<StepId>,
    skipped: BTreeSet<StepId>,
    publisher: Publisher,
}

/// What came of a request that is not simply done.
enum Outcome {
    Done,
    Wait(String, Duration),
    Skip(Notice),
}

impl Hands {
    /// `balancer` is the one that exists.
    pub(crate) fn new(
        shared: Arc<Shared>,
        service_uid: String,
        sketch: &Sketch,
        balancer: Option<LoadBalancer>,
        publisher: Publisher,
    ) -> Self {
        Self {
            shared,
            service_uid,
            plan: sketch.plan.clone(),
            actions: sketch.actions.clone(),
            balancer,
            is_new: false,
            made: BTreeMap::new(),
            tries: BTreeMap::new(),
            done: BTreeSet::new(),
            skipped: BTreeSet::new(),
            publisher,
        }
    }

    /// Whether nothing is left to do: what needs a skipped step is skipped too.
    fn is_finished(&self) -> bool {
        let mut skipped = self.skipped.clone();
        self.plan.steps.iter().enumerate().all(|(id, step)| {
            if step.needs.iter().any(|need| skipped.contains(need)) {
                skipped.insert(id);
            }
            self.done.contains(&id) || skipped.contains(&id)
        })
    }

    async fn carry(&mut self, step: StepId) -> Result<Progress, CloudError> {
        let Some(action) = self.actions.get(step).cloned() else {
            let message = format!("the plan has no step {step}");
            return Err(CloudError::new(CloudErrorKind::Invalid, message));
        };
        if self.done.contains(&step) {
            return Ok(Progress::Done);
        }
        let turn = match &self.balancer {
            Some(balancer) if action.writes() => Some(self.shared.turns.of(balancer.uuid).await),
            _ => None,
        };
        let outcome = self.act(step, &action).await;
        if action.writes() {
            self.shared.observer.wrote(&self.service_uid);
        }
        drop(turn);
        Ok(match outcome? {
            Outcome::Done => {
                self.done.insert(step);
                Progress::Done
            }
            Outcome::Wait(what, after) => Progress::Wait { what, after },
            Outcome::Skip(notice) => {
                self.skipped.insert(step);
                Progress::Skipped(notice)
            }
        })
    }

    async fn act(&mut self, step: StepId, action: &Action) -> Result<Outcome, CloudError> {
        let shared = Arc::clone(&self.shared);
        let api = &shared.api;
        match action {
            Action::CreateBalancer(body) => self.create_balancer(body).await,
            Action::AwaitBalancer => self.look(step, false).await,
            Action::AwaitBalancerOrItsEnd => self.look(step, true).await,
            Action::AwaitItsEnd => self.look_for_the_end(step).await,
            Action::ChangeBalancer(body) => {
                changed(api.change_load_balancer(self.balancer_id()?, body).await)
            }
            Action::DeleteBalancer => {
                let result = api.delete_load_balancer(self.balancer_id()?).await;
                self.deleted(step, result)
            }
            Action::CreatePool(body) => {
                let body = with(body, "load_balancer", self.balancer_id()?);
                let pool = match api.create_pool(&body).await {
                    Ok(pool) => pool.uuid,
                    Err(error) => find::pool(api, &body, error).await?,
                };
                self.made.insert(step, pool);
                Ok(Outcome::Done)
            }
            Action::DeletePool(id) => self.deleted(step, api.delete_pool(*id).await),
            Action::CreateMember { .. } => self.create_member(step, action).await,
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
                let body = with(body, "pool", self.pool(*pool)?);
                match api.create_listener(&body).await {
                    Ok(_) => Ok(Outcome::Done),
                    Err(error) if *after_delete && is_refused(&error) => {
                        self.wait_for_room(step, error)
                    }
                    Err(error) => find::listener(api, &body, error).await,
                }
            }
            Action::ChangeListener { id, body } => changed(api.change_listener(*id, body).await),
            Action::DeleteListener(id) => self.deleted(step, api.delete_listener(*id).await),
            Action::CreateMonitor {
                pool,
                body,
                after_delete,
            } => {
                let pool = self.pool(*pool)?;
                match api.create_monitor(&with(body, "pool", pool)).await {
                    Ok(_) => Ok(Outcome::Done),
                    Err(error) if *after_delete && is_refused(&error) => {
                        self.wait_for_room(step, error)
                    }
                    Err(error) => find::monitor(api, pool, error).await,
                }
            }
            Action::ChangeMonitor { id, body } => changed(api.change_monitor(*id, body).await),
            Action::DeleteMonitor(id) => self.deleted(step, api.delete_monitor(*id).await),
            Action::MoveFloatingIp(address) => {
                let body = with(&Map::new(), "load_balancer", self.balancer_id()?);
                changed(api.change_floating_ip(*address, &body).await)
            }
        }
    }

    /// Looks for the name once more, with a list of this very moment: nothing is made twice because
    /// somebody else, or an answer that got lost, was faster.
    async fn create_balancer(&mut self, body: &Map<String, Value>) -> Result<Outcome, CloudError> {
        let api = &self.shared.api;
        if let Some(there) = find::balancer(api, body).await? {
            let message = format!(
                "load balancer {:?} ({}) has appeared since the plan was made; it is made anew",
                there.name, there.uuid
            );
            return Err(CloudError::new(CloudErrorKind::Conflict, message));
        }
        let balancer = match api.create_load_balancer(body).await {
            Ok(balancer) => balancer,
            Err(error) if is_lost(&error) => match find::balancer(api, body).await {
                Ok(Some(balancer)) => balancer,
                Ok(None) | Err(_) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        self.balancer = Some(balancer);
        self.is_new = true;
        Ok(Outcome::Done)
    }

    async fn create_member(
        &mut self,
        step: StepId,
        action: &Action,
    ) -> Result<Outcome, CloudError> {
        let Action::CreateMember {
            pool,
            body,
            node,
            after_delete,
        } = action
        else {
            return Ok(Outcome::Done);
        };
        let pool = self.pool(*pool)?;
        match self.shared.api.create_member(pool, body).await {
            Ok(_) => Ok(Outcome::Done),
            Err(error) if is_refused(&error) && *after_delete => self.wait_for_room(step, error),
            Err(error) if is_refused(&error) => {
                let name = body.get("name").and_then(Value::as_str).unwrap_or_default();
                Ok(Outcome::Skip(Notice {
                    warning: true,
                    reason: NODE_SKIPPED,
                    message: format!("node {node} is no member as {name}: {error}"),
                }))
            }
            Err(error) => find::member(&self.shared.api, pool, body, error).await,
        }
    }

    /// Looks whether the cloud is still at work.
    async fn look(&mut self, step: StepId, gone_is_fine: bool) -> Result<Outcome, CloudError> {
        let id = self.balancer_id()?;
        let Some(balancer) = self.shared.observer.read(id).await? else {
            if gone_is_fine {
                return Ok(Outcome::Done);
            }
            let looks = self.tries.get(&step).copied().unwrap_or_default();
            if self.is_new && looks < POLLS.len() {
                let what = format!("load balancer {id} to be seen");
                return Ok(Outcome::Wait(what, self.next(step, &POLLS)));
            }
            let message = format!("load balancer {id} is gone; the plan is made anew");
            return Err(CloudError::new(CloudErrorKind::Conflict, message));
        };
        let outcome = if balancer.is_changing() {
            let what = format!("load balancer {:?}, which is changing", balancer.name);
            Outcome::Wait(what, self.next(step, &POLLS))
        } else {
            Outcome::Done
        };
        self.balancer = Some(balancer);
        Ok(outcome)
    }

    async fn look_for_the_end(&mut self, step: StepId) -> Result<Outcome, CloudError> {
        let id = self.balancer_id()?;
        Ok(match self.shared.observer.read(id).await? {
            None => Outcome::Done,
            Some(balancer) => {
                let what = format!("load balancer {:?} to be gone", balancer.name);
                Outcome::Wait(what, self.next(step, &POLLS))
            }
        })
    }

    /// A deletion that is refused is not possible yet.
    fn deleted(
        &mut self,
        step: StepId,
        result: Result<(), CallError>,
    ) -> Result<Outcome, CloudError> {
        match result {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if is_refused(&error) => {
                let what = format!("the cloud to allow it: {error}");
                Ok(Outcome::Wait(what, self.next(step, &ROOM)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What was deleted just now may still hold its place.
    fn wait_for_room(&mut self, step: StepId, error: CallError) -> Result<Outcome, CloudError> {
        if self
            .tries
            .get(&step)
            .is_some_and(|tries| *tries >= ROOM.len())
        {
            return Err(error.into());
        }
        let what = format!("room for what takes its place: {error}");
        Ok(Outcome::Wait(what, self.next(step, &ROOM)))
    }

    /// The next wait of a step; the last one is repeated.
    fn next(&mut self, step: StepId, waits: &[Duration; 4]) -> Duration {
        let tries = self.tries.entry(step).or_default();
        let wait = waits[(*tries).min(waits.len() - 1)];
        *tries += 1;
        wait
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

impl Executor for Hands {
    fn carry_out(&mut self, step: StepId) -> BoxFuture<'_, Result<Progress, CloudError>> {
        Box::pin(self.carry(step))
    }

    fn publication(&self) -> Publication {
        let balancer = self.balancer.as_ref();
        self.publisher.publication(balancer, self.is_finished())
    }
}

impl Action {
    fn writes(&self) -> bool {
        !matches!(
            self,
            Self::AwaitBalancer | Self::AwaitBalancerOrItsEnd | Self::AwaitItsEnd
        )
    }
}

fn changed(result: Result<(), CallError>) -> Result<Outcome, CloudError> {
    result.map(|()| Outcome::Done).map_err(CloudError::from)
}

/// A body with the id of what it belongs to.
fn with(body: &Map<String, Value>, key: &str, id: Uuid) -> Map<String, Value> {
    let mut body = body.clone();
    body.insert(key.to_owned(), json!(id));
    body
}

/// The cloud understood and said no.
fn is_refused(error: &CallError) -> bool {
    error.status() == Some(400)
}

/// Whether it is open what came of a request.
fn is_lost(error: &CallError) -> bool {
    use CloudErrorKind::{Unavailable, Unknown};
    matches!(error.kind(), Unavailable | Unknown)
}
