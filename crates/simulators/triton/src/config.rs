//! How a simulated Triton behaves: how long things take, what it limits, which of its parts are away.

use std::time::Duration;

use serde::Deserialize;

use bowline_simulator::faults::Span;
use bowline_simulator::timings::Timed;

/// The data center of a cloud for which none was named.
pub const DEFAULT_DATACENTER: &str = "eg-1";
/// The account of a cloud for which none was configured.
pub const DEFAULT_ACCOUNT: &str = "acme";
pub const DEFAULT_ACCOUNT_ID: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
/// The public key of that account (ECDSA, P-256).
pub const DEFAULT_PUBLIC_KEY: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBFFcPW6545a5BNP+yn9U/c0MwemXvzddylFa0KbDtANfRTa+OlDzGPv5pUdZAqIhUCvvDVfgjFOyzApW8X2fk1Q= simulated";
/// Its private half, PKCS#8. Everybody knows it.
pub const DEFAULT_PRIVATE_KEY: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgAQIDBAUGBwgJCgsM
DQ4PEBESExQVFhcYGRobHB0eHyChRANCAARRXD1uueOWuQTT/sp/VP3NDMHpl783
XcpRWtCmw7QDX0U2vjpQ8xj7+aVHWQKiIVAr7w1X4IxTsswKVvF9n5NU
-----END PRIVATE KEY-----
";
/// The MD5 fingerprint of that key.
pub const DEFAULT_FINGERPRINT: &str = "25:c0:83:45:14:77:b6:ab:fc:dd:cd:5a:20:85:95:3a";

bowline_simulator::timings! {
    /// How long things take; zero is allowed everywhere but for `commit` and `appliance`.
    pub struct Timings, TimingsSpec: Span {
        /// From CreateMachine until the machine runs.
        provision: Duration = Duration::from_secs(3),
        /// For how long a machine is `stopping`.
        stop: Duration = Duration::from_secs(1),
        /// From the call until a stopped machine runs.
        start: Duration = Duration::from_secs(1),
        /// Each of the two phases of a reboot, `stopping` and `ready`.
        reboot: Duration = Duration::from_secs(1),
        /// From DeleteMachine until the machine is destroyed.
        delete: Duration = Duration::from_secs(1),
        /// How long the job behind a change of tags, metadata, name, size or firewall takes.
        job: Duration = Duration::from_secs(1),
        /// How often the name service publishes what has changed.
        commit: Duration = Duration::from_secs(10),
        /// How late users, roles and policies take effect.
        rights: Duration = Duration::ZERO,
        /// How often a load balancer reads its metadata; a real one every minute.
        appliance: Duration = Duration::from_secs(5),
    }
}

impl Timings {
    /// With what a fixture gives.
    pub(super) fn with(self, spec: &TimingsSpec) -> Self {
        let mut timings = self.or_as(spec);
        // What happens in turns needs some time between them.
        for interval in [&mut timings.commit, &mut timings.appliance] {
            *interval = (*interval).max(Duration::from_millis(1));
        }
        timings
    }

    /// Nothing takes any time, except what the name service and appliances do in turns.
    pub fn instant() -> Self {
        let none = Duration::ZERO;
        Self {
            provision: none,
            stop: none,
            start: none,
            reboot: none,
            delete: none,
            job: none,
            ..Self::default()
        }
    }
}

/// The token bucket of each group of endpoints, per account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// Calls at once.
    pub burst: u32,
    /// Calls a second.
    pub rate: u32,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            burst: 30,
            rate: 10,
        }
    }
}

/// Switches: what the operator configured, what is away, and what is not certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches of a fixture that have nothing to do with each other"
)]
pub struct Quirks {
    /// DNS names carry the login instead of the account's id where the API tells suffixes.
    pub login_names: bool,
    /// Machines have no DNS name of their alias.
    pub no_alias_names: bool,
    /// The order of networks is another one in every list.
    pub shuffled_networks: bool,
    /// There is no change feed: 404.
    pub no_changefeed: bool,
    /// Every frame of the change feed is sent twice.
    pub repeated_changes: bool,
    /// The frames of what changes at once are sent in the wrong order.
    pub reordered_changes: bool,
    /// There are no fabrics: 501.
    pub no_fabrics: bool,
    /// The name service is away: 500 below `/machines/:id` and for the list of networks.
    pub names_down: bool,
    /// While it is away, networks are listed without suffixes.
    pub networks_without_suffixes: bool,
    /// A firewall rule may have 8 ports instead of 24.
    pub eight_ports: bool,
    /// Machines are shown without `nics`, as before 9.10.
    pub no_nics: bool,
    /// The data center's name is in no header, as before 9.2.
    pub no_datacenter_header: bool,
    /// Machines may have several public networks.
    pub several_public_networks: bool,
}
