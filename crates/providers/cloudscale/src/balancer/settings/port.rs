//! What can be set for each port: what holds for all of them, and for single ones.

use bowline_core::Annotation;
use ipnet::IpNet;

use super::table::{
    ALLOWED_CIDRS, MONITOR_DELAY, MONITOR_DOWN, MONITOR_HTTP, MONITOR_TIMEOUT, MONITOR_TYPE,
    MONITOR_UP, POOL_ALGORITHM, POOL_PROTOCOL, TIMEOUT_CLIENT_DATA, TIMEOUT_MEMBER_CONNECT,
    TIMEOUT_MEMBER_DATA,
};
use super::{HttpOptions, http, read};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortSettings {
    pub(crate) algorithm: String,
    /// Only for TCP.
    pub(crate) pool_protocol: String,
    /// None: not set; then the Service's source ranges may count.
    pub(crate) allowed_cidrs: Option<Vec<IpNet>>,
    pub(crate) timeout_client_data: i64,
    pub(crate) timeout_member_connect: i64,
    pub(crate) timeout_member_data: i64,
    pub(crate) monitor: MonitorWish,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MonitorWish {
    /// The default depends on the type.
    pub(crate) delay: Option<i64>,
    /// The default depends on the type.
    pub(crate) timeout: Option<i64>,
    pub(crate) up: i64,
    pub(crate) down: i64,
    /// None: not set.
    pub(crate) kind: Option<String>,
    /// None if absent or exactly `{}`.
    pub(crate) http: Option<HttpOptions>,
}

impl Default for PortSettings {
    /// The defaults of the original.
    fn default() -> Self {
        Self {
            algorithm: POOL_ALGORITHM.default.to_owned(),
            pool_protocol: POOL_PROTOCOL.default.to_owned(),
            allowed_cidrs: None,
            timeout_client_data: 50_000,
            timeout_member_connect: 5_000,
            timeout_member_data: 50_000,
            monitor: MonitorWish {
                delay: None,
                timeout: None,
                up: 2,
                down: 3,
                kind: None,
                http: None,
            },
        }
    }
}

impl PortSettings {
    /// Takes the value of a setting, in the form that annotations have. None means that it cannot
    /// be used, and changes nothing.
    pub(super) fn take(&mut self, row: Annotation, text: &str) -> Option<()> {
        let monitor = &mut self.monitor;
        match row {
            POOL_ALGORITHM => row.choice(text)?.clone_into(&mut self.algorithm),
            POOL_PROTOCOL => row.choice(text)?.clone_into(&mut self.pool_protocol),
            // An empty value is as good as none; `[]` is a word.
            ALLOWED_CIDRS if text.trim().is_empty() => self.allowed_cidrs = None,
            ALLOWED_CIDRS => self.allowed_cidrs = Some(read::networks(text)?),
            TIMEOUT_CLIENT_DATA => self.timeout_client_data = read::number(text)?,
            TIMEOUT_MEMBER_CONNECT => self.timeout_member_connect = read::number(text)?,
            TIMEOUT_MEMBER_DATA => self.timeout_member_data = read::number(text)?,
            MONITOR_DELAY => monitor.delay = Some(read::number(text)?),
            MONITOR_TIMEOUT => monitor.timeout = Some(read::number(text)?),
            MONITOR_UP => monitor.up = read::number(text)?,
            MONITOR_DOWN => monitor.down = read::number(text)?,
            MONITOR_TYPE => monitor.kind = Some(row.choice(text)?.to_owned()),
            MONITOR_HTTP if text == "{}" => monitor.http = None,
            MONITOR_HTTP => monitor.http = Some(http::options(text)?),
            _ => return None,
        }
        Some(())
    }
}
