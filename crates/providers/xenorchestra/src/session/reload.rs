//! The cloud config file, read again and again: a mounted Secret turns a link when it changes.

use std::sync::Arc;
use std::time::Duration;

use bowline_http::{Reloaded, SmallFile, Source};
use tracing::{info, warn};

use super::Session;
use crate::config::{Config, NodeConfig};

/// As long as the program takes at its start.
const LONGEST_FILE: usize = 1024 * 1024;

pub(crate) type Reload = Reloaded<ConfigFile>;

pub(crate) struct ConfigFile {
    file: SmallFile,
    sessions: Vec<Arc<Session>>,
    /// What servers and nodes were built from.
    started: Config,
}

/// Follows the file that `config` was read from, if it was read from one.
pub(crate) fn reload(config: &Config, sessions: Vec<Arc<Session>>) -> Option<Arc<Reload>> {
    let source = ConfigFile {
        file: SmallFile::new(config.file.clone()?, LONGEST_FILE),
        sessions,
        started: config.clone(),
    };
    let first = Ok((None, config.clone()));
    Some(Arc::new(Reloaded::starting(source, first)))
}

impl Source for ConfigFile {
    type Raw = String;
    type Value = Config;
    type Problem = String;

    /// A kubelet takes up to a minute to bring a changed Secret anyway.
    const EVERY: Duration = Duration::from_secs(10);

    fn read(&self) -> Result<String, String> {
        let bytes = self.file.read_now().map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
    }

    fn check(&self, text: &String) -> Result<Config, String> {
        Config::of_file(text).map_err(|error| error.to_string())
    }

    async fn apply(&self, new: &Config, _: Option<&Config>) -> Result<(), String> {
        for session in &self.sessions {
            let name = session.name();
            let Some(server) = new.servers.iter().find(|server| server.name == name) else {
                continue;
            };
            match session.change(server.clone()) {
                Ok(true) => info!(
                    server = name,
                    "the cloud config file has changed, and is used"
                ),
                Ok(false) => {}
                Err(error) => warn!(server = name, %error, "the new settings cannot be used"),
            }
        }
        if fixed(&self.started) != fixed(new) {
            warn!(
                "the cloud config file names other servers or other settings of nodes: they count \
                 from the next start on"
            );
        }
        Ok(())
    }

    fn complain(&self, problem: &String, _: bool) {
        let file = self.file.path().display();
        warn!("the cloud config file {file} cannot be used, nothing changes: {problem}");
    }
}

/// What a change of the file does not change: names of servers, settings of nodes and of events.
fn fixed(config: &Config) -> (Vec<&str>, &NodeConfig, bool) {
    let names = config.servers.iter().map(|server| server.name.as_str());
    (names.collect(), &config.nodes, config.events)
}
