//! Loading a fixture. Nothing here takes time.

use std::net::Ipv4Addr;

use bowline_simulator::control::{add_all, add_faults};
use serde_json::Map;

use super::config::{DEFAULT_DATACENTER, Timings};
use super::firewall::{Parsed, Rule};
use super::fixture::{
    AccountSpec, Fixture, ImageSpec, MachineSpec, NetworkSpec, PackageSpec, RoleSpec, RuleSpec,
    UserSpec,
};
use super::keys::PublicKey;
use super::model::{
    Account, Cloud, Image, Key, Machine, Network, Package, Policy, Rights, Role, State, User,
};
use super::{ControlError, ControlResult, Triton};

/// The most machines that one entry of a fixture makes.
const MOST_MACHINES: u32 = 10_000;
/// Addresses that a network keeps back at either end.
const KEPT_BACK: u32 = 5;

impl Triton {
    /// A cloud with nothing in it.
    pub(super) fn empty(fixture: &Fixture) -> Cloud {
        let datacenter = fixture.datacenter.clone();
        Cloud {
            datacenter: datacenter.unwrap_or_else(|| DEFAULT_DATACENTER.to_owned()),
            datacenters: fixture.datacenters.clone(),
            services: fixture.services.clone(),
            compute_nodes: fixture.compute_nodes.clone(),
            timings: Timings::default().with(&fixture.timings),
            quirks: fixture.quirks,
            throttle: (!fixture.unlimited).then(|| fixture.throttle.unwrap_or_default()),
            wildcard_zone: fixture.wildcard_zone.clone(),
            ..Cloud::default()
        }
    }

    pub(super) fn load(&self) -> ControlResult {
        add_all(&self.fixture.accounts, |spec| self.add_account(spec))?;
        add_all(&self.fixture.networks, |spec| self.add_network(spec))?;
        add_all(&self.fixture.packages, |spec| self.add_package(spec))?;
        add_all(&self.fixture.images, |spec| self.add_image(spec))?;
        add_all(&self.fixture.machines, |spec| self.add_machines(spec))?;
        add_all(&self.fixture.fwrules, |spec| self.add_rule(spec))?;
        add_faults(&self.world, super::NAME, &self.fixture.faults)?;
        // What is there at the beginning has been published long ago.
        self.with(|cloud| cloud.publish(self.now()));
        Ok(())
    }

    /// Adds an account, and returns its id.
    pub fn add_account(&self, spec: &AccountSpec) -> ControlResult<String> {
        self.add("add the account", &spec.login, |cloud| {
            let now = self.now();
            let id = self.world.id_or(spec.id.as_ref());
            let rights = self.rights(spec)?;
            let account = Account {
                id: id.clone(),
                login: spec.login.clone(),
                email: spec
                    .email
                    .clone()
                    .unwrap_or_else(|| format!("{}@example.com", spec.login)),
                details: Map::new(),
                names_enabled: spec.cns,
                approved: !spec.unapproved,
                disabled: spec.disabled,
                operator: spec.operator,
                keys: self.keys(&spec.keys)?,
                limits: spec.limits.clone(),
                vlans: spec
                    .vlans
                    .iter()
                    .map(|(id, name)| (*id, (name.clone(), None)))
                    .collect(),
                default_network: None,
                effective: rights.clone(),
                rights,
                created: now,
                updated: now,
            };
            cloud.accounts.insert(spec.login.clone(), account);
            Ok(id)
        })
    }

    fn rights(&self, spec: &AccountSpec) -> Result<Rights, String> {
        let mut rights = Rights {
            tags: spec.role_tags.clone(),
            ..Rights::default()
        };
        for UserSpec { login, keys } in &spec.users {
            let user = User {
                id: self.world.random.uuid(),
                login: login.clone(),
                email: format!("{login}@example.com"),
                keys: self.keys(keys)?,
                created: self.now(),
            };
            rights.users.insert(login.clone(), user);
        }
        for RoleSpec {
            name,
            members,
            default_members,
            policies,
        } in &spec.roles
        {
            let role = Role {
                id: self.world.random.uuid(),
                name: name.clone(),
                members: members.clone(),
                default_members: default_members.clone(),
                policies: policies.clone(),
            };
            rights.roles.insert(name.clone(), role);
        }
        for (name, rules) in &spec.policies {
            let policy = Policy {
                id: self.world.random.uuid(),
                name: name.clone(),
                rules: rules.clone(),
                description: None,
            };
            rights.policies.insert(name.clone(), policy);
        }
        Ok(rights)
    }

    pub(super) fn keys(&self, lines: &[String]) -> Result<Vec<Key>, String> {
        let key = |line: &String| {
            let public = PublicKey::parse(line);
            let public = public.ok_or_else(|| format!("{line:?} is no public key"))?;
            let comment = public.comment.clone();
            Ok(Key {
                name: if comment.is_empty() {
                    public.fingerprint.clone()
                } else {
                    comment
                },
                public,
                created: self.now(),
            })
        };
        lines.iter().map(key).collect()
    }

    /// Adds a network or a pool of them, and returns its id.
    pub fn add_network(&self, spec: &NetworkSpec) -> ControlResult<String> {
        self.add("add the network", &spec.name, |cloud| {
            let mut network = self.network(cloud, spec)?;
            for member in &spec.pool {
                let mut member = self.network(cloud, member)?;
                member.hidden = true;
                member.public = spec.public;
                member.zones.clone_from(&network.zones);
                network.members.push(member.id.clone());
                cloud.networks.insert(&member.id.clone(), member);
            }
            let id = network.id.clone();
            cloud.networks.insert(&id, network);
            Ok(id)
        })
    }

    fn network(&self, cloud: &mut Cloud, spec: &NetworkSpec) -> Result<Network, String> {
        let subnet = match spec.subnet {
            Some(subnet) => subnet.trunc(),
            None if !spec.pool.is_empty() => ipnet::Ipv4Net::default(),
            None => return Err("it needs a subnet, or a pool".to_owned()),
        };
        let mut owner = spec.owner.clone();
        if let Some(vlan) = spec.vlan_id {
            // As they are written, and not by name.
            let first = self.fixture.accounts.first().map(|it| it.login.clone());
            let first = first.or_else(|| cloud.accounts.keys().next().cloned());
            owner = owner.or(first);
            let account = owner
                .as_ref()
                .and_then(|login| cloud.accounts.get_mut(login));
            let account = account.ok_or("there is no such account")?;
            account
                .vlans
                .entry(vlan)
                .or_insert_with(|| (format!("vlan-{vlan}"), None));
        }
        let mut zones = spec.zones.clone();
        if zones.is_empty() && !spec.public {
            zones.extend(cloud.wildcard_zone.clone());
        }
        let address = |from: Ipv4Addr, by: u32, up: bool| {
            let from = u32::from(from);
            Ipv4Addr::from(if up {
                from.saturating_add(by)
            } else {
                from.saturating_sub(by)
            })
        };
        let (first, last) = (subnet.network(), subnet.broadcast());
        Ok(Network {
            id: self.world.id_or(spec.id.as_ref()),
            name: spec.name.clone(),
            description: spec.description.clone(),
            public: spec.public,
            owner,
            vlan: spec.vlan_id,
            subnet,
            start: spec
                .provision_start_ip
                .unwrap_or_else(|| address(first, KEPT_BACK, true)),
            end: spec
                .provision_end_ip
                .unwrap_or_else(|| address(last, KEPT_BACK, false)),
            gateway: spec.gateway,
            resolvers: spec.resolvers.clone(),
            routes: spec.routes.clone(),
            nat: spec.internet_nat,
            zones,
            members: Vec::new(),
            hidden: false,
            default: spec.default,
        })
    }

    /// Adds a package, and returns its id.
    pub fn add_package(&self, spec: &PackageSpec) -> ControlResult<String> {
        self.add("add the package", &spec.name, |cloud| {
            let memory = spec.memory.unwrap_or(1024);
            let package = Package {
                id: self.world.id_or(spec.id.as_ref()),
                name: spec.name.clone(),
                memory,
                disk: spec.disk.unwrap_or(memory * 25),
                vcpus: spec.vcpus.max(1),
                brand: spec.brand.clone(),
                group: spec.name.split('-').next().unwrap_or_default().to_owned(),
                no_fabric: spec.no_fabric,
            };
            let id = package.id.clone();
            cloud.packages.insert(&id, package);
            Ok(id)
        })
    }

    /// Adds an image, and returns its id.
    pub fn add_image(&self, spec: &ImageSpec) -> ControlResult<String> {
        let word =
            |given: &Option<String>, or: &str| given.clone().unwrap_or_else(|| or.to_owned());
        self.add("add the image", &spec.name, |cloud| {
            let image = Image {
                id: self.world.id_or(spec.id.as_ref()),
                name: spec.name.clone(),
                version: word(&spec.version, "1.0.0"),
                os: word(&spec.os, "linux"),
                kind: word(&spec.kind, "zvol"),
                state: word(&spec.state, "active"),
                published: spec.published_at.unwrap_or_else(|| self.now()),
            };
            let id = image.id.clone();
            cloud.images.insert(&id, image);
            Ok(id)
        })
    }

    /// Adds a machine that is there at once, and returns its id; with `count`, the first one's.
    pub fn add_machine(&self, spec: &MachineSpec) -> ControlResult<String> {
        let added = self.add_machines(spec)?;
        Ok(added.into_iter().next().unwrap_or_default())
    }

    /// Adds as many machines as the specification counts, and returns their ids.
    pub fn add_machines(&self, spec: &MachineSpec) -> ControlResult<Vec<String>> {
        self.add("add the machine", &spec.name, |cloud| {
            let count = spec.count.unwrap_or(1);
            if count == 0 || count > MOST_MACHINES {
                return Err(format!("count must be between 1 and {MOST_MACHINES}"));
            }
            if count > 1 && (spec.id.is_some() || !spec.addresses.is_empty()) {
                return Err("several machines cannot have one id or address".to_owned());
            }
            let mut added = Vec::new();
            for number in 1..=count {
                let name = match spec.count {
                    Some(_) => format!("{}-{number}", spec.name),
                    None => spec.name.clone(),
                };
                added.push(self.set_machine(cloud, spec, name)?);
            }
            Ok(added)
        })
    }

    fn set_machine(
        &self,
        cloud: &mut Cloud,
        spec: &MachineSpec,
        name: String,
    ) -> Result<String, String> {
        let id = self.world.id_or(spec.id.as_ref());
        if cloud.machines.contains_key(&id) {
            return Err(format!("the id {id} exists already"));
        }
        let owner = match &spec.owner {
            Some(login) => cloud.accounts.get(login),
            None => self
                .fixture
                .accounts
                .first()
                .and_then(|it| cloud.accounts.get(&it.login)),
        };
        let owner = owner.ok_or("there is no such account")?.login.clone();
        let package = match &spec.package {
            Some(name) => cloud.find_package(name),
            None => cloud.packages.all().next(),
        };
        let package = package.ok_or("there is no such package")?.clone();
        let image = match &spec.image {
            Some(image) => {
                let mut all = cloud.images.all();
                all.find(|it| it.id == *image || it.name == *image)
            }
            None => cloud.images.all().next(),
        };
        let image = image.ok_or("there is no such image")?.id.clone();
        let state = spec.state.as_deref().unwrap_or("running");
        let state = State::parse(state).ok_or_else(|| format!("{state:?} is no state"))?;
        let brand = spec.brand.clone().or(package.brand);
        let now = self.now();
        let nics = set_nics(cloud, spec, &owner)?;
        let node = spec.compute_node.clone().or_else(|| cloud.emptiest_node());
        let machine = Machine {
            id: id.clone(),
            name,
            owner,
            brand: brand.unwrap_or_else(|| "joyent".to_owned()),
            state,
            image,
            package: package.name,
            memory: package.memory.into(),
            disk: package.disk.into(),
            metadata: spec.metadata.clone(),
            tags: spec.tags.clone(),
            nics,
            firewall: spec.firewall_enabled,
            protected: spec.deletion_protection,
            compute_node: node,
            docker: spec.docker,
            created: now,
            updated: now,
            role_tags: spec.role_tags.iter().cloned().collect(),
            deeds: Vec::new(),
            busy_until: now,
            image_lost: false,
        };
        cloud.machines.insert(id.clone(), machine);
        cloud.touch(&id, &["state", "alias", "nics"], now);
        Ok(id)
    }

    /// Adds a firewall rule, and returns its id.
    pub fn add_rule(&self, spec: &RuleSpec) -> ControlResult<String> {
        self.add("add the firewall rule", &spec.rule, |cloud| {
            let first = self.fixture.accounts.first().map(|it| it.login.clone());
            let owner = spec.owner.clone().or(first);
            let rule = Rule {
                id: self.world.id_or(spec.id.as_ref()),
                owner: owner.filter(|_| !spec.global),
                parsed: Parsed::parse(&spec.rule, usize::MAX)?,
                enabled: spec.enabled,
                log: false,
                description: spec.description.clone(),
            };
            let id = rule.id.clone();
            cloud.rules.insert(id.clone(), rule);
            Ok(id)
        })
    }

    fn add<T>(
        &self,
        task: &'static str,
        object: &str,
        work: impl FnOnce(&mut Cloud) -> Result<T, String>,
    ) -> ControlResult<T> {
        self.with(work)
            .map_err(|reason| ControlError::new(task, object, reason))
    }
}

/// The cards of a machine of the fixture.
pub(super) fn set_nics(
    cloud: &mut Cloud,
    spec: &MachineSpec,
    owner: &str,
) -> Result<Vec<super::model::Nic>, String> {
    let networks = if let Some(names) = &spec.networks {
        let find = |name: &String| {
            let found = cloud.find_network(name).map(|it| it.id.clone());
            found.ok_or_else(|| format!("there is no network {name:?}"))
        };
        names.iter().map(find).collect::<Result<Vec<_>, _>>()?
    } else {
        let usual = |it: &&Network| it.is_visible_to(owner) && it.members.is_empty();
        let all = cloud.networks.all().filter(usual);
        all.map(|it| it.id.clone()).collect()
    };
    let mut nics = Vec::new();
    for (number, id) in networks.iter().enumerate() {
        let network = cloud.member_of(id).ok_or("a pool has no address left")?;
        let address = if let Some(address) = spec.addresses.get(number) {
            address.clone()
        } else {
            let free = cloud.free_address(&network).map(|free| free.to_string());
            free.ok_or_else(|| format!("{} has no address left", network.name))?
        };
        let mut nic = cloud.nic(&network, address);
        nic.primary = network.public && nics.iter().all(|it: &super::model::Nic| !it.primary);
        nics.push(nic);
    }
    if nics.iter().all(|nic| !nic.primary)
        && let Some(first) = nics.first_mut()
    {
        first.primary = true;
    }
    Ok(nics)
}

impl Cloud {
    fn emptiest_node(&self) -> Option<String> {
        let count = |node: &&String| {
            let all = self.machines.values().filter(|it| it.state.lives());
            all.filter(|it| it.compute_node.as_ref() == Some(*node))
                .count()
        };
        self.compute_nodes.iter().min_by_key(count).cloned()
    }
}
