//! Floating IPs, and server groups beside them.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

use super::balancers::Balancer;
use super::catalog;
use super::fields::Fields;
use super::model::{
    Cloud, Collection, FloatingIp, Group, Project, Server, Target, host, version_of,
};
use super::refusals::{OrRefusal, Refusal};
use super::render::{View, reverse_ptr};
use super::shelf::{Kept, Patchable, keep, owner};
use super::{Cloudscale, ZONES};

/// The prefix length of the only floating networks that there are besides single addresses.
const FLOATING_NETWORK: u64 = 56;
/// Bits of an IPv6 address below such a network.
const BITS_BELOW: u32 = 128 - 56;
/// From where floating networks are drawn, by region; empty: global.
const NETWORKS: [(&str, &str); 3] = [
    ("rma", "2001:db8:f000::/40"),
    ("lpg", "2001:db8:f100::/40"),
    ("", "2001:db8:f200::/40"),
];
/// From where floating addresses are drawn, by region and version; empty: global.
pub(super) const POOLS: [(&str, u8, &str); 6] = [
    ("rma", 4, "203.0.113.0/24"),
    ("lpg", 4, "198.51.100.0/24"),
    ("", 4, "192.0.2.0/24"),
    ("rma", 6, "2001:db8:f0::/64"),
    ("lpg", 6, "2001:db8:f1::/64"),
    ("", 6, "2001:db8:f2::/64"),
];

/// The name of a pool.
pub(super) fn pool(region: Option<&str>, version: u8) -> String {
    format!("{}/{version}", region.unwrap_or_default())
}

impl Cloudscale {
    pub(super) fn create_floating_ip(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
    ) -> OrRefusal<String> {
        let version = match fields.number("ip_version", 0..=255)? {
            Some(4) => 4,
            Some(6) => 6,
            Some(_) => return Err(Refusal::field("ip_version", "Expect one of: 4, 6.")),
            None => return Err(Refusal::required("ip_version")),
        };
        let target = target(cloud.projects.get(project), fields)?;
        let region = region(fields, target)?;
        if let Some(target) = target {
            target.check(region.as_deref(), version)?;
        }
        let target = target.map(Aim::target);
        let tags = fields.tags()?;
        let network = match (version, fields.number("prefix_length", 0..=128)?) {
            (6, Some(FLOATING_NETWORK)) => draw_network(cloud, region.as_deref())?,
            (4, None | Some(32)) | (6, None | Some(128)) => {
                draw(cloud, region.as_deref(), version)?
            }
            _ => {
                return Err(Refusal::field(
                    "prefix_length",
                    "Expect one of: 32, 56, 128.",
                ));
            }
        };
        let reverse = fields.text("reverse_ptr")?.map(str::to_owned);
        let floating = FloatingIp {
            created_at: self.now(),
            reverse_ptr: reverse.unwrap_or_else(|| reverse_ptr(&network.addr())),
            network,
            region,
            target,
            tags,
        };
        Ok(keep(cloud, project, floating))
    }

    pub(super) fn create_group(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
    ) -> OrRefusal<String> {
        let name = fields.name()?;
        let kind = fields.required("type")?;
        if kind != "anti-affinity" {
            return Err(Refusal::field("type", "Expect one of: anti-affinity."));
        }
        let group = Group {
            uuid: self.world.random.uuid(),
            name,
            created_at: self.now(),
            kind: kind.to_owned(),
            zone: fields.zone()?,
            tags: fields.tags()?,
        };
        Ok(keep(cloud, project, group))
    }
}

/// What a floating IP is to point to.
#[derive(Clone, Copy)]
enum Aim<'a> {
    Server(&'a Server),
    Balancer(&'a Balancer),
}

impl Aim<'_> {
    fn target(self) -> Target {
        match self {
            Self::Server(server) => Target::Server(server.uuid.clone()),
            Self::Balancer(balancer) => Target::Balancer(balancer.uuid.clone()),
        }
    }

    fn region(self) -> Option<&'static str> {
        match self {
            Self::Server(server) => catalog::region_of(&server.zone),
            Self::Balancer(balancer) => catalog::region_of(&balancer.zone),
        }
    }

    /// It must be in the region of the floating IP, with a public address of its version.
    fn check(self, region: Option<&str>, version: u8) -> OrRefusal {
        let (key, name, address) = match self {
            Self::Server(server) => ("server", "server", server.public_address(version)),
            Self::Balancer(balancer) => {
                let address = balancer.public_address(version);
                ("load_balancer", "load balancer", address)
            }
        };
        if region.is_some() && region != self.region() {
            return Err(Refusal::field(
                key,
                format!("The {name} is in another region."),
            ));
        }
        if address.is_none() {
            let message = format!("The {name} has no public IPv{version} address.");
            return Err(Refusal::field(key, message));
        }
        Ok(())
    }
}

/// The server or load balancer that is named, if one is.
fn target<'a>(project: Option<&'a Project>, fields: &Fields) -> OrRefusal<Option<Aim<'a>>> {
    match (fields.text("server")?, fields.text("load_balancer")?) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            let message = "A Floating IP points to a server or to a load balancer, not to both.";
            Err(Refusal::state(message))
        }
        (Some(uuid), None) => {
            let server = project.and_then(|project| project.servers.get(uuid));
            let server = server.ok_or_else(|| Refusal::no_such("server", uuid))?;
            Ok(Some(Aim::Server(server)))
        }
        (None, Some(uuid)) => {
            let balancer = project.and_then(|project| project.balancers.get(uuid));
            let balancer = balancer.ok_or_else(|| Refusal::no_such("load_balancer", uuid))?;
            Ok(Some(Aim::Balancer(balancer)))
        }
    }
}

/// The region that is asked for, or the target's, or the first; none: global.
fn region(fields: &Fields, target: Option<Aim<'_>>) -> OrRefusal<Option<String>> {
    match fields.text("type")? {
        None | Some("regional") => {}
        Some("global") => return Ok(None),
        Some(_) => return Err(Refusal::field("type", "Expect one of: regional, global.")),
    }
    let targets = target.and_then(Aim::region);
    let region = fields.text("region")?.or(targets).unwrap_or(ZONES[0].1);
    if ZONES.iter().any(|(_, slug)| *slug == region) {
        return Ok(Some(region.to_owned()));
    }
    let choices = ZONES.map(|(_, slug)| slug).join(", ");
    let message = format!("\"{region}\" is not a valid choice. Choose one of: {choices}");
    Err(Refusal::field("region", message))
}

fn draw(cloud: &mut Cloud, region: Option<&str>, version: u8) -> OrRefusal<IpNet> {
    let pool = cloud.floating.get_mut(&pool(region, version));
    let address = pool.and_then(super::model::Subnet::take_any);
    let address = address.ok_or_else(|| Refusal::state("There is no Floating IP left."))?;
    Ok(IpNet::from(address))
}

/// Draws the next network that nobody has.
fn draw_network(cloud: &mut Cloud, region: Option<&str>) -> OrRefusal<IpNet> {
    let left = || Refusal::state("There is no Floating IP network left.");
    let range = NETWORKS
        .iter()
        .find(|(slug, _)| *slug == region.unwrap_or_default());
    let range: IpNet = range
        .and_then(|(_, cidr)| cidr.parse().ok())
        .ok_or_else(left)?;
    let projects = cloud.projects.values();
    let taken: Vec<IpAddr> = projects
        .flat_map(|p| p.floating_ips.all().map(|floating| floating.network.addr()))
        .collect();
    // A /40 holds 65,536 networks of that size.
    let addresses = (1..65_536_u128).filter_map(|number| host(&range, number << BITS_BELOW));
    let mut free = addresses.filter(|address| !taken.contains(address));
    let address = free.next().ok_or_else(left)?;
    IpNet::new(address, 56).map_err(|_| left())
}

impl Kept for FloatingIp {
    fn kept(project: &Project) -> &Collection<Self> {
        &project.floating_ips
    }

    fn kept_mut(project: &mut Project) -> &mut Collection<Self> {
        &mut project.floating_ips
    }

    fn id(&self) -> String {
        self.network.addr().to_string()
    }

    fn show(&self, view: &View<'_>) -> Value {
        view.floating_ip(self)
    }
}

impl Patchable for FloatingIp {
    const CHANGEABLE: &'static [&'static str] = &["server", "load_balancer", "reverse_ptr", "tags"];

    fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        match attribute {
            "reverse_ptr" => fields
                .required("reverse_ptr")?
                .clone_into(&mut self.reverse_ptr),
            _ => self.tags = fields.tags()?,
        }
        Ok(())
    }

    /// Where it points to is not a matter of its own.
    fn change(cloud: &mut Cloud, project: &str, id: &str, fields: &Fields) -> OrRefusal<bool> {
        let owner = owner(cloud, project)?;
        let floating = owner.floating_ips.get(id).ok_or_else(Refusal::not_found)?;
        let Some(attribute) = fields.only(Self::CHANGEABLE)? else {
            return Ok(false);
        };
        let mut moved = None;
        if matches!(attribute, "server" | "load_balancer") {
            let target = target(Some(owner), fields)?;
            // It can be moved, but not be made to point nowhere.
            let null = || Refusal::field(attribute, "This field may not be null.");
            let target = target.ok_or_else(null)?;
            let version = version_of(&floating.network.addr());
            target.check(floating.region.as_deref(), version)?;
            moved = Some(target.target());
        }
        let floating = Self::find(owner, id)?;
        match moved {
            Some(target) => floating.target = Some(target),
            None => floating.set(attribute, fields)?,
        }
        Ok(true)
    }
}

/// Gives a floating IP back.
pub(super) fn delete_floating_ip(cloud: &mut Cloud, project: &str, id: &str) -> OrRefusal {
    let floating = FloatingIp::take(cloud, project, id)?;
    let address = floating.network.addr();
    let name = pool(floating.region.as_deref(), version_of(&address));
    if let Some(pool) = cloud.floating.get_mut(&name) {
        pool.taken.remove(&address);
    }
    Ok(())
}

impl Patchable for Group {
    const CHANGEABLE: &'static [&'static str] = &["name", "tags"];

    fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        match attribute {
            "name" => self.name = fields.name()?,
            _ => self.tags = fields.tags()?,
        }
        Ok(())
    }
}

/// Deletes a group; its servers stay.
pub(super) fn delete_group(project: &mut Project, uuid: &str) -> OrRefusal {
    project.groups.remove(uuid).ok_or_else(Refusal::not_found)?;
    for server in project.servers.all_mut() {
        server.groups.retain(|group| group != uuid);
    }
    Ok(())
}
