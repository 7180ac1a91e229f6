//! The client of one cloud: what all its calls have in common.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bowline_core::Secret;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::combinators::UnsyncBoxBody;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Mutex;

use crate::auth::{Anonymous, Authenticate};
use crate::base::BaseUrl;
use crate::call::Call;
use crate::clock::Clock;
use crate::connect::{Connector, READ_AT_ONCE};
use crate::error::usual_error_text;
use crate::limit::{Gate, Rate};
use crate::metrics::CallMetrics;
use crate::random::Random;
use crate::redact::Redactor;
use crate::retry::RetryPolicy;
use crate::route::Route;

/// One request, from connecting to the last byte of the answer.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// One call with all its attempts and waits: three requests of 30 s, one wait of a minute that the
/// server may ask for, and half a minute for queueing.
pub const CALL_DEADLINE: Duration = Duration::from_secs(180);
/// The longest answer that is read. A list of 10,000 servers of 2 KiB each fits in.
pub const BODY_LIMIT: usize = 32 * 1024 * 1024;
/// Requests to one cloud at the same time.
pub const IN_FLIGHT: usize = 16;
/// Idle connections are closed after this long; most servers do so after a minute.
const IDLE_TIMEOUT: Duration = Duration::from_secs(50);

/// Extracts a cloud's own error text from a body.
pub type ErrorText = Arc<dyn Fn(&[u8]) -> Option<String> + Send + Sync>;

/// Says of an answer, by status and body, that asking again will not change it.
pub type Settled = Arc<dyn Fn(u16, &[u8]) -> bool + Send + Sync>;

/// What is sent with a request.
pub type RequestBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// HTTP with a pool of connections: of one type for clouds and Kubernetes, since each more would be one more copy
/// of HTTP/1.1 and HTTP/2.
pub type Transport = Client<Connector, RequestBody>;

/// Speaks to one cloud. Cheap to clone; clones share connections, limits and credentials.
#[derive(Clone)]
pub struct HttpClient(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) cloud: String,
    pub(crate) base: BaseUrl,
    pub(crate) connector: Connector,
    pub(crate) hyper: Transport,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) headers: HeaderMap,
    pub(crate) auth: RwLock<Arc<dyn Authenticate>>,
    pub(crate) gate: Gate,
    pub(crate) request_timeout: Duration,
    pub(crate) call_deadline: Duration,
    pub(crate) retry: RetryPolicy,
    pub(crate) body_limit: usize,
    /// Whose turn it is to read a large answer, and the last one.
    pub(crate) large: Mutex<Bytes>,
    pub(crate) redactor: Redactor,
    pub(crate) metrics: Option<CallMetrics>,
    pub(crate) error_text: ErrorText,
    pub(crate) settled: Settled,
    pub(crate) trace: bool,
}

impl HttpClient {
    /// A client for the cloud called `cloud` (in errors and logs), whose API is at `base`.
    pub fn builder(cloud: impl Into<String>, base: BaseUrl, connector: Connector) -> ClientBuilder {
        ClientBuilder::new(cloud.into(), base, connector)
    }

    /// A call that reads.
    pub fn get(&self, route: Route) -> Call {
        self.call(Method::GET, route)
    }

    /// A call that creates or acts.
    pub fn post(&self, route: Route) -> Call {
        self.call(Method::POST, route)
    }

    /// A call that replaces.
    pub fn put(&self, route: Route) -> Call {
        self.call(Method::PUT, route)
    }

    /// A call that changes.
    pub fn patch(&self, route: Route) -> Call {
        self.call(Method::PATCH, route)
    }

    /// A call that removes.
    pub fn delete(&self, route: Route) -> Call {
        self.call(Method::DELETE, route)
    }

    /// A call of any method.
    pub fn call(&self, method: Method, route: Route) -> Call {
        Call::new(self.clone(), method, route)
    }

    /// Changes the credentials. Requests sent from now on use the new ones, also the further
    /// attempts of calls that are under way.
    pub fn set_auth(&self, auth: impl Authenticate + 'static) {
        for secret in auth.secrets() {
            self.0.redactor.register(&secret);
        }
        *self.0.auth.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(auth);
    }

    /// What keeps secrets out of texts; providers use it for texts of their own.
    pub fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    /// The root of the API.
    pub fn base(&self) -> &BaseUrl {
        &self.0.base
    }

    /// The clock that requests are signed by.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn auth(&self) -> Arc<dyn Authenticate> {
        let auth = self.0.auth.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&auth)
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("cloud", &self.0.cloud)
            .field("base", &self.0.base.to_string())
            .finish_non_exhaustive()
    }
}

/// Collects what a client needs. Everything has a sensible default but cloud, base and connector.
#[must_use]
pub struct ClientBuilder {
    cloud: String,
    base: BaseUrl,
    connector: Connector,
    clock: Clock,
    random: Option<Random>,
    headers: HeaderMap,
    auth: Arc<dyn Authenticate>,
    rate: Option<Rate>,
    in_flight: usize,
    request_timeout: Duration,
    call_deadline: Duration,
    retry: RetryPolicy,
    body_limit: usize,
    redactor: Redactor,
    metrics: Option<CallMetrics>,
    error_text: ErrorText,
    settled: Settled,
    trace: bool,
}

impl ClientBuilder {
    fn new(cloud: String, base: BaseUrl, connector: Connector) -> Self {
        let mut headers = HeaderMap::new();
        let agent = concat!("bowline/", env!("CARGO_PKG_VERSION"));
        headers.insert(http::header::USER_AGENT, HeaderValue::from_static(agent));
        let json = HeaderValue::from_static("application/json");
        headers.insert(http::header::ACCEPT, json);
        Self {
            cloud,
            base,
            connector,
            clock: Clock::system(),
            random: None,
            headers,
            auth: Arc::new(Anonymous),
            rate: None,
            in_flight: IN_FLIGHT,
            request_timeout: REQUEST_TIMEOUT,
            call_deadline: CALL_DEADLINE,
            retry: RetryPolicy::default(),
            body_limit: BODY_LIMIT,
            redactor: Redactor::default(),
            metrics: None,
            error_text: Arc::new(usual_error_text),
            settled: Arc::new(|_, _| false),
            trace: false,
        }
    }

    /// The time of day; the system's if not given.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Where jitter comes from; seeded by the system if not given.
    pub fn random(mut self, random: Random) -> Self {
        self.random = Some(random);
        self
    }

    /// Who asks; nobody if not given.
    pub fn auth(mut self, auth: impl Authenticate + 'static) -> Self {
        self.auth = Arc::new(auth);
        self
    }

    /// `User-Agent`; `bowline/<version>` if not given.
    pub fn user_agent(self, agent: HeaderValue) -> Self {
        self.header(http::header::USER_AGENT, agent)
    }

    /// A header of every request.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// How often the cloud may be asked; as often as we like if not given.
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    /// Requests at the same time; [`IN_FLIGHT`] if not given.
    pub fn in_flight(mut self, most: usize) -> Self {
        self.in_flight = most;
        self
    }

    /// The limit for one request; [`REQUEST_TIMEOUT`] if not given.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// The limit for a call with all its attempts; [`CALL_DEADLINE`] if not given.
    pub fn call_deadline(mut self, deadline: Duration) -> Self {
        self.call_deadline = deadline;
        self
    }

    /// What is tried again.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// The longest answer that is read; [`BODY_LIMIT`] if not given.
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.body_limit = bytes;
        self
    }

    /// A value that must not appear in any log or error, beside those of the credentials.
    pub fn secret(self, secret: &Secret) -> Self {
        self.redactor.register(secret);
        self
    }

    /// Where calls are counted, if they are.
    pub fn metrics(mut self, metrics: impl Into<Option<CallMetrics>>) -> Self {
        self.metrics = metrics.into();
        self
    }

    /// How to find the cloud's own words in an error body; [`usual_error_text`] if not given.
    pub fn error_text(
        mut self,
        extract: impl Fn(&[u8]) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.error_text = Arc::new(extract);
        self
    }

    /// Which answers are not asked for again although their status is one that may pass: the cloud's
    /// own words tell that it will not. Sees every answer.
    pub fn settled(mut self, settled: impl Fn(u16, &[u8]) -> bool + Send + Sync + 'static) -> Self {
        self.settled = Arc::new(settled);
        self
    }

    /// Whether every request and answer is logged with its headers and body, without secrets.
    pub fn trace(mut self, trace: bool) -> Self {
        self.trace = trace;
        self
    }

    /// Makes no connection yet.
    pub fn build(self) -> HttpClient {
        let hyper = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(self.in_flight)
            .http1_max_buf_size(READ_AT_ONCE)
            .build(self.connector.clone());
        for secret in self.auth.secrets().iter().chain(&self.connector.secrets()) {
            self.redactor.register(secret);
        }
        HttpClient(Arc::new(Shared {
            cloud: self.cloud,
            base: self.base,
            connector: self.connector,
            hyper,
            clock: self.clock,
            random: self.random.unwrap_or_else(Random::from_system),
            headers: self.headers,
            auth: RwLock::new(self.auth),
            gate: Gate::new(self.rate, self.in_flight),
            request_timeout: self.request_timeout,
            call_deadline: self.call_deadline,
            retry: self.retry,
            body_limit: self.body_limit,
            large: Mutex::default(),
            redactor: self.redactor,
            metrics: self.metrics,
            error_text: self.error_text,
            settled: self.settled,
            trace: self.trace,
        }))
    }
}
