//! An in-memory Kubernetes API and the clouds' APIs, over real sockets, with faults.

mod control;
pub mod faults;
mod glob;
pub mod fleet;
pub mod journal;
pub mod kubernetes;
pub mod machines;
pub mod monitor;
pub mod serve;
#[cfg(test)]
mod testing;
mod world;

pub use world::World;
