//! What the cloud config file or the environment say, checked before anything is asked. Where there
//! is a file, the environment is not looked at.

mod raw;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use bowline_core::{CloudName, Secret, parse_duration, quote};
use bowline_http::BaseUrl;
use ipnet::IpNet;
use thiserror::Error;

pub use table::{
    KEYS, VARIABLES, XOA_CLIENT_TIMEOUT, XOA_INSECURE, XOA_PASSWORD, XOA_TOKEN, XOA_URL, XOA_USER,
    reference,
};

use crate::reporter::Reporter;
use raw::{RawConfig, RawServer};

/// Default limit of a request.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// What the server of the file's own keys, or of the environment, is called.
pub const MAIN: &str = "main";
/// Servers in one file: each costs an event stream and lists of its own.
pub const MOST_SERVERS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The servers; at least one, each with a name of its own.
    pub servers: Vec<ServerConfig>,
    pub nodes: NodeConfig,
    pub events: bool,
    /// The file that it was read from, to be read again when it changes.
    pub file: Option<PathBuf>,
    /// The reporter of events about servers that do not answer.
    pub reporter: Reporter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// What it is called in messages and metrics.
    pub name: String,
    /// Its root, without `rest/v0`.
    pub url: BaseUrl,
    pub login: Login,
    /// Whether any certificate is accepted.
    pub insecure: bool,
    pub timeout: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// Whoever holds this token.
    Token(Secret),
    /// A user, who gets a token.
    Password { user: String, password: Secret },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeConfig {
    pub addresses: AddressConfig,
    pub zone: ZoneSource,
    pub memory: TypeMemory,
    /// What tags begin with that become labels; none: no tags do.
    pub tag_prefix: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressConfig {
    pub mode: AddressMode,
    /// Only these; empty: all.
    pub include: Vec<IpNet>,
    /// None of these.
    pub exclude: Vec<IpNet>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressMode {
    /// The main address as ExternalIP, as the original does.
    #[default]
    Compat,
    /// All as InternalIP.
    Internal,
    /// Private ones as InternalIP, others as ExternalIP.
    Classify,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneSource {
    #[default]
    Host,
    HostName,
    Pool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TypeMemory {
    #[default]
    Current,
    /// The most it can have.
    Static,
}

/// Why a configuration cannot be used. The first three are the original's words, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    #[error("token is not allowed when username and password are set")]
    TokenAndPassword,
    #[error("either token or username/password are required for authentication")]
    NoLogin,
    /// No URL, or none that can be used. It is not shown: it may hold a password.
    #[error("url is required")]
    Url,
    #[error("the cloud config file cannot be read: {reason}")]
    File { reason: String },
    #[error("invalid {name} value: {}", quote(value))]
    Variable { name: &'static str, value: String },
    #[error("invalid {} value: {reason}", XOA_CLIENT_TIMEOUT.name)]
    Timeout { reason: String },
    #[error("invalid {key}: {reason}")]
    Key { key: &'static str, reason: String },
    #[error("servers[{number}]: {source}")]
    Server {
        /// Counted from 0.
        number: usize,
        source: Box<ConfigError>,
    },
}

impl Config {
    /// Reads and checks the text of the cloud config file, or, if there is none, the environment.
    pub fn read(
        environment: impl Fn(&str) -> Option<String>,
        file: Option<&str>,
    ) -> Result<Self, ConfigError> {
        let reporter = Reporter::read(&environment);
        let config = match file {
            Some(text) => Self::of_file(text)?,
            None => Self::of_environment(environment)?,
        };
        Ok(Self { reporter, ..config })
    }

    /// The same, to be read again from that file when it changes.
    #[must_use]
    pub fn following(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    pub fn of_file(text: &str) -> Result<Self, ConfigError> {
        let raw = RawConfig::read(text)?;
        let main = RawServer {
            name: MAIN.to_owned(),
            url: raw.url,
            token: raw.token,
            username: raw.username,
            password: raw.password,
            insecure: raw.insecure,
            client_timeout: raw.client_timeout,
        };
        let mut servers = Vec::new();
        if raw.servers.is_empty() || main.says_anything() {
            servers.push(main.checked(key_timeout)?);
        }
        let mut names = BTreeSet::from([MAIN.to_owned()]);
        for (number, server) in raw.servers.iter().enumerate() {
            let wrong = |source| ConfigError::Server {
                number,
                source: Box::new(source),
            };
            let is_name = CloudName::parse(&server.name).is_ok();
            if !is_name || !names.insert(server.name.clone()) || number >= MOST_SERVERS {
                let reason = format!(
                    "{} is not a name of its own of lower-case letters, digits and inner dashes, or \
                     there are more than {MOST_SERVERS} servers",
                    quote(&server.name)
                );
                return Err(wrong(ConfigError::Key {
                    key: "name",
                    reason,
                }));
            }
            servers.push(server.checked(key_timeout).map_err(wrong)?);
        }
        let ranges = |key, texts: &[String]| -> Result<Vec<IpNet>, ConfigError> {
            let all = texts.iter().map(|text| {
                text.trim().parse().map_err(|_| ConfigError::Key {
                    key,
                    reason: format!("{} is no CIDR", quote(text)),
                })
            });
            all.collect()
        };
        Ok(Self {
            servers,
            nodes: NodeConfig {
                addresses: AddressConfig {
                    mode: choice("addressMode", &raw.address_mode, &ADDRESS_MODES)?,
                    include: ranges("addressInclude", &raw.address_include)?,
                    exclude: ranges("addressExclude", &raw.address_exclude)?,
                },
                zone: choice("zoneSource", &raw.zone_source, &ZONE_SOURCES)?,
                memory: choice("typeMemory", &raw.type_memory, &TYPE_MEMORIES)?,
                tag_prefix: Some(raw.tag_label_prefix).filter(|it| !it.is_empty()),
            },
            events: raw.events.0,
            file: None,
            reporter: Reporter::default(),
        })
    }

    fn of_environment(environment: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let read = |name: &str| environment(name).unwrap_or_default().trim().to_owned();
        let secret = |name: &str| {
            Some(read(name))
                .filter(|it| !it.is_empty())
                .map(Secret::new)
        };
        let insecure = read(XOA_INSECURE.name);
        let insecure = match insecure.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => true,
            "" | "0" | "f" | "F" | "FALSE" | "false" | "False" => false,
            _ => {
                return Err(ConfigError::Variable {
                    name: XOA_INSECURE.name,
                    value: insecure,
                });
            }
        };
        let server = RawServer {
            name: MAIN.to_owned(),
            url: read(XOA_URL.name),
            token: secret(XOA_TOKEN.name),
            username: read(XOA_USER.name),
            password: secret(XOA_PASSWORD.name),
            insecure,
            client_timeout: read(XOA_CLIENT_TIMEOUT.name),
        };
        let timeout =
            |text: &str| parse_duration(text).map_err(|reason| ConfigError::Timeout { reason });
        // The original stops at a bad variable before it looks at the others.
        if !server.client_timeout.is_empty() {
            timeout(&server.client_timeout)?;
        }
        Ok(Self {
            servers: vec![server.checked(timeout)?],
            nodes: NodeConfig::default(),
            events: true,
            file: None,
            reporter: Reporter::default(),
        })
    }
}

const ADDRESS_MODES: [(&str, AddressMode); 3] = [
    ("compat", AddressMode::Compat),
    ("internal", AddressMode::Internal),
    ("classify", AddressMode::Classify),
];
const ZONE_SOURCES: [(&str, ZoneSource); 3] = [
    ("host", ZoneSource::Host),
    ("hostName", ZoneSource::HostName),
    ("pool", ZoneSource::Pool),
];
const TYPE_MEMORIES: [(&str, TypeMemory); 2] = [
    ("current", TypeMemory::Current),
    ("static", TypeMemory::Static),
];

fn choice<T: Copy + Default>(
    key: &'static str,
    text: &str,
    choices: &[(&str, T)],
) -> Result<T, ConfigError> {
    if text.is_empty() {
        return Ok(T::default());
    }
    let found = choices.iter().find(|(word, _)| *word == text);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let reason = format!("{} is none of {}", quote(text), words.join(", "));
        ConfigError::Key { key, reason }
    })
}

fn key_timeout(text: &str) -> Result<Duration, ConfigError> {
    parse_duration(text).map_err(|reason| ConfigError::Key {
        key: "clientTimeout",
        reason,
    })
}

impl RawServer {
    /// Whether it concerns the address of a server or our login there.
    fn says_anything(&self) -> bool {
        let texts = [&self.url, &self.username];
        let secrets = [&self.token, &self.password];
        texts.iter().any(|it| !it.is_empty()) || secrets.iter().any(|it| it.is_some())
    }

    /// In the original's order: who we are before where the server is.
    fn checked(
        &self,
        timeout: impl Fn(&str) -> Result<Duration, ConfigError>,
    ) -> Result<ServerConfig, ConfigError> {
        let password = self.password.clone().filter(|_| !self.username.is_empty());
        let login = match (password, self.token.clone()) {
            (Some(_), Some(_)) => return Err(ConfigError::TokenAndPassword),
            (None, None) => return Err(ConfigError::NoLogin),
            (Some(password), None) => Login::Password {
                user: self.username.clone(),
                password,
            },
            (None, Some(token)) => Login::Token(token),
        };
        if !["http://", "https://"]
            .iter()
            .any(|it| self.url.starts_with(it))
        {
            return Err(ConfigError::Url);
        }
        let url = BaseUrl::parse(&self.url).map_err(|_| ConfigError::Url)?;
        let limit = match self.client_timeout.as_str() {
            "" => Duration::ZERO,
            text => timeout(text)?,
        };
        Ok(ServerConfig {
            name: self.name.clone(),
            url,
            login,
            insecure: self.insecure,
            timeout: if limit.is_zero() {
                CLIENT_TIMEOUT
            } else {
                limit
            },
        })
    }
}
