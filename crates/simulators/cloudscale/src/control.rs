//! The control handle: what tests and the sandbox do to the cloud's machines directly.
//!
//! Nothing here takes time.

use std::net::IpAddr;
use std::time::Duration;

use bowline_simulator::control::{ControlError, ControlResult};
use serde_json::{Map, Value};

use super::Cloudscale;
use super::balancers;
use super::catalog::{self, DEFAULT_ZONE};
use super::fields::check_zone;
use super::fixture::{InterfaceSpec, MachineSpec};
use super::interfaces::{PUBLIC, Wanted, WantedAddress};
use super::model::{Cloud, Status};
use super::new_server::NewServer;
use super::refusals::{OrRefusal, Refusal};
use super::servers;

/// Machines that one `count` may ask for.
const MOST_MACHINES: u32 = 100_000;
/// What the handle shows of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInfo {
    pub uuid: String,
    pub name: String,
    pub project: String,
    pub zone: String,
    pub flavor: String,
    pub status: Status,
    /// Its addresses, in the order of its interfaces.
    pub addresses: Vec<IpAddr>,
}

impl Cloudscale {
    /// Adds a server that is there at once, and returns its uuid; with `count`, the first one's.
    pub fn add_server(&self, spec: &MachineSpec) -> ControlResult<String> {
        let added = self.add_servers(spec)?;
        Ok(added.into_iter().next().unwrap_or_default())
    }

    /// Adds as many servers as the specification counts, and returns their uuids.
    pub fn add_servers(&self, spec: &MachineSpec) -> ControlResult<Vec<String>> {
        let count = spec.count;
        let failed = |reason: String| ControlError::new("add the machine", &spec.name, reason);
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
            let mut new = new_server(&cloud, spec).map_err(failed)?;
            if count.is_some() {
                new.name = format!("{}-{number}", spec.name);
            }
            let made = self.make_server(&mut cloud, &spec.project, new);
            added.push(made.map_err(|refusal| failed(refusal.message))?);
        }
        Ok(added)
    }

    /// Stops a server at once, as a power-off in the guest does.
    pub fn stop(&self, machine: &str) -> ControlResult {
        self.with("stop", machine, |cloud, project, uuid| {
            self.begin(cloud, project, uuid, false, Duration::ZERO, false);
            Ok(())
        })
    }

    /// Starts a server at once.
    pub fn start(&self, machine: &str) -> ControlResult {
        self.with("start", machine, |cloud, project, uuid| {
            self.begin(cloud, project, uuid, true, Duration::ZERO, false);
            Ok(())
        })
    }

    /// Destroys a server, whatever state it is in.
    pub fn destroy(&self, machine: &str) -> ControlResult {
        self.with("destroy", machine, |cloud, project, uuid| {
            self.begin(cloud, project, uuid, false, Duration::ZERO, false);
            self.delete_server(cloud, project, uuid)
        })
    }

    pub fn rename(&self, machine: &str, name: &str) -> ControlResult {
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
    pub fn migrate(&self, machine: &str, zone: &str) -> ControlResult {
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

    /// Replaces members of the JSON of a server, or of a load balancer or something that belongs to
    /// one, in every answer, to see how callers bear bad data. An empty map makes it whole again.
    pub fn deform(&self, machine: &str, members: Map<String, Value>) -> ControlResult {
        let mut cloud = self.lock();
        let found = cloud.find(machine);
        let found = found.or_else(|| balancers::place_of(&cloud, machine));
        let (project, uuid) = found.ok_or_else(|| {
            ControlError::new(
                "deform",
                &format!("{machine:?}"),
                "there is nothing of that uuid, nor exactly one of that name",
            )
        })?;
        if let Some(project) = cloud.projects.get_mut(&project) {
            project.deformed.insert(uuid, members);
        }
        Ok(())
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
                let addresses = server.addresses();
                addresses.map(|address| address.address).collect()
            },
        })
        .collect()
    }

    fn with(
        &self,
        task: &'static str,
        machine: &str,
        change: impl FnOnce(&mut Cloud, &str, &str) -> OrRefusal,
    ) -> ControlResult {
        let failed =
            |reason: String| ControlError::new(task, &format!("the machine {machine:?}"), reason);
        let mut cloud = self.lock();
        let missing = "there is none of that uuid, nor exactly one of that name";
        let (project, uuid) = cloud
            .find(machine)
            .ok_or_else(|| failed(missing.to_owned()))?;
        change(&mut cloud, &project, &uuid).map_err(|refusal| failed(refusal.message))
    }
}

/// A server of a fixture, with the networks that it names.
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
