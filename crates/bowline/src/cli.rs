//! Which command was asked for.
//!
//! Without a command the program is a cloud controller manager with the flags of the originals.
//! Started under an original's name (a link in the image) it is that one, preset to its cloud.

use std::path::Path;
use std::process::ExitCode;

use crate::output::{complain, tell};
use crate::{providers, run};

/// What the program can do besides being a controller manager.
const COMMANDS: &str = "\
Commands:
  sandbox     a cluster and a cloud on loopback, and Bowline at work on them (no set-up)
  simulate    the simulated clouds and Kubernetes API as servers of their own
  version     the version of this program
  help        this text

Without a command, bowline runs as a cloud controller manager with these flags:
";

/// Runs the program.
pub(crate) fn main(arguments: Vec<String>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let program = arguments.next().unwrap_or_default();
    let program = Path::new(&program)
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("bowline");
    let rest: Vec<String> = arguments.collect();
    if let Some(provider) = providers::by_command(program) {
        return run::main(program, Some(provider.name), &rest);
    }
    match rest.first().map(String::as_str) {
        Some("sandbox" | "simulate") => simulated(program, &rest),
        Some("version") => {
            tell(format_args!("Bowline {}", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        Some("help" | "--help" | "-h") => {
            tell(format_args!(
                "One cloud controller manager for Kubernetes.\n\n{COMMANDS}"
            ));
            tell(bowline_controllers::options::usage(program, None));
            ExitCode::SUCCESS
        }
        _ => run::main(program, None, &rest),
    }
}

#[cfg(feature = "sandbox")]
fn simulated(program: &str, arguments: &[String]) -> ExitCode {
    use clap::Parser;

    #[derive(Parser)]
    #[command(version, about = "One cloud controller manager for Kubernetes")]
    enum Command {
        Sandbox(crate::sandbox::Arguments),
        #[command(subcommand)]
        Simulate(crate::simulate::Arguments),
    }

    let line = std::iter::once(program).chain(arguments.iter().map(String::as_str));
    let ended = match Command::try_parse_from(line) {
        Ok(Command::Sandbox(arguments)) => crate::sandbox::main(&arguments),
        Ok(Command::Simulate(arguments)) => crate::simulate::main(&arguments),
        Err(wrong) => {
            // Help and version are "errors" that go to standard output and succeed.
            let _ = wrong.print();
            return if wrong.use_stderr() {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            complain(format_args!("Error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(feature = "sandbox"))]
fn simulated(_: &str, arguments: &[String]) -> ExitCode {
    let command = arguments.first().map_or("", String::as_str);
    complain(format_args!(
        "Error: this build of Bowline leaves out {command:?}; build it with the default features"
    ));
    ExitCode::FAILURE
}
