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
//!                ├─▶ services, endpoints ─▶ service ─┼─▶ owners, lookups ─▶ clouds
//!                ├─▶ requests ─▶ certificates ───────┼─▶ events, metrics
//!                └─▶ chores: what one cloud does ────┘
//! ```
//!
//! Start reading at [`manager`].

pub mod accounts;
pub mod certificates;
pub mod chores;
pub mod clients;
mod consistent;
pub mod election;
mod endpoints;
pub mod events;
mod explain;
pub mod ipam;
pub mod labels;
mod left_alone;
pub mod lifecycle;
mod line_up;
mod lookups;
mod machines;
pub mod manager;
pub mod metrics;
mod news;
pub mod node;
mod nodes;

mod objects;
pub mod options;
mod owners;
mod per_cloud;
pub mod queue;
mod recent;
mod referee;
mod requests;
pub mod routes;
pub mod secrets;
pub mod service;
mod services;
pub mod serving;
mod shown;
mod stop;
mod store;
mod trouble;
mod turns;
mod wellbeing;
mod write;

pub use endpoints::{Slice, SliceChange, Slices};
pub use explain::{
    Answer, ExplainError, Explanation, ServiceExplanation, Testimony, Warnings, explain_node,
    explain_service,
};
pub use line_up::{LineUp, LineUpChanger, LineUps, Notice};
pub use lookups::Lookups;
pub use nodes::{NodeChange, Nodes};
pub use owners::{Describer, Owners};
pub use per_cloud::PerCloud;
pub use referee::{CloudRules, DefaultCloud, Referee};
pub use requests::{CertificateRequests, RequestChange, Requested};
pub use services::{ServiceChange, Services};
pub use stop::{Stop, StopHandle, stop_signal};
pub use store::{Change, Found, Sighting, Store, Stored};
pub use turns::{Turn, Turns};
pub use wellbeing::{Condition, Purpose, Wellbeing};
pub use write::{CertificateWriter, Decision, NodeWriter, ServiceWriter, WriteError};
