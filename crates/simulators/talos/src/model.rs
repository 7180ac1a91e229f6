//! The machines of a cluster, and the resources that they publish.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_simulator::keys::Keys;
use bowline_simulator::machines::Power;
use bowline_talos_api::resource::{Metadata, Resource, Spec};
use bowline_talos_api::specs::{
    AddressStatusSpec, ControlPlane, ControllerManagerConfigSpec, MachineType, MemberSpec,
    PlatformMetadataSpec,
};
use bowline_talos_api::{Kind, Single};
use prost_types::Timestamp;

use super::authorities::{Authorities, AuthorityError};
use super::config::{Config, Timings};
use super::control::Failure;
use super::published::Published;
use super::{OS_IMAGE, notation};

/// Where the API servers of a cluster listen.
const API_SERVER_PORT: i64 = 6443;

bowline_simulator::words! {
    /// How far a machine is.
    pub enum Stage {
        /// It does not exist.
        Absent = "absent",
        /// It starts: nobody listens yet.
        Booting = "booting",
        /// It answers, but its platform has told it nothing yet: only the platform's name is known.
        MetadataPartial = "metadata-partial",
        /// It answers.
        Ready = "ready",
        /// It does not run: who asks for it waits, and is reported that it is not reachable.
        Down = "down",
    }
}

impl Stage {
    /// Whether the machine answers.
    pub(super) fn answers(self) -> bool {
        matches!(self, Self::MetadataPartial | Self::Ready)
    }
}

/// A resource as it is kept.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub(super) metadata: Metadata,
    pub(super) spec: Spec,
}

impl From<Stored> for Resource {
    fn from(stored: Stored) -> Self {
        Self {
            metadata: Some(stored.metadata),
            spec: Some(stored.spec),
        }
    }
}

/// The metadata of a new resource.
pub(super) fn metadata(
    namespace: &str,
    kind: &str,
    id: &str,
    owner: &str,
    now: Timestamp,
) -> Metadata {
    Metadata {
        namespace: namespace.to_owned(),
        r#type: kind.to_owned(),
        id: id.to_owned(),
        version: "1".to_owned(),
        owner: owner.to_owned(),
        phase: "running".to_owned(),
        created: Some(now),
        updated: Some(now),
        ..Metadata::default()
    }
}

/// Resources by namespace, type and id: in the order in which they are listed.
#[derive(Debug, Default)]
pub(super) struct Resources(BTreeMap<(String, String, String), Stored>);

impl Resources {
    /// Publishes what is new or says something else; the version counts.
    pub(super) fn put<K: Published>(&mut self, id: &str, spec: &K, now: Timestamp) {
        let spec = Spec::of(spec, spec.yaml());
        let key = (K::NAMESPACE.to_owned(), K::TYPE.to_owned(), id.to_owned());
        match self.0.get_mut(&key) {
            Some(stored) if stored.spec == spec => {}
            Some(stored) => {
                let version: u64 = stored.metadata.version.parse().unwrap_or_default();
                stored.metadata.version = (version + 1).to_string();
                stored.metadata.updated = Some(now);
                stored.spec = spec;
            }
            None => {
                let metadata = metadata(K::NAMESPACE, K::TYPE, id, K::OWNER, now);
                self.0.insert(key, Stored { metadata, spec });
            }
        }
    }

    /// Takes one away; false if there was none.
    pub(super) fn remove(&mut self, namespace: &str, kind: &str, id: &str) -> bool {
        let key = (namespace.to_owned(), kind.to_owned(), id.to_owned());
        self.0.remove(&key).is_some()
    }

    pub(super) fn get(&self, namespace: &str, kind: &str, id: &str) -> Option<&Stored> {
        let key = (namespace.to_owned(), kind.to_owned(), id.to_owned());
        self.0.get(&key)
    }

    /// What one says.
    pub(super) fn read<K: Kind>(&self, id: &str) -> Option<K> {
        let stored = self.get(K::NAMESPACE, K::TYPE, id)?;
        Resource::from(stored.clone()).read().ok()
    }

    /// All of a type, ordered by id.
    pub(super) fn list(&self, namespace: &str, kind: &str) -> impl Iterator<Item = &Stored> {
        let first = (namespace.to_owned(), kind.to_owned(), String::new());
        let same = move |key: &(String, String, String)| key.0 == first.0 && key.1 == first.1;
        self.0
            .iter()
            .filter(move |(key, _)| same(key))
            .map(|(_, stored)| stored)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Stored> {
        self.0.values()
    }
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) name: String,
    pub(super) control_plane: bool,
    pub(super) stage: Stage,
    /// Calls that reach it are never answered.
    pub(super) hangs: bool,
    /// What its kubelet is told to use.
    pub(super) node_ips: Vec<IpAddr>,
    /// What its platform tells in the end.
    pub(super) platform: PlatformMetadataSpec,
    /// Its key in the register of machines.
    pub(super) register: String,
    /// Whether another simulated cloud says if it runs.
    pub(super) owned_elsewhere: bool,
    /// The next list breaks off after so many resources.
    pub(super) cut_list_after: Option<usize>,
    pub(super) resources: Resources,
}

impl Machine {
    /// Its addresses, as it publishes them.
    pub(super) fn addresses(&self) -> Vec<AddressStatusSpec> {
        let stored = self
            .resources
            .list(AddressStatusSpec::NAMESPACE, AddressStatusSpec::TYPE);
        let resources = stored.map(|one| Resource::from(one.clone()));
        resources.filter_map(|one| one.read().ok()).collect()
    }

    /// Whether it can be reached under that address.
    pub(super) fn has(&self, ip: IpAddr) -> bool {
        let own = |one: &AddressStatusSpec| {
            let (address, _) = notation::ip_of(one);
            address == ip && one.scope == i32::from(bowline_talos_api::specs::Scope::Global)
        };
        self.stage != Stage::Absent
            && (self.node_ips.contains(&ip) || self.addresses().iter().any(own))
    }

    /// Publishes what its platform has told it so far.
    pub(super) fn publish_platform(&mut self, now: Timestamp) {
        let reported = match self.stage {
            Stage::Ready => self.platform.clone(),
            _ => PlatformMetadataSpec {
                platform: self.platform.platform.clone(),
                ..PlatformMetadataSpec::default()
            },
        };
        self.resources.put(PlatformMetadataSpec::ID, &reported, now);
    }

    /// Publishes these addresses and no others.
    pub(super) fn publish_addresses(&mut self, wanted: &[AddressStatusSpec], now: Timestamp) {
        let ids: Vec<String> = wanted.iter().map(notation::id).collect();
        let (namespace, kind) = (AddressStatusSpec::NAMESPACE, AddressStatusSpec::TYPE);
        let there = self.resources.list(namespace, kind);
        let gone: Vec<String> = there
            .map(|one| one.metadata.id.clone())
            .filter(|id| !ids.contains(id))
            .collect();
        for id in gone {
            self.resources.remove(namespace, kind, &id);
        }
        for (id, address) in ids.iter().zip(wanted) {
            self.resources.put(id, address, now);
        }
    }

    fn member(&self) -> MemberSpec {
        let kind = if self.control_plane {
            MachineType::ControlPlane
        } else {
            MachineType::Worker
        };
        MemberSpec {
            node_id: format!("{}-identity", self.name),
            addresses: self.node_ips.iter().map(|ip| (*ip).into()).collect(),
            hostname: self.name.clone(),
            machine_type: kind.into(),
            operating_system: OS_IMAGE.to_owned(),
            control_plane: self.control_plane.then_some(ControlPlane {
                api_server_port: API_SERVER_PORT,
            }),
        }
    }

    /// What the register of machines is to know; none if it is not ours to say.
    fn power(&self) -> Option<(String, Option<Power>)> {
        let power = match self.stage {
            Stage::Absent => None,
            Stage::MetadataPartial | Stage::Ready => Some(Power::Running),
            Stage::Booting | Stage::Down => Some(Power::Off),
        };
        (!self.owned_elsewhere).then(|| (self.register.clone(), power))
    }
}

/// All that there is.
pub(super) struct Cluster {
    pub(super) machines: BTreeMap<String, Machine>,
    /// What every machine knows about all.
    pub(super) members: Resources,
    pub(super) authorities: Authorities,
    pub(super) timings: Timings,
    /// The ranges that control planes tell.
    pub(super) ranges: ControllerManagerConfigSpec,
    /// The only names that servers' certificates are good for; none: the usual ones.
    pub(super) server_names: Option<Vec<String>>,
    /// What shall go wrong, in order.
    pub(super) failures: Vec<Failure>,
    /// How often anything was announced.
    pub(super) changes: u64,
    /// What the register of machines has to be told.
    pub(super) touched: Vec<(String, Option<Power>)>,
}

impl Cluster {
    pub(super) fn empty(config: &Config, keys: &Keys) -> Result<Self, AuthorityError> {
        Ok(Self {
            machines: BTreeMap::new(),
            members: Resources::default(),
            authorities: Authorities::new(config.algorithm, keys)?,
            timings: config.timings,
            ranges: ControllerManagerConfigSpec {
                enabled: true,
                image: "registry.example/kube-controller-manager:v1.36.3".to_owned(),
                pod_cidrs: config.pods.clone(),
                service_cidrs: config.services.clone(),
                ..ControllerManagerConfigSpec::default()
            },
            server_names: None,
            failures: Vec::new(),
            changes: 0,
            touched: Vec::new(),
        })
    }

    /// The machine that has that address.
    pub(super) fn by_ip(&self, ip: IpAddr) -> Option<&Machine> {
        self.machines.values().find(|machine| machine.has(ip))
    }

    /// Tells everybody else what a machine has become.
    pub(super) fn announce(&mut self, name: &str, now: Timestamp) {
        let Some(machine) = self.machines.get(name) else {
            return;
        };
        if machine.stage == Stage::Absent {
            self.members
                .remove(MemberSpec::NAMESPACE, MemberSpec::TYPE, name);
        } else {
            self.members.put(name, &machine.member(), now);
        }
        self.touched.extend(machine.power());
        self.changes += 1;
    }

    /// The resources of a type that a machine shows, its own or those of all.
    pub(super) fn list(&self, machine: &str, namespace: &str, kind: &str) -> Vec<Stored> {
        if (namespace, kind) == (MemberSpec::NAMESPACE, MemberSpec::TYPE) {
            return self.members.list(namespace, kind).cloned().collect();
        }
        let machine = self.machines.get(machine);
        let own = machine.map(|machine| machine.resources.list(namespace, kind));
        own.into_iter().flatten().cloned().collect()
    }
}
