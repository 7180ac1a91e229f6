//! Vocabulary and decisions of the Bowline cloud controller manager.
//!
//! This crate has no I/O, no clock, no client and no async runtime: values go in, values come
//! out, and everything that *decides* about nodes and Services lives here, where a table can test
//! it.
//!
//! ```text
//!  a Node ──▶ ownership ── its owner ────▶ the cloud's Lookup ──┬─▶ initialize ─▶ changes to write
//!             (claims, recognitions)         (found, gone,      ├─▶ addresses  ─▶ changes to write
//!                                             not mine,         ├─▶ lifecycle  ─▶ taints to write
//!                                             cannot tell)      ├─▶ metadata, label_sync ─▶ changes to write
//!                                                               └─▶ guard      ─▶ delete, or hold
//!
//!  a Service ──▶ class ── responsibility ─▶ reconcile ──▶ the cloud's PreparedPlan ──▶ progress ──▶ publication
//!                needs_update, change_event, targets
//!
//!  a kubelet's request ──▶ recognise ── well formed? ──▶ the cloud's MachineAnswer ──▶ decide ──▶ finding
//!  for a certificate
//!
//!  all nodes, a cloud's ObservedRoutes ──▶ routes::decide ──▶ changes of routes, conditions of nodes
//! ```
//!
//! A provider implements [`Cloud`] and its capabilities; it never sees a Kubernetes client. The
//! controllers ask and write; they never see a cloud's API.

#![warn(missing_docs)]

mod certificates;
mod cloud;
pub mod ipam;
mod load_balancer;
mod node;
pub mod ownership;
pub mod routes;
mod text;

pub use certificates::{
    ApprovalRules, CertificateRequest, CertificateVerdict, ClusterNames, Counted, Fault, Finding,
    KUBELET_SERVING, MachineAnswer, MachineIdentity, NODE_USER_PREFIX, Names, NodePart, Recognised,
    RequestContent, RequestedName, ServingCertificates, WellFormedRequest, Words, clusters_own,
    decide as decide_certificate, is_proven, node_of, recognise as recognise_certificate, rivals,
    settle as settle_claims,
};
pub use cloud::account::{
    AccountHold, AccountProof, CONFIRM_GONE, FoundBy, Known, Looked, PlanBasis, ProvenBy, Trust,
    account_hold, account_identity, remembers, trust,
};
pub use cloud::chores::{
    Chores, Cluster, ClusterError, KEPT_BY_LABEL, Kept, ManagedObject, ManagedObjectKind,
    PageAnswer,
};
pub use cloud::error::{CloudError, CloudErrorKind, error_chain};
pub use cloud::event::{EventSeries, ProviderEvent, Regarding};
pub use cloud::instance::{Evidence, Instance, Lookup, Power};
pub use cloud::token_bucket::TokenBucket;
pub use cloud::{
    BoxFuture, Claim, Cloud, CloudName, CloudNameError, DescribePolicy, Instances, NodeMatch,
};
pub use load_balancer::annotation::{
    Allowed, Annotation, AnnotationFault, AnnotationReader, AnnotationTable, Column, Spaces,
    TAKE_OVER,
};
pub use load_balancer::balancers::{
    AccountState, BalancerRequest, BalancerRules, Balancers, ClusterMarks, ClusterMatch,
    DraftError, Endpoints, Executor, Goal, NamespaceRule, Need, Needs, PreparedPlan, Publication,
    StepOutcome, TaggedBalancer, names_a_cluster,
};
pub use load_balancer::builder::{PlanBuilder, StepNote};
pub use load_balancer::change_event::change_event;
pub use load_balancer::class::{
    CLASS_PREFIX, CLOUD, LoadBalancerClasses, Responsibility, Unserved,
};
pub use load_balancer::exclusion::{AUTOSCALER_TAINT, EXCLUSION_LABEL, Exclusion, exclusion};
pub use load_balancer::fingerprint::{Fingerprint, may_change_targets, name_list};
pub use load_balancer::ingress::{ingress_to_write, storable_ingress};
pub use load_balancer::needs_update::needs_update;
pub use load_balancer::ownership::{
    ADOPTED_MARK, BalancerMark, CLUSTER_UID_MARK, Candidature, HAND_OVER, NOT_OURS,
    OwnershipVerdict, SERVICE_MARK, consent, hands_over_to, match_by_uid, not_ours, service_mark,
    standing, unproven,
};
pub use load_balancer::plan::{
    Change, Impact, Notice, Plan, Problem, ResourceRef, ResourceState, Step, StepId, Verb,
};
pub use load_balancer::preview::{AppliedFile, Newcomer, Outlook, Preview, Previews, as_applied};
pub use load_balancer::progress::{PlanProgress, StepState};
pub use load_balancer::reconcile;
pub use load_balancer::roster::{ExcludedNodes, NODE_UNREADABLE, Roster};
pub use load_balancer::service::{
    CLEANUP_FINALIZER, CLOUD_CONDITION, CONDITION_PREFIX, Condition, Ingress, IpMode, Protocol,
    READY_CONDITION, REMOVED_REASON, Service, ServiceKey, ServicePort, TrafficPolicy,
};
pub use load_balancer::source_ranges::{SOURCE_RANGES_ANNOTATION, allows_all, source_ranges};
pub use load_balancer::targets;
pub use load_balancer::targets::{NodeOwner, TARGETS_HELD, TargetGuard};
pub use node::addresses::{AddressError, addresses_differ, desired_addresses};
pub use node::guard::{
    Guard, GuardPolicy, GuardVerdict, HoldReason, LONG_APART, LONG_LOOKS, LONG_TIME, Look, Proof,
};
pub use node::initialize::{Initialization, InitializeError, initialize};
pub use node::label_sync::{
    InstanceProperty, LabelChange, LabelEvent, LabelHold, LabelRule, LabelSync, follow_labels,
};
pub use node::labels::{
    SkipReason, SkippedLabel, is_label_key, is_label_value, labels_of, stable_labels_to_repair,
};
pub use node::lifecycle::{LifecycleAction, needs_look, when_not_ready};
pub use node::metadata::{MetadataPolicy, NodeMetadata};
pub use node::provider_id::{ProviderId, ProviderIdError};
pub use node::selector::{Selector, SelectorError};
pub use node::taints::{with_shutdown, without_shutdown, without_uninitialized};
pub use node::{
    AddressKind, CONTROL_PLANE_LABEL, NetworkCondition, Node, NodeAddress, PROVIDED_NODE_IP, Ready,
    SHUTDOWN_TAINT, Taint, UNINITIALIZED_TAINT,
};
pub use node::{metadata, owner_annotation};
pub use ownership::Ownership;
pub use text::duration::{format_duration, parse_duration};
pub use text::quote::quote;
pub use text::secret::Secret;
pub use text::setting::{Origin, Setting, SettingError};
pub use text::string_map::StringMap;
pub use text::suggestion::nearest;
pub use text::variable::{Variable, variable_table};
