//! The built program, as its users meet it: command lines, environment, files, signals, exit codes.
//!
//! These tests start real processes and real sockets, so they take real time; each wait is on what
//! the process says or does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

mod abuse;
mod command_line;
mod config;
mod configuration;
mod deploy;
mod exoscale;
mod explain;
#[path = "../../src/flags.rs"]
#[allow(dead_code, reason = "the program uses the rest")]
mod flags;
/// What `flags` needs: the clouds that have flags of their own.
mod providers {
    pub(crate) const PROVIDERS: &[&bowline_provider::ProviderKind] = &[&bowline_triton::KIND];
}
mod harness;
mod manager;
#[cfg(feature = "sandbox")]
mod metrics;
mod migrate;
mod process;
mod replicas;
#[cfg(feature = "sandbox")]
mod simulate;
mod talos;
mod triton;
