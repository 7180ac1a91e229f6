//! What a simulated cloud is like: who may use it, how long things take, what it limits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_simulator::faults::Span;
use serde::Deserialize;

/// The API key of a cloud for which none was configured.
pub const DEFAULT_KEY: &str = "EXO51b0a7ed0000000000000000";
/// The secret of that key.
pub const DEFAULT_SECRET: &str = "simulated-secret";
/// The zone of a cloud for which none was configured, and of things that name none.
pub const DEFAULT_ZONE: &str = "ch-gva-2";

/// An API key: its secret and what its role allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// With which requests are signed.
    pub secret: String,
    /// The only operations that it may call, by their ids; none: all.
    pub allowed: Option<BTreeSet<String>>,
    /// Operations that it may not call, by their ids; goes before `allowed`.
    pub denied: BTreeSet<String>,
}

impl Key {
    /// A key that may do everything.
    pub fn new(secret: &str) -> Self {
        Self {
            secret: secret.to_owned(),
            ..Self::default()
        }
    }

    /// Whether it may call that operation.
    pub(super) fn may(&self, operation: &str) -> bool {
        !self.denied.contains(operation)
            && self
                .allowed
                .as_ref()
                .is_none_or(|allowed| allowed.contains(operation))
    }
}

bowline_simulator::timings! {
    /// How long things take; zero is allowed everywhere.
    pub struct Timings, TimingsSpec: Span {
        /// From the answer to a change until its operation has succeeded. Zero: the answer says so.
        operation: Duration = Duration::from_secs(1),
        /// The same for single operations, by their ids.
        operations: BTreeMap<String, Duration> = BTreeMap::new(),
        /// How long after that a new load balancer has no address yet.
        address: Duration = Duration::ZERO,
        /// For how long a new load balancer is answered with 404, and left out of lists.
        created_invisible: Duration = Duration::ZERO,
    }
}

impl Timings {
    /// Nothing takes any time.
    pub fn instant() -> Self {
        Self {
            operation: Duration::ZERO,
            ..Self::default()
        }
    }

    /// How long that operation takes.
    pub(super) fn of(&self, operation: &str) -> Duration {
        let own = self.operations.get(operation).copied();
        own.unwrap_or(self.operation)
    }
}

/// Where the API's behaviour is not certain, and what it limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of a fixture that have nothing to do with each other"
)]
pub struct Quirks {
    /// Load balancers that an organisation may have in a zone; none: no limit.
    pub most_load_balancers: Option<u64>,
    /// Instances that an organisation may have in a zone; none: no limit.
    pub most_instances: Option<u64>,
    /// Services that a load balancer may have.
    pub most_services: usize,
    /// The status with which one more is refused: 403 or 409.
    pub full_status: u16,
    /// A change of a load balancer that is being changed fails at once, with the reason `busy`.
    pub one_change_at_a_time: bool,
    /// A load balancer with labels is refused with 400.
    pub labels_refused: bool,
    /// Starting and stopping an instance give an operation without `reference`.
    pub no_reference_of_power: bool,
    /// The first zone has a path of its own too, so that a client which does not look at the list of
    /// zones is lost.
    pub every_zone_apart: bool,
}

impl Default for Quirks {
    fn default() -> Self {
        Self {
            most_load_balancers: None,
            most_instances: None,
            most_services: 10,
            full_status: 403,
            one_change_at_a_time: false,
            labels_refused: false,
            no_reference_of_power: false,
            every_zone_apart: false,
        }
    }
}

/// What a simulated cloud is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who may use it, by API key.
    pub keys: BTreeMap<String, Key>,
    /// Its zones; the first is served under `/v2`, each under `/z/<zone>/v2`.
    pub zones: Vec<String>,
    pub timings: Timings,
    /// How it behaves where that is not certain.
    pub quirks: Quirks,
    /// The root of the zones' addresses; none: from the `Host` header of each request.
    pub public_url: Option<String>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            keys: [(DEFAULT_KEY.to_owned(), Key::new(DEFAULT_SECRET))].into(),
            zones: vec![DEFAULT_ZONE.to_owned()],
            timings: Timings::default(),
            quirks: Quirks::default(),
            public_url: None,
        }
    }
}
