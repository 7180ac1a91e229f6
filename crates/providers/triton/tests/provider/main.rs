//! Services on a simulated Triton: the provider as the service controller sees it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

mod cns;
#[path = "../common/mod.rs"]
mod common;
mod shop;
