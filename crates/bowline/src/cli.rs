//! Which command was asked for.
//!
//! Without a command the program is a cloud controller manager with the flags of the originals.
//! Started under an original's name (a link in the image) it is that one, preset to its cloud.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use bowline_controllers::options;

use crate::output::{complain, tell};
use crate::{flags, providers, run};

/// What the program can do besides being a controller manager.
const COMMANDS: [(&str, &str); 5] = [
    (
        "config",
        "check or create a configuration file: config check, migrate, schema, reference",
    ),
    (
        "explain",
        "show which cloud manages a node or Service, and why: explain node|service NAME",
    ),
    (
        "plan",
        "show what Bowline would change for Services, without changing it",
    ),
    (
        "sandbox",
        "run Bowline against a simulated cluster and simulated clouds (no set-up)",
    ),
    (
        "simulate",
        "run a simulated cloud or Kubernetes API as a server for other clients",
    ),
];

/// The commands about the program itself.
const ABOUT: [(&str, &str); 2] = [
    ("version", "print the version"),
    (
        "help",
        "print this help, or the help of a command: help sandbox",
    ),
];

/// All commands, with those that only one cloud has.
fn commands() -> impl Iterator<Item = (&'static str, &'static str)> {
    let own = providers::COMMANDS.iter();
    let own = own.map(|command| (command.name, command.meaning));
    COMMANDS.into_iter().chain(own).chain(ABOUT)
}

/// The beginning of `--help`.
fn introduction() -> String {
    let cloud = providers::PROVIDERS[0].name;
    let mut text = format!(
        "Bowline is a cloud controller manager for Kubernetes. It initialises nodes, taints them when\n\
         their instance stops, and deletes them once the instance is proven gone.\n\n\
         Begin here:\n\n  \
         bowline sandbox\n      \
         See it work, without a cluster or an account.\n  \
         bowline plan --all --cloud-provider={cloud} --kubeconfig=admin.conf\n      \
         See what it would change about load balancers, without changing it.\n  \
         bowline --cloud-provider={cloud} --kubeconfig=admin.conf\n      \
         Run as the cloud controller manager of a cluster; in a pod, --kubeconfig is not needed.\n\n\
         Commands:\n\n",
    );
    for (name, what) in commands() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<10} {what}");
    }
    let _ = writeln!(
        text,
        "\nClouds (--cloud-provider): {}\n\n\
         Without a command, bowline runs as a cloud controller manager with the flags below.",
        providers::names()
    );
    text
}

/// Runs the program.
pub fn main(arguments: Vec<String>) -> ExitCode {
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
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    if let Some(ended) = providers::run_command(program, &words) {
        return ended;
    }
    match words.as_slice() {
        ["help", "plan"] => planned(program, &["plan".to_owned(), "--help".to_owned()]),
        ["plan" | "explain", ..] => planned(program, &rest),
        ["help", "config", ..] => crate::config::command::main(program, &[]),
        ["config", ..] => crate::config::command::main(program, &rest),
        ["help", "explain", ..] => planned(program, &["explain".to_owned(), "--help".to_owned()]),
        ["help", command @ ("sandbox" | "simulate"), more @ ..] => {
            let mut line = vec![(*command).to_owned()];
            line.extend(more.iter().map(ToString::to_string));
            line.push("--help".to_owned());
            simulated(program, &line)
        }
        ["sandbox" | "simulate", ..] => simulated(program, &rest),
        ["version"] => {
            tell(run::version());
            ExitCode::SUCCESS
        }
        ["help" | "--help" | "-h"] => {
            tell(introduction());
            tell(options::usage(flags::table(), program, None));
            ExitCode::SUCCESS
        }
        [word, ..] if !word.is_empty() && !word.starts_with('-') => {
            complain(unknown_command(word));
            ExitCode::FAILURE
        }
        _ => run::main(program, None, &rest),
    }
}

/// What to say about a word that is no command.
fn unknown_command(word: &str) -> String {
    let known: Vec<&str> = commands().map(|(name, _)| name).collect();
    let meant = bowline_core::nearest(word, known.iter().copied());
    let hint = meant.map_or_else(String::new, |name| format!("\nDid you mean {name}?"));
    format!(
        "Error: unknown command {word:?}; there are {}{hint}",
        known.join(", ")
    )
}

fn planned(program: &str, arguments: &[String]) -> ExitCode {
    use clap::Parser;

    #[derive(Parser)]
    #[command(version, about = "One cloud controller manager for Kubernetes")]
    enum Command {
        Plan(crate::plan::Arguments),
        #[command(subcommand)]
        Explain(crate::explain::Arguments),
    }

    let (own, rest) = flags::split(arguments);
    let line = std::iter::once(program).chain(rest.iter().map(String::as_str));
    match Command::try_parse_from(line) {
        Ok(Command::Plan(arguments)) => ended(crate::plan::main(program, &arguments, &own)),
        Ok(Command::Explain(arguments)) => ended(crate::explain::main(program, &arguments, &own)),
        Err(wrong) => misunderstood(&wrong),
    }
}

/// Reports why a command failed.
fn ended(ended: anyhow::Result<ExitCode>) -> ExitCode {
    ended.unwrap_or_else(|error| {
        crate::output::fail(&error);
        ExitCode::FAILURE
    })
}

/// Help and version are "errors" that go to standard output and succeed.
fn misunderstood(wrong: &clap::Error) -> ExitCode {
    let _ = wrong.print();
    if wrong.use_stderr() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
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
    match Command::try_parse_from(line) {
        Ok(Command::Sandbox(arguments)) => ended(crate::sandbox::main(&arguments)),
        Ok(Command::Simulate(arguments)) => ended(crate::simulate::main(&arguments)),
        Err(wrong) => misunderstood(&wrong),
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
