//! How the program was called, and what it was told by that: flags, and the configuration that they name.

use bowline_controllers::options::{self, CommandLine, Request, UsageError};

use crate::config::{self, Configuration};
use crate::flags;

/// A command line.
#[derive(Clone, Debug)]
pub(crate) struct Invocation {
    /// The program's name.
    pub(crate) program: String,
    /// The provider that this name presets.
    pub(crate) provider: Option<String>,
    /// The rest.
    pub(crate) arguments: Vec<String>,
}

/// What a command line asks for, and the configuration that it names.
pub(crate) type Asked = (Result<Request, UsageError>, Option<Configuration>);

impl Invocation {
    /// What is asked for. Gives lines to tell if the configuration cannot be used.
    pub(crate) fn read(&self) -> Result<Asked, Vec<String>> {
        let asked = self.over(&[]);
        let path = match &asked {
            Ok(Request::Run(line)) if !line.options.cloud.config.is_empty() => {
                let given = ["cloud-provider", "cloud-config"];
                let mut beside = given.into_iter().filter(|name| line.values.given(name));
                let own = line.options.cloud.own.keys().map(String::as_str).next();
                if let Some(name) = beside.next().or(own) {
                    let text = format!("Error: --config and --{name} exclude each other");
                    return Err(vec![text]);
                }
                line.options.cloud.config.clone()
            }
            _ => return Ok((asked, None)),
        };
        let loaded = config::command::load(&path);
        let configuration = loaded.map_err(|unusable| unusable.lines(&path))?;
        Ok((self.over(&configuration.manager), Some(configuration)))
    }

    /// The command line over the flags of a configuration.
    pub(crate) fn command_line(
        &self,
        configuration: &Configuration,
    ) -> Result<CommandLine, String> {
        match self.over(&configuration.manager) {
            Ok(Request::Run(line)) => Ok(*line),
            Ok(_) => Err("the flags in it do not run a manager".to_owned()),
            Err(wrong) => Err(wrong.message),
        }
    }

    fn over(&self, presets: &[config::Preset]) -> Result<Request, UsageError> {
        let named = (self.program.as_str(), self.provider.as_deref());
        options::parse_over(flags::table(), named, presets, &self.arguments)
    }
}
