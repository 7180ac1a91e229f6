//! The provider before a simulated Xen Orchestra.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

mod client;
mod events;
mod harness;
mod labels;
mod life;
mod nodes;
mod servers;
mod sign_in;
mod start;
