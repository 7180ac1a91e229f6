//! The provider before a simulated data center, under a paused clock, as the controllers see it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

mod clb;
mod cluster;
mod cns;
mod common;
mod metrics;
mod nodes;
