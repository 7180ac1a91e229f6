//! A Kubernetes API server in memory, a fleet of kubelets and the clouds' APIs, over sockets or pipes,
//! with faults and a journal.
//!
//! **What.** Servers that speak the real protocols and keep their state in memory. The Kubernetes API
//! is good enough that `kubectl`, `client-go` and `kube` cannot tell within its scope: discovery and
//! OpenAPI, lists and watches with versions, four kinds of patch, server-side apply with managed
//! fields, defaults, validation and printing, certificates, tokens and RBAC. Each cloud answers as its
//! documentation and its SDK say. The fleet registers and heartbeats the way kubelets with an
//! external cloud provider do, and stops when its machines stop.
//!
//! **Why.** A controller manager is only as good as the failures it has met. Here an API can be slow,
//! forgetful, wrong or gone on command; a day passes in a second; and a run with the same seed gives the
//! same transcript. No mock stands between the controllers and the wire, so what is tested is what
//! ships. `bowline sandbox` and `bowline simulate` run on the same servers.
//!
//! **How.** Everything lives in a [`World`]: its clock, its randomness, its pipes, its journal, its
//! faults and the power of its machines. A simulated API implements [`serve::Api`], which only
//! answers requests; the serving layer around it reads the request, applies faults, writes the journal,
//! and answers the control handle under `/_sim/`.
//!
//! ```text
//!   kubectl, kube, SDKs              the tests: start, stop, destroy, break, look
//!          │ TCP, TLS or a pipe                 │
//!   ┌──────▼──────────────┐              ┌──────▼───────┐
//!   │ serve: read, fault, │◀── World ───▶│ control      │  clock · random · pipes
//!   │ answer, record      │              │ journal      │  journal · faults · machines
//!   └──────┬──────────────┘              └──────────────┘
//!          │ serve::Api
//!   ┌──────▼──────────────────────────────┐   ┌───────────────┐
//!   │ kubernetes                          │   │ cloudscale,   │
//!   │  server: who, may they, which verb  │   │ exoscale, …   │
//!   │  verbs ─▶ schema, patch, managed,   │   │  route, model │
//!   │           strategy ─▶ store         │   └──────▲────────┘
//!   │  list, watch, table ◀── store       │          │ machines stop
//!   └──────▲──────────────────────────────┘          │
//!          │ an ordinary client                      │
//!   ┌──────┴──────────────────────────────┐          │
//!   │ fleet: kubelets · monitor: taints   │◀─────────┘
//!   └─────────────────────────────────────┘
//! ```
//!
//! A whole cluster for a test, under a paused clock:
//!
//! ```
//! # use bowline_simulator::{World, cluster::Cluster};
//! # use k8s_openapi::api::core::v1::Namespace;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = World::simulated(7);
//! let cluster = Cluster::on_pipe(&world)?;
//! let namespaces: kube::Api<Namespace> = kube::Api::all(cluster.admin()?);
//! assert_eq!(namespaces.list(&Default::default()).await?.items.len(), 4);
//! assert_eq!(world.journal.entries().len(), 1);
//! # Ok(())
//! # }
//! ```

pub mod cloudscale;
pub mod cluster;
mod collection;
mod control;
pub mod exoscale;
pub mod faults;
pub mod fixture;
pub mod fleet;
mod glob;
pub mod journal;
pub mod kubernetes;
pub mod machines;
pub mod monitor;
pub mod relay;
pub mod serve;
pub mod simulate;
pub mod talos;
#[cfg(test)]
mod testing;
mod world;
pub mod xenorchestra;

pub use world::World;
