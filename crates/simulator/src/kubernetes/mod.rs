//! A Kubernetes API server in memory.

pub mod auth;
pub mod bootstrap;
pub mod certificates;
pub mod discovery;
pub mod fixture;
pub mod health;
pub mod kinds;
pub mod kubeconfig;
pub mod list;
pub mod managed;
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

pub use server::KubernetesApi;

#[cfg(test)]
mod tests;
