//! What a simulated cloud is like: who may use it and how long things take.

use std::time::Duration;

use serde::Deserialize;

use super::fixture::Length;

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

bowline_simulator::timings! {
    /// How long the changes of a server take; zero is allowed everywhere.
    #[derive(Copy)]
    pub struct Timings, TimingsSpec: Length {
        /// From being made to running.
        create: Duration = Duration::from_secs(2),
        /// From stopped to running.
        start: Duration = Duration::from_secs(1),
        /// From running to stopped.
        stop: Duration = Duration::from_secs(1),
        /// From running to running.
        reboot: Duration = Duration::from_secs(1),
        /// How long reads do not show a server that was made.
        created_invisible: Duration = Duration::ZERO,
        /// How long reads still show a server that was deleted.
        deleted_visible: Duration = Duration::ZERO,
        load_balancers: BalancerTimings = BalancerTimings::default(),
    }
}

bowline_simulator::timings! {
    /// How long the changes of a load balancer take; zero is allowed everywhere.
    #[derive(Copy)]
    pub struct BalancerTimings, BalancerTimingsSpec: Length {
        /// From being made to running; the real one needs about 45 s.
        create: Duration = Duration::from_secs(5),
        /// How long it is `changing` after a write to something that belongs to it.
        change: Duration = Duration::from_secs(1),
        /// How long a write takes; writes to one load balancer wait for each other.
        call: Duration = Duration::from_millis(50),
        /// How long a deleted listener, member or monitor goes on occupying its place.
        removal: Duration = Duration::from_secs(1),
        /// How long a monitor needs to find out about a member.
        check: Duration = Duration::from_secs(2),
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

/// What a simulated cloud is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who may use it. Several tokens may open one project.
    pub tokens: Vec<Token>,
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
