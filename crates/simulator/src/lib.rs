//! An in-memory Kubernetes API and the clouds' APIs, over real sockets, with faults.

pub mod cloudscale;
pub mod cluster;
mod control;
pub mod faults;
pub mod fixture;
pub mod fleet;
mod glob;
pub mod journal;
pub mod kubernetes;
pub mod machines;
pub mod monitor;
pub mod serve;
pub mod simulate;
#[cfg(test)]
mod testing;
mod world;

pub use world::World;
