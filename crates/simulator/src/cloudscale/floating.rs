//! Floating IPs, and server groups beside them.

use std::net::IpAddr;

use ipnet::IpNet;

use super::catalog;
use super::fields::Fields;
use super::model::{Cloud, FloatingIp, Group, Project, Server, host, version_of};
use super::refusal::Refusal;
use super::render::reverse_ptr;
use super::servers::check_name;
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
    ) -> Result<String, Refusal> {
        let version = match fields.number("ip_version", 0..=255)? {
            Some(4) => 4,
            Some(6) => 6,
            Some(_) => return Err(Refusal::field("ip_version", "Expect one of: 4, 6.")),
            None => return Err(Refusal::required("ip_version")),
        };
        let server = target(cloud.projects.get(project), fields)?;
        let region = region(fields, server)?;
        let server = match server {
            None => None,
            Some(server) => {
                check_target(server, region.as_deref(), version)?;
                Some(server.uuid.clone())
            }
        };
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
            server,
            tags,
        };
        let id = network.addr().to_string();
        cloud
            .projects
            .entry(project.to_owned())
            .or_default()
            .floating_ips
            .insert(&id, floating);
        Ok(id)
    }

    pub(super) fn create_group(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
    ) -> Result<String, Refusal> {
        let name = fields.required("name")?;
        check_name(name)?;
        let kind = fields.required("type")?;
        if kind != "anti-affinity" {
            return Err(Refusal::field("type", "Expect one of: anti-affinity."));
        }
        let group = Group {
            uuid: self.world.random.uuid(),
            name: name.to_owned(),
            created_at: self.now(),
            kind: kind.to_owned(),
            zone: fields.zone()?,
            tags: fields.tags()?,
        };
        let uuid = group.uuid.clone();
        cloud
            .projects
            .entry(project.to_owned())
            .or_default()
            .groups
            .insert(&uuid, group);
        Ok(uuid)
    }
}

/// The server that is named, if one is. There are no load balancers to name yet.
fn target<'a>(
    project: Option<&'a Project>,
    fields: &Fields,
) -> Result<Option<&'a Server>, Refusal> {
    if let Some(balancer) = fields.text("load_balancer")? {
        return Err(Refusal::no_such("load_balancer", balancer));
    }
    let Some(uuid) = fields.text("server")? else {
        return Ok(None);
    };
    let server = project.and_then(|project| project.servers.get(uuid));
    server
        .map(Some)
        .ok_or_else(|| Refusal::no_such("server", uuid))
}

/// The region that is asked for, or the target's, or the first; none: global.
fn region(fields: &Fields, server: Option<&Server>) -> Result<Option<String>, Refusal> {
    match fields.text("type")? {
        None | Some("regional") => {}
        Some("global") => return Ok(None),
        Some(_) => return Err(Refusal::field("type", "Expect one of: regional, global.")),
    }
    let targets = server.and_then(|server| catalog::region_of(&server.zone));
    let region = fields.text("region")?.or(targets).unwrap_or(ZONES[0].1);
    if ZONES.iter().any(|(_, slug)| *slug == region) {
        return Ok(Some(region.to_owned()));
    }
    let choices = ZONES.map(|(_, slug)| slug).join(", ");
    let message = format!("\"{region}\" is not a valid choice. Choose one of: {choices}");
    Err(Refusal::field("region", message))
}

/// A floating IP needs a target in its region, with a public address of its version.
fn check_target(server: &Server, region: Option<&str>, version: u8) -> Result<(), Refusal> {
    if region.is_some() && region != catalog::region_of(&server.zone) {
        return Err(Refusal::field("server", "The server is in another region."));
    }
    if server.public_address(version).is_none() {
        let message = format!("The server has no public IPv{version} address.");
        return Err(Refusal::field("server", message));
    }
    Ok(())
}

fn draw(cloud: &mut Cloud, region: Option<&str>, version: u8) -> Result<IpNet, Refusal> {
    let pool = cloud.floating.get_mut(&pool(region, version));
    let address = pool.and_then(super::model::Subnet::take_any);
    let address = address.ok_or_else(|| Refusal::state("There is no Floating IP left."))?;
    Ok(IpNet::from(address))
}

/// Draws the next network that nobody has.
fn draw_network(cloud: &mut Cloud, region: Option<&str>) -> Result<IpNet, Refusal> {
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

pub(super) fn change_floating_ip(
    project: &mut Project,
    id: &str,
    fields: &Fields,
) -> Result<(), Refusal> {
    let floating = project
        .floating_ips
        .get(id)
        .ok_or_else(Refusal::not_found)?;
    let version = version_of(&floating.network.addr());
    let region = floating.region.clone();
    let attribute = fields.only(&["server", "load_balancer", "reverse_ptr", "tags"])?;
    let moved_to = match attribute {
        Some(key @ ("server" | "load_balancer")) => {
            let server = target(Some(project), fields)?;
            let server =
                server.ok_or_else(|| Refusal::field(key, "This field may not be null."))?;
            check_target(server, region.as_deref(), version)?;
            Some(server.uuid.clone())
        }
        _ => None,
    };
    let floating = project
        .floating_ips
        .get_mut(id)
        .ok_or_else(Refusal::not_found)?;
    match attribute {
        Some("server" | "load_balancer") => floating.server = moved_to,
        Some("reverse_ptr") => fields
            .required("reverse_ptr")?
            .clone_into(&mut floating.reverse_ptr),
        Some("tags") => floating.tags = fields.tags()?,
        _ => {}
    }
    Ok(())
}

/// Gives a floating IP back.
pub(super) fn delete_floating_ip(
    cloud: &mut Cloud,
    project: &str,
    id: &str,
) -> Result<(), Refusal> {
    let owner = cloud
        .projects
        .get_mut(project)
        .ok_or_else(Refusal::not_found)?;
    let floating = owner
        .floating_ips
        .remove(id)
        .ok_or_else(Refusal::not_found)?;
    let address = floating.network.addr();
    let name = pool(floating.region.as_deref(), version_of(&address));
    if let Some(pool) = cloud.floating.get_mut(&name) {
        pool.taken.remove(&address);
    }
    Ok(())
}

pub(super) fn change_group(
    project: &mut Project,
    uuid: &str,
    fields: &Fields,
) -> Result<(), Refusal> {
    let group = project
        .groups
        .get_mut(uuid)
        .ok_or_else(Refusal::not_found)?;
    match fields.only(&["name", "tags"])? {
        Some("name") => {
            let name = fields.required("name")?;
            check_name(name)?;
            name.clone_into(&mut group.name);
        }
        Some("tags") => group.tags = fields.tags()?,
        _ => {}
    }
    Ok(())
}

/// Deletes a group; its servers stay.
pub(super) fn delete_group(project: &mut Project, uuid: &str) -> Result<(), Refusal> {
    project.groups.remove(uuid).ok_or_else(Refusal::not_found)?;
    for server in project.servers.all_mut() {
        server.groups.retain(|group| group != uuid);
    }
    Ok(())
}
