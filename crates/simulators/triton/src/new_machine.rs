//! New machines: what is asked for, whether it may be, and where it runs.

use std::net::Ipv4Addr;

use serde_json::{Map, Value};

use super::jobs::{Card, Work};
use super::model::{Cloud, Image, Machine, Network, Nic, Package, State};
use super::refusals::{OrRefusal, Refusal, Reply};
use super::routes::Asked;
use super::{Triton, render, tag_rules};

impl Triton {
    pub(super) fn create_machine(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
        let account = cloud.account(asked)?;
        if account.keys.is_empty() {
            let message = "You must have an SSH key in your account before provisioning";
            return Err(Refusal::conflict("KeyRequired", message));
        }
        let id = self.world.random.uuid();
        let image = wanted_image(cloud, asked)?;
        let package = wanted_package(cloud, asked)?;
        let cards = wanted_cards(cloud, asked, &package)?;
        let (tags, metadata) = wanted_labels(asked)?;
        let name = asked
            .parameters
            .text("name")
            .unwrap_or_else(|| id[..8].to_owned());
        let name = name.replace("{{shortId}}", &id[..8]);
        cloud.check_name(&name, asked, None)?;
        let brand = brand(asked, &package, &image);
        cloud.check_limits(asked, &package, &image, &brand)?;
        let machine = Machine {
            id: id.clone(),
            name,
            owner: asked.account.clone(),
            brand,
            state: State::Provisioning,
            image: image.id,
            package: package.name,
            memory: package.memory.into(),
            disk: package.disk.into(),
            metadata,
            tags,
            nics: Vec::new(),
            firewall: asked.parameters.flag("firewall_enabled").unwrap_or(false),
            protected: asked
                .parameters
                .flag("deletion_protection")
                .unwrap_or(false),
            compute_node: cloud.place(&affinity(asked)),
            docker: false,
            created: asked.now,
            updated: asked.now,
            role_tags: role_tags(asked),
            deeds: Vec::new(),
            busy_until: asked.now,
            image_lost: false,
        };
        let mut shown = render::machine(cloud, &machine);
        // The name of the package is reported from the next read on.
        shown["package"] = "".into();
        cloud.machines.insert(id.clone(), machine);
        cloud.touch(&id, &["state", "alias", "owner_uuid"], asked.now);
        let failed = cloud.fail_provisions > 0;
        cloud.fail_provisions = cloud.fail_provisions.saturating_sub(1);
        let deed = Some(("provision", asked.caller.clone()));
        let work = Work::Provisioned { cards, failed };
        cloud.begin(&id, asked.now, cloud.timings.provision, deed, work);
        Ok(Reply::created(
            shown,
            asked.place(&format!("machines/{id}")),
        ))
    }
}

/// The roles of the one who asks, or those that they name.
fn role_tags(asked: &Asked<'_>) -> Vec<String> {
    let header = asked.request.headers().get("role-tag");
    match header.and_then(|header| header.to_str().ok()) {
        Some(named) => named
            .split(',')
            .map(|role| role.trim().to_owned())
            .collect(),
        None => asked.roles.clone(),
    }
}

fn wanted_image(cloud: &Cloud, asked: &Asked<'_>) -> OrRefusal<Image> {
    let id = asked
        .parameters
        .text("image")
        .or_else(|| asked.parameters.text("dataset"));
    let id = id.ok_or_else(|| Refusal::missing("image is required"))?;
    let image = cloud
        .images
        .get(&id)
        .filter(|image| image.state == "active");
    image
        .cloned()
        .ok_or_else(|| Refusal::argument(format!("image {id} does not exist")))
}

fn wanted_package(cloud: &Cloud, asked: &Asked<'_>) -> OrRefusal<Package> {
    let name = asked.parameters.text("package");
    let name = name.ok_or_else(|| Refusal::missing("package is required"))?;
    let package = cloud.find_package(&name);
    package
        .cloned()
        .ok_or_else(|| Refusal::argument(format!("package {name} does not exist")))
}

/// Tags, or metadata.
type Labels = Map<String, Value>;

fn wanted_labels(asked: &Asked<'_>) -> OrRefusal<(Labels, Labels)> {
    let prefixed = |prefix: &str| -> Map<String, Value> {
        let all = asked.parameters.0.iter();
        let named = all.filter_map(|(key, value)| {
            let key = key.strip_prefix(prefix).filter(|key| !key.is_empty())?;
            Some((key.to_owned(), value.clone()))
        });
        named.collect()
    };
    let tags = prefixed("tag.");
    if let Some(problem) = tag_rules::problem(&tags) {
        let message = "Invalid VM parameters: Invalid tag parameters";
        return Err(Refusal::validation(message, "tags", "Invalid", &problem));
    }
    let mut metadata = prefixed("metadata.");
    metadata.retain(|key, _| !key.ends_with("_pw"));
    Ok((tags, metadata))
}

fn brand(asked: &Asked<'_>, package: &Package, image: &Image) -> String {
    let given = asked.parameters.text("brand");
    let given = given.filter(|brand| matches!(brand.as_str(), "kvm" | "bhyve"));
    let default = match image.kind.as_str() {
        "zvol" => "bhyve",
        "lx-dataset" => "lx",
        _ => "joyent",
    };
    given
        .or_else(|| package.brand.clone())
        .unwrap_or_else(|| default.to_owned())
}

/// The cards that were asked for; without any, one on the network that accounts get.
fn wanted_cards(cloud: &Cloud, asked: &Asked<'_>, package: &Package) -> OrRefusal<Vec<Card>> {
    let invalid = || Refusal::argument("Invalid Networks");
    let given = match asked.parameters.get("networks") {
        None => Vec::new(),
        Some(Value::Array(all)) => all.clone(),
        Some(Value::String(one)) => one.split(',').map(Into::into).collect(),
        Some(_) => return Err(invalid()),
    };
    if given.iter().any(Value::is_string) && given.iter().any(Value::is_object) {
        return Err(invalid());
    }
    let mut cards = Vec::new();
    for one in &given {
        let (id, address) = match one {
            Value::String(id) => (id.as_str(), None),
            Value::Object(one) => {
                let id = one
                    .get("ipv4_uuid")
                    .and_then(Value::as_str)
                    .ok_or_else(invalid)?;
                (id, wanted_address(one)?)
            }
            _ => return Err(invalid()),
        };
        cards.push(checked_card(cloud, asked, id, address)?);
    }
    if cards.is_empty() {
        let default = cloud.account(asked)?.default_network.clone();
        let public = || cloud.networks.all().find(|it| it.public && !it.hidden);
        let network = default.or_else(|| public().map(|it| it.id.clone()));
        cards.extend(network.map(|network| Card {
            network,
            address: None,
        }));
    }
    let networks = || {
        cards
            .iter()
            .filter_map(|card| cloud.networks.get(&card.network))
    };
    if networks().filter(|it| it.public).count() > 1 && !cloud.quirks.several_public_networks {
        return Err(Refusal::argument(
            "Only one public network per machine is allowed",
        ));
    }
    if package.no_fabric && networks().any(|it| it.vlan.is_some()) {
        let message = format!(
            "package {} may not be used with a fabric network",
            package.name
        );
        return Err(Refusal::conflict("InvalidFabricPackage", message));
    }
    Ok(cards)
}

fn wanted_address(one: &Map<String, Value>) -> OrRefusal<Option<Ipv4Addr>> {
    let Some(given) = one.get("ipv4_ips") else {
        return Ok(None);
    };
    let Some([Value::String(one)]) = given.as_array().map(Vec::as_slice) else {
        return Err(Refusal::argument(
            "ipv4_ips must be an array of exactly one address",
        ));
    };
    let address = one
        .parse()
        .map_err(|_| Refusal::argument(format!("{one} is no address")))?;
    Ok(Some(address))
}

fn checked_card(
    cloud: &Cloud,
    asked: &Asked<'_>,
    id: &str,
    address: Option<Ipv4Addr>,
) -> OrRefusal<Card> {
    let network = cloud
        .networks
        .get(id)
        .filter(|it| it.is_visible_to(&asked.account));
    let network = network.ok_or_else(|| Refusal::argument("Invalid Networks"))?;
    if let Some(address) = address {
        if network.owner.is_none() || !network.members.is_empty() {
            return Err(Refusal::argument(
                "ipv4_ips cannot be used with this network",
            ));
        }
        if !network.subnet.contains(&address) || cloud.used_addresses(id).contains(&address) {
            let what = format!("IP {address} is already in use or not on this network");
            return Err(Refusal::parameters("Invalid parameters", "networks", &what));
        }
    }
    let network = id.to_owned();
    Ok(Card { network, address })
}

/// A rule such as `bowline.uid!=~value`: key, whether it keeps apart, value.
struct Affinity {
    key: String,
    apart: bool,
    value: String,
}

fn affinity(asked: &Asked<'_>) -> Vec<Affinity> {
    let given = asked.parameters.get("affinity").and_then(Value::as_array);
    let rules = given.into_iter().flatten().filter_map(Value::as_str);
    rules
        .filter_map(|rule| {
            let at = rule.find("==").or_else(|| rule.find("!="))?;
            let (key, rest) = rule.split_at(at);
            let value = rest[2..].trim_start_matches('~').to_owned();
            Some(Affinity {
                key: key.to_owned(),
                apart: rest.starts_with("!="),
                value,
            })
        })
        .collect()
}

impl Affinity {
    fn names(&self, machine: &Machine) -> bool {
        if matches!(self.key.as_str(), "instance" | "container") {
            return machine.id == self.value
                || bowline_simulator::glob::fits(&self.value, &machine.name);
        }
        let tag = machine.tags.get(&self.key);
        tag.is_some_and(|tag| match tag {
            Value::String(text) => bowline_simulator::glob::fits(&self.value, text),
            other => {
                let text = other.to_string();
                text == self.value
            }
        })
    }
}

impl Network {
    /// Whether an account sees it.
    pub(super) fn is_visible_to(&self, account: &str) -> bool {
        !self.hidden && self.owner.as_deref().is_none_or(|owner| owner == account)
    }
}

impl Cloud {
    /// The compute node of a new machine: away from what it shall be away from, then the emptiest.
    fn place(&self, rules: &[Affinity]) -> Option<String> {
        let alive = self
            .compute_nodes
            .iter()
            .filter(|node| !self.dead.contains_key(*node));
        let best = alive.min_by_key(|node| {
            let here = || {
                let live = self.machines.values().filter(|it| it.state.lives());
                live.filter(|it| it.compute_node.as_ref() == Some(node))
            };
            let unwanted = rules
                .iter()
                .filter(|rule| here().any(|it| rule.names(it)) == rule.apart);
            (unwanted.count(), here().count())
        });
        best.cloned()
    }

    /// The cards of a machine that is ready. The first public network is the primary one.
    pub(super) fn nics(&mut self, cards: &[Card]) -> Vec<Nic> {
        let mut nics: Vec<Nic> = Vec::new();
        for card in cards {
            let Some(network) = self.member_of(&card.network) else {
                continue;
            };
            let taken: Vec<&str> = nics.iter().map(|nic| nic.ip.as_str()).collect();
            let address = card.address.or_else(|| self.free_address(&network));
            let Some(address) = address.filter(|it| !taken.contains(&it.to_string().as_str()))
            else {
                continue;
            };
            nics.push(self.nic(&network, address.to_string()));
        }
        let is_public = |nic: &Nic| self.networks.get(&nic.network).is_some_and(|it| it.public);
        let primary = nics.iter().position(is_public).unwrap_or(0);
        if let Some(nic) = nics.get_mut(primary) {
            nic.primary = true;
        }
        nics
    }

    /// A card on a network.
    pub(super) fn nic(&mut self, network: &Network, ip: String) -> Nic {
        self.counter += 1;
        let [.., a, b, c] = self.counter.to_be_bytes();
        Nic {
            mac: format!("90:b8:d0:{a:02x}:{b:02x}:{c:02x}"),
            ip,
            primary: false,
            netmask: network.subnet.netmask().to_string(),
            gateway: network.gateway.map(|gateway| gateway.to_string()),
            network: network.id.clone(),
        }
    }

    /// A network, or the first member of a pool that has an address left.
    pub(super) fn member_of(&self, id: &str) -> Option<Network> {
        let network = self.networks.get(id)?;
        let mut members = network
            .members
            .iter()
            .filter_map(|id| self.networks.get(id));
        let found = if network.members.is_empty() {
            Some(network)
        } else {
            members.find(|it| self.free_address(it).is_some())
        };
        found.cloned()
    }
}
