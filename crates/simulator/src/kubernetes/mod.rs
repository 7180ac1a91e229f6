//! A Kubernetes API server in memory.

pub mod kinds;
pub mod schema;
pub mod status;
