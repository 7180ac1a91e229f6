//! The control handle over HTTP: the verbs, the whole state, and the reset.

use std::collections::BTreeMap;

use bowline_simulator::control::{Control, ControlResult, Done, added, done};
use bowline_simulator::timings::Timed;
use serde_json::{Map, Value, json};

use super::config::{Quirks, TimingsSpec};
use super::fixture::{HostSpec, PoolSpec, Size, TokenSpec, UserSpec, VmSpec};
use super::model::Kind;
use super::render::show_server;
use super::{Connection, PowerState, XenOrchestra};

const VERBS: &str = "add, add-pool, add-host, start, halt, pause, unpause, suspend, state, destroy, template, \
    rename, rename-host, rename-pool, migrate, resize, guest, tags, local-disk, hide-container, connection, \
    vm-records, remove-pool, restart, host-power, deform, user, remove-user, token, revoke-token, timings, \
    quirks";

impl Control for XenOrchestra {
    fn state(&self) -> Value {
        self.with(|cloud| {
            let shown = |kind: Kind| -> Vec<Value> {
                let ids = cloud.shown(kind).into_iter();
                ids.filter_map(|id| cloud.show(kind, &id)).collect()
            };
            json!({
                "pools": shown(Kind::Pool),
                "hosts": shown(Kind::Host),
                "vms": shown(Kind::Vm),
                "servers": cloud.pools.all().map(show_server).collect::<Vec<_>>(),
                "tasks": cloud.tasks.all().map(|it| Value::Object(it.show())).collect::<Vec<_>>(),
                "users": cloud.users.keys().collect::<Vec<_>>(),
                "tokens": cloud.tokens.keys().collect::<Vec<_>>(),
                "listening": cloud.listening(),
            })
        })
    }

    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => added(body, |spec: VmSpec| self.add_vms(&spec)),
            "add-pool" => added(body, |spec: PoolSpec| self.add_pool(&spec)),
            "add-host" => added(body, |spec: HostSpec| self.add_host(&spec)),
            "start" => done(body, |to: Which| self.start(&to.machine)),
            "halt" => done(body, |to: Which| self.halt(&to.machine)),
            "pause" => done(body, |to: Which| self.pause(&to.machine)),
            "unpause" => done(body, |to: Which| self.unpause(&to.machine)),
            "suspend" => done(body, |to: Which| self.suspend(&to.machine)),
            "destroy" => done(body, |to: Which| self.destroy(&to.machine)),
            "template" => done(body, |to: Which| self.make_template(&to.machine)),
            "state" => done(body, |to: InState| {
                let state = PowerState::parse(&to.state);
                let state = state.ok_or_else(|| format!("{:?} is no power state", to.state))?;
                self.set_power(&to.machine, state).done()
            }),
            "rename" => done(body, |to: Rename| self.rename(&to.machine, &to.name)),
            "rename-host" => done(body, |to: RenameHost| self.rename_host(&to.host, &to.name)),
            "rename-pool" => done(body, |to: RenamePool| self.rename_pool(&to.pool, &to.name)),
            "migrate" => done(body, |to: Migrate| {
                if to.slowly {
                    self.begin_migration(&to.machine, &to.host).map(|_| ())
                } else {
                    self.migrate(&to.machine, &to.host)
                }
            }),
            "resize" => done(body, |to: Resize| {
                self.resize(&to.machine, to.cpus, to.memory.0)
            }),
            "guest" => done(body, |to: Guest| {
                let pairs = to.guest.iter();
                let pairs: Vec<_> = pairs.map(|(key, value)| (&**key, &**value)).collect();
                self.set_guest(&to.machine, &pairs)
            }),
            "tags" => done(body, |to: Tags| {
                let tags: Vec<&str> = to.tags.iter().map(String::as_str).collect();
                self.set_tags(&to.machine, &tags)
            }),
            "local-disk" => done(body, |to: LocalDisk| {
                self.set_local_disk(&to.machine, to.host.as_deref())
            }),
            "hide-container" => done(body, |to: Hide| self.hide_container(&to.machine, to.on)),
            _ => self.carry_out_on_all(verb, body),
        }
    }

    fn reset(&self) -> ControlResult {
        self.with(|cloud| {
            let all: Vec<String> = cloud.vms.all().map(|vm| vm.id.clone()).collect();
            for id in all {
                cloud.lose_vm(&id);
            }
            cloud.hang_up();
        });
        self.with(|cloud| *cloud = Self::empty(&self.world, &self.config));
        self.load()
    }
}

impl XenOrchestra {
    /// The verbs that are not about a VM.
    fn carry_out_on_all(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "connection" => done(body, |to: Connect| {
                let state = Connection::parse(&to.state).ok_or_else(|| {
                    let allowed = "connected, connecting, disconnected";
                    format!("{:?} is none of {allowed}", to.state)
                })?;
                self.set_connection(&to.pool, state).done()
            }),
            "vm-records" => done(body, |to: Records| {
                self.lose_vm_records(&to.pool, to.missing)
            }),
            "remove-pool" => done(body, |to: WhichPool| self.remove_pool(&to.pool)),
            "host-power" => done(body, |to: HostPower| self.set_host_running(&to.host, to.on)),
            "restart" => done(body, |_: Value| self.restart()),
            "deform" => done(body, |to: Deform| self.deform(&to.id, to.members)),
            "user" => done(body, |to: UserSpec| self.set_user(&to.name, to.user())),
            "remove-user" => done(body, |Named { name }| {
                let removed = self.remove_user(&name).then_some(());
                removed.ok_or_else(|| format!("there is no user {name:?}"))
            }),
            "token" => done(body, |to: TokenSpec| self.set_token(&to.value, &to.user)),
            "revoke-token" => done(body, |Revoke { value }| {
                let revoked = self.revoke_token(&value).then_some(());
                revoked.ok_or_else(|| format!("there is no token {value:?}"))
            }),
            "timings" => done(body, |to: TimingsSpec| {
                self.set_timings(|timings| *timings = timings.or_as(&to));
            }),
            "quirks" => done(body, |to: Quirks| self.set_quirks(|quirks| *quirks = to)),
            other => Err(format!("{other:?} is not known; allowed are {VERBS}")),
        }
    }
}

bowline_simulator::bodies! {
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
    Migrate { machine: String, host: String, #[serde(default)] slowly: bool }
}
