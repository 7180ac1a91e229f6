//! The cloud config in force, which follows its file.

use std::fmt::Display;
use std::io;
use std::time::Duration;

use bowline_http::{Reloaded, SmallFile, Source};
use tracing::{error, info, warn};

use crate::BuildError;
use crate::config::{Config, LARGEST_FILE, Severity};
use crate::metrics::Metrics;

pub(crate) type Settings = Reloaded<CloudConfig>;

/// Where the cloud config comes from. A bad one stops the start.
pub(crate) struct CloudConfig {
    /// `--cloud-config`; empty for none.
    pub(crate) path: String,
    /// Replaces that file, if there is one; it does not change.
    pub(crate) text: Option<String>,
    pub(crate) metrics: Option<Metrics>,
}

impl CloudConfig {
    fn count(&self, taken: bool) {
        if let Some(metrics) = &self.metrics {
            metrics.config_read(taken);
        }
    }
}

impl Source for CloudConfig {
    type Raw = String;
    type Value = Config;
    type Problem = BuildError;

    fn read(&self) -> Result<String, BuildError> {
        if self.text.is_some() || self.path.is_empty() {
            return Ok(self.text.clone().unwrap_or_default());
        }
        let text = SmallFile::new(&self.path, LARGEST_FILE).text();
        let path = || self.path.clone();
        text.map_err(|source| BuildError::Unreadable {
            path: path(),
            source,
        })
    }

    /// Reports what is odd in it.
    fn check(&self, text: &String) -> Result<Config, BuildError> {
        let config = Config::read(text).map_err(|source| {
            if self.text.is_some() {
                return BuildError::Text { source };
            }
            let path = self.path.clone();
            BuildError::Config { path, source }
        })?;
        for finding in &config.findings {
            match finding.severity {
                Severity::Error => error!("cloud config: {finding}"),
                Severity::Warning => warn!("cloud config: {finding}"),
            }
        }
        if let Some(metrics) = &self.metrics {
            metrics.findings(&config.findings);
        }
        Ok(config)
    }

    async fn apply(&self, _: &Config, _: Option<&Config>) -> Result<(), BuildError> {
        info!("the cloud config {} has changed and is in force", self.path);
        self.count(true);
        Ok(())
    }

    fn complain(&self, problem: &BuildError, _: bool) {
        let (what, why): (_, &dyn Display) = match problem {
            BuildError::Unreadable { source, .. } => ("cannot be read", source),
            BuildError::Config { source, .. } => {
                self.count(false);
                ("is refused", source)
            }
            other => ("is refused", other),
        };
        let path = &self.path;
        error!("the cloud config {path} {what}, and the old one stays in force: {why}");
    }

    /// A file that is missing may be about to be exchanged.
    fn patience(&self, problem: &BuildError) -> Duration {
        match problem {
            BuildError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Duration::MAX
            }
            _ => Duration::ZERO,
        }
    }
}
