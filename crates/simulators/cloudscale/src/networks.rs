//! Networks and subnets.

use std::net::IpAddr;

use ipnet::IpNet;

use super::Cloudscale;
use super::fields::Fields;
use super::model::{Cloud, Network, Project, Subnet};
use super::refusals::{OrRefusal, Refusal};
use super::shelf::{Patchable, keep};

/// The MTU of a network for which none is asked.
pub(super) const DEFAULT_MTU: u64 = 9000;
/// The longest prefix of a subnet.
const LONGEST_PREFIX: u8 = 24;
/// The resolvers of a subnet for which none are asked.
const RESOLVERS: [IpAddr; 2] = [
    IpAddr::V4(std::net::Ipv4Addr::new(5, 102, 144, 101)),
    IpAddr::V4(std::net::Ipv4Addr::new(5, 102, 144, 102)),
];

impl Cloudscale {
    pub(super) fn create_network(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
    ) -> OrRefusal<String> {
        let name = fields.name()?;
        let network = Network {
            uuid: self.world.random.uuid(),
            name,
            created_at: self.now(),
            mtu: mtu(fields)?.unwrap_or(DEFAULT_MTU),
            zone: fields.zone()?,
            tags: fields.tags()?,
        };
        let with_subnet = fields.flag("auto_create_ipv4_subnet", true)?;
        let uuid = keep(cloud, project, network);
        if with_subnet {
            let cidr = self.private_range();
            let mut subnet = Subnet::new(self.world.random.uuid(), &uuid, cidr);
            subnet.dns_servers = RESOLVERS.to_vec();
            keep(cloud, project, subnet);
        }
        Ok(uuid)
    }

    /// Any `10.x.y.0/24`.
    fn private_range(&self) -> IpNet {
        let third = u8::try_from(self.world.random.below(256)).unwrap_or(0);
        let second = u8::try_from(self.world.random.below(256)).unwrap_or(0);
        let range = ipnet::Ipv4Net::new([10, second, third, 0].into(), 24);
        range.map_or_else(|_| IpNet::default(), IpNet::from)
    }

    pub(super) fn create_subnet(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
    ) -> OrRefusal<String> {
        let network = fields.required("network")?;
        let owner = cloud.projects.get(project);
        let owner = owner.filter(|owner| owner.networks.get(network).is_some());
        let owner = owner.ok_or_else(|| Refusal::no_such("network", network))?;
        let cidr = cidr(fields.required("cidr")?)?;
        let overlaps = |subnet: &Subnet| {
            subnet.network == network
                && (subnet.cidr.contains(&cidr) || cidr.contains(&subnet.cidr))
        };
        if owner.subnets.all().any(overlaps) {
            return Err(Refusal::field(
                "cidr",
                "The subnet overlaps another one of its network.",
            ));
        }
        let mut subnet = Subnet::new(self.world.random.uuid(), network, cidr);
        subnet.gateway = gateway(fields, &cidr)?;
        subnet.dns_servers = resolvers(fields)?;
        subnet.tags = fields.tags()?;
        Ok(keep(cloud, project, subnet))
    }
}

impl Patchable for Network {
    const CHANGEABLE: &'static [&'static str] = &["name", "mtu", "tags"];

    fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        match attribute {
            "name" => self.name = fields.name()?,
            "mtu" => self.mtu = mtu(fields)?.unwrap_or(DEFAULT_MTU),
            _ => self.tags = fields.tags()?,
        }
        Ok(())
    }
}

impl Patchable for Subnet {
    const CHANGEABLE: &'static [&'static str] = &["gateway_address", "dns_servers", "tags"];

    fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        match attribute {
            "gateway_address" => self.gateway = gateway(fields, &self.cidr)?,
            "dns_servers" => self.dns_servers = resolvers(fields)?,
            _ => self.tags = fields.tags()?,
        }
        Ok(())
    }
}

/// Deletes a network and its subnets, unless a server or load balancer is attached.
pub(super) fn delete_network(project: &mut Project, uuid: &str) -> OrRefusal {
    project.networks.get(uuid).ok_or_else(Refusal::not_found)?;
    let mut interfaces = project.servers.all().flat_map(|server| &server.interfaces);
    if interfaces.any(|interface| interface.network == uuid) {
        return Err(Refusal::state(
            "There are servers attached to this network.",
        ));
    }
    let balanced = |subnet: &Subnet| subnet.network == uuid && is_balanced(project, &subnet.uuid);
    if project.subnets.all().any(balanced) {
        let message = "There are load balancers attached to this network.";
        return Err(Refusal::state(message));
    }
    project.subnets.retain(|subnet| subnet.network != uuid);
    project.networks.remove(uuid);
    Ok(())
}

/// Deletes a subnet, unless one of its addresses is in use.
pub(super) fn delete_subnet(project: &mut Project, uuid: &str) -> OrRefusal {
    let subnet = project.subnets.get(uuid).ok_or_else(Refusal::not_found)?;
    if !subnet.taken.is_empty() || is_balanced(project, uuid) {
        return Err(Refusal::state("There are addresses of this subnet in use."));
    }
    project.subnets.remove(uuid);
    Ok(())
}

/// Whether a load balancer has an address or a member in the subnet.
fn is_balanced(project: &Project, subnet: &str) -> bool {
    let mut vips = project.balancers.all().flat_map(|balancer| &balancer.vips);
    let mut members = project.pools.all().flat_map(|pool| pool.members.all());
    vips.any(|vip| vip.subnet == subnet) || members.any(|member| member.subnet == subnet)
}

fn mtu(fields: &Fields) -> OrRefusal<Option<u64>> {
    fields.number("mtu", 68..=65_535)
}

fn cidr(text: &str) -> OrRefusal<IpNet> {
    let wrong = || Refusal::field("cidr", "Enter a valid network address in CIDR notation.");
    let cidr: IpNet = text.parse().map_err(|_| wrong())?;
    if cidr.trunc() != cidr || cidr.addr().is_ipv6() {
        return Err(wrong());
    }
    if cidr.prefix_len() > LONGEST_PREFIX {
        let message = format!("The prefix length must be {LONGEST_PREFIX} or less.");
        return Err(Refusal::field("cidr", message));
    }
    Ok(cidr)
}

fn gateway(fields: &Fields, cidr: &IpNet) -> OrRefusal<Option<IpAddr>> {
    let address = fields.address("gateway_address")?;
    match address {
        Some(address) if !cidr.contains(&address) => {
            let message = format!("{address} is not a valid IP for the specified subnet.");
            Err(Refusal::field("gateway_address", message))
        }
        address => Ok(address),
    }
}

/// None asked for means the two defaults; an empty list means none.
fn resolvers(fields: &Fields) -> OrRefusal<Vec<IpAddr>> {
    let Some(texts) = fields.texts("dns_servers")? else {
        return Ok(RESOLVERS.to_vec());
    };
    let address = |text: &String| {
        let address = text.parse::<IpAddr>().ok();
        let usable = address.filter(|address| !address.is_unspecified());
        usable.ok_or_else(|| Refusal::field("dns_servers", format!("{text} is not a valid IP.")))
    };
    texts.iter().map(address).collect()
}

/// The resolvers of a subnet of a fixture.
pub(super) fn resolvers_or_default(given: Option<Vec<IpAddr>>) -> Vec<IpAddr> {
    given.unwrap_or_else(|| RESOLVERS.to_vec())
}
