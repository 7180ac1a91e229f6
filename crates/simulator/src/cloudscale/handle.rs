//! The control handle: what tests, the sandbox and `POST /_sim/…` do to the cloud directly.
//!
//! Nothing here takes time: a scene is set, not played.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::catalog::{self, DEFAULT_ZONE, ZONES};
use super::config::Config;
use super::fields::check_zone;
use super::floating;
use super::history::History;
use super::interfaces::{PUBLIC, Wanted, WantedAddress};
use super::model::{Cloud, FloatingIp, Network, PublicNetwork, Status, Subnet, host, version_of};
use super::networks::{DEFAULT_MTU, resolvers_or_default};
use super::refusal::Refusal;
use super::render::reverse_ptr;
use super::scene::{FloatingIpSpec, InterfaceSpec, MachineSpec, NetworkSpec};
use super::servers::{self, NewServer, machine_id};
use super::{Cloudscale, MachineSpec as Spec};
use crate::World;
use crate::faults::Rule;

/// Machines that one `count` may ask for.
const MOST_MACHINES: u32 = 100_000;
/// What can be asked of the control handle over HTTP.
const VERBS: &str = "add, stop, start, destroy, rename, migrate, deform";

/// Something that cannot be done to the cloud's machines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {task} {object}: {reason}")]
pub struct MachineError {
    /// What was tried.
    pub task: &'static str,
    /// On what.
    pub object: String,
    /// Why not.
    pub reason: String,
}

/// What the handle shows of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInfo {
    /// Its uuid.
    pub uuid: String,
    /// Its name.
    pub name: String,
    /// Its project.
    pub project: String,
    /// Its zone.
    pub zone: String,
    /// Its flavor.
    pub flavor: String,
    /// Its status now.
    pub status: Status,
    /// Its addresses, in the order of its interfaces.
    pub addresses: Vec<IpAddr>,
}

impl Cloudscale {
    /// A cloud with its public networks and nothing else.
    pub(super) fn empty(world: &World, config: &Config) -> Cloud {
        let mut cloud = Cloud {
            timings: config.timings,
            ..Cloud::default()
        };
        let subnet = |cidr: String, network: &str| {
            let cidr: IpNet = cidr.parse().unwrap_or_default();
            let mut subnet = Subnet::new(world.random.uuid(), network, cidr);
            subnet.gateway = host(&cidr, 1);
            subnet
        };
        for (number, (zone, _)) in ZONES.iter().enumerate() {
            let uuid = world.random.uuid();
            let public = PublicNetwork {
                // The range for benchmarks: the ranges for documentation are too small for 2,000.
                ipv4: subnet(format!("198.{}.0.0/16", 18 + number), &uuid),
                ipv6: subnet(format!("2001:db8:{}::/64", number + 1), &uuid),
                network: Network {
                    uuid,
                    name: "Public".to_owned(),
                    created_at: world.clock.now(),
                    mtu: 1500,
                    zone: (*zone).to_owned(),
                    tags: std::collections::BTreeMap::new(),
                },
            };
            cloud.public.insert((*zone).to_owned(), public);
        }
        for (region, version, cidr) in floating::POOLS {
            let region = (!region.is_empty()).then_some(region);
            let name = floating::pool(region, version);
            cloud.floating.insert(name, subnet(cidr.to_owned(), ""));
        }
        for token in &config.tokens {
            cloud.projects.entry(token.project.clone()).or_default();
        }
        cloud
    }

    /// Sets the scene of the fixture.
    pub(super) fn play(&self) -> Result<(), MachineError> {
        for network in &self.scene.networks {
            self.add_network(network)?;
        }
        for machine in &self.scene.machines {
            self.add_server(machine.clone())?;
        }
        for floating in &self.scene.floating_ips {
            self.add_floating_ip(floating)?;
        }
        for raw in &self.scene.faults {
            let failed = |error: crate::faults::RuleError| MachineError {
                task: "add the fault",
                object: format!("{:?}", raw.name),
                reason: error.to_string(),
            };
            let mut rule = Rule::try_from(raw.clone()).map_err(failed)?;
            rule.server.get_or_insert_with(|| super::NAME.to_owned());
            self.world.faults.add(rule).map_err(failed)?;
        }
        Ok(())
    }

    /// Forgets everything and sets the scene anew.
    pub(super) fn begin_again(&self) {
        let gone = self.servers();
        *self.lock() = Self::empty(&self.world, &self.config);
        *self.history() = History::default();
        for machine in gone {
            self.world.machines.destroy(&machine_id(&machine.uuid));
        }
        // It could be set before, so it can be set again.
        if let Err(error) = self.play() {
            tracing::error!(%error, "resetting the simulated cloudscale failed");
        }
    }

    /// Adds a network with its subnets and returns its uuid.
    pub fn add_network(&self, spec: &NetworkSpec) -> Result<String, MachineError> {
        let failed = |reason: String| MachineError {
            task: "add the network",
            object: spec.name.clone(),
            reason,
        };
        let zone = spec.zone.clone().unwrap_or_else(|| DEFAULT_ZONE.to_owned());
        check_zone("zone", &zone).map_err(|refusal| failed(refusal.message))?;
        let uuid = spec
            .uuid
            .clone()
            .unwrap_or_else(|| self.world.random.uuid());
        let mut cloud = self.lock();
        let project = cloud.projects.entry(spec.project.clone()).or_default();
        if project.networks.get(&uuid).is_some() {
            return Err(failed(format!("the uuid {uuid} exists already")));
        }
        for subnet in &spec.subnets {
            let id = subnet
                .uuid
                .clone()
                .unwrap_or_else(|| self.world.random.uuid());
            if project.subnets.get(&id).is_some() {
                return Err(failed(format!("the subnet {id} exists already")));
            }
            let mut made = Subnet::new(id.clone(), &uuid, subnet.cidr.trunc());
            made.gateway = subnet.gateway;
            made.dns_servers = resolvers_or_default(subnet.dns_servers.clone());
            made.tags.clone_from(&subnet.tags);
            project.subnets.insert(&id, made);
        }
        let network = Network {
            uuid: uuid.clone(),
            name: spec.name.clone(),
            created_at: self.now(),
            mtu: spec.mtu.unwrap_or(DEFAULT_MTU),
            zone,
            tags: spec.tags.clone(),
        };
        project.networks.insert(&uuid, network);
        Ok(uuid)
    }

    /// Adds a server that is there at once, and returns its uuid; with `count`, the first one's.
    pub fn add_server(&self, spec: MachineSpec) -> Result<String, MachineError> {
        let added = self.add_servers(spec)?;
        Ok(added.into_iter().next().unwrap_or_default())
    }

    /// Adds as many servers as the specification counts, and returns their uuids.
    pub fn add_servers(&self, spec: MachineSpec) -> Result<Vec<String>, MachineError> {
        let count = spec.count;
        let failed = |reason: String| MachineError {
            task: "add the machine",
            object: spec.name.clone(),
            reason,
        };
        if count.is_some_and(|count| count == 0 || count > MOST_MACHINES) {
            return Err(failed(format!(
                "count must be between 1 and {MOST_MACHINES}"
            )));
        }
        if count.is_some_and(|count| count > 1) && spec.uuid.is_some() {
            return Err(failed("several machines cannot have one uuid".to_owned()));
        }
        let mut cloud = self.lock();
        let mut added = Vec::new();
        for number in 1..=count.unwrap_or(1) {
            let mut new = new_server(&cloud, &spec).map_err(failed)?;
            if count.is_some() {
                new.name = format!("{}-{number}", spec.name);
            }
            let made = self.make_server(&mut cloud, &spec.project, new);
            added.push(made.map_err(|refusal| failed(refusal.message))?);
        }
        Ok(added)
    }

    /// Adds a floating IP and returns its address.
    pub fn add_floating_ip(&self, spec: &FloatingIpSpec) -> Result<IpAddr, MachineError> {
        let failed = |reason: String| MachineError {
            task: "add the floating IP",
            object: spec
                .address
                .map_or_else(|| "of any address".to_owned(), |a| a.to_string()),
            reason,
        };
        let mut cloud = self.lock();
        let target = match &spec.machine {
            None => None,
            Some(machine) => {
                let found = self.find(&cloud, machine);
                let found = found.filter(|(project, _)| *project == spec.project);
                let found = found.ok_or_else(|| failed(format!("no machine {machine:?}")))?;
                Some(found.1)
            }
        };
        let region = match (&spec.region, spec.global) {
            (Some(_), true) => return Err(failed("global ones have no region".to_owned())),
            (None, true) => None,
            (region, false) => Some(region.clone().unwrap_or_else(|| ZONES[0].1.to_owned())),
        };
        if region
            .as_ref()
            .is_some_and(|slug| !ZONES.iter().any(|(_, known)| known == slug))
        {
            return Err(failed("there is no such region".to_owned()));
        }
        let version = spec
            .address
            .as_ref()
            .map_or(spec.ip_version.unwrap_or(4), version_of);
        let name = floating::pool(region.as_deref(), version);
        let pool = cloud.floating.get_mut(&name);
        let pool = pool.ok_or_else(|| failed("ip_version must be 4 or 6".to_owned()))?;
        let address = match spec.address {
            Some(address) if pool.taken.insert(address) => address,
            Some(_) => return Err(failed("it exists already".to_owned())),
            None => pool
                .take_any()
                .ok_or_else(|| failed("there is none left".to_owned()))?,
        };
        let floating = FloatingIp {
            created_at: self.now(),
            network: IpNet::from(address),
            region,
            server: target,
            reverse_ptr: reverse_ptr(&address),
            tags: spec.tags.clone(),
        };
        let project = cloud.projects.entry(spec.project.clone()).or_default();
        project.floating_ips.insert(&address.to_string(), floating);
        Ok(address)
    }

    /// Stops a server at once, as a power-off in the guest does.
    pub fn stop(&self, machine: &str) -> Result<(), MachineError> {
        self.with("stop", machine, |cloud, project, uuid| {
            self.begin(cloud, project, uuid, false, Duration::ZERO, false);
            Ok(())
        })
    }

    /// Starts a server at once.
    pub fn start(&self, machine: &str) -> Result<(), MachineError> {
        self.with("start", machine, |cloud, project, uuid| {
            self.begin(cloud, project, uuid, true, Duration::ZERO, false);
            Ok(())
        })
    }

    /// Destroys a server, whatever state it is in.
    pub fn destroy(&self, machine: &str) -> Result<(), MachineError> {
        self.with("destroy", machine, |cloud, project, uuid| {
            self.begin(cloud, project, uuid, false, Duration::ZERO, false);
            self.delete_server(cloud, project, uuid)
        })
    }

    /// Renames a server.
    pub fn rename(&self, machine: &str, name: &str) -> Result<(), MachineError> {
        self.with("rename", machine, |cloud, project, uuid| {
            servers::check_name(name)?;
            let server = cloud
                .projects
                .get_mut(project)
                .and_then(|p| p.servers.get_mut(uuid));
            name.clone_into(&mut server.ok_or_else(Refusal::not_found)?.name);
            Ok(())
        })
    }

    /// Moves a server to another zone. Its public addresses change; private networks, which
    /// belong to one zone, are left behind.
    pub fn migrate(&self, machine: &str, zone: &str) -> Result<(), MachineError> {
        self.with("migrate", machine, |cloud, project, uuid| {
            check_zone("zone", zone)?;
            let server = cloud
                .projects
                .get_mut(project)
                .and_then(|p| p.servers.get_mut(uuid));
            let server = server.ok_or_else(Refusal::not_found)?;
            if server.zone == zone {
                return Ok(());
            }
            zone.clone_into(&mut server.zone);
            servers::reattach(cloud, project, uuid, &[Wanted::public()])
        })
    }

    /// Replaces members of a server's JSON in every answer, to see how callers bear bad data.
    /// An empty map makes it whole again.
    pub fn deform(&self, machine: &str, members: Map<String, Value>) -> Result<(), MachineError> {
        self.with("deform", machine, |cloud, project, uuid| {
            let server = cloud
                .projects
                .get_mut(project)
                .and_then(|p| p.servers.get_mut(uuid));
            server.ok_or_else(Refusal::not_found)?.deformed = members;
            Ok(())
        })
    }

    /// From now on, reads do not show a server for `created` after it was made through the API,
    /// and go on showing it for `deleted` after it was deleted.
    pub fn set_visibility_lag(&self, created: Duration, deleted: Duration) {
        let mut cloud = self.lock();
        cloud.timings.created_invisible = created;
        cloud.timings.deleted_visible = deleted;
    }

    /// All servers of all projects.
    pub fn servers(&self) -> Vec<MachineInfo> {
        let now = self.now();
        let cloud = self.lock();
        let all = cloud.projects.iter();
        let all = all.flat_map(|(name, project)| project.servers.all().map(move |s| (name, s)));
        all.map(|(project, server)| MachineInfo {
            uuid: server.uuid.clone(),
            name: server.name.clone(),
            project: project.clone(),
            zone: server.zone.clone(),
            flavor: server.flavor.clone(),
            status: server.status(now),
            addresses: {
                let addresses = server.interfaces.iter().flat_map(|i| &i.addresses);
                addresses.map(|address| address.address).collect()
            },
        })
        .collect()
    }

    /// The project and uuid of a server, found by uuid or by a name that only one has.
    pub(super) fn find(&self, cloud: &Cloud, machine: &str) -> Option<(String, String)> {
        let by_uuid = cloud
            .projects
            .iter()
            .find(|(_, p)| p.servers.get(machine).is_some());
        if let Some((project, _)) = by_uuid {
            return Some((project.clone(), machine.to_owned()));
        }
        let all = cloud.projects.iter();
        let all = all.flat_map(|(name, project)| project.servers.all().map(move |s| (name, s)));
        let mut named = all.filter(|(_, server)| server.name == machine);
        let (project, server) = named.next()?;
        named
            .next()
            .is_none()
            .then(|| (project.clone(), server.uuid.clone()))
    }

    fn with(
        &self,
        task: &'static str,
        machine: &str,
        change: impl FnOnce(&mut Cloud, &str, &str) -> Result<(), Refusal>,
    ) -> Result<(), MachineError> {
        let failed = |reason: String| MachineError {
            task,
            object: format!("the machine {machine:?}"),
            reason,
        };
        let mut cloud = self.lock();
        let missing = "there is none of that uuid, nor exactly one of that name";
        let (project, uuid) = self
            .find(&cloud, machine)
            .ok_or_else(|| failed(missing.to_owned()))?;
        change(&mut cloud, &project, &uuid).map_err(|refusal| failed(refusal.message))
    }

    /// Carries out `POST /_sim/<verb>`.
    pub(super) fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        let done = match verb {
            "add" => {
                let added = self.add_servers(read::<Spec>(body)?);
                return match added {
                    Ok(added) => Ok(json!({ "added": added })),
                    Err(error) => Err(error.to_string()),
                };
            }
            "stop" => self.stop(&read::<Which>(body)?.machine),
            "start" => self.start(&read::<Which>(body)?.machine),
            "destroy" => self.destroy(&read::<Which>(body)?.machine),
            "rename" => {
                let wanted: Rename = read(body)?;
                self.rename(&wanted.machine, &wanted.name)
            }
            "migrate" => {
                let wanted: Migrate = read(body)?;
                self.migrate(&wanted.machine, &wanted.zone)
            }
            "deform" => {
                let wanted: Deform = read(body)?;
                self.deform(&wanted.machine, wanted.members)
            }
            other => return Err(format!("{other:?} is not known; allowed are {VERBS}")),
        };
        done.map(|()| json!({})).map_err(|error| error.to_string())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    machine: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rename {
    machine: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Migrate {
    machine: String,
    zone: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deform {
    machine: String,
    members: Map<String, Value>,
}

/// A body of the control handle; serde's message names what is allowed.
fn read<T: DeserializeOwned>(body: &Value) -> Result<T, String> {
    T::deserialize(body).map_err(|error| error.to_string())
}

/// A server of a scene, with the networks that it names.
fn new_server(cloud: &Cloud, spec: &MachineSpec) -> Result<NewServer, String> {
    let or =
        |given: &Option<String>, default: &str| given.clone().unwrap_or_else(|| default.to_owned());
    let zone = or(&spec.zone, DEFAULT_ZONE);
    check_zone("zone", &zone).map_err(|refusal| refusal.message)?;
    let (flavor, image) = (or(&spec.flavor, "flex-8-4"), or(&spec.image, "debian-12"));
    if catalog::flavor(&flavor).is_none() {
        return Err(format!("there is no flavor {flavor:?}"));
    }
    if catalog::image(&image).is_none() {
        return Err(format!("there is no image {image:?}"));
    }
    let runs = match spec.status.as_deref() {
        None | Some("running") => true,
        Some("stopped") => false,
        Some(other) => return Err(format!("status {other:?} is neither running nor stopped")),
    };
    let interfaces = match &spec.interfaces {
        None => vec![Wanted::public()],
        Some(given) => {
            let wanted = given
                .iter()
                .map(|interface| wanted(cloud, &spec.project, interface));
            wanted.collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(NewServer {
        uuid: spec.uuid.clone(),
        name: spec.name.clone(),
        zone,
        flavor,
        image,
        volumes: vec![("ssd".to_owned(), 50)],
        interfaces,
        ipv6: true,
        groups: Vec::new(),
        tags: spec.tags.clone(),
        runs,
        takes: None,
    })
}

fn wanted(cloud: &Cloud, project: &str, spec: &InterfaceSpec) -> Result<Wanted, String> {
    let network = if spec.network == PUBLIC {
        PUBLIC.to_owned()
    } else {
        let networks = cloud
            .projects
            .get(project)
            .into_iter()
            .flat_map(|p| p.networks.all());
        let mut meant =
            networks.filter(|network| [&network.uuid, &network.name].contains(&&spec.network));
        let meant = meant.next();
        meant
            .ok_or_else(|| format!("there is no network {:?}", spec.network))?
            .uuid
            .clone()
    };
    let addresses = spec.addresses.as_ref().map(|addresses| {
        let addresses = addresses.iter().map(|address| WantedAddress {
            subnet: None,
            address: Some(*address),
        });
        addresses.collect()
    });
    Ok(Wanted {
        network: Some(network),
        addresses,
    })
}
