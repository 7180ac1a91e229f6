//! The cloud config in force, which follows its file.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_http::{Followed, Offer, SmallFile};
use tracing::{error, info, warn};

use crate::config::{Config, ConfigError, LARGEST_FILE, Severity};
use crate::metrics::Metrics;

pub(crate) struct Settings {
    file: Option<SmallFile>,
    held: Mutex<Held>,
    metrics: Option<Metrics>,
}

struct Held {
    current: Arc<Config>,
    text: Followed<String>,
}

/// The file of `--cloud-config`, of which a ConfigMap holds no larger one.
pub(crate) fn file(path: &str) -> Option<SmallFile> {
    (!path.is_empty()).then(|| SmallFile::new(path, LARGEST_FILE))
}

impl Settings {
    /// Starts with the text of a file, and tells what is odd in it; a bad one stops the start.
    pub(crate) fn start(
        file: Option<SmallFile>,
        text: &str,
        metrics: Option<Metrics>,
    ) -> Result<Self, ConfigError> {
        let held = Held {
            current: Arc::new(Config::read(text)?),
            text: Followed::starting(text.to_owned()),
        };
        let settings = Self {
            file,
            metrics,
            held: Mutex::new(held),
        };
        settings.tell(&settings.current());
        Ok(settings)
    }

    /// What is in force.
    pub(crate) fn current(&self) -> Arc<Config> {
        Arc::clone(&self.held().current)
    }

    /// Looks at the file, and takes what is new and good in it. A file that cannot be read is not a change.
    pub(crate) async fn look(&self) {
        let Some(file) = &self.file else {
            return;
        };
        let Some(text) = self.text(file).await else {
            return;
        };
        let path = file.path().display();
        let count = |taken| self.metrics.iter().for_each(|it| it.config_read(taken));
        match self.offer(text) {
            Offer::Same => {}
            Offer::Taken(config) => {
                info!("the cloud config {path} has changed and is in force");
                count(true);
                self.tell(&config);
            }
            Offer::Refused(error) => {
                error!(
                    "the cloud config {path} is refused, and the old one stays in force: {error}"
                );
                count(false);
            }
        }
    }

    pub(crate) fn offer(&self, text: String) -> Offer<Arc<Config>, ConfigError> {
        let mut held = self.held();
        let offer = held
            .text
            .offer(text, |text| Config::read(text).map(Arc::new));
        if let Offer::Taken(config) = &offer {
            held.current = Arc::clone(config);
        }
        offer
    }

    /// The file's text. That there is none is told once; a file that is missing may be about to be exchanged.
    async fn text(&self, file: &SmallFile) -> Option<String> {
        let read = file.read().await.and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
        });
        let mut held = self.held();
        match &read {
            Err(problem) if problem.kind() != io::ErrorKind::NotFound => {
                if held.text.is_news(&problem.to_string(), Duration::ZERO) {
                    let path = file.path().display();
                    error!(
                        "the cloud config {path} cannot be read, and the old one stays in force: {problem}"
                    );
                }
            }
            _ => held.text.is_well(),
        }
        read.ok()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, config: &Config) {
        for finding in &config.findings {
            match finding.severity {
                Severity::Error => error!("cloud config: {finding}"),
                Severity::Warning => warn!("cloud config: {finding}"),
            }
        }
        if let Some(metrics) = &self.metrics {
            metrics.findings(&config.findings);
        }
    }
}
