//! A Kubernetes API server in memory.

pub mod discovery;
pub mod kinds;
pub mod managed;
pub mod openapi;
pub mod patch;
pub mod schema;
pub mod status;
pub mod table;
