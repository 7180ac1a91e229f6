//! The command line.

use std::path::PathBuf;

/// Runs etcd, kube-apiserver and kube-controller-manager on loopback until the standard input ends, or
/// SIGTERM, SIGINT or SIGHUP comes.
#[derive(Debug, clap::Parser)]
#[command(name = "control-plane", args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Option<Subcommand>,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

/// What else it does.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Subcommand {
    /// Send one command to a running control plane, print its answer
    Control {
        /// The socket that its first line names
        socket: PathBuf,
        /// The command; a wrong one is answered with a list
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// How it runs.
#[derive(Debug, clap::Args)]
pub(crate) struct RunOptions {
    /// Folder with the programs etcd, kube-apiserver and kube-controller-manager [default:
    /// $KUBEBUILDER_ASSETS]
    #[arg(long, value_name = "DIR")]
    pub(crate) assets: Option<PathBuf>,
    /// Keep certificates, kubeconfigs, logs and data in this new or empty folder [default: a temporary
    /// one, removed at the end]
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
    /// Log every request's metadata to audit.log in the folder
    #[arg(long)]
    pub(crate) audit: bool,
    /// Start kube-controller-manager too
    #[arg(long)]
    pub(crate) controller_manager: bool,
    /// Run on when the standard input ends
    #[arg(long)]
    pub(crate) stay: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser as _};

    #[test]
    fn the_command_line_is_sound() {
        Options::command().debug_assert();
        let run = Options::parse_from(["control-plane", "--audit", "--stay"]).run;
        assert!(run.audit && run.stay && !run.controller_manager);
        let control = [
            "control-plane",
            "control",
            "s",
            "start",
            "etcd",
            "--log-level=info",
        ];
        let Some(Subcommand::Control { words, .. }) = Options::parse_from(control).command else {
            panic!("no command");
        };
        assert_eq!(words, ["start", "etcd", "--log-level=info"]);
    }
}
