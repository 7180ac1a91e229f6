//! Carrying out a plan, step by step. No choices: a step is begun as it was planned, its operation
//! is waited for without holding anybody, or it is an error.

mod confirm;
mod create;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_core::{
    BalancerRequest, BoxFuture, CloudError, CloudErrorKind, Executor, Notice, Publication, Step,
    StepId, StepOutcome, Verb,
};
use bowline_http::{CallError, KeyedGuard};
use tokio::time::Instant;
use uuid::Uuid;

use super::Shared;
use super::ownership::OwnershipContext;
use super::plan::{Action, PlanBuilder, cannot_reset, labels_refused};
use super::publish::{Known, Publisher};
use super::record::Record;
use crate::api::{LoadBalancerChange, Operation};
use crate::operation::{Waited, Waiting};

/// When to try again for a load balancer that another Service is changing.
const LOCK_PAUSE: Duration = Duration::from_secs(1);

/// Carries out one plan.
pub(crate) struct ExoscaleActions {
    shared: Arc<Shared>,
    request: BalancerRequest,
    actions: Vec<Action>,
    balancer: Option<Known>,
    /// Whether it was made in this run.
    is_new: bool,
    /// The cloud takes no labels.
    unlabelled: bool,
    under_way: BTreeMap<StepId, UnderWay>,
    /// What is to be remembered by now.
    record: Record,
    publisher: Publisher,
}

/// A step that has begun.
enum UnderWay {
    /// Its operation runs; nobody else changes the load balancer meanwhile.
    Operation(Waiting, Option<KeyedGuard>),
    /// Its result does not show yet, since then.
    Confirming(Instant),
}

enum Outcome {
    Done,
    Wait(String, Duration, Option<UnderWay>),
    Skip(Notice),
}

/// What came of a request.
enum Started {
    /// The cloud works on it.
    Operation(Operation),
    /// There was nothing to do.
    Nothing,
    Skip(Notice),
}

impl ExoscaleActions {
    /// `balancer` is the one that exists; `record` is what is to be remembered before the first
    /// step.
    pub(crate) fn new(
        shared: Arc<Shared>,
        request: &BalancerRequest,
        builder: &PlanBuilder,
        balancer: Option<Known>,
        record: Record,
        publisher: Publisher,
    ) -> Self {
        Self {
            shared,
            request: request.clone(),
            actions: builder.actions.clone(),
            balancer,
            is_new: false,
            unlabelled: false,
            under_way: BTreeMap::new(),
            record,
            publisher,
        }
    }

    fn context(&self) -> OwnershipContext<'_> {
        OwnershipContext {
            request: &self.request,
            record: &self.record,
            pools: None,
            by_ports: false,
        }
    }

    async fn carry(&mut self, id: StepId, step: &Step) -> Result<StepOutcome, CloudError> {
        let action = self.actions[id].clone();
        let (shared, service) = (Arc::clone(&self.shared), Arc::clone(&self.request.service));
        // It is begun, or ends.
        let _writing = shared.observer.writing(&service.uid);
        let outcome = match self.under_way.remove(&id) {
            Some(UnderWay::Operation(waiting, lock)) => self.look(&action, waiting, lock).await?,
            Some(UnderWay::Confirming(since)) => self.confirm(&action, since).await?,
            None => self.begin(step, &action).await?,
        };
        Ok(match outcome {
            Outcome::Done => StepOutcome::Done,
            Outcome::Wait(what, after, under_way) => {
                if let Some(under_way) = under_way {
                    self.under_way.insert(id, under_way);
                }
                StepOutcome::Wait { what, after }
            }
            Outcome::Skip(notice) => StepOutcome::Skipped(notice),
        })
    }

    async fn begin(&mut self, step: &Step, action: &Action) -> Result<Outcome, CloudError> {
        if matches!(action, Action::AwaitAddress | Action::AwaitEnd(_)) {
            return self.confirm(action, Instant::now()).await;
        }
        let mut lock = None;
        if let Some(id) = self.target(action) {
            lock = self.shared.locks.try_lock(id);
            if lock.is_none() {
                let what = format!("another change of load balancer {id} to end");
                return Ok(Outcome::Wait(what, LOCK_PAUSE, None));
            }
        }
        let operation = match self.start(step, action).await? {
            Started::Operation(operation) => operation,
            Started::Nothing => return self.ended(action).await,
            Started::Skip(notice) => return Ok(Outcome::Skip(notice)),
        };
        let what = words(step);
        let waiting = Waiting::begin(what, &operation, Instant::now())?;
        if matches!(action, Action::CreateBalancer(_)) {
            self.is_new = true;
            // Before anything is waited for: a crash must not lose it.
            self.balancer = operation.subject().map(|id| Known { id, ip: None });
        }
        match waiting {
            None => self.ended(action).await,
            Some(waiting) => {
                let after = waiting.after(Instant::now())?;
                Ok(Outcome::wait(waiting, after, lock))
            }
        }
    }

    /// Looks at an operation that is under way.
    async fn look(
        &mut self,
        action: &Action,
        mut waiting: Waiting,
        lock: Option<KeyedGuard>,
    ) -> Result<Outcome, CloudError> {
        let answer = self.shared.api.operation(waiting.id()).await;
        match waiting.answered(answer, Instant::now())? {
            Waited::Wait(after) => Ok(Outcome::wait(waiting, after, lock)),
            Waited::Done => self.ended(action).await,
        }
    }

    /// What was asked for is done; some of it has to be looked for.
    async fn ended(&mut self, action: &Action) -> Result<Outcome, CloudError> {
        match action {
            Action::AddService(_) => self.confirm(action, Instant::now()).await,
            Action::CreateBalancer(_) if self.balancer.is_none() => {
                self.confirm(action, Instant::now()).await
            }
            Action::ChangeService { id, change } => {
                if let Some(name) = &change.name {
                    self.remember(name, *id);
                }
                Ok(Outcome::Done)
            }
            Action::DeleteService { id, .. } => {
                self.record.services.remove(id);
                Ok(Outcome::Done)
            }
            Action::ResetDescription => {
                self.record.describes_balancer = false;
                Ok(Outcome::Done)
            }
            Action::ResetServiceDescription(_) => {
                self.record.describes_services = false;
                Ok(Outcome::Done)
            }
            // From now on the mark shows its owner.
            Action::MarkBalancer(_) => {
                if let Some(balancer) = &self.balancer {
                    self.record.attached.remove(&balancer.id);
                }
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        }
    }

    /// Keeps the id of a service whose name does not show its owner.
    fn remember(&mut self, name: &str, id: Uuid) {
        let nameless = self.context().nameless([(name, id)]);
        self.record.services.remove(&id);
        self.record.services.extend(nameless);
    }

    /// Which load balancer a step changes.
    fn target(&self, action: &Action) -> Option<Uuid> {
        match action {
            Action::CreateBalancer(_) | Action::AwaitAddress | Action::AwaitEnd(_) => None,
            Action::DeleteBalancer(id) | Action::DeleteService { balancer: id, .. } => Some(*id),
            _ => self.balancer.as_ref().map(|it| it.id),
        }
    }

    async fn start(&mut self, step: &Step, action: &Action) -> Result<Started, CloudError> {
        let shared = Arc::clone(&self.shared);
        let api = &shared.api;
        let result = match action {
            Action::CreateBalancer(body) => return self.create(body).await,
            Action::AwaitAddress | Action::AwaitEnd(_) => return Ok(Started::Nothing),
            Action::MarkBalancer(labels) => {
                let change = LoadBalancerChange {
                    labels: Some(labels.clone()),
                    ..LoadBalancerChange::default()
                };
                match api.update_load_balancer(self.balancer_id()?, &change).await {
                    Err(error) if is_refused(&error) => {
                        self.shared.labels_refused.store(true, Ordering::Relaxed);
                        return Ok(Started::Nothing);
                    }
                    result => result,
                }
            }
            Action::LabelBalancer(labels) => {
                let change = LoadBalancerChange {
                    labels: Some(labels.clone()),
                    ..LoadBalancerChange::default()
                };
                match api.update_load_balancer(self.balancer_id()?, &change).await {
                    Err(error) if is_refused(&error) => {
                        return Ok(Started::Skip(labels_refused(&error)));
                    }
                    result => result,
                }
            }
            Action::ChangeBalancer(change) => {
                let id = self.balancer_id()?;
                let mut change = change.clone();
                match api.update_load_balancer(id, &change).await {
                    Err(error) if change.labels.is_some() && is_refused(&error) => {
                        change.labels = None;
                        api.update_load_balancer(id, &change).await
                    }
                    result => result,
                }
            }
            Action::ResetDescription => {
                let result = api.reset_description(self.balancer_id()?).await;
                return self.reset(step, result);
            }
            Action::ResetServiceDescription(service) => {
                let id = self.balancer_id()?;
                let result = api.reset_service_description(id, *service).await;
                return self.reset(step, result);
            }
            Action::AddService(body) => api.add_service(self.balancer_id()?, body).await,
            Action::ChangeService { id, change } => {
                api.update_service(self.balancer_id()?, *id, change).await
            }
            Action::DeleteService { balancer, id } => {
                return gone(api.delete_service(*balancer, *id).await);
            }
            Action::DeleteBalancer(id) => return gone(api.delete_load_balancer(*id).await),
        };
        Ok(Started::Operation(result?))
    }

    /// Some roles do not allow to empty a description: then it stays.
    fn reset(
        &self,
        step: &Step,
        result: Result<Operation, CallError>,
    ) -> Result<Started, CloudError> {
        match result {
            Ok(operation) => Ok(Started::Operation(operation)),
            Err(error) if error.kind() == CloudErrorKind::Denied => {
                self.shared.resets_denied.store(true, Ordering::Relaxed);
                Ok(Started::Skip(cannot_reset(&step.object)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn balancer_id(&self) -> Result<Uuid, CloudError> {
        let id = self.balancer.as_ref().map(|balancer| balancer.id);
        id.ok_or_else(|| CloudError::new(CloudErrorKind::Invalid, "there is no load balancer yet"))
    }
}

/// A step in words that follow "waiting for".
fn words(step: &Step) -> String {
    let doing = match step.verb {
        Verb::Create => "creation",
        Verb::Update => "change",
        Verb::Delete => "deletion",
        Verb::Wait => "end of the work",
    };
    format!("{doing} of {}", step.object)
}

impl Outcome {
    fn wait(waiting: Waiting, after: Duration, lock: Option<KeyedGuard>) -> Self {
        let what = waiting.what().to_owned();
        Self::Wait(what, after, Some(UnderWay::Operation(waiting, lock)))
    }
}

impl Executor for ExoscaleActions {
    fn carry_out<'a>(
        &'a mut self,
        id: StepId,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<StepOutcome, CloudError>> {
        Box::pin(self.carry(id, step))
    }

    fn publication(&self, finished: bool) -> Publication {
        let balancer = self.balancer.as_ref();
        let service = &self.request.service;
        self.publisher
            .publication(service, balancer, &self.record, finished)
    }
}

/// A deletion; what is not there needs none.
fn gone(result: Result<Option<Operation>, CallError>) -> Result<Started, CloudError> {
    Ok(match result? {
        Some(operation) => Started::Operation(operation),
        None => Started::Nothing,
    })
}

/// The cloud understood and refused.
fn is_refused(error: &CallError) -> bool {
    matches!(error.status(), Some(400 | 422))
}

/// Whether it is open what came of a request.
fn is_lost(error: &CallError) -> bool {
    use CloudErrorKind::{Unavailable, Unknown};
    matches!(error.kind(), Unavailable | Unknown)
}
