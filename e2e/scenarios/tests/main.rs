//! The scenarios, in one program: each of fifteen would link the whole manager anew, and start an API server of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

#[cfg(feature = "sandbox")]
mod binary;
mod cases;
mod certificates;
mod chores;
mod cloudscale;
mod exoscale;
mod field;
mod ipam;
mod many;
mod names;
mod process;
mod proof;
mod rights;
mod routes;
mod services;
mod talos;
mod triton;
mod xenorchestra;
