//! Loading a fixture. Nothing here takes time.

use bowline_simulator::control::{add_all, add_faults};
use std::net::IpAddr;

use bowline_talos_api::Single;
use bowline_talos_api::specs::{
    AddressStatusSpec, ControllerManagerConfigSpec, NodenameSpec, SystemInformationSpec,
};

use super::fixture::MachineSpec;
use super::model::{Cluster, Machine, Resources};
use super::{ControlError, ControlResult, Stage, Talos, notation};

impl Talos {
    pub(super) fn load(&self) -> ControlResult {
        add_all(&self.fixture.machines, |spec| self.add_machine(spec))?;
        add_faults(&self.world, super::NAME, &self.fixture.faults)
    }

    /// Adds a machine that is there at once.
    pub fn add_machine(&self, spec: &MachineSpec) -> ControlResult {
        let failed = |reason: String| {
            ControlError::new("add", &format!("the machine {:?}", spec.name), reason)
        };
        let addresses =
            notation::addresses(&spec.addresses).map_err(|error| failed(error.to_string()))?;
        let node_ips = if spec.node_ips.is_empty() {
            first_of_each_family(&addresses)
        } else {
            spec.node_ips.clone()
        };
        if spec.name.is_empty() || node_ips.is_empty() {
            let reason = "it needs a name, and an address that its Node can have";
            return Err(failed(reason.to_owned()));
        }
        let stage = spec.stage.as_deref().unwrap_or("ready");
        let stage = Stage::parse(stage).ok_or_else(|| failed(format!("{stage:?} is no stage")))?;
        let own = format!("talos://{}", spec.name);
        let machine = Machine {
            name: spec.name.clone(),
            control_plane: spec.control_plane,
            stage,
            hangs: false,
            node_ips,
            platform: spec.platform.clone().into(),
            register: spec.machine_id.clone().unwrap_or(own),
            owned_elsewhere: spec.machine_id.is_some(),
            cut_list_after: None,
            resources: Resources::default(),
        };
        let system = (!spec.without_system).then(|| self.system_of(spec));
        self.with(|cluster| self.insert(cluster, machine, &addresses, system))
            .map_err(failed)
    }

    fn insert(
        &self,
        cluster: &mut Cluster,
        mut machine: Machine,
        addresses: &[AddressStatusSpec],
        system: Option<SystemInformationSpec>,
    ) -> Result<(), String> {
        let now = self.now();
        if cluster.machines.contains_key(&machine.name) {
            return Err("there is one of that name already".to_owned());
        }
        machine.publish_addresses(addresses, now);
        unique(cluster, &machine)?;
        machine.publish_platform(now);
        let resources = &mut machine.resources;
        if let Some(system) = system {
            resources.put(SystemInformationSpec::ID, &system, now);
        }
        let nodename = NodenameSpec {
            nodename: self.node_of(&machine.name),
            hostname_version: "1".to_owned(),
            skip_node_registration: false,
        };
        resources.put(NodenameSpec::ID, &nodename, now);
        if machine.control_plane {
            resources.put(ControllerManagerConfigSpec::ID, &cluster.ranges, now);
        }
        let name = machine.name.clone();
        cluster.machines.insert(name.clone(), machine);
        cluster.announce(&name, now);
        Ok(())
    }

    fn system_of(&self, spec: &MachineSpec) -> SystemInformationSpec {
        let mut system = match &spec.system {
            Some(system) => system.clone().into(),
            None => SystemInformationSpec {
                manufacturer: "Simulated".to_owned(),
                product_name: "Machine".to_owned(),
                ..SystemInformationSpec::default()
            },
        };
        if system.uuid.is_empty() {
            system.uuid = self.world.random.uuid();
        }
        system
    }
}

/// An error if another machine has one of its addresses.
pub(super) fn unique(cluster: &Cluster, machine: &Machine) -> Result<(), String> {
    let published = machine.addresses();
    let own = published
        .iter()
        .filter(|one| notation::is_own(one))
        .map(|one| notation::ip_of(one).0);
    for ip in own.chain(machine.node_ips.iter().copied()) {
        if let Some(other) = cluster.by_ip(ip)
            && other.name != machine.name
        {
            return Err(format!("{} has the address {ip} already", other.name));
        }
    }
    Ok(())
}

/// The addresses that a Node gets if nobody says otherwise.
pub(super) fn first_of_each_family(addresses: &[AddressStatusSpec]) -> Vec<IpAddr> {
    let own = || {
        let own = addresses.iter().filter(|one| notation::is_own(one));
        own.map(|one| notation::ip_of(one).0)
    };
    let (v4, v6) = (own().find(IpAddr::is_ipv4), own().find(IpAddr::is_ipv6));
    v4.into_iter().chain(v6).collect()
}
