//! What the provider knows about nodes, before a simulated Exoscale.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

mod calls;
mod certificates;
mod harness;
mod nodes;
mod overrides;
mod trust;
