//! One cloud controller manager for Kubernetes, for several clouds at once.

mod cli;
mod config;
mod explain;
mod flags;
mod invocation;
mod logging;
mod output;
mod plan;
mod providers;
mod reload;
mod run;
#[cfg(feature = "sandbox")]
mod sandbox;
mod signals;
#[cfg(feature = "sandbox")]
mod simulate;
#[cfg(feature = "sandbox")]
mod simulators;
mod triton;
mod unbuilt;
mod workshop;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args().collect())
}
