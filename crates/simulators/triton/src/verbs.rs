//! The control handle over HTTP: the verbs, the whole state, and the reset.

use bowline_simulator::control::{Control, ControlResult, Done, added, done, read_body};
use serde_json::{Map, Value, json};

use super::config::{Quirks, Throttle, TimingsSpec};
use super::fixture::{AccountSpec, ImageSpec, MachineSpec, NetworkSpec, PackageSpec, RuleSpec};
use super::{State, Triton, render};

const VERBS: &str = "add, add-account, add-network, add-package, add-image, add-rule, stop, start, \
    destroy, fail, forget, purge, rename, state, migrate, replace-tags, tag, metadata, protect, \
    firewall, lose-image, fail-provisions, kill-compute-node, revive-compute-node, maintenance, \
    skew, throttle, timings, quirks, cns, key, reach, resolve, appliance, private-key";

impl Control for Triton {
    fn state(&self) -> Value {
        self.with(|cloud| {
            let networks = cloud.networks.all().map(|it| {
                json!({ "id": it.id, "name": it.name, "routes": it.routes, "zones": it.zones })
            });
            let machines = cloud.machines.values().map(|it| {
                let mut shown = render::machine(cloud, it);
                shown["owner"] = it.owner.as_str().into();
                shown["dns_names"] = json!(cloud.names.machines.get(&it.id));
                shown
            });
            let rules = cloud.rules.values().map(|it| {
                json!({
                    "id": it.id, "rule": it.parsed.to_string(), "enabled": it.enabled,
                    "description": it.description,
                })
            });
            json!({
                "datacenter": cloud.datacenter,
                "accounts": cloud.accounts.values().map(render::account).collect::<Vec<_>>(),
                "machines": machines.collect::<Vec<_>>(),
                "networks": networks.collect::<Vec<_>>(),
                "fwrules": rules.collect::<Vec<_>>(),
                "jobs": cloud.events.len(),
            })
        })
    }

    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => added(body, |spec: MachineSpec| self.add_machines(&spec)),
            "add-account" => added(body, |spec: AccountSpec| self.add_account(&spec)),
            "add-network" => added(body, |spec: NetworkSpec| self.add_network(&spec)),
            "add-package" => added(body, |spec: PackageSpec| self.add_package(&spec)),
            "add-image" => added(body, |spec: ImageSpec| self.add_image(&spec)),
            "add-rule" => added(body, |spec: RuleSpec| self.add_rule(&spec)),
            "stop" => done(body, |to: Which| self.stop(&to.machine)),
            "start" => done(body, |to: Which| self.start(&to.machine)),
            "destroy" => done(body, |to: Which| self.destroy(&to.machine)),
            "fail" => done(body, |to: Which| self.fail(&to.machine)),
            "forget" => done(body, |to: Which| self.forget(&to.machine)),
            "rename" => done(body, |to: Rename| self.rename(&to.machine, &to.name)),
            "state" => done(body, |to: InState| {
                let state = State::parse(&to.state);
                let state = state.ok_or_else(|| format!("{:?} is no state", to.state))?;
                self.set_state(&to.machine, state).done()
            }),
            "migrate" => done(body, |to: Migrate| {
                self.migrate(&to.machine, &to.compute_node)
            }),
            "replace-tags" => done(body, |to: Tags| self.replace_tags(&to.machine, to.tags)),
            "tag" => done(body, |to: Item| {
                self.set_tag(&to.machine, &to.key, to.value)
            }),
            "metadata" => done(body, |to: Item| {
                let value = to.value.as_ref().and_then(Value::as_str);
                self.set_metadata(&to.machine, &to.key, value)
            }),
            "protect" => done(body, |to: Switch| self.protect(&to.machine, to.on)),
            "firewall" => done(body, |to: Switch| self.set_firewall(&to.machine, to.on)),
            "lose-image" => done(body, |to: Switch| self.lose_image(&to.machine, to.on)),
            _ => self.carry_out_on_all(verb, body),
        }
    }

    fn reset(&self) -> ControlResult {
        self.with(|cloud| {
            let all: Vec<String> = cloud.machines.keys().cloned().collect();
            for id in all {
                cloud.machines.remove(&id);
                cloud.touched.push((id, Vec::new()));
            }
        });
        self.with(|cloud| *cloud = Self::empty(&self.fixture));
        self.load()
    }
}

impl Triton {
    /// The verbs that are about the cloud as a whole.
    fn carry_out_on_all(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "purge" => done(body, |_: Value| self.purge()),
            "fail-provisions" => done(body, |to: Count| self.fail_provisions(to.count)),
            "kill-compute-node" => done(body, |to: Node| self.kill_compute_node(&to.compute_node)),
            "revive-compute-node" => {
                done(body, |to: Node| self.revive_compute_node(&to.compute_node))
            }
            "maintenance" => done(body, |to: Maintenance| {
                if to.on {
                    self.begin_maintenance(to.until);
                } else {
                    self.end_maintenance();
                }
            }),
            "skew" => done(body, |to: Skew| self.set_skew(to.seconds)),
            "throttle" if body.as_object().is_some_and(Map::is_empty) => {
                done(body, |_: Value| self.set_throttle(None))
            }
            "throttle" => done(body, |to: Throttle| self.set_throttle(Some(to))),
            "timings" => done(body, |to: TimingsSpec| {
                self.set_timings(|timings| *timings = std::mem::take(timings).with(&to));
            }),
            "quirks" => done(body, |to: Quirks| self.set_quirks(|quirks| *quirks = to)),
            "cns" => done(body, |to: Account| self.enable_names(&to.account, to.on)),
            "key" => done(body, |to: NewKey| self.add_key(&to.account, &to.key)),
            "reach" => {
                let wanted: Reach = read_body(body)?;
                let protocol = wanted.protocol.as_deref().unwrap_or("tcp");
                let reached = self.would_reach(wanted.from, &wanted.machine, protocol, wanted.port);
                Ok(json!({ "reaches": reached }))
            }
            "resolve" => {
                let name = read_body::<Name>(body)?.name;
                let services = self.resolve_services(&name);
                Ok(json!({ "addresses": self.resolve(&name), "services": services }))
            }
            "appliance" => Ok(self.show_appliance(&read_body::<Which>(body)?.machine)),
            "private-key" => Ok(json!({ "key": super::DEFAULT_PRIVATE_KEY })),
            other => Err(format!("{other:?} is not known; allowed are {VERBS}")),
        }
    }

    fn show_appliance(&self, machine: &str) -> Value {
        let Some(appliance) = self.appliance(machine) else {
            return Value::Null;
        };
        let entries = appliance.entries.iter().map(|it| {
            json!({
                "kind": it.kind, "listen": it.listen, "backend": it.backend,
                "targets": it.targets, "check": it.check,
            })
        });
        json!({ "entries": entries.collect::<Vec<_>>(), "dropped": appliance.dropped })
    }
}

bowline_simulator::bodies! {
    Which { machine: String }
    Rename { machine: String, name: String }
    InState { machine: String, state: String }
    Migrate { machine: String, compute_node: String }
    Tags { machine: String, tags: Map<String, Value> }
    Item { machine: String, key: String, value: Option<Value> }
    Switch { machine: String, on: bool }
    Count { count: u32 }
    Node { compute_node: String }
    Maintenance { on: bool, until: Option<jiff::Timestamp> }
    Skew { seconds: i64 }
    Account { account: String, on: bool }
    NewKey { account: String, key: String }
    Reach { from: std::net::IpAddr, machine: String, protocol: Option<String>, port: u16 }
    Name { name: String }
}
