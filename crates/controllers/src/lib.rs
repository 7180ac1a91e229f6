//! Placeholder.

pub mod events;
pub mod metrics;
pub mod queue;
mod recent;
pub mod serving;
