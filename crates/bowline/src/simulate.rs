//! `bowline simulate`: the simulators as servers of their own, for anybody's client.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_simulator::simulate::{Flag, FlagValue, Options, ServerKind};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, Subcommand, value_parser};
use tokio_util::sync::CancellationToken;

use crate::output::tell;
use crate::simulators::SIMULATORS;
use crate::{run, signals};

const ABOUT: &str = "Run a simulated cloud or a simulated Kubernetes API as a server";
const MORE: &str = "Any controller manager, SDK or command-line client can use it. It shows a journal of all calls \
    (GET /_sim/journal) and its whole state (GET /_sim/state), and tests can change it (POST /_sim/…). All of \
    this needs no password: keep it on loopback. Details: docs/simulators.md.";

/// Which server, and what was said about it.
#[derive(Debug)]
pub(crate) struct Arguments {
    server: &'static ServerKind,
    options: Options,
}

fn servers() -> impl Iterator<Item = &'static ServerKind> {
    let clouds = SIMULATORS.iter().map(|kind| &kind.server);
    clouds.chain([&bowline_simulator_kubernetes::SERVER])
}

impl Subcommand for Arguments {
    fn augment_subcommands(command: Command) -> Command {
        command
            .about(ABOUT)
            .long_about(format!("{ABOUT}.\n\n{MORE}"))
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(servers().map(subcommand))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        servers().any(|server| server.name == name)
    }
}

fn subcommand(server: &'static ServerKind) -> Command {
    let command = Command::new(server.name).about(server.about);
    command.args(server.flags.iter().map(argument))
}

fn argument(flag: &'static Flag) -> Arg {
    let argument = Arg::new(flag.name).long(flag.name).help(flag.help);
    let argument = match flag.value {
        FlagValue::Address => argument
            .value_name("ADDRESS")
            .value_parser(value_parser!(SocketAddr)),
        FlagValue::File => argument
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf)),
        FlagValue::Seed => argument.value_name("S").value_parser(value_parser!(u64)),
        FlagValue::Switch => argument.action(ArgAction::SetTrue),
    };
    match flag.default {
        Some(default) => argument.default_value(default),
        None => argument,
    }
}

impl FromArgMatches for Arguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = matches.subcommand().and_then(|(name, matches)| {
            let server = servers().find(|server| server.name == name)?;
            Some((server, matches))
        });
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (server, matches) = given.ok_or_else(missing)?;
        let mut options = Options::default();
        for flag in server.flags {
            // What was given has been checked; it is passed on as it stands.
            let raw = matches.get_raw(flag.name).into_iter().flatten().next();
            options = match flag.value {
                FlagValue::Switch if matches.get_flag(flag.name) => options.with(flag.name, ""),
                FlagValue::Switch => options,
                _ => raw.into_iter().fold(options, |options, value| {
                    options.with(flag.name, value.display())
                }),
            };
        }
        Ok(Self { server, options })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Serves until Ctrl-C.
pub(crate) fn main(arguments: &Arguments) -> Result<ExitCode> {
    run::block_on(async {
        let stop = CancellationToken::new();
        signals::listen(stop.clone()).context("listening for signals")?;
        let simulation = (arguments.server.serve)(&arguments.options).await?;
        tell(&simulation.greeting);
        stop.cancelled().await;
        simulation.shutdown().await;
        Ok(ExitCode::SUCCESS)
    })
}
