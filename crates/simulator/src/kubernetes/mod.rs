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
