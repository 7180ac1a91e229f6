//! What a simulated cloud is like: who may use it and how long things take.

use std::time::Duration;

use serde::Deserialize;

/// The token of a cloud for which none was configured.
pub const DEFAULT_TOKEN: &str = "simulated-token";
/// The project of that token, and of machines that name none.
pub const DEFAULT_PROJECT: &str = "default";

/// A token: it opens one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// What callers send.
    pub value: String,
    /// What they see.
    pub project: String,
    /// Whether they may only look.
    pub read_only: bool,
}

/// How long the changes of a server take; zero is allowed everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// From being made to running.
    pub create: Duration,
    /// From stopped to running.
    pub start: Duration,
    /// From running to stopped.
    pub stop: Duration,
    /// From running to running.
    pub reboot: Duration,
    /// How long reads do not show a server that was made.
    pub created_invisible: Duration,
    /// How long reads still show a server that was deleted.
    pub deleted_visible: Duration,
    /// The same for load balancers.
    pub balancers: BalancerTimings,
}

/// How long the changes of a load balancer take; zero is allowed everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalancerTimings {
    /// From being made to running; the real one needs about 45 s.
    pub create: Duration,
    /// How long it is `changing` after a write to something that belongs to it.
    pub change: Duration,
    /// How long a write takes; writes to one load balancer wait for each other.
    pub call: Duration,
    /// How long a deleted listener, member or monitor goes on occupying its place.
    pub removal: Duration,
    /// How long a monitor needs to find out about a member.
    pub check: Duration,
}

impl Default for BalancerTimings {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            create: 5 * second,
            change: second,
            call: Duration::from_millis(50),
            removal: second,
            check: 2 * second,
        }
    }
}

impl BalancerTimings {
    /// Nothing takes any time.
    pub const INSTANT: Self = Self::each(Duration::ZERO);

    /// Everything that goes on after an answer takes so long; the answers themselves come at once.
    pub const fn each(takes: Duration) -> Self {
        Self {
            create: takes,
            change: takes,
            call: Duration::ZERO,
            removal: takes,
            check: takes,
        }
    }
}

/// Where the API's behaviour is not certain, and what it limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quirks {
    /// The listeners of a deleted pool stay, without a pool, and keep their ports.
    pub listeners_survive: bool,
    /// HTTP options of a monitor that is not an HTTP monitor are ignored, not refused.
    pub http_options_ignored: bool,
    /// Load balancers that a project may have.
    pub most_load_balancers: Option<usize>,
}

impl Default for Timings {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            create: 2 * second,
            start: second,
            stop: second,
            reboot: second,
            created_invisible: Duration::ZERO,
            deleted_visible: Duration::ZERO,
            balancers: BalancerTimings::default(),
        }
    }
}

/// What a simulated cloud is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who may use it. Several tokens may open one project.
    pub tokens: Vec<Token>,
    /// How long things take.
    pub timings: Timings,
    /// How it behaves where that is not certain.
    pub quirks: Quirks,
    /// The root of all `href` values; none: from the `Host` header of each request.
    pub public_url: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tokens: vec![Token {
                value: DEFAULT_TOKEN.to_owned(),
                project: DEFAULT_PROJECT.to_owned(),
                read_only: false,
            }],
            timings: Timings::default(),
            quirks: Quirks::default(),
            public_url: None,
        }
    }
}
