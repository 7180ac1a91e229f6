//! The cloud config in force, which follows its file.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_http::SmallFile;
use tracing::{error, info, warn};

use crate::config::{Config, ConfigError, Held, LARGEST_FILE, Offer, Severity};
use crate::metrics::Metrics;

/// The configuration in force.
pub(crate) struct Settings {
    file: Option<SmallFile>,
    held: Mutex<Held>,
    /// Why the file could not be read, as it was told.
    complained: Mutex<Option<String>>,
    metrics: Option<Metrics>,
}

/// The file of `--cloud-config`, of which a ConfigMap holds no larger one.
pub(crate) fn file(path: &str) -> Option<SmallFile> {
    (!path.is_empty()).then(|| SmallFile::new(path, LARGEST_FILE))
}

impl Settings {
    /// Starts with the text of a file, and tells what is odd in it.
    pub(crate) fn start(
        file: Option<SmallFile>,
        text: &str,
        metrics: Option<Metrics>,
    ) -> Result<Self, ConfigError> {
        let held = Held::start(text)?;
        let settings = Self {
            file,
            metrics,
            held: Mutex::new(held),
            complained: Mutex::default(),
        };
        settings.tell(&settings.current());
        Ok(settings)
    }

    /// What is in force.
    pub(crate) fn current(&self) -> Arc<Config> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(held.current())
    }

    /// Looks at the file, and takes what is new and good in it. A file that cannot be read is not a change.
    pub(crate) async fn look(&self) {
        let Some(file) = &self.file else {
            return;
        };
        let Some(text) = self.text(file).await else {
            return;
        };
        let offered = {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.offer(&text)
        };
        let path = file.path().display();
        let count = |taken| self.metrics.iter().for_each(|it| it.config_read(taken));
        match offered {
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

    /// The file's text. That there is none is told once; a file that is missing may be about to be exchanged.
    async fn text(&self, file: &SmallFile) -> Option<String> {
        let read = file.read().await.and_then(|bytes| {
            String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
        });
        let problem = match &read {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Some(error.to_string()),
            _ => None,
        };
        let mut complained = self
            .complained
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = problem
            .as_ref()
            .filter(|it| complained.as_ref() != Some(it))
        {
            let path = file.path().display();
            error!(
                "the cloud config {path} cannot be read, and the old one stays in force: {problem}"
            );
        }
        *complained = problem;
        read.ok()
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
