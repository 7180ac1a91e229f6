//! The control handle over HTTP: `POST /_sim/<verb>`, and the whole state.

use bowline_simulator::handle::read_body;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::config::{Quirks, Throttle, TimingsSpec};
use super::scene::{AccountSpec, ImageSpec, MachineSpec, NetworkSpec, PackageSpec, RuleSpec};
use super::{State, Triton, render};

/// What can be asked of the control handle over HTTP.
const VERBS: &str = "add, add-account, add-network, add-package, add-image, add-rule, stop, start, \
    destroy, fail, forget, purge, rename, state, migrate, replace-tags, tag, metadata, protect, \
    firewall, lose-image, fail-provisions, kill-compute-node, revive-compute-node, maintenance, \
    skew, throttle, timings, quirks, cns, key, reach, resolve, appliance, private-key";

impl Triton {
    /// Carries out `POST /_sim/<verb>`.
    pub(super) fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => told(self.add_machines(&read_body::<MachineSpec>(body)?)),
            "add-account" => told(self.add_account(&read_body::<AccountSpec>(body)?)),
            "add-network" => told(self.add_network(&read_body::<NetworkSpec>(body)?)),
            "add-package" => told(self.add_package(&read_body::<PackageSpec>(body)?)),
            "add-image" => told(self.add_image(&read_body::<ImageSpec>(body)?)),
            "add-rule" => told(self.add_rule(&read_body::<RuleSpec>(body)?)),
            "stop" => done(self.stop(&read_body::<Which>(body)?.machine)),
            "start" => done(self.start(&read_body::<Which>(body)?.machine)),
            "destroy" => done(self.destroy(&read_body::<Which>(body)?.machine)),
            "fail" => done(self.fail(&read_body::<Which>(body)?.machine)),
            "forget" => done(self.forget(&read_body::<Which>(body)?.machine)),
            "rename" => {
                let wanted: Rename = read_body(body)?;
                done(self.rename(&wanted.machine, &wanted.name))
            }
            "state" => {
                let wanted: InState = read_body(body)?;
                let state = State::parse(&wanted.state);
                let state = state.ok_or_else(|| format!("{:?} is no state", wanted.state))?;
                done(self.set_state(&wanted.machine, state))
            }
            "migrate" => {
                let wanted: Migrate = read_body(body)?;
                done(self.migrate(&wanted.machine, &wanted.compute_node))
            }
            "replace-tags" => {
                let wanted: Tags = read_body(body)?;
                done(self.replace_tags(&wanted.machine, wanted.tags))
            }
            "tag" => {
                let wanted: Item = read_body(body)?;
                done(self.set_tag(&wanted.machine, &wanted.key, wanted.value))
            }
            "metadata" => {
                let wanted: Item = read_body(body)?;
                let value = wanted.value.as_ref().and_then(Value::as_str);
                done(self.set_metadata(&wanted.machine, &wanted.key, value))
            }
            "protect" => {
                let wanted: Switch = read_body(body)?;
                done(self.protect(&wanted.machine, wanted.on))
            }
            "firewall" => {
                let wanted: Switch = read_body(body)?;
                done(self.set_firewall(&wanted.machine, wanted.on))
            }
            "lose-image" => {
                let wanted: Switch = read_body(body)?;
                done(self.lose_image(&wanted.machine, wanted.on))
            }
            _ => self.carry_out_on_all(verb, body),
        }
    }

    /// The verbs that are about the cloud as a whole.
    fn carry_out_on_all(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "purge" => self.purge(),
            "fail-provisions" => self.fail_provisions(read_body::<Count>(body)?.count),
            "kill-compute-node" => self.kill_compute_node(&read_body::<Node>(body)?.compute_node),
            "revive-compute-node" => {
                self.revive_compute_node(&read_body::<Node>(body)?.compute_node);
            }
            "maintenance" => {
                let wanted: Maintenance = read_body(body)?;
                if wanted.on {
                    self.begin_maintenance(wanted.until);
                } else {
                    self.end_maintenance();
                }
            }
            "skew" => self.set_skew(read_body::<Skew>(body)?.seconds),
            "throttle" => {
                let none = body.as_object().is_some_and(Map::is_empty);
                let wanted = if none {
                    None
                } else {
                    Some(read_body::<Throttle>(body)?)
                };
                self.set_throttle(wanted);
            }
            "timings" => {
                let wanted: TimingsSpec = read_body(body)?;
                self.set_timings(|timings| *timings = wanted.over(timings));
            }
            "quirks" => {
                let wanted: Quirks = read_body(body)?;
                self.set_quirks(|quirks| *quirks = wanted);
            }
            "cns" => {
                let wanted: Account = read_body(body)?;
                return done(self.enable_names(&wanted.account, wanted.on));
            }
            "key" => {
                let wanted: NewKey = read_body(body)?;
                return done(self.add_key(&wanted.account, &wanted.key));
            }
            "reach" => {
                let wanted: Reach = read_body(body)?;
                let protocol = wanted.protocol.as_deref().unwrap_or("tcp");
                let reached = self.would_reach(wanted.from, &wanted.machine, protocol, wanted.port);
                return Ok(json!({ "reaches": reached }));
            }
            "resolve" => {
                let name = read_body::<Name>(body)?.name;
                let services = self.resolve_services(&name);
                return Ok(json!({ "addresses": self.resolve(&name), "services": services }));
            }
            "appliance" => return Ok(self.show_appliance(&read_body::<Which>(body)?.machine)),
            "private-key" => return Ok(json!({ "key": super::DEFAULT_PRIVATE_KEY })),
            other => return Err(format!("{other:?} is not known; allowed are {VERBS}")),
        }
        Ok(json!({}))
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

    /// Everything there is, destroyed machines included.
    pub(super) fn everything(&self) -> Value {
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
}

fn told<T: serde::Serialize>(added: Result<T, super::HandleError>) -> Result<Value, String> {
    let added = added.map_err(|error| error.to_string())?;
    Ok(json!({ "added": added }))
}

fn done(result: Result<(), super::HandleError>) -> Result<Value, String> {
    let result = result.map(|()| json!({}));
    result.map_err(|error| error.to_string())
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
struct InState {
    machine: String,
    state: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Migrate {
    machine: String,
    compute_node: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tags {
    machine: String,
    tags: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    machine: String,
    key: String,
    value: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switch {
    machine: String,
    on: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Count {
    count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Node {
    compute_node: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Maintenance {
    on: bool,
    until: Option<jiff::Timestamp>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skew {
    seconds: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Account {
    account: String,
    on: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewKey {
    account: String,
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reach {
    from: std::net::IpAddr,
    machine: String,
    protocol: Option<String>,
    port: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    name: String,
}
