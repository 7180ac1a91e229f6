//! The control handle: what tests and the sandbox do to the cloud directly.
//!
//! Nothing here takes time. Machines are named by their id, or by a name that only one live machine
//! has.

use std::net::IpAddr;

use bowline_simulator::KubeletSpec;
use bowline_simulator::control::{ControlError, ControlResult};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::config::{Quirks, Throttle, Timings};
use super::firewall::Protocol;
use super::jobs::{Event, later};
use super::model::{Cloud, Machine, Maintenance, State};
use super::names::SILENCE;
use super::{Triton, machine_id};

impl Triton {
    /// Finds a machine and does something to it.
    fn change<T>(
        &self,
        task: &'static str,
        machine: &str,
        parts: &[&'static str],
        work: impl FnOnce(&mut Machine) -> T,
    ) -> ControlResult<T> {
        let now = self.now();
        let done = self.with(|cloud| {
            let id = cloud.find_machine(machine)?;
            let done = work(cloud.machines.get_mut(&id)?);
            if !parts.is_empty() {
                cloud.touch(&id, parts, now);
            }
            Some(done)
        });
        done.ok_or_else(|| ControlError::unknown(task, "machine", machine))
    }

    /// Gives a machine another state at once.
    pub fn set_state(&self, machine: &str, state: State) -> ControlResult {
        let parts = ["state", "zone_state", "tags"];
        self.change("change the state of", machine, &parts, |it| {
            it.state = state;
        })
    }

    /// Stops a machine at once.
    pub fn stop(&self, machine: &str) -> ControlResult {
        self.set_state(machine, State::Stopped)
    }

    /// Starts a machine at once.
    pub fn start(&self, machine: &str) -> ControlResult {
        self.set_state(machine, State::Running)
    }

    /// Destroys a machine at once: it is answered with 410.
    pub fn destroy(&self, machine: &str) -> ControlResult {
        let parts = ["state", "zone_state", "destroyed"];
        self.change("destroy", machine, &parts, |it| it.state = State::Deleted)
    }

    /// Makes a machine one that could not be made.
    pub fn fail(&self, machine: &str) -> ControlResult {
        self.set_state(machine, State::Failed)
    }

    /// Forgets destroyed machines: they are answered with 404.
    pub fn purge(&self) {
        self.with(|cloud| cloud.machines.retain(|_, it| it.state != State::Deleted));
    }

    /// Forgets a machine without a trace, as if it had never been: 404.
    pub fn forget(&self, machine: &str) -> ControlResult {
        self.destroy(machine)?;
        self.with(|cloud| {
            cloud
                .machines
                .retain(|id, it| id != machine && it.name != machine);
        });
        Ok(())
    }

    pub fn rename(&self, machine: &str, name: &str) -> ControlResult {
        self.change("rename", machine, &["alias"], |it| {
            name.clone_into(&mut it.name);
        })
    }

    /// Moves a machine to another physical server.
    pub fn migrate(&self, machine: &str, compute_node: &str) -> ControlResult {
        self.change("migrate", machine, &["server_uuid"], |it| {
            it.compute_node = Some(compute_node.to_owned());
        })
    }

    /// Replaces all tags of a machine, as somebody else's tool may.
    pub fn replace_tags(&self, machine: &str, tags: Map<String, Value>) -> ControlResult {
        self.change("tag", machine, &["tags"], |it| it.tags = tags)
    }

    /// Sets one tag of a machine, or with none removes it.
    pub fn set_tag(&self, machine: &str, key: &str, value: Option<Value>) -> ControlResult {
        self.change("tag", machine, &["tags"], |it| match value {
            Some(value) => drop(it.tags.insert(key.to_owned(), value)),
            None => drop(it.tags.remove(key)),
        })
    }

    /// Sets one key of a machine's metadata, or with none removes it.
    pub fn set_metadata(&self, machine: &str, key: &str, value: Option<&str>) -> ControlResult {
        let parts = ["customer_metadata"];
        self.change(
            "change the metadata of",
            machine,
            &parts,
            |it| match value {
                Some(value) => drop(it.metadata.insert(key.to_owned(), value.into())),
                None => drop(it.metadata.remove(key)),
            },
        )
    }

    /// Switches a machine's firewall.
    pub fn set_firewall(&self, machine: &str, on: bool) -> ControlResult {
        let parts = ["firewall_enabled"];
        self.change("change the firewall of", machine, &parts, |it| {
            it.firewall = on;
        })
    }

    /// Protects a machine from deletion, or no longer.
    pub fn protect(&self, machine: &str, on: bool) -> ControlResult {
        let parts = ["indestructible_zoneroot"];
        self.change("protect", machine, &parts, |it| it.protected = on)
    }

    /// Gives one card of a machine another address, or a word such as `dhcp`.
    pub fn set_address(&self, machine: &str, card: usize, address: &str) -> ControlResult {
        self.change("change the address of", machine, &["nics"], |it| {
            if let Some(nic) = it.nics.get_mut(card) {
                address.clone_into(&mut nic.ip);
            }
        })
    }

    /// Gives a machine another package name, which may be empty.
    pub fn set_package(&self, machine: &str, package: &str) -> ControlResult {
        self.change("resize", machine, &["tags"], |it| {
            package.clone_into(&mut it.package);
        })
    }

    /// Makes the image of a machine unknown: every call below it is 404, though it lives.
    pub fn lose_image(&self, machine: &str, lost: bool) -> ControlResult {
        self.change("lose the image of", machine, &[], |it| it.image_lost = lost)
    }

    /// Lets the next so many machines that are made fail.
    pub fn fail_provisions(&self, count: u32) {
        self.with(|cloud| cloud.fail_provisions = count);
    }

    /// Lets a physical server die: jobs of its machines do not end, their states stay.
    pub fn kill_compute_node(&self, node: &str) {
        let now = self.now();
        self.with(|cloud| {
            cloud.dead.insert(node.to_owned(), now);
            // The name service believes it after a while.
            cloud.schedule(later(now, SILENCE), Event::Commit);
        });
    }

    /// Lets it come back: younger jobs go on, older ones have given up.
    pub fn revive_compute_node(&self, node: &str) {
        let now = self.now();
        self.with(|cloud| {
            cloud.dead.remove(node);
            cloud.go_on(now);
            cloud.names_changed(now);
        });
    }

    /// Refuses writes from now on, with the end that the operator gave if they did.
    pub fn begin_maintenance(&self, until: Option<Timestamp>) {
        self.with(|cloud| cloud.maintenance = Some(Maintenance { until }));
    }

    pub fn end_maintenance(&self) {
        self.with(|cloud| cloud.maintenance = None);
    }

    /// Puts the server's clock ahead by so many seconds.
    pub fn set_skew(&self, seconds: i64) {
        self.with(|cloud| cloud.skew = seconds);
    }

    /// Limits calls otherwise, or not at all.
    pub fn set_throttle(&self, throttle: Option<Throttle>) {
        self.with(|cloud| {
            cloud.throttle = throttle;
            cloud.buckets = super::throttle::Buckets::default();
        });
    }

    /// Changes how long things take from now on.
    pub fn set_timings(&self, change: impl FnOnce(&mut Timings)) {
        self.with(|cloud| change(&mut cloud.timings));
    }

    /// Drops every connection of the change feed.
    pub fn drop_feeds(&self) {
        self.world.faults.cut_streams(super::NAME);
    }

    /// Turns switches.
    pub fn set_quirks(&self, change: impl FnOnce(&mut Quirks)) {
        let now = self.now();
        self.with(|cloud| {
            change(&mut cloud.quirks);
            cloud.names_changed(now);
        });
    }

    /// Switches DNS names of an account on or off.
    pub fn enable_names(&self, account: &str, on: bool) -> ControlResult {
        let now = self.now();
        self.change_account("change", account, |cloud, login| {
            if let Some(account) = cloud.accounts.get_mut(login) {
                account.names_enabled = on;
            }
            cloud.names_changed(now);
            Ok(())
        })
    }

    /// Gives an account (also) this key: a line as in `authorized_keys`.
    pub fn add_key(&self, account: &str, line: &str) -> ControlResult {
        let keys = self.keys(&[line.to_owned()]);
        self.change_account("give a key to", account, |cloud, login| {
            if let Some(account) = cloud.accounts.get_mut(login) {
                account.keys.extend(keys?);
            }
            Ok(())
        })
    }

    /// Takes all keys away from an account.
    pub fn remove_keys(&self, account: &str) -> ControlResult {
        self.change_account("take the keys from", account, |cloud, login| {
            if let Some(account) = cloud.accounts.get_mut(login) {
                account.keys.clear();
            }
            Ok(())
        })
    }

    fn change_account(
        &self,
        task: &'static str,
        account: &str,
        work: impl FnOnce(&mut Cloud, &str) -> Result<(), String>,
    ) -> ControlResult {
        let done = self.with(|cloud| {
            if cloud.accounts.contains_key(account) {
                work(cloud, account)
            } else {
                Err("there is none of that login".to_owned())
            }
        });
        done.map_err(|reason| ControlError::new(task, &format!("the account {account:?}"), reason))
    }

    /// Replaces the routes of a network (by id or name), as somebody else may.
    pub fn set_routes(&self, network: &str, routes: &[(&str, &str)]) -> ControlResult {
        let routes = routes
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
        let routes = routes.collect();
        let done = self.with(|cloud| {
            let id = cloud.find_network(network)?.id.clone();
            cloud.networks.get_mut(&id)?.routes = routes;
            Some(())
        });
        done.ok_or_else(|| ControlError::unknown("change the routes of", "network", network))
    }

    /// Enables or disables a firewall rule by hand; false if there is none of that id.
    pub fn switch_rule(&self, rule: &str, enabled: bool) -> bool {
        self.with(|cloud| match cloud.rules.get_mut(rule) {
            Some(rule) => {
                rule.enabled = enabled;
                true
            }
            None => false,
        })
    }

    /// Whether a packet from an address would reach a port of a machine. The protocol is `tcp` or `udp`.
    pub fn would_reach(&self, from: IpAddr, machine: &str, protocol: &str, port: u16) -> bool {
        let Some(protocol) = Protocol::parse(protocol) else {
            return false;
        };
        self.with(|cloud| {
            let machine = cloud.find_machine(machine);
            let machine = machine.and_then(|id| cloud.machines.get(&id));
            machine.is_some_and(|it| cloud.would_reach(from, it, protocol, port))
        })
    }

    /// The kubelet of a machine: its Node has the machine's name in lower case, and its firmware tells
    /// the machine's id.
    pub fn kubelet(&self, machine: &str) -> ControlResult<KubeletSpec> {
        self.change("find", machine, &[], |it| KubeletSpec {
            node_name: it.name.to_lowercase(),
            machine_id: machine_id(&it.id),
            system_uuid: it.id.clone(),
            own_addresses: it
                .nics
                .iter()
                .filter_map(|nic| nic.ip.parse().ok())
                .collect(),
            ..KubeletSpec::default()
        })
    }
}
