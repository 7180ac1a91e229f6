//! A Kubernetes API server in memory.
//!
//! ```text
//!  request ─▶ server::route ─── auth: who asks, and may they?
//!                │  └── discovery, openapi, health: paths that name no resource
//!             server::execute
//!                ├─▶ verbs: body ─▶ patch or managed ─▶ schema ─▶ strategy ─▶ store
//!                ├─▶ list, watch ◀── selectors ◀──────────────────────────── store
//!  answer ◀── respond ◀── table
//! ```
//!
//! `kinds` is the table of what is served, `schema` the types behind it, `strategy` the defaults and
//! rules of each kind. `bootstrap` and `fixture` are the objects that a cluster starts with.

pub mod auth;
pub mod bootstrap;
pub mod certificates;
pub mod discovery;
pub mod events;
pub mod fixture;
pub mod health;
pub mod kinds;
pub mod kubeconfig;
pub mod list;
pub mod managed;
pub mod object;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod request;
pub mod respond;
pub mod schema;
pub mod selectors;
pub mod server;
pub mod status;
pub mod store;
pub mod strategy;
pub mod table;
pub mod verbs;
pub mod watch;
pub mod words;

pub use server::KubernetesApi;

#[cfg(test)]
mod tests;
