//! Bowline's control loops.

pub mod clients;
pub mod election;
pub mod events;
mod fence;
pub mod lifecycle;
mod lookups;
pub mod metrics;
pub mod node;
mod nodes;
mod objects;
pub mod options;
mod owners;
pub mod queue;
mod recent;
mod stop;
mod write;

pub use fence::{Fence, Fenced};
pub use lookups::Lookups;
pub use nodes::{NodeChange, Nodes};
pub use owners::{Owner, Owners};
pub use stop::{Stop, StopHandle, stop_signal};
pub use write::{NodeWriter, WriteError};
