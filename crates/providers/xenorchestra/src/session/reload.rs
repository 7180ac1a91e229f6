//! The cloud config file, read again and again: a mounted Secret turns a link when it changes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bowline_http::SmallFile;
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::Session;
use crate::config::Config;

/// How often the file is read. A kubelet takes up to a minute to bring a changed Secret anyway.
pub(crate) const RELOAD_EVERY: Duration = Duration::from_secs(10);
/// As long as the program takes at its start.
const LONGEST_FILE: usize = 1024 * 1024;

/// What follows the file.
pub(crate) struct Reload {
    file: SmallFile,
    sessions: Vec<Arc<Session>>,
    seen: Mutex<Seen>,
}

struct Seen {
    /// What is in use, apart from servers.
    config: Config,
    /// The last content that was looked at.
    content: Option<Vec<u8>>,
    /// What was last complained of.
    complaint: Option<String>,
}

impl Reload {
    /// Follows the file that `config` was read from, if it was read from one.
    pub(crate) fn new(config: &Config, sessions: Vec<Arc<Session>>) -> Option<Self> {
        Some(Self {
            file: SmallFile::new(config.file.clone()?, LONGEST_FILE),
            sessions,
            seen: Mutex::new(Seen {
                config: config.clone(),
                content: None,
                complaint: None,
            }),
        })
    }

    /// Reads the file, and uses what is new in it. Says whether a server is reached another way now. A
    /// file that cannot be used changes nothing.
    pub(crate) async fn look(&self) -> bool {
        let mut seen = self.seen.lock().await;
        let content = self.file.read().await;
        if let Ok(content) = &content
            && seen.content.as_ref() == Some(content)
        {
            return false;
        }
        match read(content) {
            Ok((config, content)) => {
                seen.content = Some(content);
                seen.complaint = None;
                self.apply(&mut seen.config, config)
            }
            Err(reason) => {
                if seen.complaint.as_ref() != Some(&reason) {
                    let file = self.file.path().display();
                    warn!("the cloud config file {file} cannot be used, nothing changes: {reason}");
                    seen.complaint = Some(reason);
                }
                false
            }
        }
    }

    fn apply(&self, in_use: &mut Config, new: Config) -> bool {
        let mut changed = false;
        for session in &self.sessions {
            let name = session.name();
            let Some(server) = new.servers.iter().find(|it| it.name == name) else {
                continue;
            };
            match session.change(server.clone()) {
                Ok(true) => {
                    info!(
                        server = name,
                        "the cloud config file has changed, and is used"
                    );
                    changed = true;
                }
                Ok(false) => {}
                Err(error) => warn!(server = name, %error, "the new settings cannot be used"),
            }
        }
        let names = |config: &Config| -> Vec<String> {
            config.servers.iter().map(|it| it.name.clone()).collect()
        };
        let others = (names(&new), new.nodes.clone(), new.events)
            != (names(in_use), in_use.nodes.clone(), in_use.events);
        if others {
            warn!(
                "the cloud config file names other servers or other settings of nodes: they count \
                 from the next start on"
            );
        }
        in_use.servers = new.servers;
        changed
    }
}

fn read(content: io::Result<Vec<u8>>) -> Result<(Config, Vec<u8>), String> {
    let content = content.map_err(|error| error.to_string())?;
    let text = str::from_utf8(&content).map_err(|_| "it is not UTF-8".to_owned())?;
    let config = Config::of_file(text).map_err(|error| error.to_string())?;
    Ok((config, content))
}
