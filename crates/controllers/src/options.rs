//! The manager's command line: flags, their values, their checks.
//!
//! Flags are rows of one [table](FLAGS), as ripgrep keeps them: the parser, the help text, the
//! reference page, the defaults and the suggestions for a mistyped name are all made from the row.
//! [`parse`] gives typed [`Options`]; [`Options::validate`] reports everything that is wrong with them.

mod configz;
mod controllers;
mod gates;
mod help;
mod parse;
mod settings;
mod table;
mod tls;
mod validate;
mod value;

#[cfg(test)]
mod tests;

pub use controllers::{
    CERTIFICATES, CHORES, CLOUD_NODE, CLOUD_NODE_LIFECYCLE, CONTROLLERS, ControllerSet,
    KnownController, LABEL_SYNC, NODE_IPAM, ROUTES, SERVICE, known_controller,
};
pub use help::{flag_lines, reference_markdown, usage};
pub use parse::{UsageError, Values};
pub use settings::{
    AuthenticationOptions, AuthorizationOptions, ClientOptions, CloudOptions, ControllerOptions,
    DebuggingOptions, ElectionOptions, IpamOptions, LoggingOptions, Mode, Options, ServingOptions,
    ShowOwners, TlsOptions, WebhookOptions,
};
pub use table::{Category, FLAGS, Flag, FlagEffect, Table};
pub use tls::SUITES;
pub use validate::InvalidOptions;
pub use value::{Kind, Value};

/// What the help text starts with.
const DESCRIPTION: &str = "\
The cloud controller manager ties a cluster to its clouds: it tells Kubernetes what each node's
machine is and when it is gone, and makes load balancers and routes where the cloud has them.
";

/// What the command line asks for.
#[derive(Debug)]
pub enum Request {
    /// To run the manager.
    Run(Box<CommandLine>),
    /// `--help`: print this text and exit 0.
    Help(String),
    /// `--version`: print one line and exit 0.
    Version,
    /// `--version=raw`: print all that is known about the build and exit 0.
    RawVersion,
}

/// A command line that was understood.
#[derive(Debug)]
pub struct CommandLine {
    /// The options, typed.
    pub options: Options,
    /// Every flag's final value, for [`flag_lines`].
    pub values: Values,
    /// Lines for the user: removed and deprecated flags, gates that are gone.
    pub warnings: Vec<String>,
}

/// Reads a command line (without the program's name).
///
/// `table` has the flags, `program` is the name in messages. `cloud_provider` presets that flag: the originals preset
/// their own name, so their manifests do not give it.
pub fn parse(
    table: Table,
    program: &str,
    cloud_provider: Option<&str>,
    arguments: &[String],
) -> Result<Request, UsageError> {
    parse_over(table, (program, cloud_provider), &[], arguments)
}

/// The same over other defaults: flags by name, each with what a command line would say.
pub fn parse_over(
    table: Table,
    (program, cloud_provider): (&str, Option<&str>),
    presets: &[(&str, Vec<String>)],
    arguments: &[String],
) -> Result<Request, UsageError> {
    let named = (program, cloud_provider);
    let parse::Read { values, warnings } = parse::read(table, named, presets, arguments)?;
    if values.switch("help") {
        return Ok(Request::Help(format!(
            "{DESCRIPTION}\n{}",
            usage(table, program, cloud_provider)
        )));
    }
    match values.text("version") {
        "true" => return Ok(Request::Version),
        "raw" => return Ok(Request::RawVersion),
        _ => {}
    }
    let mut options = Options::from_values(&values);
    options.cloud.own = values.own(table);
    Ok(Request::Run(Box::new(CommandLine {
        options,
        values,
        warnings,
    })))
}
