//! Services of type `LoadBalancer`, in one of two modes: a DNS name of the nodes, or load balancer
//! machines before them.
//!
//! ```text
//!  Service ─▶ settings ─▶ mode? ─┬─ cns: members, naming ─▶ plan ─▶ tags of nodes ─▶ published? ─▶ status
//!  the API ─▶ scene ─────────────┤                          (pure)  (the keeper)
//!                                └─ clb: machines, port map, firewall ───────────────────────────▶ status
//! ```
//!
//! The mode of a Service may change: the other mode's things go when the new status is published.

mod chain;
pub(crate) mod clb;
mod cns;
#[cfg(test)]
mod examples;
pub(crate) mod firewall;
pub(crate) mod members;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod naming;
mod parts;
mod rules;
pub(crate) mod scene;
pub(crate) mod settings;

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
use crate::site::DataCenter;
use crate::tags::TagReconciler;
use chain::{again_after, chain};
use memory::Memory;
use rules::Rules;
use scene::DraftContext;
use settings::{CLB_CLASS, CNS_CLASS, Mode, Settings};

pub use settings::table;

/// The classes of Services that are ours by themselves.
const CLASSES: [&str; 2] = [CNS_CLASS, CLB_CLASS];
const OWN_ANNOTATIONS: [&str; 2] = [table::STATUS.key, table::INSTANCES.key];

/// When to look again whether the other mode's things may go.
const SOON: Duration = Duration::from_secs(1);

pub(crate) struct Shared {
    pub(crate) site: Arc<DataCenter>,
    pub(crate) keeper: Arc<TagReconciler>,
    pub(crate) config: LoadBalancerConfig,
    pub(crate) cluster_name: String,
    pub(crate) metrics: TritonMetrics,
    pub(crate) news: Arc<EventOutbox>,
    pub(crate) memory: Memory,
    pub(crate) clb: clb::memory::Memory,
    pub(crate) rules: Rules,
    pub(crate) orphans: firewall::Orphans,
}

impl Shared {
    /// It is so with these nodes; those of which it is news hear of it.
    pub(crate) fn tell_nodes(&self, reason: &'static str, nodes: &[Arc<Node>], message: &str) {
        for node in self.memory.news(reason, nodes) {
            self.news.warn_on(&node, reason, message);
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
                site: Arc::clone(&context.site),
                keeper: Arc::clone(&context.keeper),
                config: config.load_balancer.clone(),
                cluster_name: config.cluster_name.clone(),
                metrics: context.metrics.clone(),
                news: Arc::clone(&context.news),
                memory: Memory::default(),
                clb: clb::memory::Memory::default(),
                rules: Rules::default(),
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
        let scene = DraftContext::look(&self.shared, request, settings).await?;
        let mut draft = match mode {
            Mode::Cns => Box::pin(cns::draft(&scene)).await?,
            Mode::Clb => Box::pin(clb::draft(&scene)).await?,
        };
        notices.append(&mut draft.plan.notices);
        draft.plan.notices = notices;
        self.plan_leftovers(&scene, mode, draft).await
    }

    /// What the other mode made goes when this one's status is shown.
    async fn plan_leftovers(
        &self,
        scene: &DraftContext<'_>,
        mode: Mode,
        draft: PreparedPlan,
    ) -> Result<PreparedPlan, DraftError> {
        let involved = match mode {
            Mode::Cns => clb::is_involved(scene),
            Mode::Clb => cns::is_involved(scene),
        };
        if !involved || !draft.plan.problems.is_empty() {
            return Ok(draft);
        }
        let other = match mode {
            Mode::Cns => Box::pin(clb::removal(scene)).await?,
            Mode::Clb => Box::pin(cns::removal(scene)).await?,
        };
        if other.plan.is_empty() {
            return Ok(draft);
        }
        let is_ready = draft.plan.is_empty();
        let shown = draft.executor.publication(is_ready).ingress;
        if is_ready && shown.is_empty() {
            // Better the old way than none.
            return Ok(draft);
        }
        let published = &scene.request.service.ingress;
        let differs = ingress_to_write(published, &shown, scene.request.has_ip_mode).is_some();
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
        let scene = DraftContext::look(&self.shared, request, settings).await?;
        let nodes = Box::pin(cns::removal(&scene)).await?;
        let machines = Box::pin(clb::removal(&scene)).await?;
        Ok(chain(nodes, [machines]))
    }
}

/// Nothing is done while a person has to put something right.
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
