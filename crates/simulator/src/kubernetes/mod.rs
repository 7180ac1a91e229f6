//! A Kubernetes API server in memory.

pub mod auth;
pub mod bootstrap;
pub mod certificates;
pub mod kinds;
pub mod kubeconfig;
pub mod managed;
pub mod patch;
pub mod schema;
pub mod status;
pub mod table;
pub mod health;
pub mod list;
pub mod parts;
pub mod protobuf;
pub mod request;
pub mod respond;
pub mod selectors;
pub mod server;
pub mod store;
pub mod strategy;
pub mod verbs;
pub mod watch;

pub use server::KubernetesApi;

#[cfg(test)]
mod tests;
