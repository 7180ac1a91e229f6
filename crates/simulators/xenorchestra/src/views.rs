//! What the control handle shows: pools, hosts and VMs as plain values, whatever the API shows of them.

use super::XenOrchestra;
use super::guest;
use super::model::{Connection, Kind, PowerState};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInfo {
    pub id: String,
    pub name: String,
    /// The state of the connection to it.
    pub connection: Connection,
    /// The API shows it.
    pub visible: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostInfo {
    pub id: String,
    pub name: String,
    pub pool: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VmInfo {
    pub id: String,
    pub name: String,
    pub pool: String,
    pub host: Option<String>,
    pub power: PowerState,
    /// Processors at most.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// What `mainIpAddress` says, if it is there.
    pub main_address: Option<String>,
    pub tags: Vec<String>,
    /// The API shows it.
    pub visible: bool,
}

impl XenOrchestra {
    /// All pools, in the order in which they were made.
    pub fn pools(&self) -> Vec<PoolInfo> {
        self.with(|cloud| {
            let all = cloud.pools.all().map(|pool| PoolInfo {
                id: pool.id.clone(),
                name: pool.name.clone(),
                connection: pool.connection,
                visible: pool.visible(),
            });
            all.collect()
        })
    }

    /// All hosts, in the order in which they were made.
    pub fn hosts(&self) -> Vec<HostInfo> {
        self.with(|cloud| {
            let all = cloud.hosts.all().map(|host| HostInfo {
                id: host.id.clone(),
                name: host.name.clone(),
                pool: host.pool.clone(),
            });
            all.collect()
        })
    }

    /// All VMs, in the order in which they were made.
    pub fn vms(&self) -> Vec<VmInfo> {
        self.with(|cloud| {
            let all = cloud.vms.all().map(|vm| VmInfo {
                id: vm.id.clone(),
                name: vm.name.clone(),
                pool: vm.pool.clone(),
                host: vm.host.clone(),
                power: vm.power,
                cpus: vm.cpus_max,
                memory: vm.memory,
                main_address: guest::main_address(&vm.guest)
                    .filter(|_| vm.reported)
                    .map(str::to_owned),
                tags: vm.tags.clone(),
                visible: cloud.shows(Kind::Vm, &vm.id),
            });
            all.collect()
        })
    }

    /// The VM of that id or name; none if there is none, or several.
    pub fn vm(&self, name: &str) -> Option<VmInfo> {
        let id = self.with(|cloud| cloud.find(Kind::Vm, name))?;
        self.vms().into_iter().find(|vm| vm.id == id)
    }
}
