//! What a load balancer consists of, and what state it is in at a moment.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;

use crate::model::{Address, Collection, Project, version_of};

bowline_simulator::words! {
    /// What the API calls a load balancer's status.
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum BalancerStatus {
        /// Being made, or a change is being applied.
        Changing = "changing",
        /// Everything is in order.
        Running = "running",
        /// Some members are down.
        Degraded = "degraded",
        /// An operation failed, or all members of a pool are down.
        Error = "error",
        /// It does not run.
        Stopped = "stopped",
        /// Nobody knows.
        Unknown = "unknown",
    }
}

bowline_simulator::words! {
    /// What a health monitor finds out about a member.
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Health {
        /// It answers.
        Up = "up",
        /// It does not.
        Down = "down",
        /// It is still being found out.
        Changing = "changing",
        /// Nobody knows.
        Unknown = "unknown",
        /// Nobody looks.
        NoMonitor = "no_monitor",
    }
}

/// What a deleted child goes on occupying for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// A port of the load balancer.
    Listener {
        protocol: String,
        port: u16,
    },
    Monitor {
        pool: String,
    },
    /// An address and port in a pool.
    Member {
        pool: String,
        address: IpAddr,
        port: u16,
    },
}

impl Slot {
    /// What would be made there.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Listener { .. } => "A listener with this protocol and protocol_port",
            Self::Monitor { .. } => "A health monitor of this pool",
            Self::Member { .. } => "A member with this address and protocol_port",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Balancer {
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) created_at: Timestamp,
    pub(crate) zone: String,
    pub(crate) flavor: String,
    /// Whether its addresses are public.
    pub(crate) public: bool,
    pub(crate) vips: Vec<Address>,
    pub(crate) tags: BTreeMap<String, String>,
    /// Until when it is being made; the end of time for one that never will be.
    pub(crate) ready_at: Timestamp,
    /// Until when its last change is being applied.
    pub(crate) busy_until: Timestamp,
    /// Whether the last operation failed.
    pub(crate) failed: bool,
    /// What is shown whatever the state, for scenes.
    pub(crate) forced: Option<BalancerStatus>,
    /// What deleted children still occupy, and until when.
    pub(crate) reserved: Vec<(Timestamp, Slot)>,
    /// Writes that took effect.
    pub(crate) changes: u64,
    /// Writes wait here for each other.
    pub(crate) write_lock: Arc<tokio::sync::Mutex<()>>,
}

impl Balancer {
    /// Whether it has not been ready even once.
    pub(crate) fn is_creating(&self, now: Timestamp) -> bool {
        now < self.ready_at
    }

    /// Its status, given the project that it is in.
    pub(crate) fn status(&self, project: &Project, now: Timestamp) -> BalancerStatus {
        if let Some(forced) = self.forced {
            return forced;
        }
        if now < self.ready_at || now < self.busy_until {
            return BalancerStatus::Changing;
        }
        if self.failed {
            return BalancerStatus::Error;
        }
        let pools = project.pools.all().filter(|p| p.balancer == self.uuid);
        match pools.map(|pool| pool.condition(project, now)).max() {
            None | Some(Condition::Fine) => BalancerStatus::Running,
            Some(Condition::SomeDown) => BalancerStatus::Degraded,
            Some(Condition::AllDown) => BalancerStatus::Error,
        }
    }

    /// Whether something deleted still occupies that slot.
    pub(crate) fn is_reserved(&self, slot: &Slot, now: Timestamp) -> bool {
        let mut reserved = self.reserved.iter();
        reserved.any(|(until, taken)| now < *until && taken == slot)
    }

    /// Its address of that version, if floating IPs can point to it.
    pub(crate) fn public_address(&self, version: u8) -> Option<IpAddr> {
        let mut addresses = self.vips.iter().map(|vip| vip.address);
        let found = addresses.find(|address| version_of(address) == version);
        found.filter(|_| self.public)
    }
}

/// How the members of a pool are, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    Fine,
    SomeDown,
    AllDown,
}

#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) created_at: Timestamp,
    pub(crate) balancer: String,
    pub(crate) algorithm: String,
    pub(crate) protocol: String,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) members: Collection<Member>,
}

impl Pool {
    /// How its members are. Only those that are watched and enabled count.
    fn condition(&self, project: &Project, now: Timestamp) -> Condition {
        let Some(watched) = watched_from(project, &self.uuid) else {
            return Condition::Fine;
        };
        let enabled = self.members.all().filter(|member| member.enabled);
        let down = enabled.clone().filter(|member| {
            let script = script_for(project, member);
            member.health(script, Some(watched), now) == Health::Down
        });
        match (down.count(), enabled.count()) {
            (0, _) => Condition::Fine,
            (down, all) if down == all => Condition::AllDown,
            _ => Condition::SomeDown,
        }
    }
}

/// From when the monitor of a pool knows something; none without a monitor.
pub(crate) fn watched_from(project: &Project, pool: &str) -> Option<Timestamp> {
    let mut monitors = project.monitors.all();
    let monitor = monitors.find(|monitor| monitor.pool == pool)?;
    Some(monitor.knows_from)
}

/// What the fixture says about a member: about itself, or about its address.
pub(crate) fn script_for(project: &Project, member: &Member) -> Option<Health> {
    let scripts = &project.health;
    if scripts.is_empty() {
        return None;
    }
    let socket = format!("{}:{}", member.address, member.protocol_port);
    let address = member.address.to_string();
    let found = [&member.uuid, &socket, &address].map(|key| scripts.get(key));
    found.into_iter().flatten().next().copied()
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) created_at: Timestamp,
    pub(crate) pool: String,
    pub(crate) enabled: bool,
    pub(crate) protocol_port: u16,
    pub(crate) monitor_port: Option<u16>,
    pub(crate) address: IpAddr,
    pub(crate) subnet: String,
    pub(crate) tags: BTreeMap<String, String>,
    /// When a monitor has looked at it often enough.
    pub(crate) known_from: Timestamp,
}

impl Member {
    /// What its monitor says.
    pub(crate) fn health(
        &self,
        script: Option<Health>,
        watched_from: Option<Timestamp>,
        now: Timestamp,
    ) -> Health {
        match watched_from {
            None => Health::NoMonitor,
            Some(watched) if now < watched.max(self.known_from) => Health::Changing,
            Some(_) => script.unwrap_or(Health::Up),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Listener {
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) created_at: Timestamp,
    pub(crate) balancer: String,
    /// None: its pool was deleted and it was left behind.
    pub(crate) pool: Option<String>,
    pub(crate) protocol: String,
    pub(crate) protocol_port: u16,
    pub(crate) allowed_cidrs: Vec<String>,
    pub(crate) timeout_client_data_ms: u64,
    pub(crate) timeout_member_connect_ms: u64,
    pub(crate) timeout_member_data_ms: u64,
    pub(crate) tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Monitor {
    pub(crate) uuid: String,
    pub(crate) created_at: Timestamp,
    pub(crate) pool: String,
    pub(crate) balancer: String,
    pub(crate) delay_s: u64,
    pub(crate) timeout_s: u64,
    pub(crate) up_threshold: u64,
    pub(crate) down_threshold: u64,
    pub(crate) kind: String,
    /// Only of the types `http` and `https`.
    pub(crate) http: Option<Http>,
    pub(crate) tags: BTreeMap<String, String>,
    /// When it has looked at every member often enough.
    pub(crate) knows_from: Timestamp,
}

/// What an HTTP monitor asks for and wants to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Codes that mean up: single ones, or one range.
    pub expected_codes: Vec<String>,
    pub method: String,
    pub url_path: String,
    /// `1.0` or `1.1`.
    pub version: String,
    /// The `Host` header.
    pub host: Option<String>,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            expected_codes: vec!["200".to_owned()],
            method: "GET".to_owned(),
            url_path: "/".to_owned(),
            version: "1.1".to_owned(),
            host: None,
        }
    }
}
