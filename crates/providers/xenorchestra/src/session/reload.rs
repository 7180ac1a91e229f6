//! The cloud config file, read again and again: a mounted Secret turns a link when it changes.

use std::sync::Arc;
use std::time::Duration;

use bowline_http::{Followed, Offer, SmallFile};
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::Session;
use crate::config::Config;

/// How often the file is read. A kubelet takes up to a minute to bring a changed Secret anyway.
pub(crate) const RELOAD_EVERY: Duration = Duration::from_secs(10);
/// As long as the program takes at its start.
const LONGEST_FILE: usize = 1024 * 1024;

pub(crate) struct Reload {
    file: SmallFile,
    sessions: Vec<Arc<Session>>,
    /// What is in use, apart from servers; and the file.
    seen: Mutex<(Config, Followed<Vec<u8>>)>,
}

impl Reload {
    /// Follows the file that `config` was read from, if it was read from one.
    pub(crate) fn new(config: &Config, sessions: Vec<Arc<Session>>) -> Option<Self> {
        Some(Self {
            file: SmallFile::new(config.file.clone()?, LONGEST_FILE),
            sessions,
            seen: Mutex::new((config.clone(), Followed::default())),
        })
    }

    /// Reads the file, and uses what is new in it. Says whether a server is reached another way now. A
    /// file that cannot be used changes nothing.
    pub(crate) async fn look(&self) -> bool {
        let mut seen = self.seen.lock().await;
        let (in_use, followed) = &mut *seen;
        let offer = match self.file.read().await {
            Ok(content) => followed.offer(content, |content| read(content)),
            Err(error) => Offer::Refused(error.to_string()),
        };
        match offer {
            Offer::Same => false,
            Offer::Taken(config) => self.apply(in_use, config),
            Offer::Refused(reason) => {
                if followed.is_news(&reason, Duration::ZERO) {
                    let file = self.file.path().display();
                    warn!("the cloud config file {file} cannot be used, nothing changes: {reason}");
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

fn read(content: &[u8]) -> Result<Config, String> {
    let text = str::from_utf8(content).map_err(|_| "it is not UTF-8".to_owned())?;
    Config::of_file(text).map_err(|error| error.to_string())
}
