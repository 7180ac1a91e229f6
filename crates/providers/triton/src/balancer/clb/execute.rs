//! Executes a plan, step by step, without further decisions. A write is followed until it shows;
//! meanwhile the step waits without a worker.

mod create;
mod nodes;
mod remove;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BoxFuture, CloudError, CloudErrorKind, Executor, Notice, Publication, Service, Step, StepId,
    StepOutcome,
};
use bowline_http::KeyedGuard;
use tokio::time::Instant;
use uuid::Uuid;

use super::backend::{Form, Names};
use super::backend_labels;
use super::machines::{Blueprint, address, runs};
use super::plan::Action;
use super::publish::Publisher;
use super::shared_map::Claim;
use crate::api::{Machine, Network};
use crate::balancer::Shared;
use crate::balancer::draft_context::DraftContext;
use crate::balancer::settings::ClbSettings;

/// How often a change of a machine is looked for.
const JOB_PAUSE: Duration = Duration::from_secs(1);
/// How long: what does not show by then is on a compute node that is down.
const JOB_LIMIT: Duration = Duration::from_secs(60);
/// How often a machine that is being made or destroyed is looked at.
const POLL: Duration = Duration::from_millis(2500);

/// What the plan was made from, for its executor.
#[derive(Default)]
pub(crate) struct PlanFacts {
    /// The names of the nodes.
    pub(crate) names: Option<Names>,
    /// Which of them is used.
    pub(crate) form: Form,
    /// How many addresses are under the plain name, and under the other.
    pub(crate) counts: [usize; 2],
    /// The machines of the nodes.
    pub(crate) targets: Vec<Uuid>,
    pub(crate) blueprint: Option<Blueprint>,
    /// Load balancer machines by seat.
    pub(crate) by_ordinal: BTreeMap<u8, Machine>,
    /// Those that serve until others do.
    pub(crate) former: Vec<Machine>,
    /// Whether clients come from outside.
    pub(crate) is_public: bool,
    pub(crate) publisher: Option<Publisher>,
    /// What is published instead, when all is gone.
    pub(crate) withdrawal: Option<Publication>,
    /// Who else names the machines whose port maps are shared.
    pub(crate) sharing: BTreeMap<Uuid, Vec<Claim>>,
}

pub(crate) struct ClbActions {
    shared: Arc<Shared>,
    cluster: String,
    service: Arc<Service>,
    settings: ClbSettings,
    networks: Arc<BTreeMap<Uuid, Network>>,
    /// The labels of this cluster's nodes.
    labels: BTreeSet<String>,
    actions: Vec<Action>,
    /// What the step that is carried out is about, in words.
    object: String,
    facts: PlanFacts,
    /// When steps were begun.
    begun: BTreeMap<StepId, Instant>,
    /// Held while a change of a shared port map is under way.
    map_locks: BTreeMap<StepId, KeyedGuard>,
    again: Option<Duration>,
}

impl ClbActions {
    pub(crate) fn new(
        context: &DraftContext<'_>,
        actions: Vec<Action>,
        facts: PlanFacts,
        again: Option<Duration>,
    ) -> Self {
        Self {
            shared: Arc::clone(context.shared),
            cluster: context.cluster.to_owned(),
            service: Arc::clone(&context.request.service),
            settings: context.settings.clb.clone(),
            networks: Arc::clone(&context.networks),
            labels: backend_labels::labels(context),
            actions,
            object: String::new(),
            facts,
            begun: BTreeMap::new(),
            map_locks: BTreeMap::new(),
            again,
        }
    }

    async fn carry(&mut self, step: StepId) -> Result<StepOutcome, CloudError> {
        let action = self.actions[step].clone();
        let done = self.act(step, &action).await;
        if !matches!(done, Ok(StepOutcome::Wait { .. })) {
            self.map_locks.remove(&step);
        }
        // A failed step begins anew.
        if done.is_err() {
            self.begun.remove(&step);
        }
        done
    }

    async fn act(&mut self, step: StepId, action: &Action) -> Result<StepOutcome, CloudError> {
        match action {
            Action::EnableNames => self.enable_names().await,
            Action::Label { id, label, change } => self.label(*id, label, *change).await,
            Action::AwaitLabels(labelling) => self.await_labels(labelling).await,
            Action::AwaitName => Ok(self.await_name(step).await),
            Action::Adopt { id, tags } => self.adopt(step, *id, tags).await,
            Action::Rename { id, name } => self.rename(step, *id, name).await,
            Action::Create { ordinal } => self.create(*ordinal).await,
            Action::AwaitRunning { ordinal } => self.await_running(*ordinal).await,
            Action::Start { ordinal } => self.start(*ordinal).await,
            Action::Tag { id, tags } => self.tag(step, *id, tags).await,
            Action::Metadata { id, difference } => self.metadata(step, *id, difference).await,
            Action::Firewall(id) => self.firewall(step, *id).await,
            Action::Protect { id, on } => self.protect(step, *id, *on).await,
            Action::Rule(change) => {
                let done = change.carry_out(&self.shared.data_center.api).await;
                self.shared.data_center.firewall_rules_changed();
                done?;
                Ok(StepOutcome::Done)
            }
            Action::Drain(id) => self.drain(step, *id).await,
            Action::Delete(id) => self.delete(*id).await,
            Action::AwaitGone(id) => self.await_gone(step, *id).await,
            Action::ShareMap { id, brings } => self.share_map(step, *id, *brings).await,
        }
    }

    /// Whether that step has not been begun, which it is from now on.
    fn is_new(&mut self, step: StepId) -> bool {
        let is_new = !self.begun.contains_key(&step);
        self.begun.entry(step).or_insert_with(Instant::now);
        is_new
    }

    fn lasting(&self, step: StepId) -> Duration {
        self.begun
            .get(&step)
            .map(Instant::elapsed)
            .unwrap_or_default()
    }

    /// What comes of a write that shows, or does not yet.
    fn shown(&mut self, step: StepId, id: Uuid, shows: bool) -> StepOutcome {
        if shows {
            self.shared.data_center.machines.invalidate();
            return StepOutcome::Done;
        }
        if self.lasting(step) < JOB_LIMIT {
            return StepOutcome::Wait {
                what: format!("{} to show its change", self.object),
                after: JOB_PAUSE,
            };
        }
        // It is tried anew with the next plan.
        self.begun.remove(&step);
        StepOutcome::Skipped(Notice {
            warning: true,
            reason: "CLBChangePending",
            message: format!(
                "{} ({id}) has not shown a change for {} s, perhaps because its compute node is down; it \
                 is tried again",
                self.object,
                JOB_LIMIT.as_secs()
            ),
        })
    }

    fn sooner(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }

    /// The addresses that serve now: the machines by ordinal, and as long as some of them do not
    /// run, those that served before.
    fn addresses(&self) -> Vec<IpAddr> {
        let PlanFacts {
            by_ordinal,
            former,
            is_public,
            blueprint,
            ..
        } = &self.facts;
        let replicas = blueprint.as_ref().map_or(1, |it| usize::from(it.replicas));
        let running: Vec<&Machine> = by_ordinal.values().filter(|it| runs(it)).collect();
        let complete = running.len() >= replicas;
        let former = former.iter().filter(|_| !complete);
        let all = running.into_iter().chain(former);
        all.filter_map(|it| address(it, *is_public, &self.networks))
            .collect()
    }
}

impl Executor for ClbActions {
    fn carry_out<'a>(
        &'a mut self,
        id: StepId,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<StepOutcome, CloudError>> {
        self.object = step.object.to_string();
        Box::pin(self.carry(id))
    }

    fn publication(&self, finished: bool) -> Publication {
        if let Some(withdrawal) = &self.facts.withdrawal {
            return withdrawal.clone();
        }
        match &self.facts.publisher {
            Some(publisher) => {
                publisher.publication(&self.facts.by_ordinal, &self.addresses(), finished)
            }
            None => Publication {
                ingress: self.service.ingress.clone(),
                ..Publication::default()
            },
        }
    }

    fn again(&self) -> Option<Duration> {
        self.again
    }
}

fn error(kind: CloudErrorKind, message: impl Into<String>) -> CloudError {
    CloudError::new(kind, message)
}
