//! Placeholder.

pub mod events;
pub mod metrics;
pub mod queue;
mod recent;
