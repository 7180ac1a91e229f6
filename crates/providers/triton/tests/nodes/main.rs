//! Nodes on a simulated Triton: the provider as the controllers see it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

#[path = "../common/mod.rs"]
mod common;
mod credentials;
mod existence;
mod feed;
mod news;
mod nodes;
mod stage;
