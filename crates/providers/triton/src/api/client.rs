//! A client for one set of credentials. Other credentials are another client.

use std::sync::Arc;
use std::time::Duration;

use bowline_http::{
    BaseUrl, Call, CallMetrics, Clock, Connector, HttpClient, Random, Rate, Route, Seams, Tls,
    TlsError,
};
use http::header::{HeaderName, InvalidHeaderValue};
use http::{HeaderValue, Method};
use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use thiserror::Error;

use super::calls::Roles;
use super::error::{error_text, is_cns_down};
use super::{CALL_DEADLINE, retry_policy};
use crate::config::{CallConfig, Connection};
use crate::metrics::TritonMetrics;
use crate::signature::{ClockOffset, Signer};

/// Requests to one data center at the same time.
const IN_FLIGHT: usize = 8;

#[derive(Debug, Error)]
pub enum ClientError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("api-version cannot be sent as a header")]
    Version(#[from] InvalidHeaderValue),
}

/// What every client of a data center is made with.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What the cloud is called in messages.
    pub name: String,
    pub connector: Connector,
    pub clock: Clock,
    pub random: Random,
    pub metrics: Option<CallMetrics>,
    /// Counts refusals because of too many calls.
    pub throttled: Counter,
    pub calls: CallConfig,
    /// What was learned about the server's clock; kept when credentials change.
    pub offset: ClockOffset,
}

impl Setting {
    pub fn new(seams: &Seams, calls: CallConfig, metrics: &TritonMetrics) -> Self {
        Self {
            name: seams.name.to_string(),
            connector: seams.connector.clone(),
            clock: seams.clock.clone(),
            random: seams.random.clone(),
            metrics: seams.metrics.clone(),
            throttled: metrics.throttled.clone(),
            calls,
            offset: ClockOffset::default(),
        }
    }
}

/// Speaks to CloudAPI as somebody.
#[derive(Debug)]
pub struct Client {
    http: HttpClient,
    connector: Connector,
    clock: Clock,
    signer: Signer,
    connection: Arc<Connection>,
    calls: CallConfig,
}

impl Client {
    pub fn new(connection: &Connection, setting: &Setting) -> Result<Self, ClientError> {
        let connector = trusting(connection, &setting.connector)?;
        let signer = Signer::new(
            connection.key.clone(),
            connection.key_text.clone(),
            &connection.owner,
            setting.calls.sign_request_target,
            setting.offset.clone(),
        );
        let agent = concat!("bowline/", env!("CARGO_PKG_VERSION"), " triton");
        let version = HeaderValue::from_str(&setting.calls.api_version)?;
        let throttled = setting.throttled.clone();
        let base = connection.endpoint.clone();
        let http = HttpClient::builder(&setting.name, base, connector.clone())
            .clock(setting.clock.clone())
            .random(setting.random.clone())
            .auth(signer.clone())
            .user_agent(HeaderValue::from_static(agent))
            .header(HeaderName::from_static("accept-version"), version)
            .rate(Rate::new(setting.calls.qps, setting.calls.burst))
            .in_flight(IN_FLIGHT)
            .request_timeout(setting.calls.request_timeout)
            .call_deadline(CALL_DEADLINE.max(setting.calls.request_timeout))
            .retry(retry_policy())
            .error_text(error_text)
            .settled(move |status, body| {
                if status == 429 {
                    throttled.inc();
                }
                is_cns_down(status, body)
            });
        let http = match &setting.metrics {
            Some(metrics) => http.metrics(metrics.clone()).build(),
            None => http.build(),
        };
        Ok(Self {
            http,
            connector,
            clock: setting.clock.clone(),
            signer,
            connection: Arc::new(connection.clone()),
            calls: setting.calls.clone(),
        })
    }

    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    pub fn base(&self) -> &BaseUrl {
        self.http.base()
    }

    pub fn api_version(&self) -> &str {
        &self.calls.api_version
    }

    pub fn request_timeout(&self) -> Duration {
        self.calls.request_timeout
    }

    /// The time of day, uncorrected.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn offset(&self) -> &ClockOffset {
        self.signer.offset()
    }

    /// A call below the account. `template` begins with `:login`.
    pub(super) fn call(&self, roles: Roles, method: Method, route: Route) -> Call {
        let route = route.with("login", self.connection.login());
        let call = self.http.call(method, route);
        let names = &self.connection.roles;
        if roles == Roles::Never || names.is_empty() {
            call
        } else {
            call.query("as-role", names.join(","))
        }
    }

    pub(super) fn anonymous(&self, route: Route) -> Call {
        self.http.get(route).anonymous()
    }
}

fn trusting(connection: &Connection, connector: &Connector) -> Result<Connector, TlsError> {
    if !connection.insecure && connection.authorities.is_none() {
        return Ok(connector.clone());
    }
    let mut tls = Tls::new();
    if let Some(authorities) = &connection.authorities {
        tls = tls.authority_pem(&authorities.origin, &authorities.pem);
    }
    if connection.insecure {
        tls = tls.insecure(true);
    }
    Ok(connector.with_tls(tls.build()?))
}
