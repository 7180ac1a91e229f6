//! The control handle: what tests and the sandbox do to the cloud directly.
//!
//! Nothing here takes time. Things are named by their id, or by a name that only one of their kind
//! has in all zones.

use std::net::{Ipv4Addr, Ipv6Addr};

use bowline_simulator::KubeletSpec;
use bowline_simulator::control::{ControlError, ControlResult};
use serde_json::{Map, Value};

use super::config::{Key, Quirks, Timings};
use super::model::{Balancer, Cloud, Instance, Service, Sort, State, Zone};
use super::{Exoscale, machine_id};

impl Exoscale {
    /// Finds something and does something to its zone.
    fn change<T>(
        &self,
        task: &'static str,
        sort: Sort,
        name: &str,
        work: impl FnOnce(&mut Zone, &str) -> Option<T>,
    ) -> ControlResult<T> {
        let done = self.with(|cloud| {
            let (zone, id) = cloud.find(name, sort)?;
            work(cloud.zones.get_mut(&zone)?, &id)
        });
        done.ok_or_else(|| ControlError::unknown(task, sort.noun(), name))
    }

    fn change_instance(
        &self,
        task: &'static str,
        machine: &str,
        work: impl FnOnce(&mut Instance),
    ) -> ControlResult {
        self.change(task, Sort::Instance, machine, |zone, id| {
            zone.instances.get_mut(id).map(work)
        })
    }

    /// Gives an instance another state at once.
    pub fn set_state(&self, machine: &str, state: State) -> ControlResult {
        self.change(
            "change the state of",
            Sort::Instance,
            machine,
            |zone, id| {
                zone.set_state(id, state);
                Some(())
            },
        )
    }

    /// Stops an instance at once.
    pub fn stop(&self, machine: &str) -> ControlResult {
        self.set_state(machine, State::Stopped)
    }

    /// Starts an instance at once.
    pub fn start(&self, machine: &str) -> ControlResult {
        self.set_state(machine, State::Running)
    }

    /// Destroys an instance at once: it is answered with 404. Its pool becomes smaller.
    pub fn destroy(&self, machine: &str) -> ControlResult {
        self.change("destroy", Sort::Instance, machine, |zone, id| {
            let pool = zone.instances.get(id).and_then(|it| it.pool.clone());
            if let Some(pool) = pool.and_then(|pool| zone.pools.get_mut(&pool)) {
                pool.size = pool.size.saturating_sub(1);
            }
            zone.lose_instance(id);
            Some(())
        })
    }

    pub fn rename(&self, machine: &str, name: &str) -> ControlResult {
        self.change_instance("rename", machine, |it| name.clone_into(&mut it.name))
    }

    /// Gives an instance another public address, or none.
    pub fn set_public_ip(&self, machine: &str, address: Option<Ipv4Addr>) -> ControlResult {
        self.change_instance("change the address of", machine, |it| {
            it.public_ip = address;
        })
    }

    /// Gives an instance an IPv6 address, or none.
    pub fn set_ipv6(&self, machine: &str, address: Option<Ipv6Addr>) -> ControlResult {
        self.change_instance("change the address of", machine, |it| {
            it.ipv6 = address;
            it.assignment = match (it.public_ip, address) {
                (_, Some(_)) => "dual",
                (Some(_), None) => "inet4",
                (None, None) => "none",
            };
        })
    }

    /// Puts an instance into these private networks (by id or name) and no others.
    pub fn set_private_networks(&self, machine: &str, networks: &[&str]) -> ControlResult {
        let ids = self.with(|cloud| {
            let ids = networks.iter().map(|name| cloud.find(name, Sort::Network));
            ids.collect::<Option<Vec<_>>>()
        });
        let ids = ids.ok_or_else(|| {
            ControlError::new(
                "attach",
                &format!("the instance {machine:?}"),
                "a network of these does not exist",
            )
        })?;
        self.change_instance("attach", machine, |it| {
            let cards = ids.into_iter().enumerate();
            let cards = cards.map(|(number, (_, id))| (id, format!("06:00:00:00:01:{number:02x}")));
            it.networks = cards.collect();
        })
    }

    /// Leases an address of a private network (by id or name) to an instance.
    pub fn lease(&self, network: &str, machine: &str, address: Ipv4Addr) -> ControlResult {
        let found = self.with(|cloud| cloud.find(machine, Sort::Instance));
        let (_, instance) = found.ok_or_else(|| {
            ControlError::new(
                "lease an address to",
                &format!("the instance {machine:?}"),
                "there is no such instance",
            )
        })?;
        self.change("lease an address of", Sort::Network, network, |zone, id| {
            let network = zone.networks.get_mut(id)?;
            network.leases.retain(|it| it.0 != address);
            network.leases.push((address, instance));
            Some(())
        })
    }

    /// Puts an instance into a pool (by id or name), or out of any.
    pub fn set_pool_of(&self, machine: &str, pool: Option<&str>) -> ControlResult {
        let pool = match pool {
            Some(pool) => {
                let id = self.change("use", Sort::Pool, pool, |_, id| Some(id.to_owned()));
                Some(id?)
            }
            None => None,
        };
        self.change_instance("move", machine, |it| it.pool = pool)
    }

    /// Removes a pool with its members, whoever holds on to it.
    pub fn remove_pool(&self, pool: &str) -> ControlResult {
        self.change("remove", Sort::Pool, pool, |zone, id| {
            let members: Vec<String> = zone.members(id).map(|it| it.id.clone()).collect();
            zone.lose_instances(&members);
            zone.pools.remove(id).map(|_| ())
        })
    }

    /// Removes a load balancer with its services, as somebody else may.
    pub fn remove_balancer(&self, balancer: &str) -> ControlResult {
        self.change("remove", Sort::Balancer, balancer, |zone, id| {
            zone.balancers.remove(id).map(|_| ())
        })
    }

    fn change_balancer_of(
        &self,
        task: &'static str,
        balancer: &str,
        work: impl FnOnce(&mut Balancer),
    ) -> ControlResult {
        self.change(task, Sort::Balancer, balancer, |zone, id| {
            zone.balancers.get_mut(id).map(work)
        })
    }

    /// Renames a load balancer, as somebody else may.
    pub fn rename_balancer(&self, balancer: &str, name: &str) -> ControlResult {
        self.change_balancer_of("rename", balancer, |it| name.clone_into(&mut it.name))
    }

    /// Describes a load balancer, as somebody else may.
    pub fn describe_balancer(&self, balancer: &str, text: &str) -> ControlResult {
        self.change_balancer_of("describe", balancer, |it| {
            it.description = Some(text.to_owned()).filter(|text| !text.is_empty());
        })
    }

    /// Gives a load balancer these labels and no others.
    pub fn label_balancer(&self, balancer: &str, labels: &[(&str, &str)]) -> ControlResult {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.change_balancer_of("label", balancer, |it| it.labels = labels.collect())
    }

    /// Removes a service of a load balancer, by its id or name.
    pub fn remove_service(&self, balancer: &str, service: &str) -> ControlResult {
        self.change_balancer_of("change", balancer, |it| {
            it.services
                .retain(|one| one.id != service && one.name != service);
        })
    }

    /// Changes the target port of a service (by id or name), as somebody else may.
    pub fn retarget_service(&self, balancer: &str, service: &str, port: u16) -> ControlResult {
        self.change_balancer_of("change", balancer, |it| {
            let meant = |one: &&mut Service| one.id == service || one.name == service;
            it.services
                .iter_mut()
                .filter(meant)
                .for_each(|one| one.target_port = port);
        })
    }

    /// What checks find at an instance, by its id or address; none: that it serves while it runs.
    pub fn set_health(&self, instance: &str, good: Option<bool>) {
        self.with(|cloud| match good {
            Some(good) => {
                cloud.health.insert(instance.to_owned(), good);
            }
            None => {
                cloud.health.remove(instance);
            }
        });
    }

    /// Replaces members of the JSON of something (by its id) in every answer, to see how callers bear
    /// bad data. `null` takes a member away; an empty map makes it whole again.
    pub fn deform(&self, id: &str, members: Map<String, Value>) {
        self.with(|cloud| cloud.deformed.insert(id.to_owned(), members));
    }

    /// Adds a key, or gives it another secret and role.
    pub fn set_key(&self, key: &str, role: Key) {
        self.with(|cloud| cloud.keys.insert(key.to_owned(), role));
    }

    /// Takes a key away; false if there was none.
    pub fn remove_key(&self, key: &str) -> bool {
        self.with(|cloud| cloud.keys.remove(key).is_some())
    }

    fn change_keys(&self, work: impl Fn(&mut Key)) {
        self.with(|cloud: &mut Cloud| cloud.keys.values_mut().for_each(work));
    }

    /// Denies operations to every key.
    pub fn deny(&self, operations: &[&str]) {
        self.change_keys(|key| {
            key.denied
                .extend(operations.iter().map(ToString::to_string));
        });
    }

    /// Takes such denials back, all of them.
    pub fn permit_all(&self) {
        self.change_keys(|key| key.denied.clear());
    }

    /// Leaves out so many addresses that load balancers would get next: accounts of one cloud share none.
    pub fn skip_balancer_addresses(&self, count: u32) {
        self.with(|cloud| cloud.addresses.skip_balancers(count));
    }

    /// Changes how long things take from now on.
    pub fn set_timings(&self, change: impl FnOnce(&mut Timings)) {
        self.with(|cloud| change(&mut cloud.timings));
    }

    /// Changes how the cloud behaves from now on; which paths zones have stays as it was.
    pub fn set_quirks(&self, change: impl FnOnce(&mut Quirks)) {
        self.with(|cloud| change(&mut cloud.quirks));
    }

    /// The kubelet of an instance: its Node has the instance's name in lower case, and its firmware
    /// tells the instance's id.
    pub fn kubelet(&self, machine: &str) -> ControlResult<KubeletSpec> {
        self.change("find", Sort::Instance, machine, |zone, id| {
            let instance = zone.instances.get(id)?;
            let v4 = instance.public_ip.map(Into::into);
            let v6 = instance.ipv6.map(Into::into);
            Some(KubeletSpec {
                node_name: instance.name.to_lowercase(),
                machine_id: machine_id(id),
                system_uuid: id.to_owned(),
                own_addresses: [v4, v6].into_iter().flatten().collect(),
                ..KubeletSpec::default()
            })
        })
    }
}
