//! Networks, fabrics, packages and images.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde_json::{Value, json};

use super::model::{Cloud, Network};
use super::refusals::{OrRefusal, Refusal, Reply};
use super::routes::Asked;
use super::{Triton, render};

/// What may be said about a fabric network when it is changed.
const CHANGEABLE: [&str; 6] = [
    "name",
    "description",
    "resolvers",
    "routes",
    "provision_start_ip",
    "provision_end_ip",
];
/// What a path or the API itself adds to the parameters.
const BESIDE: [&str; 3] = ["account", "vlan_id", "id"];

impl Triton {
    /// Carries out a call about networks, packages or images, if it is one.
    pub(super) fn network_call(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
    ) -> OrRefusal<Option<Reply>> {
        if asked.operation.contains("fabric") {
            return self.fabric_call(cloud, asked).map(Some);
        }
        let reply = match asked.operation {
            "listnetworks" => self.list_networks(cloud, asked)?,
            "getnetwork" => {
                let network = cloud.networks.get(&asked.text("network"));
                let network = network.filter(|it| it.is_visible_to(&asked.account));
                let missing = || Refusal::not_found("network not found");
                let network = network.ok_or_else(missing)?;
                Reply::ok(render::network(cloud, network, cloud.account(asked)?))
            }
            "listpackages" => {
                let wanted = asked.parameters.text("name");
                let fits = |name: &str| {
                    wanted
                        .as_ref()
                        .is_none_or(|wanted| bowline_simulator::glob::fits(wanted, name))
                };
                let all = cloud.packages.all().filter(|it| fits(&it.name));
                Reply::list(all.map(render::package).collect())
            }
            "getpackage" => {
                let found = cloud.find_package(&asked.text("package"));
                let found = found.ok_or_else(|| Refusal::not_found("package not found"))?;
                Reply::ok(render::package(found))
            }
            "listimages" => {
                let name = asked.parameters.text("name");
                let state = asked.parameters.text("state");
                let state = state.as_deref().unwrap_or("active");
                let all = cloud.images.all().filter(|it| {
                    name.as_ref().is_none_or(|name| it.name == *name)
                        && (state == "all" || it.state == state)
                });
                Reply::list(all.map(render::image).collect())
            }
            "getimage" => {
                let found = cloud.images.get(&asked.text("image"));
                let found = found.ok_or_else(|| Refusal::not_found("image not found"))?;
                Reply::ok(render::image(found))
            }
            _ => return Ok(None),
        };
        Ok(Some(reply))
    }

    fn list_networks(&self, cloud: &Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
        let account = cloud.account(asked)?;
        let down = account.names_enabled && cloud.quirks.names_down;
        if down && !cloud.quirks.networks_without_suffixes {
            return Err(Refusal::names_unavailable());
        }
        let fabric = asked.parameters.flag("fabric") == Some(true);
        let seen = cloud
            .networks
            .all()
            .filter(|it| it.is_visible_to(&asked.account));
        let seen = seen.filter(|it| !fabric || it.vlan.is_some());
        let mut shown: Vec<Value> = seen.map(|it| render::network(cloud, it, account)).collect();
        if cloud.quirks.shuffled_networks {
            for last in (1..shown.len()).rev() {
                let other = self.world.random.below(last as u64 + 1);
                shown.swap(last, usize::try_from(other).unwrap_or(last));
            }
        }
        Ok(Reply::list(shown))
    }

    fn fabric_call(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
        if cloud.quirks.no_fabrics {
            return Err(Refusal::fabrics_off());
        }
        if asked.operation.contains("vlan") {
            return vlan_call(cloud, asked);
        }
        let vlan = vlan_of(cloud, asked)?;
        let id = asked.text("id");
        let ours = |it: &&Network| {
            it.vlan == Some(vlan) && it.owner.as_deref() == Some(asked.account.as_str())
        };
        if asked.operation == "listfabricnetworks" {
            known_only(asked, &[])?;
            let account = cloud.account(asked)?;
            let all = cloud.networks.all().filter(ours);
            return Ok(Reply::list(
                all.map(|it| render::network(cloud, it, account)).collect(),
            ));
        }
        if asked.operation == "createfabricnetwork" {
            let made = self.new_fabric_network(cloud, asked, vlan)?;
            let place = asked.place(&format!(
                "fabrics/default/vlans/{vlan}/networks/{}",
                made.id
            ));
            let shown = render::network(cloud, &made, cloud.account(asked)?);
            cloud.networks.insert(&made.id.clone(), made);
            return Ok(Reply::created(shown, place));
        }
        let network = cloud.networks.get(&id).filter(ours);
        let mut network = network
            .ok_or_else(|| Refusal::not_found("network not found"))?
            .clone();
        match asked.operation {
            "updatefabricnetwork" => {
                change(&mut network, asked)?;
                cloud.networks.insert(&id, network.clone());
            }
            "deletefabricnetwork" => {
                if network.default || !cloud.used_addresses(&id).is_empty() {
                    return Err(Refusal::conflict("InUseError", "Network is in use"));
                }
                cloud.networks.remove(&id);
                return Ok(Reply::no_content());
            }
            _ => known_only(asked, &[])?,
        }
        Ok(Reply::ok(render::network(
            cloud,
            &network,
            cloud.account(asked)?,
        )))
    }

    fn new_fabric_network(
        &self,
        cloud: &Cloud,
        asked: &Asked<'_>,
        vlan: u16,
    ) -> OrRefusal<Network> {
        let more = ["subnet", "gateway", "internet_nat"];
        known_only(asked, &[&CHANGEABLE[..], &more[..]].concat())?;
        let name = asked.parameters.text("name");
        let subnet = parsed::<Ipv4Net>(asked, "subnet")?;
        let subnet = subnet.ok_or_else(|| Refusal::missing("property \"subnet\": is missing"))?;
        let subnet = subnet.trunc();
        let mut network = Network {
            id: self.world.random.uuid(),
            name: name.ok_or_else(|| Refusal::missing("property \"name\": is missing"))?,
            description: None,
            public: false,
            owner: Some(asked.account.clone()),
            vlan: Some(vlan),
            subnet,
            start: after(subnet.network(), 5),
            end: before(subnet.broadcast(), 5),
            gateway: parsed(asked, "gateway")?,
            resolvers: Vec::new(),
            routes: BTreeMap::new(),
            nat: asked.parameters.flag("internet_nat").unwrap_or(true),
            zones: cloud.wildcard_zone.iter().cloned().collect(),
            members: Vec::new(),
            hidden: false,
            default: false,
        };
        change_what_is_given(&mut network, asked)?;
        Ok(network)
    }
}

fn after(address: Ipv4Addr, by: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(address).saturating_add(by))
}

fn before(address: Ipv4Addr, by: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(address).saturating_sub(by))
}

fn invalid(property: &str, what: &str) -> Refusal {
    Refusal::argument(format!("property \"{property}\": {what}"))
}

/// An error if something is said that may not be said there.
fn known_only(asked: &Asked<'_>, known: &[&str]) -> OrRefusal {
    let mut names = asked.parameters.0.keys().map(String::as_str);
    match names.find(|name| !known.contains(name) && !BESIDE.contains(name)) {
        Some(other) => Err(invalid(other, "unsupported property")),
        None => Ok(()),
    }
}

fn parsed<T: std::str::FromStr>(asked: &Asked<'_>, name: &str) -> OrRefusal<Option<T>> {
    let Some(text) = asked.parameters.text(name) else {
        return Ok(None);
    };
    let parsed = text.parse().map(Some);
    parsed.map_err(|_| invalid(name, &format!("invalid value {text}")))
}

fn vlan_of(cloud: &Cloud, asked: &Asked<'_>) -> OrRefusal<u16> {
    let vlan = asked.text("vlan_id").parse().ok();
    let vlan =
        vlan.ok_or_else(|| invalid("vlan_id", "VLAN must be a number between 0 and 4095"))?;
    let known = cloud.account(asked)?.vlans.contains_key(&vlan);
    known
        .then_some(vlan)
        .ok_or_else(|| Refusal::not_found("vlan not found"))
}

fn vlan_call(cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
    known_only(asked, &["name", "description"])?;
    let show = |id: u16, (name, text): &(String, Option<String>)| {
        let mut shown = json!({ "vlan_id": id, "name": name });
        if let Some(text) = text {
            shown["description"] = text.as_str().into();
        }
        shown
    };
    let account = cloud.account(asked)?;
    if asked.operation == "listfabricvlans" {
        let all = account.vlans.iter().map(|(id, vlan)| show(*id, vlan));
        return Ok(Reply::list(all.collect()));
    }
    let (name, text) = (
        asked.parameters.text("name"),
        asked.parameters.text("description"),
    );
    if asked.operation == "createfabricvlan" {
        let id = asked.text("vlan_id").parse().ok().filter(|id| *id < 4096);
        let id: u16 = id.ok_or_else(|| invalid("vlan_id", "invalid VLAN"))?;
        if account.vlans.contains_key(&id) {
            return Err(invalid("vlan_id", "already exists"));
        }
        let vlan = (name.ok_or_else(|| invalid("name", "is missing"))?, text);
        let shown = show(id, &vlan);
        cloud.account_mut(asked)?.vlans.insert(id, vlan);
        return Ok(Reply::created(
            shown,
            asked.place(&format!("fabrics/default/vlans/{id}")),
        ));
    }
    let id = vlan_of(cloud, asked)?;
    if asked.operation == "deletefabricvlan" {
        let used = cloud
            .networks
            .all()
            .any(|it| it.vlan == Some(id) && it.owner.as_deref() == Some(asked.account.as_str()));
        if used {
            return Err(Refusal::conflict(
                "InUseError",
                "VLAN must not have any networks",
            ));
        }
        cloud.account_mut(asked)?.vlans.remove(&id);
        return Ok(Reply::no_content());
    }
    let account = cloud.account_mut(asked)?;
    let vlan = account.vlans.entry(id).or_default();
    if asked.operation == "updatefabricvlan" {
        vlan.0 = name.unwrap_or_else(|| vlan.0.clone());
        vlan.1 = text.or_else(|| vlan.1.clone());
    }
    Ok(Reply::ok(show(id, vlan)))
}

/// Changes a fabric network; only some things can be.
fn change(network: &mut Network, asked: &Asked<'_>) -> OrRefusal {
    known_only(asked, &CHANGEABLE)?;
    change_what_is_given(network, asked)
}

fn change_what_is_given(network: &mut Network, asked: &Asked<'_>) -> OrRefusal {
    if let Some(routes) = asked.parameters.get("routes") {
        network.routes = routes_of(routes).ok_or_else(|| invalid("routes", "invalid route"))?;
    }
    if let Some(given) = asked.parameters.get("resolvers") {
        let all = given.as_array().cloned().unwrap_or_default();
        let all = all
            .iter()
            .map(|one| one.as_str().and_then(|one| one.parse().ok()));
        let all: Option<Vec<Ipv4Addr>> = all.collect();
        network.resolvers = all.ok_or_else(|| invalid("resolvers", "invalid IP"))?;
    }
    network.name = asked
        .parameters
        .text("name")
        .unwrap_or_else(|| network.name.clone());
    let text = asked.parameters.text("description");
    network.description = text.or_else(|| network.description.clone());
    network.start = parsed(asked, "provision_start_ip")?.unwrap_or(network.start);
    network.end = parsed(asked, "provision_end_ip")?.unwrap_or(network.end);
    for (name, address) in [
        ("provision_start_ip", network.start),
        ("provision_end_ip", network.end),
    ] {
        if !network.subnet.contains(&address) {
            return Err(invalid(name, "must be in the subnet"));
        }
    }
    Ok(())
}

/// Routes as the server keeps them: destinations without host bits.
fn routes_of(given: &Value) -> Option<BTreeMap<String, String>> {
    let mut routes = BTreeMap::new();
    for (destination, hop) in given.as_object()? {
        let destination = match destination.parse::<Ipv4Net>() {
            Ok(net) => net.trunc().to_string(),
            Err(_) => destination.parse::<Ipv4Addr>().ok()?.to_string(),
        };
        let hop = hop.as_str()?;
        if hop != "linklocal" {
            hop.parse::<Ipv4Addr>().ok()?;
        }
        routes.insert(destination, hop.to_owned());
    }
    Some(routes)
}
