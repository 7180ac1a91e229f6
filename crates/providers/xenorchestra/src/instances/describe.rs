//! Describes a VM to its node. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bowline_core::{Instance, MetadataPolicy, Node, NodeMetadata, Power, ProviderId};
use uuid::Uuid;

use super::addresses;
use crate::api::{PowerState, Vm};
use crate::config::{NodeConfig, TypeMemory, ZoneSource};
use crate::id::VmId;
use crate::labels::{self, label_value};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Around<'a> {
    /// The name of the host in the VM's `$container`; none if no such host could be read.
    pub(crate) host: Option<&'a str>,
    /// The name of its pool; none if it could not be read.
    pub(crate) pool: Option<&'a str>,
}

/// Where a VM is, as far as its node gets to know; what is unknown stays as it is on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Location {
    host: Option<Uuid>,
    pool: Option<Uuid>,
}

pub(crate) fn describe(
    vm: &Vm,
    node: &Node,
    around: Around<'_>,
    config: &NodeConfig,
    shared: &BTreeSet<IpAddr>,
) -> Instance {
    let location = location(vm, node, around);
    let id = node.provider_id.clone().unwrap_or_else(|| {
        let (pool, vm) = (vm.pool(), vm.id);
        VmId { pool, vm }.to_string()
    });
    Instance {
        provider_id: ProviderId::parse(&id).ok(),
        instance_type: instance_type(vm, config.memory).unwrap_or_default(),
        zone: zone(location, around, config.zone).unwrap_or_default(),
        region: text(location.pool),
        addresses: addresses::of_node(vm, node, &config.addresses, shared),
        power: power(vm, node),
        extra_labels: own_labels(vm, node, location, around),
        marks: marks(vm, config),
    }
}

/// Whether the VM is in another pool than those in its node's provider id and label.
pub(crate) fn has_moved(vm: &Vm, node: &Node) -> bool {
    let id = node.provider_id.as_deref().map(VmId::parse);
    let recorded = id.and_then(Result::ok).and_then(|id| id.pool);
    let agreed = node.labels.get(labels::POOL_ID);
    let is_there = |pool: Uuid| agreed.is_some_and(|label| *label == pool.to_string());
    match (recorded, vm.pool()) {
        (Some(recorded), Some(pool)) => recorded != pool && !is_there(pool),
        _ => false,
    }
}

fn location(vm: &Vm, node: &Node, around: Around<'_>) -> Location {
    // The container of a VM that does not run is its pool, or whatever host has its disk. It counts
    // as a host only if there is such a host, and only for a node that knows nothing yet.
    let is_on_host = vm.is_running() || (node.is_uninitialized() && around.host.is_some());
    let host = vm
        .container
        .filter(|it| is_on_host && Some(*it) != vm.pool());
    // On its way between two pools: where it comes to rest it will run.
    let on_its_way = !vm.is_running() && has_moved(vm, node);
    let pool = vm.pool().filter(|_| !on_its_way);
    Location { host, pool }
}

fn power(vm: &Vm, node: &Node) -> Power {
    match vm.power_state {
        Some(PowerState::Running) => Power::On,
        Some(PowerState::Halted | PowerState::Paused | PowerState::Suspended)
            if !has_moved(vm, node) =>
        {
            Power::Off
        }
        Some(_) | None => Power::Unclear,
    }
}

const GIB: u64 = 1 << 30;

/// `4vCPU-8GB`, whole GiB, halves to the even side.
fn instance_type(vm: &Vm, memory: TypeMemory) -> Option<String> {
    let cpus = vm.cpus.as_ref()?.max;
    let bytes = match memory {
        TypeMemory::Current => vm.memory.as_ref()?.size,
        TypeMemory::Static => *vm.memory.as_ref()?.limits.get(1)?,
    };
    let (whole, rest) = (bytes / GIB, bytes % GIB);
    let up = rest > GIB / 2 || (rest == GIB / 2 && whole % 2 == 1);
    Some(format!("{cpus}vCPU-{}GB", whole + u64::from(up)))
}

fn zone(location: Location, around: Around<'_>, source: ZoneSource) -> Option<String> {
    match source {
        ZoneSource::Host => location.host.map(|host| host.to_string()),
        ZoneSource::HostName => location.host.and(around.host).map(label_value),
        ZoneSource::Pool => location.pool.map(|pool| pool.to_string()),
    }
}

/// The labels of this cloud. A name that cannot be read is `unknown` to a node that has none yet,
/// and stays what it is on others.
fn own_labels(
    vm: &Vm,
    node: &Node,
    location: Location,
    around: Around<'_>,
) -> BTreeMap<String, String> {
    let name = |name: Option<&str>| match name {
        Some(name) => Some(label_value(name)),
        None => node.is_uninitialized().then(|| labels::UNKNOWN.to_owned()),
    };
    let vm_name = label_value(vm.name_label.as_deref().unwrap_or_default());
    let all = [
        (labels::HOST_ID, location.host.map(|it| it.to_string())),
        (
            labels::HOST_NAME,
            location.host.and_then(|_| name(around.host)),
        ),
        (labels::POOL_ID, location.pool.map(|it| it.to_string())),
        (
            labels::POOL_NAME,
            location.pool.and_then(|_| name(around.pool)),
        ),
        (labels::VM_NAME, Some(vm_name)),
    ];
    let known = all.into_iter();
    known
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

fn marks(vm: &Vm, config: &NodeConfig) -> NodeMetadata {
    match &config.tag_prefix {
        None => NodeMetadata::default(),
        Some(prefix) => NodeMetadata {
            labels: labels::of_tags(&vm.tags, prefix).0,
            keeping: MetadataPolicy::Own,
            ..NodeMetadata::default()
        },
    }
}

fn text(id: Option<Uuid>) -> String {
    id.map(|id| id.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
