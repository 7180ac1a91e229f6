//! Runs a Kubernetes control plane on loopback until its standard input ends, or sends one command to
//! a running one. See README.md.

mod client;
mod control;
mod options;
mod run;

use std::io::Write as _;
use std::process::ExitCode;

use bowline_core::error_chain;
use clap::Parser as _;

use options::{Options, Subcommand};

fn main() -> ExitCode {
    let options = Options::parse();
    let outcome = match &options.command {
        Some(Subcommand::Control { socket, words }) => client::send(socket, words),
        None => run::main(&options.run),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let text = error_chain(error.as_ref());
            let _ = writeln!(std::io::stderr(), "control-plane: {text}");
            ExitCode::FAILURE
        }
    }
}
