//! Everything between controllers and clouds: which cloud owns a node, the gate of every cloud call
//! ([`caller`]), batched instance look-ups, and the health and account of each cloud.

pub mod accounts;
pub(crate) mod batcher;
pub(crate) mod caller;
pub(crate) mod cloud_health;
pub(crate) mod machines;
pub(crate) mod owners;
pub(crate) mod per_cloud;
pub(crate) mod resolver;
#[cfg(test)]
pub(crate) mod test_cloud;
pub(crate) mod unowned_report;
