//! One simulated cloud of the sandbox, and its machines.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use bowline_simulator::sandbox::{Account, Host, Place, Running, SimulatedCloud, SimulatorKind};
use bowline_simulator::{KubeletSpec, World};
use bowline_simulator_kubernetes::fleet::Fleet;

/// What an API answers that is down behind its load balancer.
const UNAVAILABLE: u16 = 503;

/// One simulated cloud, and its machines.
pub(in crate::sandbox) struct SandboxCloud {
    /// What it is called.
    pub name: &'static str,
    /// What kind of cloud it is.
    pub kind: &'static SimulatorKind,
    running: Running,
    /// What machines are called, before their numbers.
    prefix: String,
    /// What kubelets label their nodes with.
    labels: BTreeMap<String, String>,
    /// The machines there are, the oldest first.
    machines: Vec<String>,
    /// What the provider id of each machine that there ever was ends with.
    ids: BTreeMap<String, String>,
}

impl SandboxCloud {
    /// Starts its simulator, the one of that number.
    pub(super) async fn start(
        world: &World,
        (name, kind): (&'static str, &'static SimulatorKind),
        number: usize,
        prefix: String,
    ) -> Result<Self> {
        let account = Account {
            name: name.to_owned(),
            number,
            place: Place::Socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        };
        let running = (kind.start)(world, account);
        let running = running
            .await
            .with_context(|| format!("starting the simulated cloud {name}"))?;
        Ok(Self {
            name,
            kind,
            running,
            prefix,
            labels: BTreeMap::new(),
            machines: Vec::new(),
            ids: BTreeMap::new(),
        })
    }

    /// Lets the nodes of its machines have this label.
    pub(super) fn label(&mut self, key: &str, value: &str) {
        self.labels.insert(key.to_owned(), value.to_owned());
    }

    /// The cloud behind its API.
    pub(in crate::sandbox) fn simulated(&self) -> &Arc<dyn SimulatedCloud> {
        &self.running.cloud
    }

    /// The machines there are, by name, the oldest first.
    pub(in crate::sandbox) fn machines(&self) -> &[String] {
        &self.machines
    }

    /// The machines there are, each with what its provider id ends with.
    pub(in crate::sandbox) fn identities(&self) -> Vec<(String, String)> {
        let of = |name: &String| self.ids.get(name).cloned().unwrap_or_default();
        let machines = self.machines.iter();
        machines.map(|name| (name.clone(), of(name))).collect()
    }

    /// Makes a machine, starts a kubelet on it, and gives its name.
    pub(super) fn boot(&mut self, fleet: &Fleet) -> Result<String> {
        let name = self.next_name();
        let kubelet = self.simulated().boot(&name)?;
        self.join(fleet, &name, kubelet)?;
        Ok(name)
    }

    /// Makes a machine that runs a system of its own, which describes itself.
    pub(super) fn boot_guest(
        &mut self,
        fleet: &Fleet,
        system: &Arc<dyn SimulatedCloud>,
    ) -> Result<String> {
        let name = self.next_name();
        let own = self.simulated().boot(&name)?;
        let id = own.system_uuid.clone();
        let kubelet = system.run_on(&Host {
            addresses: self.simulated().addresses(&name),
            platform: self.kind.server.name,
            kubelet: own,
            name: name.clone(),
        })?;
        self.join(fleet, &name, kubelet)?;
        self.ids.insert(name.clone(), id);
        Ok(name)
    }

    fn next_name(&self) -> String {
        format!("{}-{}", self.prefix, self.ids.len() + 1)
    }

    fn join(&mut self, fleet: &Fleet, name: &str, mut kubelet: KubeletSpec) -> Result<()> {
        let of_cloud = kubelet.machine_id.rsplit("://").next();
        // A machine that is asked itself is called by its address.
        let id = kubelet.provided_node_ip.as_deref().or(of_cloud);
        let id = id.unwrap_or_default().to_owned();
        kubelet.labels.extend(self.labels.clone());
        fleet.join(kubelet)?;
        self.ids.insert(name.to_owned(), id);
        self.machines.push(name.to_owned());
        Ok(())
    }

    pub(super) fn destroy(&mut self, machine: &str) -> Result<()> {
        self.machines.retain(|name| name != machine);
        self.simulated().destroy(machine)
    }

    /// Calls to its API.
    pub(super) fn calls(&self) -> Filter {
        Filter::any().server(&self.running.recorded_as)
    }

    /// Lets its API answer nothing but that it is unavailable, or lets it answer again.
    pub(super) fn set_down(&self, world: &World, down: bool) -> Result<()> {
        let name = format!("{} is down", self.name);
        if down {
            let answer = Action::Status {
                code: UNAVAILABLE,
                headers: BTreeMap::new(),
                body: None,
            };
            let rule = Rule::new(answer).named(&name);
            world.faults.add(rule.server(&self.running.recorded_as))?;
        } else {
            world.faults.remove(&name);
        }
        Ok(())
    }

    /// Takes it down.
    pub(super) async fn shutdown(self) {
        self.running.server.shutdown().await;
    }
}
