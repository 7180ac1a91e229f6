//! Bowline's control loops, on `kube`: everything between a Kubernetes API server and a
//! [`Cloud`](bowline_core::Cloud).
//!
//! A controller gathers, decides, executes and publishes; the decisions are plain functions of
//! `bowline-core`, and no cloud's API is known here.
//!
//! ```text
//!  options ─▶ manager ─▶ serving (health, metrics, configuration)
//!                │
//!                ├─▶ election ─▶ fence ───────────────────────┐ asked before every write
//!                │                                            ▼ and every cloud call
//!                ├─▶ nodes (one watch) ─▶ node ──────┬─▶ clients ─▶ API server
//!                │                      lifecycle ───┤
//!                │                      ipam ────────┤
//!                │                      routes ──────┤
//!                ├─▶ services, endpoints ─▶ service ─┼─▶ owners, batcher ─▶ clouds
//!                ├─▶ requests ─▶ certificates ───────┼─▶ events, metrics
//!                └─▶ chores: what one cloud does ────┘
//! ```
//!
//! Start reading at [`manager`].

mod clouds;
mod inspect;
mod kube;
mod loops;
mod lru;
pub mod manager;
pub mod metrics;
pub mod options;
pub mod queue;
mod report;
pub mod serving;

pub use self::clouds::accounts;
pub use self::kube::{clients, election, events, secrets};
pub use self::loops::{certificates, chores, ipam, labels, lifecycle, node, routes, service};

pub use self::clouds::batcher::InstanceBatcher;
pub use self::clouds::cloud_health::{CloudCondition, CloudHealth, Purpose};
pub use self::clouds::owners::{Describer, OwnerDiscovery};
pub use self::clouds::per_cloud::PerCloud;
pub use self::clouds::resolver::{CloudRules, DefaultCloud, OwnershipResolver};
pub use self::inspect::explain::{
    ExplainError, Explanation, InstanceAnswer, ServiceExplanation, Testimony, Warnings,
    explain_node, explain_service,
};
pub use self::inspect::preview::{
    Document, DocumentError, PreviewError, PreviewParts, PreviewScope, documents, preview,
};
pub use self::kube::csr_store::{CertificateRequests, RequestChange, Requested};
pub use self::kube::endpoints::{Slice, SliceChange, Slices};
pub use self::kube::nodes::{NodeChange, Nodes};
pub use self::kube::services::{ServiceChange, Services};
pub use self::kube::store::{Found, Store, StoreChange, StoreView, Stored};
pub use self::kube::write::{
    ApprovalDecision, CertificateWriter, NodeWriter, ServiceWriter, WriteError,
};
pub use self::report::Fact;
pub use manager::active_config::{ActiveConfig, ActiveConfigChanger, ActiveConfigs, ReloadNotice};
