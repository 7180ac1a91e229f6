//! The specification's cases of nodes, end to end: the real manager in this process, a simulated
//! API server over pipes, and clouds whose every answer is scripted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

mod addresses;
mod bench;
mod cloud;
mod initialization;
mod initialization_writes;
mod labels;
mod lifecycle;
mod lifecycle_guard;
mod objects;
mod ownership;
mod seeds;
mod story;
