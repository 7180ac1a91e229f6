//! Metrics of machines, against a simulated data center and its metrics service, under a paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

#[path = "../common/mod.rs"]
mod common;
mod discovery;
mod export;
mod stage;
