//! Load balancers as a capability of a cloud: observe and plan, then carry out step by step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::{
    BoxFuture, CloudError, Condition, ExcludedNodes, Ingress, Node, Notice, Plan, Service,
    ServiceKey, Step, StepId,
};

/// What is wanted for a Service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// A load balancer as the Service describes it.
    #[default]
    Present,
    /// None.
    Absent,
}

/// Everything a cloud gets to know about one Service.
#[derive(Clone, Debug, Default)]
pub struct BalancerRequest {
    /// The Service as last seen.
    pub service: Arc<Service>,
    /// What is wanted.
    pub goal: Goal,
    /// The nodes that may be members and belong to this cloud, by name. The cloud applies its own
    /// selection on top ([`Balancers::selects`]).
    pub nodes: Vec<Arc<Node>>,
    /// How it is with the other nodes. While some are unknown, a member that is of none of `nodes`
    /// must stay, as it may be theirs.
    pub excluded: ExcludedNodes,
    /// All Services of the cluster as last seen, this one included: what else refers to the same
    /// things. One that cannot be read is as it was last known.
    pub all: Arc<Vec<Arc<Service>>>,
    /// Whether that is really all of them: one that never could be read is missing, and nobody may
    /// conclude from that.
    pub all_known: bool,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// Whether the API server knows `ipMode` (1.30 and later).
    pub has_ip_mode: bool,
    /// The uid of the namespace `kube-system`, or what the operator says instead (`clusterUid`): it logs
    /// clusters of one name apart. None if the cloud does not ask for it ([`Balancers::needs`]), or if it may
    /// not be read; then nothing that rests on "the same cluster" may happen by itself.
    pub cluster_uid: Option<String>,
    /// The uids of all Services of the cluster by a complete, consistent list; none if nobody has made one. Only
    /// by this may anybody conclude that a Service does not exist. A draft that has to conclude that and finds
    /// none here ends with [`DraftError::NeedsServices`], and is asked for again with it.
    pub living: Option<Arc<BTreeSet<String>>>,
    /// What the operator allows Services to do in this cloud.
    pub rules: Arc<BalancerRules>,
    /// Where the ready endpoints of Services are; none if the cloud does not need that.
    pub endpoints: Option<Arc<Endpoints>>,
}

/// For each Service that wants a load balancer and `externalTrafficPolicy: Local`, the names of the nodes with at
/// least one endpoint that is ready and not on its way out. A Service without any is not in it.
pub type Endpoints = BTreeMap<ServiceKey, BTreeSet<String>>;

/// What a cloud needs to know about the cluster besides Services and nodes. What nobody needs is not read, so
/// that no right for it is needed either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// [`BalancerRequest::cluster_uid`].
    pub cluster_uid: Need,
    /// [`BalancerRequest::endpoints`]. Until they are known nothing is drafted. When those of a Service with
    /// `externalTrafficPolicy: Local` move to other nodes, it is drafted anew.
    pub endpoints: bool,
    /// Whether its nodes are Ready: when one begins or ceases to be, Services are drafted anew. They are told in
    /// any case, but to most clouds it makes no difference, as they look after the health of members themselves.
    pub readiness: bool,
}

impl Needs {
    /// What both need together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            cluster_uid: self.cluster_uid.max(other.cluster_uid),
            endpoints: self.endpoints || other.endpoints,
            readiness: self.readiness || other.readiness,
        }
    }
}

/// How much something is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Not at all: it is not read.
    #[default]
    No,
    /// It is used where it may be read. Where it may not, work goes on without it.
    IfAllowed,
    /// Until it is known nothing is drafted.
    Required,
}

/// What an operator allows Services to do in one cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerRules {
    /// Namespaces whose Services may adopt a load balancer that no Service of this cluster owns (`loadBalancers.adoption`).
    pub adoption: NamespaceRule,
    /// Whose Services may attach ports to a load balancer that is not theirs (`loadBalancers.externalBalancers`).
    pub external: NamespaceRule,
    /// Whose Services may move a floating IP that points to something else (`loadBalancers.floatingIps`).
    pub floating_ips: NamespaceRule,
}

impl Default for BalancerRules {
    fn default() -> Self {
        Self {
            adoption: NamespaceRule::Never,
            external: NamespaceRule::Any,
            floating_ips: NamespaceRule::Never,
        }
    }
}

/// The namespaces whose Services may do something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NamespaceRule {
    /// None.
    #[default]
    Never,
    /// All.
    Any,
    /// These.
    Only(BTreeSet<String>),
}

impl NamespaceRule {
    /// `never`, `any`, or namespaces separated by commas.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "never" | "" => return Ok(Self::Never),
            "any" => return Ok(Self::Any),
            _ => {}
        }
        let names = text.split(',').map(str::trim);
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        match names.iter().find(|it| !is_namespace(it)) {
            None => Ok(Self::Only(names)),
            Some(wrong) => Err(format!(
                "{wrong:?} is not the name of a namespace; allowed is never, any, or namespaces separated by commas"
            )),
        }
    }

    /// Whether Services of that namespace may.
    pub fn allows(&self, namespace: &str) -> bool {
        match self {
            Self::Never => false,
            Self::Any => true,
            Self::Only(namespaces) => namespaces.contains(namespace),
        }
    }
}

/// Whether a namespace can have that name.
fn is_namespace(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= 63
        && bytes.iter().all(|b| plain(*b) || *b == b'-')
        && bytes.first().is_some_and(|b| plain(*b))
        && bytes.last().is_some_and(|b| plain(*b))
}

/// Whether credentials are known to see the account that the cluster lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccountState {
    /// They do: what they do not see does not exist.
    #[default]
    Proven,
    /// Nobody knows: nothing may be concluded from what they do not see.
    Unproven,
    /// They see another account: nothing is created, and no deletion begins.
    Contradicted,
}

/// A plan, with what its cloud needs to carry it out.
pub struct PreparedPlan {
    /// What is to be done.
    pub plan: Plan,
    /// Who does it.
    pub executor: Box<dyn Executor>,
    /// Whether a load balancer with the Service's uid in its mark or name was found: credentials that see it see
    /// the cluster's account.
    pub proves_account: bool,
}

impl PreparedPlan {
    /// A draft that proves nothing about the account.
    pub fn new(plan: Plan, executor: Box<dyn Executor>) -> Self {
        Self {
            plan,
            executor,
            proves_account: false,
        }
    }
}

/// Carries out the steps of one plan. Makes no choices: a step is done as it was planned.
pub trait Executor: Send {
    /// Carries out that step, or looks again if it was waiting. Safe to repeat.
    fn carry_out<'a>(
        &'a mut self,
        id: StepId,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<StepOutcome, CloudError>>;

    /// What the cluster may know by now. Called before the first and after every step: an id is published as soon as it
    /// is there, so that a crash does not lose it. `finished`: no step is left.
    fn publication(&self, finished: bool) -> Publication;

    /// When to plan anew although nothing is known to have changed, because time itself changes what is wanted;
    /// asked when all steps are done. None for the ordinary comparison with the cloud.
    fn again(&self) -> Option<Duration> {
        None
    }
}

/// What came of carrying out a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// It is done.
    Done,
    /// The cloud works on it, or cannot do it yet.
    Wait {
        /// What for, in words that follow "waiting for".
        what: String,
        /// When to look again.
        after: Duration,
    },
    /// It cannot be done, and the rest can do without; the whole is tried again later.
    Skipped(Notice),
}

/// What a cloud wants to be written to a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publication {
    /// Annotations to be set.
    pub annotations: BTreeMap<String, String>,
    /// Annotations to be removed once a Service that stays has no load balancer any more: they name
    /// what is gone.
    pub withdrawn: BTreeSet<String>,
    /// Where the load balancer is entered, when all steps are done.
    pub ingress: Vec<Ingress>,
    /// Whether it is certain that traffic has no target although nodes may be eligible: none of them has an
    /// address that can be one, say. Clouds whose targets are exactly the eligible nodes need not say so.
    pub without_targets: bool,
    /// Conditions in the Service's status that remember what annotations must not: tenants write those. Written
    /// like annotations, before the first and after every step.
    pub records: Vec<Condition>,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// The cloud could not be read; nothing is known, nothing may be concluded.
    #[error(transparent)]
    Cloud(#[from] CloudError),
    /// Another program serves this Service; that is fine.
    #[error("another program serves it")]
    Elsewhere,
    /// It depends on which Services exist: a consistent list of them is needed ([`BalancerRequest::living`]).
    #[error("a consistent list of Services is needed")]
    NeedsServices,
    /// What it rests on is not proven: the credentials may see another account. Given by whoever asked for the draft,
    /// not by a cloud.
    #[error("waiting for {what}")]
    Account {
        /// What for, in words that follow "waiting for".
        what: String,
        /// When to try again.
        after: Duration,
    },
    /// Not now; that is no failure.
    #[error("waiting for {what}")]
    Later {
        /// What for, in words that follow "waiting for".
        what: String,
        /// When to try again.
        after: Duration,
    },
}

/// Whether a `--cluster-name` tells the cluster from others: the default is every cluster's.
pub fn names_a_cluster(name: &str) -> bool {
    !matches!(name, "" | "kubernetes")
}

/// The owner of a marked load balancer, judged by its cloud, which knows its marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterMatch {
    /// This cluster's.
    Ours,
    /// Another cluster's.
    Foreign,
    /// It may be this cluster's or another's. Says why, in words that follow "its mark".
    Unclear(&'static str),
}

/// A load balancer in the cloud that carries the mark of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedBalancer {
    /// As the cloud's API knows it.
    pub id: String,
    /// As people see it in the cloud.
    pub name: String,
    /// The uid of the Service it was made for.
    pub service_uid: String,
    /// The cluster that it belongs to.
    pub cluster: ClusterMatch,
}

/// What marks of this cluster are made from: as in a [`BalancerRequest`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterMarks<'a> {
    /// `--cluster-name`.
    pub name: &'a str,
    /// [`BalancerRequest::cluster_uid`].
    pub uid: Option<&'a str>,
    /// The nodes of the cloud: some have the cluster's name in an annotation.
    pub nodes: &'a [Arc<Node>],
}

/// Load balancers of a cloud.
pub trait Balancers: Send + Sync {
    /// Reads the cloud, compares it with what is wanted, and says what is to be done. Writes
    /// nothing.
    fn draft<'a>(
        &'a self,
        request: &'a BalancerRequest,
    ) -> BoxFuture<'a, Result<PreparedPlan, DraftError>>;

    /// The annotations that the cloud publishes: a change of these alone is our own doing.
    fn own_annotations(&self) -> &'static [&'static str];

    /// The one of them that names the load balancer: a Service that has it had one before. The others may as well be
    /// a person's request.
    fn naming_annotation(&self) -> Option<&'static str> {
        self.own_annotations().first().copied()
    }

    /// What it needs to know besides Services and nodes.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// The classes of Services that are the cloud's own, beside the one that every cloud has by its name.
    fn classes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it serves a Service that is its by class; one that it does not is not even held. Makes no
    /// call.
    fn serves(&self, service: &Service) -> bool {
        let _ = service;
        true
    }

    /// Whether the Service's own selection leaves this node in; makes no call.
    fn selects(&self, service: &Service, node: &Node) -> bool {
        let _ = (service, node);
        true
    }

    /// What the Service asks for that only one Service can have. When that changes, others that ask for the same are
    /// looked at as well. Makes no call.
    fn contends_for(&self, service: &Service) -> BTreeSet<String> {
        let _ = service;
        BTreeSet::new()
    }

    /// Whether nodes are members. If not, the load balancers follow the machines by themselves, and
    /// a change of nodes changes nothing.
    fn has_members(&self) -> bool {
        true
    }

    /// How often each Service is compared with the cloud although nothing is known to have
    /// changed; none for never.
    fn audit_period(&self) -> Option<Duration>;

    /// Whether the Service's status shows an address of a load balancer here that is this Service's without asking
    /// anybody (its mark, its name, what is on it). Such a Service belongs to this cloud, whichever is the default.
    /// Writes nothing.
    fn recognises<'a>(
        &'a self,
        request: &'a BalancerRequest,
    ) -> BoxFuture<'a, Result<bool, DraftError>> {
        let _ = request;
        Box::pin(std::future::ready(Ok(false)))
    }

    /// All load balancers with the mark of a Service, by one list call.
    fn marked<'a>(
        &'a self,
        cluster: ClusterMarks<'a>,
    ) -> BoxFuture<'a, Result<Vec<TaggedBalancer>, CloudError>>;

    /// Removes a load balancer that is ours and whose Service is gone; only called when the operator
    /// has said so.
    fn remove_orphan<'a>(
        &'a self,
        orphan: &'a TaggedBalancer,
    ) -> BoxFuture<'a, Result<(), CloudError>>;
}
