//! The control handle over HTTP: `POST /_sim/<verb>`.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::balancers::VERBS as FURTHER;
use super::{Cloudscale, MachineSpec};

/// What can be asked of the control handle over HTTP.
const VERBS: &str = "add, stop, start, destroy, rename, migrate, deform";

impl Cloudscale {
    /// Carries out `POST /_sim/<verb>`.
    pub(super) fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        let done = match verb {
            "add" => {
                let added = self.add_servers(&read::<MachineSpec>(body)?);
                return match added {
                    Ok(added) => Ok(json!({ "added": added })),
                    Err(error) => Err(error.to_string()),
                };
            }
            "stop" => self.stop(&read::<Which>(body)?.machine),
            "start" => self.start(&read::<Which>(body)?.machine),
            "destroy" => self.destroy(&read::<Which>(body)?.machine),
            "rename" => {
                let wanted: Rename = read(body)?;
                self.rename(&wanted.machine, &wanted.name)
            }
            "migrate" => {
                let wanted: Migrate = read(body)?;
                self.migrate(&wanted.machine, &wanted.zone)
            }
            "deform" => {
                let wanted: Deform = read(body)?;
                self.deform(&wanted.machine, wanted.members)
            }
            other => {
                let unknown = || format!("{other:?} is not known; allowed are {VERBS}, {FURTHER}");
                let done = self.carry_out_on_balancers(other, body);
                return done.unwrap_or_else(|| Err(unknown()));
            }
        };
        done.map(|()| json!({})).map_err(|error| error.to_string())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    machine: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rename {
    machine: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Migrate {
    machine: String,
    zone: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deform {
    #[serde(alias = "id")]
    machine: String,
    members: Map<String, Value>,
}

/// A body of the control handle; serde's message names what is allowed.
pub(super) fn read<T: DeserializeOwned>(body: &Value) -> Result<T, String> {
    T::deserialize(body).map_err(|error| error.to_string())
}
