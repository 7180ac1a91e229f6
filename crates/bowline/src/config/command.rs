//! `--config`, and the commands about configurations.

use std::fs::File;
use std::io::Read as _;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bowline_controllers::options::{self, CONTROLLERS, CommandLine, Request};
use bowline_core::CloudName;

use super::document::LARGEST;
use super::migrate::{Original, migrate};
use super::{Configuration, Problem, Resolved, Resolver, check, publish};
use crate::output::{complain, fail, tell};
use crate::providers;
use crate::{flags, run};

/// What `bowline config` can do.
const HELP: &str = "\
Check, create and document Bowline's own configuration file (--config).

Usage:

  bowline config check FILE
      Checks a configuration and prints what it would run. All errors are reported at once, each
      with line, column and path. Files and variables with secrets are read if they exist here;
      neither the cluster nor a cloud is contacted.
  bowline config migrate [--name=NAME] [--into=FILE] [COMMAND] [FLAG...]
      Converts the settings of an original controller manager to a configuration: its unchanged
      command line, its --cloud-config file and its environment. Secrets stay where they are.
      COMMAND is the original's command name and replaces --cloud-provider. NAME is the cloud's name
      in the configuration. With --into, the cloud is added to FILE (created if missing; comments
      in it are lost), so that several originals become one; otherwise the result is printed.
  bowline config schema
      Prints the JSON schema.
  bowline config reference
      Prints the reference page: every key, its default and its meaning.

Exit codes:
  0  success
  1  error, or an invalid configuration
";

/// `bowline config ...`, the word `config` included.
pub(crate) fn main(program: &str, words: &[String]) -> ExitCode {
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let ended = match words.as_slice() {
        [] | ["help" | "--help" | "-h", ..] | [_, "--help" | "-h", ..] => {
            tell(HELP.trim_end());
            Ok(ExitCode::SUCCESS)
        }
        ["check", file] => checked(program, file),
        ["reference"] => {
            tell(publish::reference_page().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        ["schema"] => {
            tell(publish::json_schema().trim_end());
            Ok(ExitCode::SUCCESS)
        }
        ["migrate", rest @ ..] => migrated(program, rest),
        _ => {
            complain(HELP.trim_end());
            return ExitCode::FAILURE;
        }
    };
    ended.unwrap_or_else(|error| {
        fail(&error);
        ExitCode::FAILURE
    })
}

fn checked(program: &str, path: &str) -> Result<ExitCode> {
    let configuration = match load(path) {
        Ok(configuration) => configuration,
        Err(unusable) => {
            complain(unusable.lines(path).join("\n"));
            return Ok(ExitCode::FAILURE);
        }
    };
    let resolver = Resolver {
        environment: Arc::new(|name| std::env::var(name).ok()),
        client: None,
        known: Resolved::new(),
    };
    let (resolved, unread) =
        run::block_on(async { Ok(resolver.try_resolve(&configuration.clouds).await) })?;
    let (mut problems, mut remarks) = (Vec::new(), Vec::new());
    for entry in &configuration.clouds {
        let found = check::settings_of(entry, &resolved);
        problems.extend(found.problems);
        remarks.extend(found.remarks);
    }
    let mut lines: Vec<String> = problems.iter().map(|it| format!("{path}:{it}")).collect();
    let line = line_of(program, path, &configuration)?;
    if let Err(wrong) = line.options.validate() {
        lines.extend(wrong.0.iter().map(|it| format!("{path}: manager: {it}")));
    }
    if !lines.is_empty() {
        complain(lines.join("\n"));
        return Ok(ExitCode::FAILURE);
    }
    tell(summary(path, &configuration, &line));
    remarks.extend(unread.iter().map(|it| format!("not read here: {it}")));
    for remark in remarks {
        tell(format_args!("Note: {remark}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The command line of a manager with that configuration alone.
fn line_of(program: &str, path: &str, configuration: &Configuration) -> Result<Box<CommandLine>> {
    let line = [format!("--config={path}")];
    match options::parse_over(
        flags::table(),
        (program, None),
        &configuration.manager,
        &line,
    )? {
        Request::Run(line) => Ok(line),
        Request::Help(_) | Request::Version | Request::RawVersion => {
            bail!("the configuration does not run a manager")
        }
    }
}

/// What a configuration would run.
fn summary(path: &str, configuration: &Configuration, line: &CommandLine) -> String {
    let mut lines = vec![format!("{path} is valid. It would run:")];
    for cloud in &configuration.clouds {
        let mut parts = vec![format!("cloud {} ({})", cloud.name, cloud.provider.name)];
        if cloud.selector.is_some() {
            parts.push("nodes by selector".to_owned());
        }
        if cloud.provider.capabilities.load_balancers {
            let default = configuration.default_cloud.as_ref() == Some(&cloud.name);
            let also = if default { "without a class, and " } else { "" };
            parts.push(format!(
                "Services {also}of class bowline.dev/{}",
                cloud.name
            ));
        }
        for mention in &cloud.mentions {
            parts.push(format!("a secret in {}", mention.reference));
        }
        lines.push(format!("  {}", parts.join("; ")));
    }
    let enabled = line.options.controllers.set();
    let names = CONTROLLERS.iter().map(|known| known.name);
    let names: Vec<&str> = names.filter(|name| enabled.enabled(name)).collect();
    lines.push(format!("  controllers {}", names.join(", ")));
    let election = &line.options.election;
    let held = election.held_leases();
    if !held.is_empty() {
        let held: Vec<String> = held.iter().map(ToString::to_string).collect();
        let (own, held) = (election.lease(), held.join(", "));
        lines.push(format!("  lease {own}, held together with {held}"));
    }
    lines.join("\n")
}

fn migrated(program: &str, words: &[&str]) -> Result<ExitCode> {
    let (mut name, mut into) = (None, None);
    let mut rest = words;
    loop {
        match rest {
            ["--name", text, more @ ..] => (name, rest) = (Some(*text), more),
            ["--into", text, more @ ..] => (into, rest) = (Some(*text), more),
            [word, more @ ..] if word.starts_with("--name=") => {
                (name, rest) = (word.strip_prefix("--name="), more);
            }
            [word, more @ ..] if word.starts_with("--into=") => {
                (into, rest) = (word.strip_prefix("--into="), more);
            }
            _ => break,
        }
    }
    let preset = rest.first().and_then(|word| providers::by_command(word));
    if preset.is_some() {
        rest = &rest[1..];
    }
    let arguments: Vec<String> = rest.iter().map(ToString::to_string).collect();
    let Request::Run(line) = options::parse(
        flags::table(),
        program,
        preset.map(|it| it.name),
        &arguments,
    )?
    else {
        bail!("the command line does not run a manager");
    };
    let provider = providers::named(&line.options.cloud.provider)?;
    let name = CloudName::parse(name.unwrap_or(provider.name))?;
    let file = match line.options.cloud.config_file.as_str() {
        "" => None,
        path => Some(text(path)?),
    };
    let before = into.filter(|path| std::path::Path::new(path).exists());
    let before = before.map(text).transpose()?;
    let made = migrate(
        &Original {
            provider,
            line: &line,
            environment: &|name| std::env::var(name).ok(),
            file: file.as_deref(),
        },
        &name,
        before.as_deref(),
    )?;
    match into {
        Some(path) if made.problems.is_empty() => replace(path, &made.text)?,
        _ => tell(made.text.trim_end()),
    }
    for remark in &made.remarks {
        complain(format_args!("Note: {remark}"));
    }
    for problem in &made.problems {
        complain(format_args!("Error: {problem}"));
    }
    Ok(if made.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Puts a text into a file, whole or not at all.
fn replace(path: &str, text: &str) -> Result<()> {
    let aside = format!("{path}.new");
    let write = || -> std::io::Result<()> {
        std::fs::write(&aside, text)?;
        std::fs::rename(&aside, path)
    };
    write().with_context(|| format!("writing {path}"))
}

/// Why a file is no configuration.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// It cannot be read.
    Unreadable(anyhow::Error),
    /// Everything that is wrong with it.
    Wrong(Vec<Problem>),
}

/// Reads the configuration in a file.
pub(crate) fn load(path: &str) -> Result<Configuration, Unusable> {
    let text = text(path).map_err(Unusable::Unreadable)?;
    super::read(&text).map_err(Unusable::Wrong)
}

/// The text of a configuration.
pub(crate) fn text(path: &str) -> Result<String> {
    let read = || -> Result<String> {
        let (mut text, most) = (String::new(), LARGEST as u64);
        File::open(path)?.take(most + 1).read_to_string(&mut text)?;
        if text.len() > LARGEST {
            bail!("it is larger than {LARGEST} bytes");
        }
        Ok(text)
    };
    read().with_context(|| format!("reading {path}"))
}

impl Unusable {
    /// What to tell, a line for each thing that is wrong.
    pub(crate) fn lines(&self, path: &str) -> Vec<String> {
        match self {
            Self::Unreadable(error) => {
                vec![format!(
                    "Error: {}",
                    bowline_core::error_chain(error.as_ref())
                )]
            }
            Self::Wrong(problems) => {
                let lines = problems.iter().map(|problem| format!("{path}:{problem}"));
                lines.collect()
            }
        }
    }
}
