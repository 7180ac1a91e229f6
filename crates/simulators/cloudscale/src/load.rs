//! Loading a fixture: public networks, private ones, floating IPs.

use bowline_simulator::control::{add_all, add_faults};
use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_simulator::World;
use ipnet::IpNet;

use super::balancers::find_balancer;
use super::catalog::{DEFAULT_ZONE, ZONES};
use super::config::Config;
use super::fields::check_zone;
use super::fixture::{FloatingIpSpec, NetworkSpec};
use super::model::{Cloud, FloatingIp, Network, PublicNetwork, Subnet, Target, host, version_of};
use super::networks::{DEFAULT_MTU, resolvers_or_default};
use super::render::reverse_ptr;
use super::shelf::keep;
use super::{Cloudscale, ControlError, ControlResult, floating};

impl Cloudscale {
    /// A cloud with its public networks and nothing else.
    pub(super) fn empty(world: &World, config: &Config) -> Cloud {
        let mut cloud = Cloud {
            timings: config.timings,
            quirks: config.quirks,
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
                    tags: BTreeMap::new(),
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

    pub(super) fn load(&self) -> ControlResult {
        add_all(&self.fixture.networks, |network| self.add_network(network))?;
        add_all(&self.fixture.machines, |machine| self.add_server(machine))?;
        add_all(&self.fixture.load_balancers, |balancer| {
            self.add_balancer(balancer)
        })?;
        add_all(&self.fixture.floating_ips, |floating| {
            self.add_floating_ip(floating)
        })?;
        add_faults(&self.world, super::NAME, &self.fixture.faults)
    }

    /// Adds a network with its subnets and returns its uuid.
    pub fn add_network(&self, spec: &NetworkSpec) -> ControlResult<String> {
        let failed = |reason: String| ControlError::new("add the network", &spec.name, reason);
        let zone = spec.zone.clone().unwrap_or_else(|| DEFAULT_ZONE.to_owned());
        check_zone("zone", &zone).map_err(|refusal| failed(refusal.message))?;
        let uuid = self.world.id_or(spec.uuid.as_ref());
        let mut cloud = self.lock();
        let project = cloud.projects.entry(spec.project.clone()).or_default();
        if project.networks.get(&uuid).is_some() {
            return Err(failed(format!("the uuid {uuid} exists already")));
        }
        for subnet in &spec.subnets {
            let id = self.world.id_or(subnet.uuid.as_ref());
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

    /// Adds a floating IP and returns its address.
    pub fn add_floating_ip(&self, spec: &FloatingIpSpec) -> ControlResult<IpAddr> {
        let failed = |reason: String| ControlError {
            task: "add the floating IP",
            object: spec
                .address
                .map_or_else(|| "of any address".to_owned(), |a| a.to_string()),
            reason,
        };
        let mut cloud = self.lock();
        let here = |found: &(String, String)| found.0 == spec.project;
        let target = match (&spec.machine, &spec.load_balancer) {
            (None, None) => None,
            (Some(_), Some(_)) => return Err(failed("it points to one thing only".to_owned())),
            (Some(machine), None) => {
                let found = cloud.find(machine).filter(here);
                let found = found.ok_or_else(|| failed(format!("no machine {machine:?}")))?;
                Some(Target::Server(found.1))
            }
            (None, Some(balancer)) => {
                let found = find_balancer(&cloud, balancer).filter(here);
                let missing = || failed(format!("no load balancer {balancer:?}"));
                Some(Target::Balancer(found.ok_or_else(missing)?.1))
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
            target,
            reverse_ptr: reverse_ptr(&address),
            tags: spec.tags.clone(),
        };
        keep(&mut cloud, &spec.project, floating);
        Ok(address)
    }
}
