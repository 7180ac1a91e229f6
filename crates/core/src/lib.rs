//! Vocabulary and decisions of the Bowline cloud controller manager.
//!
//! This crate has no I/O, no clock, no client and no async runtime: values go in, values come
//! out, and everything that *decides* about nodes and Services lives here, where a table can test
//! it.
//!
//! ```text
//!  a Node ──▶ ownership ── whose is it? ──▶ the cloud's Lookup ──┬─▶ initialize ─▶ changes to write
//!             (claims, recognitions)         (found, gone,      ├─▶ addresses  ─▶ changes to write
//!                                             not mine,         ├─▶ lifecycle  ─▶ taints to write
//!                                             cannot tell)      ├─▶ marks, label_sync ─▶ changes to write
//!                                                               └─▶ guard      ─▶ delete, or hold
//!
//!  a Service ──▶ handled ── whose is it? ──▶ the cloud's Draft ──▶ plan ──▶ run ──▶ publication
//!                needs_update, change_event, members
//!
//!  a kubelet's request ──▶ recognise ── well formed? ──▶ the cloud's MachineAnswer ──▶ decide ──▶ verdict
//!  for a certificate
//!
//!  all nodes, a cloud's Survey ──▶ routes::decide ──▶ changes of routes, conditions of nodes
//! ```
//!
//! A provider implements [`Cloud`] and its capabilities; it never sees a Kubernetes client. The
//! controllers ask and write; they never see a cloud's API.

mod account;
mod addresses;
mod annotation;
mod balancers;
mod certificates;
mod change_event;
mod chores;
mod cloud;
mod duration;
mod error;
mod guard;
mod handled;
mod ingress;
mod initialize;
mod instance;
pub mod ipam;
mod label_sync;
mod labels;
mod lifecycle;
pub mod marks;
mod members;
mod membership;
mod needs_update;
mod news;
mod node;
pub mod ownership;
mod plan;
mod preview;
mod provider_id;
mod quote;
mod roster;
pub mod routes;
mod run;
mod secret;
mod selector;
mod service;
mod setting;
pub mod shown;
mod sketch;
mod source_ranges;
mod standing;
mod taints;
pub mod targets;
mod trouble;
mod variable;

pub use account::{
    AccountHold, AccountProof, CONFIRM_GONE, FoundBy, Known, Looked, PlanBasis, ProvenBy, Trust,
    account_hold, account_identity, remembers, trust,
};
pub use addresses::{AddressError, addresses_differ, desired_addresses};
pub use annotation::{TAKE_OVER, nearest, unknown_annotations};
pub use balancers::{
    AccountState, BalancerRules, Balancers, ClusterMarks, Draft, DraftError, Endpoints, Executor,
    Goal, Marked, NamespaceRule, Need, Needs, Progress, Publication, Whose, Wish, names_a_cluster,
};
pub use certificates::{
    ApprovalRules, Asked, Candidate, CertificateRequest, ClusterNames, Counted, Fault, Finding,
    KUBELET_SERVING, MachineAnswer, MachineIdentity, NODE_USER_PREFIX, Names, NodePart, Recognised,
    RequestContent, ServingCertificates, Verdict as CertificateVerdict, Words, clusters_own,
    decide as decide_certificate, is_proven, node_of, recognise as recognise_certificate, rivals,
    settle as settle_claims,
};
pub use change_event::change_event;
pub use chores::{Chores, Cluster, ClusterError, KEPT_BY_LABEL, Kept, KeptKind, KeptObject, Page};
pub use cloud::{BoxFuture, Claim, Cloud, CloudName, CloudNameError, Instances, Voice};
pub use duration::{format_duration, parse_duration};
pub use error::{CloudError, CloudErrorKind, error_chain};
pub use guard::{
    Guard, GuardPolicy, HoldReason, LONG_APART, LONG_LOOKS, LONG_TIME, Look, Proof, Verdict,
};
pub use handled::{BalancerClouds, CLASS_PREFIX, CLOUD, Handling, Unserved};
pub use ingress::{ingress_to_write, storable_ingress};
pub use initialize::{Initialization, InitializeError, initialize};
pub use instance::{Evidence, Instance, Lookup, Power};
pub use label_sync::{Fact, Following, Hold, LabelChange, LabelNews, LabelSync, follow_labels};
pub use labels::{
    SkipReason, SkippedLabel, is_label_key, is_label_value, labels_of, stable_labels_to_repair,
};
pub use lifecycle::{LifecycleAction, needs_look, when_not_ready};
pub use marks::{Keeping, Marks};
pub use members::{Fingerprint, may_change_members, name_list};
pub use membership::{AUTOSCALER_TAINT, EXCLUSION_LABEL, Exclusion, exclusion};
pub use needs_update::needs_update;
pub use news::News;
pub use node::{
    AddressKind, CONTROL_PLANE_LABEL, NetworkCondition, Node, NodeAddress, PROVIDED_NODE_IP, Ready,
    SHUTDOWN_TAINT, Taint, UNINITIALIZED_TAINT,
};
pub use ownership::Ownership;
pub use plan::{Change, Impact, Notice, Object, Plan, Problem, Step, StepId, Thing, Verb};
pub use preview::{Applied, Newcomer, Outlook, Preview, Previews, as_applied};
pub use provider_id::{ProviderId, ProviderIdError};
pub use quote::quote;
pub use roster::{Census, NODE_UNREADABLE, Roster};
pub use run::{Run, StepState};
pub use secret::Secret;
pub use selector::{Selector, SelectorError};
pub use service::{
    CLEANUP_FINALIZER, CLOUD_CONDITION, CONDITION_PREFIX, Condition, Ingress, IpMode, Protocol,
    READY_CONDITION, REMOVED_REASON, Service, ServiceKey, ServicePort, TrafficPolicy,
};
pub use setting::{Origin, Setting, SettingError};
pub use sketch::{Remark, Sketch};
pub use source_ranges::{SOURCE_RANGES_ANNOTATION, allows_all, source_ranges};
pub use standing::{
    ADOPTED_MARK, BalancerMark, CLUSTER_UID_MARK, Candidature, HAND_OVER, NOT_OURS, SERVICE_MARK,
    Standing, consent, hands_over_to, not_ours, service_mark, standing, unproven, whose_by_uid,
};
pub use taints::{with_shutdown, without_shutdown, without_uninitialized};
pub use targets::{Belonging, TARGETS_HELD, TargetGuard};
pub use trouble::{Regarding, Trouble};
pub use variable::{Variable, variable_table};
