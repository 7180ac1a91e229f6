//! The control handle over HTTP: `POST /_sim/<verb>`.

use bowline_simulator::handle::read_body;
use serde::Deserialize;
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
                let added = self.add_servers(&read_body::<MachineSpec>(body)?);
                return match added {
                    Ok(added) => Ok(json!({ "added": added })),
                    Err(error) => Err(error.to_string()),
                };
            }
            "stop" => self.stop(&read_body::<Which>(body)?.machine),
            "start" => self.start(&read_body::<Which>(body)?.machine),
            "destroy" => self.destroy(&read_body::<Which>(body)?.machine),
            "rename" => {
                let wanted: Rename = read_body(body)?;
                self.rename(&wanted.machine, &wanted.name)
            }
            "migrate" => {
                let wanted: Migrate = read_body(body)?;
                self.migrate(&wanted.machine, &wanted.zone)
            }
            "deform" => {
                let wanted: Deform = read_body(body)?;
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
