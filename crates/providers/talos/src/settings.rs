//! The cloud config in force, which follows its file.

use std::sync::{Arc, Mutex, PoisonError};

use bowline_http::SmallFile;
use tracing::{error, info, warn};

use crate::config::{Config, ConfigError, Held, LARGEST_FILE, Offer, Severity};
use crate::metrics::Metrics;

/// The configuration in force.
pub(crate) struct Settings {
    file: Option<SmallFile>,
    held: Mutex<Held>,
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
        };
        settings.tell(&settings.current());
        Ok(settings)
    }

    /// What is in force.
    pub(crate) fn current(&self) -> Arc<Config> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(held.current())
    }

    /// Looks at the file, and takes what is new and good in it. A file that cannot be read, as in the
    /// moment in which it is exchanged, is not a change.
    pub(crate) async fn look(&self) {
        let Some(file) = &self.file else {
            return;
        };
        let Some(text) = file
            .read()
            .await
            .ok()
            .and_then(|it| String::from_utf8(it).ok())
        else {
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
