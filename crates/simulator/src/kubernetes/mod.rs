//! A Kubernetes API server in memory.

pub mod kinds;
pub mod patch;
pub mod schema;
pub mod status;
