//! The control handle: what tests and the sandbox do to the machines directly. Nothing here takes time.

use std::net::IpAddr;
use std::sync::PoisonError;

use bowline_simulator::KubeletSpec;
use bowline_simulator::control::{ControlError, ControlResult};
use bowline_talos_api::Single;
use bowline_talos_api::specs::{NodenameSpec, PlatformMetadataSpec, SystemInformationSpec};
use prost_types::Timestamp;

use super::authorities::AuthorityError;
use super::config::Timings;
use super::load::{first_of_each_family, unique};
use super::model::{Cluster, Machine, Stage};
use super::published::Published;
use super::{OS_IMAGE, Talos, notation};

impl From<AuthorityError> for ControlError {
    fn from(error: AuthorityError) -> Self {
        Self {
            task: "make",
            object: "the certificates of the cluster".to_owned(),
            reason: error.to_string(),
        }
    }
}

/// Calls that are to be answered with an error of the API.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Only calls of that method (`Get`, `List`, `Version`); none: any.
    pub method: Option<String>,
    /// Only calls that are for that machine, by name; none: any.
    pub machine: Option<String>,
    /// The error's code.
    pub code: tonic::Code,
    /// The error's text.
    pub message: String,
    /// How many calls.
    pub times: u64,
}

impl Failure {
    /// The next call, whichever it is.
    pub fn next(code: tonic::Code, message: &str) -> Self {
        Self {
            method: None,
            machine: None,
            code,
            message: message.to_owned(),
            times: 1,
        }
    }
}

bowline_simulator::setters! { Failure:
    /// Only calls of that method.
    method(method: &str) |spec| spec.method = Some(method.to_owned());
    /// Only calls that are for that machine.
    machine(machine: &str) |spec| spec.machine = Some(machine.to_owned());
    /// So many calls.
    times(times: u64) |spec| spec.times = times;
}

/// A machine as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInfo {
    pub name: String,
    pub control_plane: bool,
    /// How far it is.
    pub stage: Stage,
    /// The addresses of its Node.
    pub node_ips: Vec<IpAddr>,
    /// Its key in the register of machines.
    pub machine_id: String,
}

impl Talos {
    pub(super) fn now(&self) -> Timestamp {
        let now = self.world.clock.now();
        Timestamp {
            seconds: now.as_second(),
            nanos: now.subsec_nanosecond(),
        }
    }

    fn change<T>(
        &self,
        task: &'static str,
        name: &str,
        work: impl FnOnce(&mut Cluster, Timestamp) -> Result<T, String>,
    ) -> ControlResult<T> {
        let now = self.now();
        let done = self.with(|cluster| {
            if !cluster.machines.contains_key(name) {
                return Err("there is none of that name".to_owned());
            }
            let done = work(cluster, now)?;
            cluster.announce(name, now);
            Ok(done)
        });
        done.map_err(|reason| ControlError::new(task, &format!("the machine {name:?}"), reason))
    }

    fn change_machine(
        &self,
        task: &'static str,
        name: &str,
        work: impl FnOnce(&mut Machine, Timestamp) -> Result<(), String>,
    ) -> ControlResult {
        self.change(task, name, |cluster, now| {
            match cluster.machines.get_mut(name) {
                Some(machine) => work(machine, now),
                None => Err("there is none of that name".to_owned()),
            }
        })
    }

    /// Brings a machine to a stage at once.
    pub fn set_stage(&self, machine: &str, stage: Stage) -> ControlResult {
        self.change_machine("change the stage of", machine, |it, now| {
            it.stage = stage;
            it.publish_platform(now);
            Ok(())
        })
    }

    /// Gives a machine these addresses and no others (`eth0/10.0.0.5/24`); those of its Node follow, as
    /// after the restart of a spot machine.
    pub fn set_addresses(&self, machine: &str, addresses: &[&str]) -> ControlResult {
        self.change("change the addresses of", machine, |cluster, now| {
            let wanted = notation::addresses(addresses).map_err(|error| error.to_string())?;
            let node_ips = first_of_each_family(&wanted);
            if node_ips.is_empty() {
                return Err("its Node could have none of them".to_owned());
            }
            let Some(mut changed) = cluster.machines.remove(machine) else {
                return Ok(());
            };
            let before = (changed.addresses(), changed.node_ips.clone());
            changed.publish_addresses(&wanted, now);
            changed.node_ips = node_ips;
            let fits = unique(cluster, &changed);
            if fits.is_err() {
                changed.publish_addresses(&before.0, now);
                changed.node_ips = before.1;
            }
            cluster.machines.insert(machine.to_owned(), changed);
            fits
        })
    }

    /// Gives a machine another address, besides those that it has.
    pub fn add_address(&self, machine: &str, address: &str) -> ControlResult {
        self.change_machine("change the addresses of", machine, |it, now| {
            let wanted = notation::address(address).map_err(|error| error.to_string())?;
            it.resources.put(&notation::id(&wanted), &wanted, now);
            Ok(())
        })
    }

    /// Publishes a resource of a machine, whatever it says so far.
    pub fn set<K: Published>(&self, machine: &str, id: &str, spec: &K) -> ControlResult {
        self.change_machine("change a resource of", machine, |it, now| {
            it.resources.put(id, spec, now);
            Ok(())
        })
    }

    /// Changes what a resource of a machine says.
    pub fn edit<K: Published>(
        &self,
        machine: &str,
        id: &str,
        work: impl FnOnce(&mut K),
    ) -> ControlResult {
        self.change_machine("change a resource of", machine, |it, now| {
            let read = it.resources.read(id);
            let mut spec: K =
                read.ok_or_else(|| format!("it has no {} of the id {id:?}", K::TYPE))?;
            work(&mut spec);
            it.resources.put(id, &spec, now);
            Ok(())
        })
    }

    /// Changes what a machine's platform tells it, now and at later stages.
    pub fn edit_platform(
        &self,
        machine: &str,
        work: impl FnOnce(&mut PlatformMetadataSpec),
    ) -> ControlResult {
        self.change_machine("change the platform of", machine, |it, now| {
            work(&mut it.platform);
            it.publish_platform(now);
            Ok(())
        })
    }

    /// Takes a resource of a machine away: who asks for it is reported that it does not exist.
    pub fn remove<K: Published>(&self, machine: &str, id: &str) -> ControlResult {
        self.remove_named(machine, K::NAMESPACE, K::TYPE, id)
    }

    pub(super) fn remove_named(
        &self,
        machine: &str,
        namespace: &str,
        kind: &str,
        id: &str,
    ) -> ControlResult {
        self.change_machine("take a resource from", machine, |it, _| {
            if it.resources.remove(namespace, kind, id) {
                Ok(())
            } else {
                Err(format!("it has no {kind} of the id {id:?}"))
            }
        })
    }

    /// What a resource of a machine says; none if there is no such machine or resource.
    pub fn read<K: Published>(&self, machine: &str, id: &str) -> Option<K> {
        self.with(|cluster| cluster.machines.get(machine)?.resources.read(id))
    }

    /// Lets calls that reach a machine wait for ever, or answers them again.
    pub fn hang(&self, machine: &str, hangs: bool) -> ControlResult {
        self.change_machine("silence", machine, |it, _| {
            it.hangs = hangs;
            Ok(())
        })
    }

    /// Cuts the connection of the next list of a machine, after so many resources.
    pub fn cut_next_list(&self, machine: &str, after: usize) -> ControlResult {
        self.change_machine("cut a list of", machine, |it, _| {
            it.cut_list_after = Some(after);
            Ok(())
        })
    }

    /// Answers coming calls with an error.
    pub fn fail(&self, failure: Failure) {
        self.with(|cluster| cluster.failures.push(failure));
    }

    /// Changes how long things take from now on.
    pub fn set_timings(&self, change: impl FnOnce(&mut Timings)) {
        self.with(|cluster| change(&mut cluster.timings));
    }

    /// Lets servers' certificates be good for these names alone; none: for the usual ones and those of their
    /// machines. Connections that there are stay.
    pub fn set_server_names(&self, names: Option<&[&str]>) {
        let names = names.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
        self.with(|cluster| cluster.server_names = names);
    }

    /// Begins to go over to another certificate authority: it issues to clients, and both are accepted.
    pub fn rotate_authority(&self) -> ControlResult {
        Ok(self.with(|cluster| cluster.authorities.rotate(&self.keys))?)
    }

    /// Ends that: only the new authority is accepted, and machines show its certificates. False if nothing
    /// had begun. Connections that there are stay.
    pub fn finish_rotation(&self) -> bool {
        self.with(|cluster| cluster.authorities.finish())
    }

    pub fn drop_connections(&self) {
        self.hang_up.send_modify(|times| *times += 1);
    }

    /// The machines, by name.
    pub fn machines(&self) -> Vec<MachineInfo> {
        self.with(|cluster| {
            let machines = cluster.machines.values().map(|it| MachineInfo {
                name: it.name.clone(),
                control_plane: it.control_plane,
                stage: it.stage,
                node_ips: it.node_ips.clone(),
                machine_id: it.register.clone(),
            });
            machines.collect()
        })
    }

    /// Lets all machines say that the names of their Nodes begin like that, for clusters that share an API server.
    pub fn set_node_prefix(&self, prefix: &str) -> ControlResult {
        {
            let known = self.node_prefix.lock();
            prefix.clone_into(&mut known.unwrap_or_else(PoisonError::into_inner));
        }
        for machine in self.machines() {
            let name = self.node_of(&machine.name);
            let id = NodenameSpec::ID;
            self.edit(&machine.name, id, |spec: &mut NodenameSpec| {
                spec.nodename = name;
            })?;
        }
        Ok(())
    }

    /// The name of the Node of a machine.
    pub(super) fn node_of(&self, machine: &str) -> String {
        let prefix = self.node_prefix.lock();
        let prefix = prefix.unwrap_or_else(PoisonError::into_inner);
        format!("{prefix}{}", machine.to_lowercase())
    }

    /// The kubelet of a machine: Talos always tells it its Node's addresses.
    pub fn kubelet(&self, machine: &str) -> ControlResult<KubeletSpec> {
        self.change("find", machine, |cluster, _| {
            let it = cluster.machines.get(machine);
            let it = it.ok_or_else(|| "there is none of that name".to_owned())?;
            let ips: Vec<String> = it.node_ips.iter().map(ToString::to_string).collect();
            let system: Option<SystemInformationSpec> =
                it.resources.read(SystemInformationSpec::ID);
            Ok(KubeletSpec {
                node_name: it.name.to_lowercase(),
                machine_id: it.register.clone(),
                provided_node_ip: Some(ips.join(",")),
                own_addresses: it.node_ips.clone(),
                system_uuid: system.map(|it| it.uuid).unwrap_or_default(),
                os_image: OS_IMAGE.to_owned(),
                ..KubeletSpec::default()
            })
        })
    }
}
