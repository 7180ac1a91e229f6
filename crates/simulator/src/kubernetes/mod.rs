//! A Kubernetes API server in memory.

pub mod kinds;
pub mod managed;
pub mod patch;
pub mod schema;
pub mod status;
pub mod table;
