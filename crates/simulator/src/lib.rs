//! An in-memory Kubernetes API and the clouds' APIs, over real sockets, with faults.

pub mod faults;
pub mod fleet;
pub mod journal;
pub mod kubernetes;
pub mod machines;
pub mod monitor;
pub mod serve;
mod world;

pub use world::World;
