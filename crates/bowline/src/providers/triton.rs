//! `bowline triton …`: what only Triton needs.

mod credentials;
mod key;
mod store;

use std::process::ExitCode;

use super::ProviderCommand;
use crate::output::complain;

pub(super) const COMMAND: ProviderCommand = ProviderCommand {
    name: "triton",
    meaning: "what only Triton needs: triton credentials stores a key in the cluster",
    main,
};

/// Reads the command line and does what it asks for.
fn main(program: &str, arguments: &[String]) -> ExitCode {
    use clap::Parser;

    #[derive(Parser)]
    #[command(version, about = "One cloud controller manager for Kubernetes")]
    enum Command {
        /// What only Triton needs
        #[command(subcommand)]
        Triton(Commands),
    }

    #[derive(clap::Subcommand)]
    enum Commands {
        Credentials(Box<credentials::Arguments>),
    }

    let line = std::iter::once(program).chain(arguments.iter().map(String::as_str));
    match Command::try_parse_from(line) {
        Ok(Command::Triton(Commands::Credentials(given))) => match credentials::main(&given) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                complain(format_args!("Error: {failure}"));
                failure.exit_code()
            }
        },
        Err(wrong) => {
            let _ = wrong.print();
            if wrong.use_stderr() {
                ExitCode::FAILURE
            } else {
                ExitCode::SUCCESS
            }
        }
    }
}
