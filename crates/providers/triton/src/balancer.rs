//! Services of type `LoadBalancer`, in one of two modes: a DNS name of the nodes, or load balancer
//! machines in front of them.
//!
//! ```text
//!  Service ─▶ settings ─▶ mode? ─┬─ cns: targets, naming ─▶ plan ─▶ tags of nodes ─▶ published? ─▶ status
//!  the API ─▶ draft_context ─────┤                          (pure)  (tag reconciler)
//!                                └─ clb: machines, port map, firewall ───────────────────────────▶ status
//! ```
//!
//! The mode of a Service may change: the other mode's objects go once the new status is published.

mod chain;
pub(crate) mod clb;
mod cns;
pub(crate) mod dns_names;
pub(crate) mod draft_context;
#[cfg(test)]
mod examples;
pub(crate) mod firewall;
pub(crate) mod naming;
pub(crate) mod settings;
pub(crate) mod state;
mod steps;
pub(crate) mod targets;

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BalancerRequest, Balancers, BoxFuture, CloudError, ClusterMarks, DraftError, Executor, Goal,
    Need, Needs, Node, Notice, Plan, PreparedPlan, Problem, Publication, Service, Step, StepId,
    StepOutcome, TaggedBalancer, ingress_to_write,
};
use bowline_provider::EventOutbox;

use crate::TritonMetrics;
use crate::config::LoadBalancerConfig;
use crate::context::Context;
use crate::data_center::DataCenter;
use crate::tags::TagReconciler;
use chain::{again_after, chain};
use draft_context::DraftContext;
use settings::{CLB_CLASS, CNS_CLASS, Mode, Settings};
use state::BalancerState;

pub use settings::table;

/// The classes of Services that are ours by themselves.
const CLASSES: [&str; 2] = [CNS_CLASS, CLB_CLASS];
const OWN_ANNOTATIONS: [&str; 2] = [table::STATUS.key, table::INSTANCES.key];

/// When to look again whether the other mode's objects may go.
const SOON: Duration = Duration::from_secs(1);

pub(crate) struct Shared {
    pub(crate) data_center: Arc<DataCenter>,
    pub(crate) tags: Arc<TagReconciler>,
    pub(crate) config: LoadBalancerConfig,
    pub(crate) cluster_name: String,
    pub(crate) metrics: TritonMetrics,
    pub(crate) events: Arc<EventOutbox>,
    pub(crate) state: BalancerState,
    pub(crate) clb: clb::state::ClbState,
    pub(crate) orphans: firewall::Orphans,
}

impl Shared {
    /// Writes an event on those of these nodes that were not in the last call with that reason.
    pub(crate) fn report_on_nodes(&self, reason: &'static str, nodes: &[Arc<Node>], message: &str) {
        for node in self.state.newly_affected(reason, nodes) {
            self.events.warn_on(&node, reason, message);
        }
    }
}

pub(crate) struct Balancing {
    shared: Arc<Shared>,
    resync: Duration,
}

impl Balancing {
    pub(crate) fn new(context: &Context) -> Self {
        let config = &context.config;
        Self {
            shared: Arc::new(Shared {
                data_center: Arc::clone(&context.data_center),
                tags: Arc::clone(&context.tags),
                config: config.load_balancer.clone(),
                cluster_name: config.cluster_name.clone(),
                metrics: context.metrics.clone(),
                events: Arc::clone(&context.events),
                state: BalancerState::default(),
                clb: clb::state::ClbState::default(),
                orphans: firewall::Orphans::default(),
            }),
            resync: config.resync,
        }
    }

    async fn plan(&self, request: &BalancerRequest) -> Result<PreparedPlan, DraftError> {
        if let Some(cluster) = &request.cluster_uid {
            self.shared.clb.is_in(cluster);
        }
        let (settings, faults) = Settings::read(&request.service, &self.shared.config);
        if request.goal == Goal::Absent {
            return self.plan_absent(request, settings).await;
        }
        if !self.serves(&request.service) {
            return Err(DraftError::Elsewhere);
        }
        let mut notices = table::TABLE.unknown(&request.service);
        if !faults.is_empty() {
            return Ok(refusal(request, faults, notices));
        }
        let Some(mode) = settings.mode_or(&self.shared.config) else {
            return Err(DraftError::Elsewhere);
        };
        let context = DraftContext::look(&self.shared, request, settings).await?;
        let mut draft = match mode {
            Mode::Cns => Box::pin(cns::draft(&context)).await?,
            Mode::Clb => Box::pin(clb::draft(&context)).await?,
        };
        notices.append(&mut draft.plan.notices);
        draft.plan.notices = notices;
        self.plan_leftovers(&context, mode, draft).await
    }

    /// Adds the removal of what the other mode made, once this mode's status is published.
    async fn plan_leftovers(
        &self,
        context: &DraftContext<'_>,
        mode: Mode,
        draft: PreparedPlan,
    ) -> Result<PreparedPlan, DraftError> {
        let involved = match mode {
            Mode::Cns => clb::is_involved(context),
            Mode::Clb => cns::is_involved(context),
        };
        if !involved || !draft.plan.problems.is_empty() {
            return Ok(draft);
        }
        let other = match mode {
            Mode::Cns => Box::pin(clb::removal(context)).await?,
            Mode::Clb => Box::pin(cns::removal(context)).await?,
        };
        if other.plan.is_empty() {
            return Ok(draft);
        }
        let is_ready = draft.plan.is_empty();
        let shown = draft.executor.publication(is_ready).ingress;
        if is_ready && shown.is_empty() {
            // The old mode still serves; this one does not yet.
            return Ok(draft);
        }
        let published = &context.request.service.ingress;
        let differs = ingress_to_write(published, &shown, context.request.has_ip_mode).is_some();
        if !is_ready || differs {
            return Ok(again_after(draft, SOON));
        }
        Ok(again_after(chain(draft, [other]), SOON))
    }

    /// Whatever mode it was served in.
    async fn plan_absent(
        &self,
        request: &BalancerRequest,
        settings: Settings,
    ) -> Result<PreparedPlan, DraftError> {
        let context = DraftContext::look(&self.shared, request, settings).await?;
        let nodes = Box::pin(cns::removal(&context)).await?;
        let machines = Box::pin(clb::removal(&context)).await?;
        Ok(chain(nodes, [machines]))
    }
}

/// A plan without steps: a person has to fix these faults first.
fn refusal(request: &BalancerRequest, faults: Vec<Problem>, notices: Vec<Notice>) -> PreparedPlan {
    let plan = Plan {
        unread: true,
        problems: faults,
        notices,
        ..Plan::default()
    };
    let executor = Box::new(Still(Publication {
        ingress: request.service.ingress.clone(),
        ..Publication::default()
    }));
    PreparedPlan::new(plan, executor)
}

struct Still(Publication);

impl Executor for Still {
    fn carry_out<'a>(
        &'a mut self,
        _: StepId,
        _: &'a Step,
    ) -> BoxFuture<'a, Result<StepOutcome, CloudError>> {
        Box::pin(async { Ok(StepOutcome::Done) })
    }

    fn publication(&self, _: bool) -> Publication {
        self.0.clone()
    }
}

impl Balancers for Balancing {
    fn draft<'a>(
        &'a self,
        request: &'a BalancerRequest,
    ) -> BoxFuture<'a, Result<PreparedPlan, DraftError>> {
        Box::pin(self.plan(request))
    }

    fn own_annotations(&self) -> &'static [&'static str] {
        &OWN_ANNOTATIONS
    }

    fn naming_annotation(&self) -> Option<&'static str> {
        Some(table::INSTANCES.key)
    }

    fn needs(&self) -> Needs {
        Needs {
            cluster_uid: Need::Required,
            endpoints: true,
            readiness: true,
        }
    }

    fn classes(&self) -> &'static [&'static str] {
        &CLASSES
    }

    fn serves(&self, service: &Service) -> bool {
        settings::is_served(service, &self.shared.config)
    }

    fn selects(&self, service: &Service, node: &Node) -> bool {
        settings::selector(service).is_none_or(|it| it.matches(&node.labels))
    }

    fn audit_period(&self) -> Option<Duration> {
        Some(self.resync)
    }

    fn marked<'a>(
        &'a self,
        _: ClusterMarks<'a>,
    ) -> BoxFuture<'a, Result<Vec<TaggedBalancer>, CloudError>> {
        Box::pin(async {
            let mut marked = clb::marked(&self.shared).await?;
            marked.extend(cns::marked(&self.shared).await?);
            Ok(marked)
        })
    }

    fn remove_orphan<'a>(
        &'a self,
        orphan: &'a TaggedBalancer,
    ) -> BoxFuture<'a, Result<(), CloudError>> {
        Box::pin(async {
            match cns::remove_orphan(&self.shared, orphan).await {
                Some(removed) => removed,
                None => clb::remove_orphan(&self.shared, orphan).await,
            }
        })
    }
}
