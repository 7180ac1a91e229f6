//! Attaching servers to networks: every form in which an interface can be asked for.

use std::net::IpAddr;

use serde_json::Value;

use super::fields::Fields;
use super::model::{Address, Cloud, Interface};
use super::refusals::{OrRefusal, Refusal};

/// The word that asks for the public network.
pub(super) const PUBLIC: &str = "public";

/// An interface as it was asked for.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// `public`, a network's uuid, or none: the one of its subnets.
    pub(super) network: Option<String>,
    /// None: chosen; empty: layer 2 only.
    pub(super) addresses: Option<Vec<WantedAddress>>,
}

/// An address as it was asked for: a subnet, an address, or both.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedAddress {
    pub(super) subnet: Option<String>,
    pub(super) address: Option<IpAddr>,
}

impl Wanted {
    pub(super) fn public() -> Self {
        let network = Some(PUBLIC.to_owned());
        Self {
            network,
            addresses: None,
        }
    }

    /// All interfaces of a request.
    pub(super) fn parse(list: &[Value]) -> OrRefusal<Vec<Self>> {
        list.iter().map(Self::parse_one).collect()
    }

    fn parse_one(value: &Value) -> OrRefusal<Self> {
        let fields = Fields::within("interfaces", value)?;
        let network = fields.text("network")?.map(str::to_owned);
        let addresses = match fields.list("addresses")? {
            None => None,
            Some(list) => Some(
                list.iter()
                    .map(parse_address)
                    .collect::<Result<Vec<_>, _>>()?,
            ),
        };
        let by_subnet = addresses
            .iter()
            .flatten()
            .any(|address| address.subnet.is_some());
        if network.is_none() && !by_subnet {
            return Err(Refusal::field(
                "interfaces",
                "Either network or subnet is required.",
            ));
        }
        Ok(Self { network, addresses })
    }
}

fn parse_address(value: &Value) -> OrRefusal<WantedAddress> {
    let fields = Fields::within("addresses", value)?;
    let address = WantedAddress {
        subnet: fields.text("subnet")?.map(str::to_owned),
        address: fields.address("address")?,
    };
    if address.subnet.is_none() && address.address.is_none() {
        return Err(Refusal::field(
            "addresses",
            "Either subnet or address is required.",
        ));
    }
    Ok(address)
}

/// Attaches a server: takes all addresses, or none if one cannot be had.
pub(super) fn attach(
    cloud: &mut Cloud,
    project: &str,
    zone: &str,
    wanted: &[Wanted],
    ipv6: bool,
) -> OrRefusal<Vec<Interface>> {
    let mut attached = Vec::new();
    for wanted in wanted {
        let result = if wanted.network.as_deref() == Some(PUBLIC) {
            attach_public(cloud, zone, wanted, ipv6)
        } else {
            attach_private(cloud, project, zone, wanted)
        };
        match result {
            Ok(interface) => attached.push(interface),
            Err(refusal) => {
                for interface in attached {
                    release(cloud, project, &interface.addresses);
                }
                return Err(refusal);
            }
        }
    }
    Ok(attached)
}

/// Gives addresses back.
pub(super) fn release<'a>(
    cloud: &mut Cloud,
    project: &str,
    addresses: impl IntoIterator<Item = &'a Address>,
) {
    for address in addresses {
        if let Some(subnet) = cloud.subnet_mut(project, &address.subnet) {
            subnet.taken.remove(&address.address);
        }
    }
}

fn attach_public(
    cloud: &mut Cloud,
    zone: &str,
    wanted: &Wanted,
    ipv6: bool,
) -> OrRefusal<Interface> {
    let refused = || Refusal::state("There is no public address left.");
    let public = cloud.public.get_mut(zone).ok_or_else(refused)?;
    let mut interface = Interface {
        public: true,
        network: public.network.uuid.clone(),
        addresses: Vec::new(),
    };
    if let Some(given) = &wanted.addresses {
        // Only scenes give public addresses; requests leave them to the cloud.
        for address in given.iter().filter_map(|given| given.address) {
            let subnet = if address.is_ipv4() {
                &mut public.ipv4
            } else {
                &mut public.ipv6
            };
            subnet.taken.insert(address);
            let subnet = subnet.uuid.clone();
            interface.addresses.push(Address { address, subnet });
        }
        return Ok(interface);
    }
    for subnet in [Some(&mut public.ipv4), ipv6.then_some(&mut public.ipv6)]
        .into_iter()
        .flatten()
    {
        let address = subnet.take_any().ok_or_else(refused)?;
        let subnet = subnet.uuid.clone();
        interface.addresses.push(Address { address, subnet });
    }
    Ok(interface)
}

fn attach_private(
    cloud: &mut Cloud,
    project: &str,
    zone: &str,
    wanted: &Wanted,
) -> OrRefusal<Interface> {
    let network = network_of(cloud, project, wanted)?;
    let known = cloud.network(project, &network);
    let known = known.ok_or_else(|| Refusal::no_such("network", &network))?;
    if known.zone != zone {
        let message = format!("The network is in zone {}, not in {zone}.", known.zone);
        return Err(Refusal::field("network", message));
    }
    let mut interface = Interface {
        public: false,
        network: network.clone(),
        addresses: Vec::new(),
    };
    let wanted = match &wanted.addresses {
        Some(addresses) => addresses.clone(),
        // One address of the network's first subnet, if it has one.
        None => subnets_of(cloud, project, &network)
            .into_iter()
            .take(1)
            .map(|uuid| WantedAddress {
                subnet: Some(uuid),
                address: None,
            })
            .collect(),
    };
    for wanted in wanted {
        match take(cloud, project, &network, &wanted) {
            Ok(address) => interface.addresses.push(address),
            Err(refusal) => {
                release(cloud, project, &interface.addresses);
                return Err(refusal);
            }
        }
    }
    Ok(interface)
}

/// The network that is meant: named, or the one of the first subnet that is.
fn network_of(cloud: &Cloud, project: &str, wanted: &Wanted) -> OrRefusal<String> {
    if let Some(network) = &wanted.network {
        return Ok(network.clone());
    }
    let mut subnets = wanted
        .addresses
        .iter()
        .flatten()
        .filter_map(|a| a.subnet.as_ref());
    let uuid = subnets.next().ok_or_else(|| Refusal::required("network"))?;
    let subnet = own_subnet(cloud, project, uuid)?;
    Ok(subnet.network.clone())
}

fn own_subnet<'a>(
    cloud: &'a Cloud,
    project: &str,
    uuid: &str,
) -> OrRefusal<&'a super::model::Subnet> {
    let own = cloud
        .projects
        .get(project)
        .and_then(|project| project.subnets.get(uuid));
    own.ok_or_else(|| Refusal::no_such("subnet", uuid))
}

fn subnets_of(cloud: &Cloud, project: &str, network: &str) -> Vec<String> {
    let subnets = cloud
        .projects
        .get(project)
        .into_iter()
        .flat_map(|p| p.subnets.all());
    let subnets = subnets.filter(|subnet| subnet.network == network);
    subnets.map(|subnet| subnet.uuid.clone()).collect()
}

/// Takes one address of a network.
fn take(
    cloud: &mut Cloud,
    project: &str,
    network: &str,
    wanted: &WantedAddress,
) -> OrRefusal<Address> {
    let uuid = match (&wanted.subnet, wanted.address) {
        (Some(uuid), _) => uuid.clone(),
        (None, Some(address)) => {
            let mut subnets = subnets_of(cloud, project, network).into_iter();
            let holds = |uuid: &String| {
                cloud
                    .subnet(project, uuid)
                    .is_some_and(|s| s.cidr.contains(&address))
            };
            subnets.find(holds).ok_or_else(|| not_valid(address))?
        }
        (None, None) => return Err(Refusal::required("subnet")),
    };
    if own_subnet(cloud, project, &uuid)?.network != network {
        return Err(Refusal::field(
            "subnet",
            "The subnet does not belong to the network.",
        ));
    }
    let subnet = cloud.subnet_mut(project, &uuid);
    let subnet = subnet.ok_or_else(|| Refusal::no_such("subnet", &uuid))?;
    let address = match wanted.address {
        Some(address) if subnet.take(address) => address,
        Some(address) => return Err(not_valid(address)),
        None => {
            let free = subnet.take_any();
            free.ok_or_else(|| Refusal::state("There is no free address left in the subnet."))?
        }
    };
    Ok(Address {
        address,
        subnet: uuid,
    })
}

fn not_valid(address: IpAddr) -> Refusal {
    let message = format!("{address} is not a valid IP for the specified subnet.");
    Refusal::field("address", message)
}
