//! Objects as the API shows them.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::catalog;
use super::model::{
    Address, Cloud, FloatingIp, Group, Interface, Network, Project, Server, Subnet, Target, Volume,
    version_of,
};

/// Shows the objects of one project, at one moment, under one base URL.
pub(super) struct View<'a> {
    pub(super) cloud: &'a Cloud,
    pub(super) project: &'a str,
    /// `http://host:port/v1`.
    pub(super) base: &'a str,
    pub(super) now: Timestamp,
}

impl View<'_> {
    /// The project whose objects are shown.
    pub(super) fn owner(&self) -> Option<&Project> {
        self.cloud.projects.get(self.project)
    }

    /// An object as it goes out: members that a fixture has deformed are replaced.
    pub(super) fn finished(&self, id: &str, mut shown: Value) -> Value {
        let deformed = self.owner().and_then(|owner| owner.deformed.get(id));
        for (key, value) in deformed.into_iter().flatten() {
            shown[key] = value.clone();
        }
        shown
    }

    pub(super) fn href(&self, collection: &str, id: &str) -> String {
        format!("{}/{collection}/{id}", self.base)
    }

    pub(super) fn stub(&self, collection: &str, uuid: &str, name: &str) -> Value {
        json!({"href": self.href(collection, uuid), "uuid": uuid, "name": name})
    }

    fn network_stub(&self, uuid: &str) -> Value {
        let network = self.cloud.network(self.project, uuid);
        network.map_or(Value::Null, |network| {
            self.stub("networks", uuid, &network.name)
        })
    }

    pub(super) fn subnet_stub(&self, subnet: &Subnet) -> Value {
        let href = self.href("subnets", &subnet.uuid);
        json!({"href": href, "uuid": subnet.uuid, "cidr": subnet.cidr})
    }

    pub(super) fn server(&self, server: &Server) -> Value {
        let volumes = server.volumes.iter().map(|volume| {
            let mut shown = self.stub("volumes", &volume.uuid, &volume.name);
            shown["type"] = json!(volume.kind);
            shown["size_gb"] = json!(volume.size_gb);
            shown
        });
        let interfaces = server
            .interfaces
            .iter()
            .map(|interface| self.interface(interface));
        let shown = json!({
            "href": self.href("servers", &server.uuid),
            "uuid": server.uuid,
            "name": server.name,
            "created_at": moment(server.created_at),
            "status": server.status(self.now).as_str(),
            "zone": {"slug": server.zone},
            "flavor": catalog::flavor(&server.flavor),
            "image": catalog::image(&server.image),
            "volumes": volumes.collect::<Vec<_>>(),
            "interfaces": interfaces.collect::<Vec<_>>(),
            "ssh_fingerprints": [],
            "ssh_host_keys": [],
            "anti_affinity_with": self.neighbours(server),
            "server_groups": self.groups_of(server),
            "tags": server.tags,
        });
        self.finished(&server.uuid, shown)
    }

    fn groups_of(&self, server: &Server) -> Vec<Value> {
        let project = self.owner();
        let groups = server
            .groups
            .iter()
            .filter_map(|uuid| project?.groups.get(uuid));
        groups
            .map(|group| self.stub("server-groups", &group.uuid, &group.name))
            .collect()
    }

    /// The other servers of its groups.
    fn neighbours(&self, server: &Server) -> Vec<Value> {
        // Most servers are in no group; looking through all of them would cost a list its speed.
        if server.groups.is_empty() {
            return Vec::new();
        }
        let project = self.owner();
        let servers = project
            .into_iter()
            .flat_map(|project| project.servers.all());
        let others = servers.filter(|other| {
            other.uuid != server.uuid && other.groups.iter().any(|g| server.groups.contains(g))
        });
        others
            .map(|other| self.stub("servers", &other.uuid, &other.name))
            .collect()
    }

    fn interface(&self, interface: &Interface) -> Value {
        let addresses = interface.addresses.iter();
        let addresses = addresses.map(|address| self.address(address, interface.public));
        json!({
            "type": if interface.public { "public" } else { "private" },
            "network": self.network_stub(&interface.network),
            "addresses": addresses.collect::<Vec<_>>(),
        })
    }

    fn address(&self, address: &Address, public: bool) -> Value {
        let subnet = self.cloud.subnet(self.project, &address.subnet);
        json!({
            "version": version_of(&address.address),
            "address": address.address,
            "prefix_length": subnet.map(|subnet| subnet.cidr.prefix_len()),
            "gateway": subnet.and_then(|subnet| subnet.gateway),
            "reverse_ptr": public.then(|| reverse_ptr(&address.address)),
            "subnet": subnet.map(|subnet| self.subnet_stub(subnet)),
        })
    }

    pub(super) fn volume(&self, server: &Server, volume: &Volume) -> Value {
        json!({
            "href": self.href("volumes", &volume.uuid),
            "uuid": volume.uuid,
            "name": volume.name,
            "created_at": moment(server.created_at),
            "type": volume.kind,
            "size_gb": volume.size_gb,
            "zone": {"slug": server.zone},
            "server_uuids": [server.uuid],
            "servers": [self.stub("servers", &server.uuid, &server.name)],
            "tags": {},
        })
    }

    pub(super) fn network(&self, network: &Network) -> Value {
        let project = self.owner();
        let subnets = project
            .into_iter()
            .flat_map(|project| project.subnets.all());
        let subnets = subnets.filter(|subnet| subnet.network == network.uuid);
        json!({
            "href": self.href("networks", &network.uuid),
            "uuid": network.uuid,
            "name": network.name,
            "created_at": moment(network.created_at),
            "mtu": network.mtu,
            "zone": {"slug": network.zone},
            "subnets": subnets.map(|subnet| self.subnet_stub(subnet)).collect::<Vec<_>>(),
            "tags": network.tags,
        })
    }

    pub(super) fn subnet(&self, subnet: &Subnet) -> Value {
        json!({
            "href": self.href("subnets", &subnet.uuid),
            "uuid": subnet.uuid,
            "cidr": subnet.cidr,
            "network": self.network_stub(&subnet.network),
            "gateway_address": subnet.gateway,
            "dns_servers": subnet.dns_servers,
            "tags": subnet.tags,
        })
    }

    pub(super) fn group(&self, group: &Group) -> Value {
        let project = self.owner();
        let servers = project
            .into_iter()
            .flat_map(|project| project.servers.all());
        let members = servers.filter(|server| server.groups.contains(&group.uuid));
        let members = members.map(|server| self.stub("servers", &server.uuid, &server.name));
        json!({
            "href": self.href("server-groups", &group.uuid),
            "uuid": group.uuid,
            "name": group.name,
            "created_at": moment(group.created_at),
            "type": group.kind,
            "zone": {"slug": group.zone},
            "servers": members.collect::<Vec<_>>(),
            "tags": group.tags,
        })
    }

    pub(super) fn floating_ip(&self, floating: &FloatingIp) -> Value {
        let address = floating.network.addr();
        let project = self.owner();
        let version = version_of(&address);
        let (server, balancer) = match &floating.target {
            None => (None, None),
            Some(Target::Server(uuid)) => (project.and_then(|p| p.servers.get(uuid)), None),
            Some(Target::Balancer(uuid)) => (None, project.and_then(|p| p.balancers.get(uuid))),
        };
        let next_hop = server.and_then(|server| server.public_address(version));
        let next_hop = next_hop.or_else(|| balancer?.public_address(version));
        json!({
            "href": self.href("floating-ips", &address.to_string()),
            "created_at": moment(floating.created_at),
            "network": floating.network,
            "ip_version": version,
            "type": if floating.region.is_some() { "regional" } else { "global" },
            "region": floating.region.as_ref().map(|slug| json!({ "slug": slug })),
            "server": server.map(|server| self.stub("servers", &server.uuid, &server.name)),
            "load_balancer": balancer.map(|balancer| self.balancer_stub(&balancer.uuid)),
            "next_hop": next_hop,
            "reverse_ptr": floating.reverse_ptr,
            "tags": floating.tags,
        })
    }
}

/// RFC 3339 with microseconds, as the API writes every moment.
pub(super) fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// The name that an address has in the provider's reverse zone.
pub(super) fn reverse_ptr(address: &IpAddr) -> String {
    let dashed = address.to_string().replace(['.', ':'], "-");
    format!("{dashed}.cust.cloudscale.ch")
}
