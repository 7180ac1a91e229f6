//! The control handle over HTTP: the verbs, the whole state, and the reset.

use bowline_simulator::control::{Control, ControlResult, added, done};
use serde_json::{Map, Value, json};

use super::balancers::VERBS as FURTHER;
use super::kinds::{Kind, list};
use super::render::View;
use super::servers::machine_id;
use super::{Cloudscale, MachineSpec};

const VERBS: &str = "add, stop, start, destroy, rename, migrate, deform";

impl Control for Cloudscale {
    fn state(&self) -> Value {
        let cloud = self.lock();
        let now = self.now();
        let url = self.config.public_url.as_deref().unwrap_or_default();
        let base = format!("{}/v1", url.trim_end_matches('/'));
        let projects = cloud.projects.keys().map(|project| {
            let view = View {
                cloud: &cloud,
                project,
                base: &base,
                now,
            };
            let kinds = [
                ("servers", Kind::Servers),
                ("networks", Kind::Networks),
                ("subnets", Kind::Subnets),
                ("server-groups", Kind::Groups),
                ("floating-ips", Kind::FloatingIps),
                ("load-balancers", Kind::Balancers),
                ("pools", Kind::Pools),
                ("listeners", Kind::Listeners),
                ("health-monitors", Kind::Monitors),
            ];
            let lists = kinds.map(|(name, kind)| (name.to_owned(), list(&view, kind).into()));
            let mut lists: Map<_, _> = lists.into_iter().collect();
            let pools = cloud.projects.get(project).into_iter();
            let pools = pools.flat_map(|project| project.pools.all());
            let members = pools.flat_map(|pool| list(&view, Kind::Members(&pool.uuid)));
            lists.insert("pool-members".to_owned(), members.collect());
            (project.clone(), Value::Object(lists))
        });
        json!({"projects": projects.collect::<Map<_, _>>()})
    }

    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
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

    fn reset(&self) -> ControlResult {
        let gone = self.servers();
        *self.lock() = Self::empty(&self.world, &self.config);
        for machine in gone {
            self.world.machines.destroy(&machine_id(&machine.uuid));
        }
        self.load()
    }
}

bowline_simulator::bodies! {
    Which { machine: String }
    Rename { machine: String, name: String }
    Migrate { machine: String, zone: String }
    Deform { #[serde(alias = "id")] machine: String, members: Map<String, Value> }
}
