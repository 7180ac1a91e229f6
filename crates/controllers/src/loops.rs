//! The control loops. Each gathers, decides (with functions of `bowline-core`), executes and publishes.

pub mod certificates;
pub mod chores;
pub mod ipam;
pub mod labels;
pub mod lifecycle;
pub mod node;
pub(crate) mod owner_annotation;
pub(crate) mod provider_events;
pub mod routes;
pub mod service;
