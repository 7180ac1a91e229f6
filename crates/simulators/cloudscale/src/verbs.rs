//! The control handle over HTTP: `POST /_sim/<verb>`.

use bowline_simulator::handle::{added, done};
use serde_json::{Map, Value};

use super::balancers::VERBS as FURTHER;
use super::{Cloudscale, MachineSpec};

const VERBS: &str = "add, stop, start, destroy, rename, migrate, deform";

impl Cloudscale {
    pub(super) fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => added(body, |spec: MachineSpec| self.add_servers(&spec)),
            "stop" => done(body, |to: Which| self.stop(&to.machine)),
            "start" => done(body, |to: Which| self.start(&to.machine)),
            "destroy" => done(body, |to: Which| self.destroy(&to.machine)),
            "rename" => done(body, |to: Rename| self.rename(&to.machine, &to.name)),
            "migrate" => done(body, |to: Migrate| self.migrate(&to.machine, &to.zone)),
            "deform" => done(body, |to: Deform| self.deform(&to.machine, to.members)),
            other => {
                let unknown = || format!("{other:?} is not known; allowed are {VERBS}, {FURTHER}");
                let carried = self.carry_out_on_balancers(other, body);
                carried.unwrap_or_else(|| Err(unknown()))
            }
        }
    }
}

bowline_simulator::bodies! {
    Which { machine: String }
    Rename { machine: String, name: String }
    Migrate { machine: String, zone: String }
    Deform { #[serde(alias = "id")] machine: String, members: Map<String, Value> }
}
