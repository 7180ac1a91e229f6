//! Loading a fixture: pools, hosts and VMs that are there at once.

use bowline_simulator::control::{add_all, add_faults};
use jiff::Timestamp;

use super::config::Config;
use super::fixture::{HostSpec, PoolSpec, VmSpec};
use super::model::{Cloud, Connection, Host, Kind, Pool, PowerState, Token, Vm};
use super::{ControlError, ControlResult};
use super::{World, XenOrchestra};

/// VMs that one specification may ask for.
const MOST_VMS: u32 = 10_000;
/// The memory of a VM that says nothing of it.
const USUAL_MEMORY: u64 = 4 << 30;
/// The memory of a host that says nothing of it.
const HOST_MEMORY: u64 = 128 << 30;

impl XenOrchestra {
    /// Nothing but users and their tokens.
    pub(super) fn empty(world: &World, config: &Config) -> Cloud {
        let mut users = config.users.clone();
        for user in users.values_mut().filter(|user| user.id.is_empty()) {
            user.id = world.random.uuid();
        }
        let tokens = config
            .tokens
            .iter()
            .map(|(id, user)| (id.clone(), forever(id, user)));
        Cloud {
            users,
            tokens: tokens.collect(),
            timings: config.timings,
            quirks: config.quirks.clone(),
            ..Cloud::default()
        }
    }

    pub(super) fn load(&self) -> ControlResult {
        for user in self.config.tokens.values() {
            if !self.config.users.contains_key(user) {
                let reason = "there is no user of that name".to_owned();
                return Err(ControlError::new("give a token to", user, reason));
            }
        }
        add_all(&self.fixture.pools, |spec| self.add_pool(spec))?;
        add_all(&self.fixture.hosts, |spec| self.add_host(spec))?;
        add_all(&self.fixture.vms, |spec| self.add_vms(spec))?;
        add_faults(&self.world, super::NAME, &self.fixture.faults)
    }

    /// Adds a pool without hosts, and returns its id.
    pub fn add_pool(&self, spec: &PoolSpec) -> ControlResult<String> {
        let id = self.world.id_or(spec.id.as_ref());
        self.add("add the pool", &spec.name, |cloud| {
            if cloud.pools.get(&id).is_some() {
                return Err(format!("the id {id} exists already"));
            }
            let connection = match spec.connection.as_deref() {
                None => Connection::Connected,
                Some(word) => Connection::parse(word).ok_or_else(|| {
                    format!("{word:?} is none of connected, connecting, disconnected")
                })?,
            };
            let number = cloud.pools.len() + 1;
            let pool = Pool {
                id: id.clone(),
                name: spec.name.clone(),
                master: None,
                tags: spec.tags.clone(),
                storage: self.world.random.uuid(),
                server: self.world.random.uuid(),
                address: spec
                    .address
                    .clone()
                    .unwrap_or_else(|| format!("192.0.2.{number}")),
                connection,
                loaded: connection == Connection::Connected,
                records_missing: spec.vm_records_missing,
            };
            cloud.pools.insert(&id, pool);
            cloud.touch(Kind::Pool, &id);
            Ok(id.clone())
        })
    }

    /// Adds a host, and returns its id.
    pub fn add_host(&self, spec: &HostSpec) -> ControlResult<String> {
        let id = self.world.id_or(spec.id.as_ref());
        let now = self.now();
        self.add("add the host", &spec.name, |cloud| {
            if cloud.hosts.get(&id).is_some() {
                return Err(format!("the id {id} exists already"));
            }
            let pool = pool_of(cloud, spec.pool.as_deref())?;
            let word = spec.power_state.as_deref().unwrap_or("Running");
            let power = ["Running", "Halted", "Unknown"]
                .into_iter()
                .find(|known| *known == word);
            let power =
                power.ok_or_else(|| format!("{word:?} is none of Running, Halted, Unknown"))?;
            let number = cloud.hosts.len() + 1;
            let host = Host {
                id: id.clone(),
                name: spec.name.clone(),
                pool: pool.clone(),
                address: spec
                    .address
                    .clone()
                    .unwrap_or_else(|| format!("198.51.100.{}", number % 255)),
                enabled: !spec.disabled,
                power,
                tags: spec.tags.clone(),
                control_domain: self.world.random.uuid(),
                cores: spec.cores.unwrap_or(16),
                memory: spec.memory.map_or(HOST_MEMORY, |size| size.0),
                started: now,
            };
            cloud.hosts.insert(&id, host);
            if let Some(pool) = cloud.pools.get_mut(&pool) {
                pool.master.get_or_insert_with(|| id.clone());
            }
            cloud.touch(Kind::Host, &id);
            cloud.touch(Kind::Pool, &pool);
            Ok(id.clone())
        })
    }

    /// Adds a VM that is there at once, and returns its id; with `count`, the first one's.
    pub fn add_vm(&self, spec: &VmSpec) -> ControlResult<String> {
        let added = self.add_vms(spec)?;
        Ok(added.into_iter().next().unwrap_or_default())
    }

    /// Adds as many VMs as the specification counts, and returns their ids.
    pub fn add_vms(&self, spec: &VmSpec) -> ControlResult<Vec<String>> {
        self.add("add the VM", &spec.name, |cloud| {
            let count = spec.count.unwrap_or(1);
            if count == 0 || count > MOST_VMS {
                return Err(format!("count must be between 1 and {MOST_VMS}"));
            }
            if count > 1 && (spec.id.is_some() || spec.ip.is_some() || spec.guest.is_some()) {
                return Err("several VMs cannot have one id or address".to_owned());
            }
            let mut added = Vec::new();
            for number in 1..=count {
                let mut vm = self.new_vm(cloud, spec)?;
                if spec.count.is_some() {
                    vm.name = format!("{}-{number}", spec.name);
                }
                let id = vm.id.clone();
                let host = vm.host.clone();
                cloud.vms.insert(&id, vm);
                cloud.switched.insert(id.clone());
                cloud.touch(Kind::Vm, &id);
                if let Some(host) = host {
                    cloud.touch(Kind::Host, &host);
                }
                added.push(id);
            }
            Ok(added)
        })
    }

    fn new_vm(&self, cloud: &mut Cloud, spec: &VmSpec) -> Result<Vm, String> {
        let id = self.world.id_or(spec.id.as_ref());
        if cloud.vms.get(&id).is_some() {
            return Err(format!("the id {id} exists already"));
        }
        let host_of = |cloud: &Cloud, name: &Option<String>| match name {
            Some(name) => {
                let found = cloud.find(Kind::Host, name);
                found
                    .map(Some)
                    .ok_or_else(|| format!("there is no host {name:?}"))
            }
            None => Ok(None),
        };
        let (host, local_disk) = (
            host_of(cloud, &spec.host)?,
            host_of(cloud, &spec.local_disk)?,
        );
        let named = host
            .as_ref()
            .or(local_disk.as_ref())
            .and_then(|id| cloud.hosts.get(id));
        let pool = match (named.map(|host| host.pool.clone()), &spec.pool) {
            (Some(pool), None) => pool,
            (named, wanted) => {
                let pool = pool_of(cloud, wanted.as_deref())?;
                if named.is_some_and(|named| named != pool) {
                    return Err("its host is in another pool".to_owned());
                }
                pool
            }
        };
        let word = spec.power_state.as_deref().unwrap_or("Running");
        let power = PowerState::parse(word);
        let power = power.ok_or_else(|| format!("{word:?} is no power state"))?;
        let host = if power.resides() {
            let host = host.or_else(|| cloud.free_host(&pool));
            Some(host.ok_or("its pool has no host that runs")?)
        } else {
            None
        };
        let guest = match (&spec.guest, &spec.ip) {
            _ if spec.no_tools => Vec::new(),
            (Some(guest), _) => guest.clone().into_iter().collect(),
            (None, Some(ip)) => vec![("0/ip".to_owned(), ip.clone())],
            (None, None) => {
                let address = cloud.address().ok_or("there are no addresses left")?;
                vec![("0/ip".to_owned(), address.to_string())]
            }
        };
        let memory = spec.memory.map_or(USUAL_MEMORY, |size| size.0);
        let most = spec.memory_max.map_or(memory, |size| size.0);
        let cpus_max = spec.cpus.unwrap_or(2);
        Ok(Vm {
            name: spec.name.clone(),
            description: spec.description.clone(),
            pool,
            host,
            local_disk,
            power,
            cpus_max,
            cpus: spec.cpus_now.unwrap_or(cpus_max),
            memory,
            dynamic: (memory.min(most), most),
            fixed: (memory.min(most), most),
            reported: power.resides() && !guest.is_empty(),
            guest: guest.into_iter().collect(),
            tags: spec.tags.clone(),
            other: spec.other.clone(),
            operations: std::collections::BTreeMap::new(),
            template: spec.template,
            away: false,
            nowhere: false,
            runs: 0,
            reference: format!("OpaqueRef:{}", self.world.random.uuid()),
            disk: self.world.random.uuid(),
            card: self.world.random.uuid(),
            id,
        })
    }

    fn add<T>(
        &self,
        task: &'static str,
        object: &str,
        work: impl FnOnce(&mut Cloud) -> Result<T, String>,
    ) -> ControlResult<T> {
        self.with(work)
            .map_err(|reason| ControlError::new(task, object, reason))
    }
}

/// A token without an end.
pub(super) fn forever(id: &str, user: &str) -> Token {
    Token {
        id: id.to_owned(),
        user: user.to_owned(),
        client: None,
        description: None,
        created: Timestamp::UNIX_EPOCH,
        expires: None,
        last_use: None,
    }
}

/// The pool that is meant: the first if none is named.
fn pool_of(cloud: &Cloud, name: Option<&str>) -> Result<String, String> {
    let found = match name {
        Some(name) => cloud.find(Kind::Pool, name),
        None => cloud.pools.all().next().map(|pool| pool.id.clone()),
    };
    found.ok_or_else(|| match name {
        Some(name) => format!("there is no pool {name:?}"),
        None => "there are no pools".to_owned(),
    })
}
