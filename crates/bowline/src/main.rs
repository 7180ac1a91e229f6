//! One cloud controller manager for Kubernetes, for several clouds at once.

mod cli;
mod flags;
mod logging;
mod output;
mod plan;
mod providers;
mod run;
#[cfg(feature = "sandbox")]
mod sandbox;
mod signals;
#[cfg(feature = "sandbox")]
mod simulate;
mod triton;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main(std::env::args().collect())
}
