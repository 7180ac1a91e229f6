//! The control handle over HTTP: `POST /_sim/<verb>`.

use std::collections::BTreeMap;

use bowline_simulator::handle::read_body;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::config::{Quirks, User};
use super::scene::{HostSpec, PoolSpec, Size, TimingsSpec, TokenSpec, UserSpec, VmSpec};
use super::{Connection, HandleError, PowerState, XenOrchestra};

/// What can be asked of the control handle over HTTP.
const VERBS: &str = "add, add-pool, add-host, start, halt, pause, unpause, suspend, state, destroy, template, \
    rename, rename-host, rename-pool, migrate, resize, guest, tags, local-disk, hide-container, connection, \
    vm-records, remove-pool, restart, host-power, deform, user, remove-user, token, revoke-token, timings, \
    quirks";

impl XenOrchestra {
    /// Carries out `POST /_sim/<verb>`.
    pub(super) fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => told(self.add_vms(&read_body::<VmSpec>(body)?)),
            "add-pool" => told(self.add_pool(&read_body::<PoolSpec>(body)?)),
            "add-host" => told(self.add_host(&read_body::<HostSpec>(body)?)),
            "start" => done(self.start(&read_body::<Which>(body)?.machine)),
            "halt" => done(self.halt(&read_body::<Which>(body)?.machine)),
            "pause" => done(self.pause(&read_body::<Which>(body)?.machine)),
            "unpause" => done(self.unpause(&read_body::<Which>(body)?.machine)),
            "suspend" => done(self.suspend(&read_body::<Which>(body)?.machine)),
            "destroy" => done(self.destroy(&read_body::<Which>(body)?.machine)),
            "template" => done(self.make_template(&read_body::<Which>(body)?.machine)),
            "state" => {
                let wanted: InState = read_body(body)?;
                let state = PowerState::parse(&wanted.state);
                let state = state.ok_or_else(|| format!("{:?} is no power state", wanted.state))?;
                done(self.set_power(&wanted.machine, state))
            }
            "rename" => {
                let wanted: Rename = read_body(body)?;
                done(self.rename(&wanted.machine, &wanted.name))
            }
            "rename-host" => {
                let wanted: RenameHost = read_body(body)?;
                done(self.rename_host(&wanted.host, &wanted.name))
            }
            "rename-pool" => {
                let wanted: RenamePool = read_body(body)?;
                done(self.rename_pool(&wanted.pool, &wanted.name))
            }
            "migrate" => {
                let wanted: Migrate = read_body(body)?;
                if wanted.slowly {
                    return done(
                        self.begin_migration(&wanted.machine, &wanted.host)
                            .map(|_| ()),
                    );
                }
                done(self.migrate(&wanted.machine, &wanted.host))
            }
            "resize" => {
                let wanted: Resize = read_body(body)?;
                done(self.resize(&wanted.machine, wanted.cpus, wanted.memory.0))
            }
            "guest" => {
                let wanted: Guest = read_body(body)?;
                let pairs: Vec<(&str, &str)> = wanted
                    .guest
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.as_str()))
                    .collect();
                done(self.set_guest(&wanted.machine, &pairs))
            }
            "tags" => {
                let wanted: Tags = read_body(body)?;
                let tags: Vec<&str> = wanted.tags.iter().map(String::as_str).collect();
                done(self.set_tags(&wanted.machine, &tags))
            }
            "local-disk" => {
                let wanted: LocalDisk = read_body(body)?;
                done(self.set_local_disk(&wanted.machine, wanted.host.as_deref()))
            }
            "hide-container" => {
                let wanted: Hide = read_body(body)?;
                done(self.hide_container(&wanted.machine, wanted.on))
            }
            _ => self.carry_out_on_all(verb, body),
        }
    }

    /// The verbs that are not about a VM.
    fn carry_out_on_all(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "connection" => {
                let wanted: Connect = read_body(body)?;
                let state = Connection::parse(&wanted.state);
                let state = state.ok_or_else(|| {
                    let allowed = "connected, connecting, disconnected";
                    format!("{:?} is none of {allowed}", wanted.state)
                })?;
                return done(self.set_connection(&wanted.pool, state));
            }
            "vm-records" => {
                let wanted: Records = read_body(body)?;
                return done(self.lose_vm_records(&wanted.pool, wanted.missing));
            }
            "remove-pool" => return done(self.remove_pool(&read_body::<WhichPool>(body)?.pool)),
            "host-power" => {
                let wanted: HostPower = read_body(body)?;
                return done(self.set_host_running(&wanted.host, wanted.on));
            }
            "restart" => self.restart(),
            "deform" => {
                let wanted: Deform = read_body(body)?;
                self.deform(&wanted.id, wanted.members);
            }
            "user" => {
                let wanted: UserSpec = read_body(body)?;
                let user = User {
                    id: wanted.id,
                    password: wanted.password,
                    admin: wanted.admin,
                    privileges: wanted.privileges,
                    otp: wanted.otp,
                };
                self.set_user(&wanted.name, user);
            }
            "remove-user" => {
                let name = read_body::<Named>(body)?.name;
                if !self.remove_user(&name) {
                    return Err(format!("there is no user {name:?}"));
                }
            }
            "token" => {
                let wanted: TokenSpec = read_body(body)?;
                self.set_token(&wanted.value, &wanted.user);
            }
            "revoke-token" => {
                let value = read_body::<Revoke>(body)?.value;
                if !self.revoke_token(&value) {
                    return Err(format!("there is no token {value:?}"));
                }
            }
            "timings" => {
                let wanted: TimingsSpec = read_body(body)?;
                self.set_timings(|timings| *timings = wanted.over(*timings));
            }
            "quirks" => {
                let wanted: Quirks = read_body(body)?;
                self.set_quirks(|quirks| *quirks = wanted);
            }
            other => return Err(format!("{other:?} is not known; allowed are {VERBS}")),
        }
        Ok(json!({}))
    }
}

fn told<T: serde::Serialize>(added: Result<T, HandleError>) -> Result<Value, String> {
    let added = added.map_err(|error| error.to_string())?;
    Ok(json!({ "added": added }))
}

fn done(result: Result<(), HandleError>) -> Result<Value, String> {
    result
        .map(|()| json!({}))
        .map_err(|error| error.to_string())
}

/// The bodies of verbs.
macro_rules! bodies {
    ($($name:ident { $($field:ident: $kind:ty),* })*) => {
        $(
            #[derive(Deserialize)]
            #[serde(deny_unknown_fields)]
            struct $name { $($field: $kind),* }
        )*
    };
}

bodies! {
    Which { machine: String }
    WhichPool { pool: String }
    InState { machine: String, state: String }
    Rename { machine: String, name: String }
    RenameHost { host: String, name: String }
    RenamePool { pool: String, name: String }
    Resize { machine: String, cpus: u32, memory: Size }
    Guest { machine: String, guest: BTreeMap<String, String> }
    Tags { machine: String, tags: Vec<String> }
    LocalDisk { machine: String, host: Option<String> }
    Hide { machine: String, on: bool }
    Connect { pool: String, state: String }
    Records { pool: String, missing: bool }
    HostPower { host: String, on: bool }
    Deform { id: String, members: Map<String, Value> }
    Named { name: String }
    Revoke { value: String }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Migrate {
    machine: String,
    host: String,
    #[serde(default)]
    slowly: bool,
}
