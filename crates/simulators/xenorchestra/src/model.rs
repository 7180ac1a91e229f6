//! What there is: pools with their hosts and VMs, users with their tokens, tasks, and who listens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use bowline_simulator::collection::Collection;
use bowline_simulator::control::by_id_or_name;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::config::{Quirks, Timings, User};
use super::events::Listeners;
use super::tasks::{Planned, Task};

bowline_simulator::words! {
    /// What a VM does, as the API writes it.
    pub enum PowerState {
        Running = "Running",
        Halted = "Halted",
        /// It is on a host but gets no time.
        Paused = "Paused",
        /// Its memory is on a disk.
        Suspended = "Suspended",
    }
}

impl PowerState {
    /// Whether a VM of that state is on a host.
    pub(super) fn resides(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }
}

bowline_simulator::words! {
    /// How Xen Orchestra stands to a pool, as the API writes it.
    pub enum Connection {
        /// It is connected; that does not mean that the pool's objects are loaded.
        Connected = "connected",
        /// It tries to be.
        Connecting = "connecting",
        /// It is not.
        Disconnected = "disconnected",
    }
}

#[derive(Clone, Debug)]
pub(super) struct Pool {
    pub(super) id: String,
    /// May be empty: then its master's is shown.
    pub(super) name: String,
    pub(super) master: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) storage: String,
    /// The id of the connection, and where it goes.
    pub(super) server: String,
    pub(super) address: String,
    pub(super) connection: Connection,
    /// Its objects are shown.
    pub(super) loaded: bool,
    /// The records of its VMs could not be read.
    pub(super) records_missing: bool,
}

impl Pool {
    /// Whether its objects are shown.
    pub(super) fn visible(&self) -> bool {
        self.connection == Connection::Connected && self.loaded
    }
}

#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) pool: String,
    pub(super) address: String,
    pub(super) enabled: bool,
    /// `Running`, `Halted` or `Unknown`.
    pub(super) power: &'static str,
    pub(super) tags: Vec<String>,
    pub(super) control_domain: String,
    pub(super) cores: u32,
    pub(super) memory: u64,
    pub(super) started: Timestamp,
}

#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "ways in which a VM may be hidden, which have nothing to do with each other"
)]
pub(super) struct Vm {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) description: String,
    pub(super) pool: String,
    /// The host that it is on, while it is on one.
    pub(super) host: Option<String>,
    /// The host that owns the storage of a disk of it which is not shared.
    pub(super) local_disk: Option<String>,
    pub(super) power: PowerState,
    pub(super) cpus_max: u32,
    pub(super) cpus: u32,
    /// Bytes that it has now, while it is on a host.
    pub(super) memory: u64,
    pub(super) dynamic: (u64, u64),
    pub(super) fixed: (u64, u64),
    /// What its guest tools tell, as they do; empty without tools.
    pub(super) guest: BTreeMap<String, String>,
    /// They have told it.
    pub(super) reported: bool,
    pub(super) tags: Vec<String>,
    pub(super) other: BTreeMap<String, String>,
    pub(super) operations: BTreeMap<String, &'static str>,
    pub(super) template: bool,
    /// On the way from one pool to another, and in none.
    pub(super) away: bool,
    /// Where it is cannot be told yet.
    pub(super) nowhere: bool,
    /// How often it was started: what was planned for an earlier run is void.
    pub(super) runs: u64,
    pub(super) reference: String,
    pub(super) disk: String,
    pub(super) card: String,
}

/// A token by which somebody is known.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) id: String,
    /// The name of its user.
    pub(super) user: String,
    pub(super) client: Option<String>,
    pub(super) description: Option<String>,
    pub(super) created: Timestamp,
    /// None: it has no end.
    pub(super) expires: Option<Timestamp>,
    pub(super) last_use: Option<Timestamp>,
}

/// What a list is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    // In the order in which changes are told: a VM refers to its host, and that to its pool.
    Pool,
    Host,
    Vm,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Pool, Self::Host, Self::Vm];

    /// As the API calls it in objects, errors and subscriptions.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Vm => "VM",
            Self::Host => "host",
            Self::Pool => "pool",
        }
    }

    /// As it is called in rights.
    pub(super) const fn resource(self) -> &'static str {
        match self {
            Self::Vm => "vm",
            Self::Host => "host",
            Self::Pool => "pool",
        }
    }
}

/// A request as it came, for those who want to see its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub method: String,
    /// Its path and query.
    pub target: String,
    /// Names in lower case, and values, in the order in which they came.
    pub headers: Vec<(String, String)>,
}

impl Heard {
    /// The only value of a header; none if there are none or several.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Cloud {
    pub(super) users: BTreeMap<String, User>,
    pub(super) tokens: BTreeMap<String, Token>,
    pub(super) timings: Timings,
    pub(super) quirks: Quirks,
    pub(super) pools: Collection<Pool>,
    pub(super) hosts: Collection<Host>,
    pub(super) vms: Collection<Vm>,
    pub(super) tasks: Collection<Task>,
    /// What will happen, by moment and number.
    pub(super) due: BTreeMap<(Timestamp, u64), Planned>,
    /// How many things were planned.
    pub(super) planned: u64,
    /// Objects that those who listen have not heard of yet.
    pub(super) touched: BTreeSet<(Kind, String)>,
    /// VMs whose power the register of machines does not know yet.
    pub(super) switched: BTreeSet<String>,
    pub(super) listeners: Listeners,
    /// When a password of a user was wrong last.
    pub(super) failed: BTreeMap<String, Timestamp>,
    /// Members that replace those of an object in every answer, by its id.
    pub(super) deformed: BTreeMap<String, Map<String, Value>>,
    /// Addresses that were given out.
    pub(super) addresses: u32,
    pub(super) heard: VecDeque<Heard>,
    /// When somebody looks at what is due, if somebody will.
    pub(super) wake: Option<Timestamp>,
}

/// The first address that is given to a VM which has none of its own: 10.20.0.11.
const FIRST_ADDRESS: u32 = 0x0a14_000b;
/// How many there are: the rest of 10.20.0.0/15.
const MOST_ADDRESSES: u32 = (1 << 17) - 12;

impl Cloud {
    /// An address that no VM has; none if all are taken.
    pub(super) fn address(&mut self) -> Option<Ipv4Addr> {
        while self.addresses < MOST_ADDRESSES {
            let address = Ipv4Addr::from(FIRST_ADDRESS + self.addresses);
            self.addresses += 1;
            let text = address.to_string();
            if !self
                .vms
                .all()
                .any(|vm| vm.guest.values().any(|it| *it == text))
            {
                return Some(address);
            }
        }
        None
    }

    /// Notes that an object changed.
    pub(super) fn touch(&mut self, kind: Kind, id: &str) {
        self.touched.insert((kind, id.to_owned()));
    }

    /// Notes that a whole pool changed.
    pub(super) fn touch_pool(&mut self, pool: &str) {
        let hosts = self.hosts.all().filter(|it| it.pool == pool);
        let hosts = hosts.map(|it| (Kind::Host, it.id.clone()));
        let vms = self.vms.all().filter(|it| it.pool == pool);
        let vms = vms.map(|it| (Kind::Vm, it.id.clone()));
        let all: Vec<_> = hosts.chain(vms).collect();
        self.touched.extend(all);
        self.touch(Kind::Pool, pool);
    }

    /// Changes a VM, and notes what else changes by it.
    pub(super) fn change_vm<T>(&mut self, id: &str, work: impl FnOnce(&mut Vm) -> T) -> Option<T> {
        let vm = self.vms.get_mut(id)?;
        let before = vm.host.clone();
        let result = work(vm);
        let after = vm.host.clone();
        if before != after {
            for host in [before, after].into_iter().flatten() {
                self.touch(Kind::Host, &host);
            }
        }
        self.touch(Kind::Vm, id);
        self.switched.insert(id.to_owned());
        Some(result)
    }

    /// The id of something, by its id or by a name that only one has.
    pub(super) fn find(&self, kind: Kind, wanted: &str) -> Option<String> {
        let all: Vec<(&str, &str)> = match kind {
            Kind::Vm => self.vms.all().map(|it| (&*it.id, &*it.name)).collect(),
            Kind::Host => self.hosts.all().map(|it| (&*it.id, &*it.name)).collect(),
            Kind::Pool => self.pools.all().map(|it| (&*it.id, &*it.name)).collect(),
        };
        let found = by_id_or_name(all.into_iter(), wanted, |it| it.0, |it| it.1);
        found.map(|(id, _)| id.to_owned())
    }

    /// Whether an object is shown.
    pub(super) fn shows(&self, kind: Kind, id: &str) -> bool {
        let pool = |id: &str| self.pools.get(id).filter(|pool| pool.visible());
        match kind {
            Kind::Pool => pool(id).is_some(),
            Kind::Host => self
                .hosts
                .get(id)
                .is_some_and(|host| pool(&host.pool).is_some()),
            Kind::Vm => self.vms.get(id).is_some_and(|vm| {
                let pool = pool(&vm.pool).filter(|pool| !pool.records_missing);
                pool.is_some() && !vm.away && !vm.template
            }),
        }
    }

    /// The ids of what is shown.
    pub(super) fn shown(&self, kind: Kind) -> Vec<String> {
        let all: Vec<&String> = match kind {
            Kind::Vm => self.vms.all().map(|it| &it.id).collect(),
            Kind::Host => self.hosts.all().map(|it| &it.id).collect(),
            Kind::Pool => self.pools.all().map(|it| &it.id).collect(),
        };
        let shown = all.into_iter().filter(|id| self.shows(kind, id));
        shown.cloned().collect()
    }
}
