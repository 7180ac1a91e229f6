//! What the file contains: the keys of `docs/reference/static.md`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::NAME;

/// The machines of a file, which is also what a fixture looks like.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Inventory {
    /// In the order in which they were entered.
    pub machines: Vec<Machine>,
}

/// One machine. What is not said is not written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// The name of its Node.
    pub name: String,
    /// `static://<name>` without one.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// By kind: `InternalIP: [10.0.0.5]`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, Vec<String>>,
    /// What hardware it is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub r#type: String,
    /// Where it is …
    #[serde(skip_serializing_if = "String::is_empty")]
    pub zone: String,
    /// … and where that is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Further labels of its Node.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whether it runs.
    pub state: State,
    /// Whether it is gone for good.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It does.
    #[default]
    Running,
    /// It is switched off.
    Stopped,
}

impl Inventory {
    /// The content of the file.
    pub(crate) fn text(&self) -> String {
        // Texts and lists can always be written.
        serde_saphyr::to_string(self).unwrap_or_default()
    }

    pub(crate) fn add(&mut self, machine: Machine) -> Result<(), String> {
        if machine.name.is_empty() {
            return Err("it has no name".to_owned());
        }
        if self.machines.iter().any(|it| it.name == machine.name) {
            return Err("there is one of that name".to_owned());
        }
        self.machines.push(machine);
        Ok(())
    }

    /// The machine of that name, if it is not gone.
    pub(crate) fn present(&mut self, name: &str) -> Result<&mut Machine, String> {
        let found = self.machines.iter_mut().find(|it| it.name == name);
        match found.ok_or("there is no such machine")? {
            machine if machine.gone => Err("it is gone".to_owned()),
            machine => Ok(machine),
        }
    }

    /// The provider ID of the machine of that name.
    pub(crate) fn id(&self, name: &str) -> String {
        let found = self.machines.iter().find(|it| it.name == name);
        found.map(Machine::id).unwrap_or_default()
    }
}

impl Machine {
    /// Its provider ID, which is also its key in the world's register of machines.
    pub fn id(&self) -> String {
        let by_name = || format!("{NAME}://{}", self.name);
        self.provider_id.clone().unwrap_or_else(by_name)
    }
}
