//! Reads and checks the environment. There is no configuration file.

mod table;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use bowline_core::{Origin, Secret, Setting, SettingError, Variable, is_label_key, parse_duration};
use bowline_http::BaseUrl;
use thiserror::Error;

pub use table::{
    ACCESS_TOKEN, ACCESS_TOKEN_FILE, API_TIMEOUT, API_URL, CLUSTER_NAME_ANNOTATION,
    DRIFT_CHECK_PERIOD, MATCH_BY_ADDRESS, OWNERSHIP_TAGS, SERVICE_SOURCE_RANGES, VARIABLES,
    reference,
};

/// Default limit of one request: changes of a load balancer take seconds.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);
/// Nobody waits longer than an hour for one answer; a larger number is a mistake (milliseconds).
const LONGEST_TIMEOUT: u64 = 3600;
/// Once a month is as good as never; `0` means never.
const LONGEST_DRIFT_CHECK_PERIOD: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Clone, Debug)]
pub struct Config {
    pub token: TokenSource,
    /// The root of the API, without `/v1`.
    pub api_url: Setting<BaseUrl>,
    pub timeout: Setting<Duration>,
    /// Whether servers are recognised by address when no name matches.
    pub match_by_address: Setting<bool>,
    pub ownership_tags: Setting<bool>,
    /// Whether `spec.loadBalancerSourceRanges` filters.
    pub service_source_ranges: Setting<bool>,
    /// How often drift is looked for; none: never.
    pub drift_check_period: Setting<Option<Duration>>,
    pub cluster_name_annotation: Setting<String>,
    /// What is odd but does not stop the start; [`crate::build`] logs it.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// The environment.
    Given(Secret),
    File {
        path: PathBuf,
        /// What to begin with if the file cannot be used at the start.
        fallback: Option<Secret>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// There is no token. The vendor's other tools read another variable, hence the hint.
    #[error(
        "no API token: set {} or {} (CLOUDSCALE_API_TOKEN is not read)",
        ACCESS_TOKEN.name,
        ACCESS_TOKEN_FILE.name
    )]
    NoToken,
    /// The token cannot be sent. It is not shown.
    #[error("{}: {reason}", ACCESS_TOKEN.name)]
    Token { reason: &'static str },
    /// The URL cannot be used. It is not shown: it may hold a password.
    #[error("{}: {reason}; allowed is {}", API_URL.name, API_URL.allowed)]
    Url { reason: String },
    #[error(transparent)]
    Setting(#[from] SettingError),
}

pub type ConfigErrors = bowline_provider::ConfigErrors<ConfigError>;

/// The warning about `--cloud-config`, which this provider accepts and does not read, whether the
/// file exists or not.
pub fn cloud_config_warning(path: &str) -> String {
    format!(
        "--cloud-config={path} is ignored: cloudscale is configured by environment variables alone"
    )
}

impl Config {
    /// Reads and checks the environment. An empty variable counts as unset.
    pub fn read(environment: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigErrors> {
        let mut reader = Reader {
            environment: &environment,
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        let token = reader.token();
        let api_url = reader.api_url();
        let timeout = reader.timeout();
        let match_by_address = reader.boolean(MATCH_BY_ADDRESS, false);
        let ownership_tags = reader.boolean(OWNERSHIP_TAGS, true);
        let service_source_ranges = reader.boolean(SERVICE_SOURCE_RANGES, true);
        let drift_check_period = reader.drift_check_period();
        let cluster_name_annotation = reader.cluster_name_annotation();
        let Reader {
            errors, warnings, ..
        } = reader;
        match (token, api_url) {
            (Some(token), Some(api_url)) if errors.is_empty() => Ok(Self {
                token,
                api_url,
                timeout,
                match_by_address,
                ownership_tags,
                service_source_ranges,
                drift_check_period,
                cluster_name_annotation,
                warnings,
            }),
            _ => Err(bowline_provider::ConfigErrors(errors)),
        }
    }
}

/// Reads variable after variable and collects what is wrong.
struct Reader<'a> {
    environment: &'a dyn Fn(&str) -> Option<String>,
    errors: Vec<ConfigError>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    /// The value without what surrounds it; none if nothing is left.
    fn text(&self, variable: Variable) -> Option<String> {
        let value = (self.environment)(variable.name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// A setting whose wrong values are errors.
    fn setting<T>(
        &mut self,
        variable: Variable,
        default: T,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Setting<T> {
        let Some(text) = self.text(variable) else {
            return Setting::default_value(default);
        };
        let origin = Origin::Config(variable.name.to_owned());
        Setting::read(&text, origin, variable.allowed, parse).unwrap_or_else(|error| {
            self.errors.push(error.into());
            Setting::default_value(default)
        })
    }

    fn boolean(&mut self, variable: Variable, default: bool) -> Setting<bool> {
        self.setting(variable, default, parse_bool)
    }

    fn token(&mut self) -> Option<TokenSource> {
        let given = self.text(ACCESS_TOKEN);
        if let Some(reason) = given.as_deref().and_then(token_problem) {
            self.errors.push(ConfigError::Token { reason });
            return None;
        }
        if given.as_deref().is_some_and(looks_odd) {
            self.warnings.push(format!(
                "{} does not look like a token of cloudscale.ch (letters, digits, '.', '_', '-')",
                ACCESS_TOKEN.name
            ));
        }
        let given = given.map(Secret::new);
        match (self.text(ACCESS_TOKEN_FILE), given) {
            (Some(path), fallback) => Some(TokenSource::File {
                path: path.into(),
                fallback,
            }),
            (None, Some(token)) => Some(TokenSource::Given(token)),
            (None, None) => {
                self.errors.push(ConfigError::NoToken);
                None
            }
        }
    }

    fn api_url(&mut self) -> Option<Setting<BaseUrl>> {
        let text = self.text(API_URL);
        let origin = match text {
            Some(_) => Origin::Config(API_URL.name.to_owned()),
            None => Origin::Default,
        };
        match BaseUrl::parse(text.as_deref().unwrap_or(API_URL.default)) {
            Ok(url) => {
                let value = url.without_suffix("v1");
                Some(Setting { value, origin })
            }
            Err(error) => {
                let reason = error.to_string();
                self.errors.push(ConfigError::Url { reason });
                None
            }
        }
    }

    /// A bad value is only a warning: an existing deployment must not stop because of it.
    fn timeout(&mut self) -> Setting<Duration> {
        let Some(text) = self.text(API_TIMEOUT) else {
            return Setting::default_value(DEFAULT_TIMEOUT);
        };
        let origin = Origin::Config(API_TIMEOUT.name.to_owned());
        let parse = |text: &str| {
            let seconds: u64 = text.parse().ok()?;
            let usable = (1..=LONGEST_TIMEOUT).contains(&seconds);
            usable.then(|| Duration::from_secs(seconds))
        };
        Setting::read(&text, origin, API_TIMEOUT.allowed, parse).unwrap_or_else(|error| {
            self.warnings
                .push(format!("{error}; using {} s", DEFAULT_TIMEOUT.as_secs()));
            Setting::default_value(DEFAULT_TIMEOUT)
        })
    }

    fn drift_check_period(&mut self) -> Setting<Option<Duration>> {
        let default = bounded(DRIFT_CHECK_PERIOD.default, LONGEST_DRIFT_CHECK_PERIOD);
        self.setting(DRIFT_CHECK_PERIOD, default, |text| {
            let period = bounded(text, LONGEST_DRIFT_CHECK_PERIOD)?;
            Some((!period.is_zero()).then_some(period))
        })
    }

    fn cluster_name_annotation(&mut self) -> Setting<String> {
        let default = CLUSTER_NAME_ANNOTATION.default.to_owned();
        self.setting(CLUSTER_NAME_ANNOTATION, default, |text| {
            is_label_key(text).then(|| text.to_owned())
        })
    }
}

fn bounded(text: &str, longest: Duration) -> Option<Duration> {
    parse_duration(text)
        .ok()
        .filter(|duration| *duration <= longest)
}

/// The spellings that Go programs take for a switch.
fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Why a token cannot be sent in a header. Says nothing about the token itself.
pub(crate) fn token_problem(token: &str) -> Option<&'static str> {
    if token.is_empty() {
        Some("the token is empty")
    } else if token.bytes().all(|b| b.is_ascii_graphic()) {
        None
    } else {
        Some("the token has characters that no token has (spaces, line breaks, non-ASCII)")
    }
}

/// Whether a token has characters that those of this cloud never have.
fn looks_odd(token: &str) -> bool {
    !token
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}
