//! What the environment and the cloud config file say, checked.
//!
//! The file is that of the original: YAML, its first document, keys in their exact case, unknown
//! ones without effect. A file that worked must go on working: only what would have stopped every
//! node, or the process, is refused ([`ConfigError`]). All else that is wrong is a [`Finding`],
//! with its path.

mod environment;
mod raw;
mod table;
#[cfg(test)]
mod tests;

use std::fmt;

use bowline_core::is_label_value;
use thiserror::Error;

pub use environment::{Environment, VARIABLES, reference};

use crate::transform::Rules;
use raw::RawConfig;

/// How large a file may be: a ConfigMap holds no more.
pub const LARGEST_FILE: usize = 1024 * 1024;

#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `global.clusterName`; empty if it is not set, or not usable.
    cluster_name: String,
    /// Whether IPv6 comes first, in dialling and among external addresses.
    pub prefer_ipv6: bool,
    pub rules: Rules,
    /// `global.enforceTransformations`, which the original does not know and does not mind: whether
    /// rules own what they set, or only add to it ([`bowline_core::MetadataPolicy`]).
    pub enforce: bool,
    /// `global.endpoints` of old files, for when `TALOS_ENDPOINTS` is not set.
    pub endpoints: Vec<String>,
    /// What is wrong or odd but does not stop the start. Whoever starts logs it.
    pub findings: Vec<Finding>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nodes may be left waiting because of it.
    Error,
    /// It has no effect, or not the one that was meant.
    Warning,
}

/// Something wrong or odd in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// Where: `transformations[2] (gpu).labels["a"]`.
    pub path: String,
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    #[error("cannot read the cloud config: {0}")]
    Decode(String),
    #[error("the cloud config has rules that no node can pass: {}", joined(.0))]
    Rules(Vec<Finding>),
}

pub const fn keys() -> &'static [bowline_core::Variable] {
    &environment::KEYS
}

fn joined(findings: &[Finding]) -> String {
    let all: Vec<String> = findings.iter().map(ToString::to_string).collect();
    all.join("; ")
}

impl Config {
    /// Reads and checks a file's text. An empty one is allowed.
    pub fn read(text: &str) -> Result<Self, ConfigError> {
        if text.len() > LARGEST_FILE {
            let message = format!("it is larger than {LARGEST_FILE} bytes");
            return Err(ConfigError::Decode(message));
        }
        let raw = RawConfig::read(text)?;
        let seen = table::read(text);
        let mut findings = seen.findings;
        let rules = Rules::new(raw.rules());
        let problems = rules.problems();
        let fatal = problems.iter().any(|problem| problem.fatal);
        findings.extend(problems.iter().map(|problem| Finding {
            severity: Severity::Error,
            path: format!("{}.{}", problem.position, problem.part),
            message: problem.message.clone(),
        }));
        if fatal {
            findings.retain(|finding| finding.severity == Severity::Error);
            return Err(ConfigError::Rules(findings));
        }
        let mut cluster_name = raw.cluster_name();
        if !is_label_value(&cluster_name) {
            findings.push(Finding {
                severity: Severity::Error,
                path: "global.clusterName".to_owned(),
                message: format!(
                    "{cluster_name:?} is no value of a label: nodes get no label with it"
                ),
            });
            cluster_name.clear();
        }
        Ok(Self {
            cluster_name,
            prefer_ipv6: raw.prefer_ipv6().or(seen.prefer_ipv6).unwrap_or(false),
            rules,
            enforce: raw.enforces(),
            endpoints: seen.endpoints,
            findings,
        })
    }

    /// The cluster's name: that of the file, or else `other`, if it can be the value of a label.
    pub fn cluster_name(&self, other: Option<&str>) -> Option<String> {
        let own = (!self.cluster_name.is_empty()).then_some(self.cluster_name.as_str());
        // A file that names its cluster unusably means no label, not another name.
        let spoiled = self
            .findings
            .iter()
            .any(|it| it.path == "global.clusterName");
        let other = other.filter(|name| !spoiled && !name.is_empty() && is_label_value(name));
        own.or(other).map(str::to_owned)
    }
}
