//! What stands between controllers and clouds: which cloud owns a node, the gate that every call passes
//! ([`caller`]), how instances are asked for, and how each cloud and its account are.

pub mod accounts;
pub(crate) mod batcher;
pub(crate) mod caller;
pub(crate) mod cloud_health;
pub(crate) mod machines;
pub(crate) mod owners;
pub(crate) mod per_cloud;
pub(crate) mod resolver;
pub(crate) mod unowned_report;
