//! Load balancer machines: the provider before a simulated data center, under a paused clock.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

#[path = "../common/mod.rs"]
mod common;
mod create;
mod modes;
mod remove;
mod share;
mod shop;
mod update;
