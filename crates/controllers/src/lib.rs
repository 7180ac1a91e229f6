//! Bowline's control loops.

pub mod clients;
pub mod election;
pub mod events;
pub mod lifecycle;
mod lookups;
pub mod manager;
pub mod metrics;
pub mod node;
mod nodes;
mod objects;
pub mod options;
mod owners;
pub mod queue;
mod recent;
pub mod serving;
mod stop;
mod write;

pub use lookups::Lookups;
pub use nodes::{NodeChange, Nodes};
pub use owners::{Owner, Owners};
pub use stop::{Stop, StopHandle, stop_signal};
pub use write::{NodeWriter, WriteError};
