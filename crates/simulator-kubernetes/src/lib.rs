//! A Kubernetes API server in memory, and a fleet of kubelets.
//!
//! **What.** An API that is good enough that `kubectl`, `client-go` and `kube` cannot tell within its
//! scope: discovery and OpenAPI, lists and watches with versions, four kinds of patch, server-side
//! apply with managed fields, defaults, validation and printing, certificates, tokens and RBAC. The
//! fleet registers and heartbeats the way kubelets with an external cloud provider do, and stops
//! when its machines stop.
//!
//! ```text
//!  request ─▶ server::route ─── auth: who asks, and may they?
//!                │  └── discovery, openapi, health: paths that name no resource
//!             server::execute
//!                ├─▶ verbs: body ─▶ patch or managed ─▶ schema ─▶ strategy ─▶ store
//!                ├─▶ list, watch ◀── selectors ◀──────────────────────────── store
//!  answer ◀── respond ◀── table
//!
//!  fleet: kubelets · monitor: taints ── ordinary clients of it, or of a real one
//! ```
//!
//! `kinds` is the table of what is served, `schema` the types behind it, `strategy` the defaults and
//! rules of each kind. `bootstrap` and `fixture` are the objects that a cluster starts with.
//!
//! A whole cluster for a test, under a paused clock:
//!
//! ```
//! # use bowline_simulator::World;
//! # use bowline_simulator_kubernetes::cluster::Cluster;
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

pub mod auth;
pub mod bootstrap;
pub mod certificates;
pub mod cluster;
pub mod discovery;
pub mod events;
pub mod fixture;
pub mod fleet;
pub mod health;
pub mod kinds;
pub mod kubeconfig;
pub mod list;
pub mod managed;
pub mod monitor;
pub mod object;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod relay;
pub mod request;
pub mod respond;
pub mod schema;
pub mod selectors;
pub mod server;
mod simulate;
pub mod status;
pub mod store;
pub mod strategy;
pub mod table;
pub mod verbs;
pub mod watch;
pub mod words;

pub use server::KubernetesApi;
pub use simulate::SERVER;

#[cfg(test)]
mod tests;
