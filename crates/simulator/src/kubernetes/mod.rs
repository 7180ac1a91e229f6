//! A Kubernetes API server in memory.

pub mod health;
pub mod kinds;
pub mod list;
pub mod parts;
pub mod request;
pub mod respond;
pub mod selectors;
pub mod server;
pub mod status;
pub mod store;
pub mod strategy;
pub mod verbs;
pub mod watch;

pub use server::KubernetesApi;

#[cfg(test)]
mod tests;
