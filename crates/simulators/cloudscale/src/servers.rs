//! Servers: made, changed, started, stopped, deleted.

use std::time::Duration;

use bowline_simulator::machines::Power;
use jiff::Timestamp;

use super::fields::Fields;
use super::interfaces::{self, Wanted};
use super::model::{Cloud, Server, Target, Transition, Volume};
use super::new_server::{NewServer, default_private};
use super::refusals::{OrRefusal, Refusal};
use super::{Cloudscale, catalog};

/// Characters of a name later.
const NAME: usize = 255;
/// What can be changed, one at a time.
const CHANGEABLE: [&str; 4] = ["name", "flavor", "interfaces", "tags"];

/// What can be done to a server besides changing its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Start,
    Stop,
    Reboot,
}

impl Order {
    pub(super) fn parse(word: &str) -> Option<Self> {
        match word {
            "start" => Some(Self::Start),
            "stop" => Some(Self::Stop),
            "reboot" => Some(Self::Reboot),
            _ => None,
        }
    }
}

impl Cloudscale {
    pub(super) fn create_server(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
    ) -> OrRefusal<String> {
        let mut new = NewServer::parse(fields, cloud.timings.create)?;
        if fields.value("interfaces").is_none() && fields.flag("use_private_network", false)? {
            new.interfaces
                .push(default_private(cloud, project, &new.zone)?);
        }
        self.make_server(cloud, project, new)
    }

    /// Makes a server of a project and tells the register of machines.
    pub(super) fn make_server(
        &self,
        cloud: &mut Cloud,
        project: &str,
        new: NewServer,
    ) -> OrRefusal<String> {
        let known = cloud.projects.get(project);
        for group in &new.groups {
            if known.is_none_or(|project| project.groups.get(group).is_none()) {
                return Err(Refusal::no_such("server_groups", group));
            }
        }
        if let Some(uuid) = &new.uuid
            && cloud.find(uuid).is_some()
        {
            return Err(Refusal::field(
                "uuid",
                format!("\"{uuid}\" exists already."),
            ));
        }
        let interfaces = interfaces::attach(cloud, project, &new.zone, &new.interfaces, new.ipv6)?;
        let now = self.now();
        let uuid = new.uuid.unwrap_or_else(|| self.world.random.uuid());
        let invisible = new
            .takes
            .map_or(Duration::ZERO, |_| cloud.timings.created_invisible);
        let server = Server {
            uuid: uuid.clone(),
            volumes: self.volumes(&new.name, new.volumes),
            name: new.name,
            created_at: now,
            runs: new.runs,
            transition: None,
            zone: new.zone,
            flavor: new.flavor,
            image: new.image,
            interfaces,
            groups: new.groups,
            tags: new.tags,
            visible_from: later(now, invisible),
        };
        cloud
            .projects
            .entry(project.to_owned())
            .or_default()
            .servers
            .insert(&uuid, server);
        self.begin(
            cloud,
            project,
            &uuid,
            new.runs,
            new.takes.unwrap_or_default(),
            true,
        );
        Ok(uuid)
    }

    fn volumes(&self, name: &str, volumes: Vec<(String, u64)>) -> Vec<Volume> {
        let volume = |(number, (kind, size_gb)): (usize, (String, u64))| Volume {
            uuid: self.world.random.uuid(),
            name: match number {
                0 => format!("{name}-root"),
                number => format!("{name}-{number}"),
            },
            kind,
            size_gb,
        };
        volumes.into_iter().enumerate().map(volume).collect()
    }

    /// Begins a change of status; one that takes no time is over at once.
    pub(super) fn begin(
        &self,
        cloud: &mut Cloud,
        project: &str,
        uuid: &str,
        runs: bool,
        takes: Duration,
        creating: bool,
    ) {
        let now = self.now();
        cloud.transitions += 1;
        let number = cloud.transitions;
        let server = cloud
            .projects
            .get_mut(project)
            .and_then(|p| p.servers.get_mut(uuid));
        let Some(server) = server else {
            return;
        };
        server.runs = runs;
        server.transition = (!takes.is_zero()).then(|| Transition {
            number,
            until: later(now, takes),
            creating,
        });
        self.publish(server);
        // Whoever looks computes the status from the clock. The timer is for those who watch the
        // register of machines; a cloud outside a runtime has no such watchers.
        if server.transition.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (cloud, project, uuid) = (self.me.clone(), project.to_owned(), uuid.to_owned());
            runtime.spawn(async move {
                tokio::time::sleep(takes).await;
                if let Some(cloud) = cloud.upgrade() {
                    cloud.settle(&project, &uuid, number);
                }
            });
        }
    }

    /// Ends a change of status, unless another one has begun since.
    fn settle(&self, project: &str, uuid: &str, number: u64) {
        let mut cloud = self.lock();
        let server = cloud
            .projects
            .get_mut(project)
            .and_then(|p| p.servers.get_mut(uuid));
        if let Some(server) = server
            && server
                .transition
                .is_some_and(|transition| transition.number == number)
        {
            server.transition = None;
            self.publish(server);
        }
    }

    /// Tells the register of machines whether the server runs.
    fn publish(&self, server: &Server) {
        let runs = server.runs && server.transition.is_none();
        let power = if runs { Power::Running } else { Power::Off };
        self.world.machines.set(&machine_id(&server.uuid), power);
    }

    pub(super) fn order_server(
        &self,
        cloud: &mut Cloud,
        project: &str,
        uuid: &str,
        order: Order,
    ) -> OrRefusal {
        let now = self.now();
        let server = cloud
            .projects
            .get(project)
            .and_then(|p| p.servers.get(uuid));
        let server = server.ok_or_else(Refusal::not_found)?;
        if server.is_creating(now) {
            return Err(Refusal::state("The server is still being created."));
        }
        let timings = cloud.timings;
        let (runs, takes) = match (order, server.runs) {
            (Order::Start, true) | (Order::Stop, false) => return Ok(()),
            (Order::Start, false) => (true, timings.start),
            (Order::Stop, true) => (false, timings.stop),
            (Order::Reboot, true) => (true, timings.reboot),
            (Order::Reboot, false) => {
                return Err(Refusal::state("A stopped server cannot be rebooted."));
            }
        };
        self.begin(cloud, project, uuid, runs, takes, false);
        Ok(())
    }

    pub(super) fn change_server(
        &self,
        cloud: &mut Cloud,
        project: &str,
        uuid: &str,
        fields: &Fields,
    ) -> OrRefusal {
        let now = self.now();
        let server = cloud
            .projects
            .get_mut(project)
            .and_then(|p| p.servers.get_mut(uuid));
        let server = server.ok_or_else(Refusal::not_found)?;
        match fields.only(&CHANGEABLE)? {
            Some("name") => server.name = fields.name()?,
            Some("flavor") => {
                let flavor = fields.required("flavor")?;
                if catalog::flavor(flavor).is_none() {
                    let message = format!("\"{flavor}\" is not a valid choice.");
                    return Err(Refusal::field("flavor", message));
                }
                if server.status(now) != super::Status::Stopped {
                    let message = "The flavor can only be changed while the server is stopped.";
                    return Err(Refusal::state(message));
                }
                flavor.clone_into(&mut server.flavor);
            }
            Some("tags") => server.tags = fields.tags()?,
            Some("interfaces") => {
                let list = fields.list("interfaces")?;
                let list = list.ok_or_else(|| Refusal::required("interfaces"))?;
                let wanted = Wanted::parse(list)?;
                return reattach(cloud, project, uuid, &wanted);
            }
            _ => {}
        }
        Ok(())
    }

    /// Deletes a server at once; reads may go on showing it for a while.
    pub(super) fn delete_server(&self, cloud: &mut Cloud, project: &str, uuid: &str) -> OrRefusal {
        let now = self.now();
        let lag = cloud.timings.deleted_visible;
        let owner = cloud
            .projects
            .get_mut(project)
            .ok_or_else(Refusal::not_found)?;
        let server = owner.servers.get(uuid).ok_or_else(Refusal::not_found)?;
        if server.is_creating(now) {
            return Err(Refusal::state("The server is still being created."));
        }
        let Some(server) = owner.servers.remove(uuid) else {
            return Err(Refusal::not_found());
        };
        for floating in owner.floating_ips.all_mut() {
            if floating.target == Some(Target::Server(uuid.to_owned())) {
                floating.target = None;
            }
        }
        interfaces::release(cloud, project, server.addresses());
        self.world.machines.destroy(&machine_id(uuid));
        if !lag.is_zero()
            && let Some(owner) = cloud.projects.get_mut(project)
        {
            owner.ghosts.push((later(now, lag), server));
        }
        Ok(())
    }
}

/// Replaces a server's interfaces; it keeps the old ones if the new ones cannot be had.
pub(super) fn reattach(
    cloud: &mut Cloud,
    project: &str,
    uuid: &str,
    wanted: &[Wanted],
) -> OrRefusal {
    let server = cloud
        .projects
        .get_mut(project)
        .and_then(|p| p.servers.get_mut(uuid));
    let server = server.ok_or_else(Refusal::not_found)?;
    let zone = server.zone.clone();
    let old = std::mem::take(&mut server.interfaces);
    let addresses = old.iter().flat_map(|interface| &interface.addresses);
    interfaces::release(cloud, project, addresses);
    let attached = interfaces::attach(cloud, project, &zone, wanted, true);
    let kept = attached.as_ref().map_or_else(|_| old, Clone::clone);
    if attached.is_err() {
        for address in kept.iter().flat_map(|interface| &interface.addresses) {
            if let Some(subnet) = cloud.subnet_mut(project, &address.subnet) {
                subnet.taken.insert(address.address);
            }
        }
    }
    if let Some(server) = cloud
        .projects
        .get_mut(project)
        .and_then(|p| p.servers.get_mut(uuid))
    {
        server.interfaces = kept;
    }
    attached.map(|_| ())
}

/// A name that a server can be given later: anything, but not too long.
pub(super) fn check_name(name: &str) -> OrRefusal {
    if name.chars().count() > NAME {
        let message = format!("Ensure this field has no more than {NAME} characters.");
        return Err(Refusal::field("name", message));
    }
    Ok(())
}

/// The id under which the register of machines knows a server.
pub(super) fn machine_id(uuid: &str) -> String {
    format!("cloudscale://{uuid}")
}

pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}
