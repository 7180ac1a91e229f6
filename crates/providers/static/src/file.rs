//! The file of machines: what may be in it, and how it is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use bowline_core::{AddressKind, Instance, NodeAddress, NodeMetadata, Power, ProviderId, quote};
use bowline_http::{SmallFile, Source};
use serde::Deserialize;

/// What addresses can be.
const KINDS: &str = "allowed are Hostname, InternalIP, ExternalIP, InternalDNS, ExternalDNS";
/// Bytes of a file: 10,000 machines with ten labels each.
pub(crate) const LARGEST: usize = 4 * 1024 * 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Machines {
    machines: Vec<Machine>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Machine {
    /// The name of its Node.
    name: String,
    /// `static://<name>` without one.
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    /// By kind: `InternalIP: [10.0.0.5]`.
    addresses: BTreeMap<String, Vec<String>>,
    r#type: String,
    zone: String,
    region: String,
    labels: BTreeMap<String, String>,
    state: State,
    /// The only proof that a machine is gone.
    pub(crate) gone: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum State {
    #[default]
    Running,
    Stopped,
}

/// The file itself, which may change at any time.
pub(crate) struct MachinesFile(pub(crate) SmallFile);

impl MachinesFile {
    fn wrong(&self, why: &dyn Display) -> String {
        format!("{}: {why}", self.0.path().display())
    }
}

impl Source for MachinesFile {
    type Raw = Vec<u8>;
    type Value = Machines;
    type Problem = String;
    const WHAT: &'static str = "file of machines";

    fn read(&self) -> Result<Vec<u8>, String> {
        self.0.read_now().map_err(|error| self.wrong(&error))
    }

    /// Checks what was read. Errors name the entry, the field, the value and what is allowed.
    fn check(&self, bytes: &Vec<u8>) -> Result<Machines, String> {
        let machines: Machines =
            serde_saphyr::from_slice(bytes).map_err(|error| self.wrong(&error))?;
        let problem = machines.problem().map(|why| self.wrong(&why));
        problem.map_or(Ok(machines), Err)
    }
}

impl Machines {
    fn problem(&self) -> Option<String> {
        let (mut names, mut ids) = (BTreeSet::new(), BTreeSet::new());
        for (number, machine) in self.machines.iter().enumerate() {
            let (name, id) = (machine.name.as_str(), &*machine.id());
            let (field, value, allowed) = if name.is_empty() || !names.insert(name) {
                ("name", name, "each machine needs a name of its own")
            } else if ProviderId::parse(id).is_err() || !ids.insert(id.to_owned()) {
                ("providerID", id, "each machine needs an ID of its own")
            } else if let Some(kind) = machine.unknown_kind() {
                ("addresses", kind, KINDS)
            } else {
                continue;
            };
            let value = quote(value);
            return Some(format!("machines[{number}].{field}: {value}: {allowed}"));
        }
        None
    }

    pub(crate) fn by_id(&self, id: &str) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.id() == id)
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.name == name)
    }
}

impl Machine {
    fn id(&self) -> String {
        let by_name = || format!("{}://{}", crate::PROVIDER, self.name);
        self.provider_id.clone().unwrap_or_else(by_name)
    }

    fn unknown_kind(&self) -> Option<&str> {
        let mut kinds = self.addresses.keys().map(String::as_str);
        kinds.find(|kind| matches!(AddressKind::from(*kind), AddressKind::Other(_)))
    }

    /// What its Node is to show.
    pub(crate) fn instance(&self) -> Instance {
        let addresses = self.addresses.iter().flat_map(|(kind, values)| {
            let address =
                |value: &String| NodeAddress::new(AddressKind::from(kind.as_str()), value);
            values.iter().map(address)
        });
        Instance {
            provider_id: ProviderId::parse(&self.id()).ok(),
            instance_type: self.r#type.clone(),
            zone: self.zone.clone(),
            region: self.region.clone(),
            addresses: addresses.collect(),
            power: match self.state {
                State::Running => Power::On,
                State::Stopped => Power::Off,
            },
            extra_labels: self.labels.clone(),
            marks: NodeMetadata::default(),
        }
    }
}
