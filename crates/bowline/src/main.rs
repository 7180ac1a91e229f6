//! One cloud controller manager for Kubernetes, for several clouds at once.

mod cli;
mod cloud_factory;
mod config;
mod explain;
mod flags;
mod inspect;
mod invocation;
mod logging;
mod output;
mod placeholder_cloud;
mod plan;
mod providers;
mod reload;
mod run;
#[cfg(feature = "sandbox")]
mod sandbox;
mod secrets;
mod signals;
#[cfg(feature = "sandbox")]
mod simulate;
#[cfg(feature = "sandbox")]
mod simulators;

use std::process::ExitCode;

/// That of musl takes a sixth of the program's time.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

fn main() -> ExitCode {
    cli::main(std::env::args().collect())
}
