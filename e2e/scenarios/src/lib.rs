//! Scenarios of the manager, written once and run on two kinds of API server.
//!
//! **What.** A scenario is a test that starts the real manager in this process, with clouds whose
//! answers it scripts, and looks at what becomes of nodes and Services. It does not say on which API
//! server.
//!
//! **Why.** The simulated server is fast and its clock can be paused, so that an hour without the
//! cloud takes milliseconds; but it is only as good as its resemblance. The same scenario on a real
//! kube-apiserver is what keeps it honest.
//!
//! **How.** `cargo test` runs on the simulated server. With `BOWLINE_CONTROL_PLANE` set to the
//! launcher of a real control plane (see `e2e/control-plane`), the same tests run there, on the real
//! clock, many at once on one server. `e2e/run` does all of it.
//!
//! ```text
//!                    #[scenario] async fn …
//!                              │
//!           TestCluster: manager, clouds, waiting, calls
//!                    │                           │
//!   Cluster: nodes, Services, events,     ScriptedCloud: machines, load balancers
//!            users
//!        │                    │
//!   in memory             real: plane (launcher), mirror (watches), relay (journal and faults),
//!   (simulator)                 names (a world of names for each scenario)
//! ```
//!
//! ```
//! use bowline_scenarios::cloud::{Script, machine};
//! use bowline_scenarios::objects::fresh;
//! use bowline_scenarios::{TestCluster, run_scenario};
//!
//! run_scenario!(async || {
//!     let bench = TestCluster::new().await;
//!     let found = machine("demo://m-1", &["InternalIP:10.0.0.5"]);
//!     bench.cloud().say("n1", Script::Machine(found));
//!     bench.create(fresh("n1")).await;
//!     bench.until_initialized("n1").await;
//!     assert_eq!(bench.node("n1")["spec"]["providerID"], "demo://m-1");
//! });
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test may, and this is a part of tests"
)]

pub mod cache;
pub mod certificates;
pub mod cloud;
pub mod cloud_harness;
pub mod cloudscale;
pub mod cluster;
pub mod exoscale;
mod harness;
pub mod log;
pub mod measure;
mod mirror;
pub mod names;
pub mod objects;
pub mod plane;
mod replica;
pub mod rights;
mod run;
pub mod seeds;
pub mod talos;
mod test_cluster;
pub mod triton;
pub mod xenorchestra;

pub use bowline_scenario_macro::scenario;

pub use cluster::{Cluster, Sharing};
pub use replica::Replica;
pub use rights::Granted;
pub use run::{is_real, only_in_memory, run_scenario, tell};
pub use test_cluster::{
    Fault, LEASE, MANAGER, Setup, TestCluster, assert_not_later, refuse, slow, status,
};
