//! The control handle over HTTP: `POST /_sim/<verb>`.

use bowline_simulator::faults::Span;
use bowline_simulator::handle::read_body;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::balancer_scene::{BalancerSpec, ServiceSpec};
use super::calls;
use super::config::{Key, Quirks};
use super::scene::{ClusterSpec, InstanceSpec, KeySpec, NetworkSpec, PoolSpec, TimingsSpec};
use super::{Ending, Exoscale, State};

/// What can be asked of the control handle over HTTP.
const VERBS: &str = "add, add-pool, add-private-network, add-cluster, add-load-balancer, \
    add-service, stop, start, destroy, rename, state, remove-load-balancer, remove-service, \
    health, deform, key, remove-key, deny, permit-all, timings, quirks, plan, forget-plans, \
    end-operations";

impl Exoscale {
    /// Carries out `POST /_sim/<verb>`.
    pub(super) fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => told(self.add_instances(&read_body::<InstanceSpec>(body)?)),
            "add-pool" => told(self.add_pool(&read_body::<PoolSpec>(body)?)),
            "add-private-network" => {
                told(self.add_private_network(&read_body::<NetworkSpec>(body)?))
            }
            "add-cluster" => told(self.add_cluster(&read_body::<ClusterSpec>(body)?)),
            "add-load-balancer" => told(self.add_balancer(&read_body::<BalancerSpec>(body)?)),
            "add-service" => {
                let wanted: Add = read_body(body)?;
                told(self.add_service(&wanted.to, &wanted.add))
            }
            "stop" => done(self.stop(&read_body::<Which>(body)?.machine)),
            "start" => done(self.start(&read_body::<Which>(body)?.machine)),
            "destroy" => done(self.destroy(&read_body::<Which>(body)?.machine)),
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
            "remove-load-balancer" => done(self.remove_balancer(&read_body::<Of>(body)?.id)),
            "remove-service" => {
                let wanted: Remove = read_body(body)?;
                done(self.remove_service(&wanted.from, &wanted.id))
            }
            _ => self.carry_out_on_all(verb, body),
        }
    }

    /// The verbs that are about the cloud as a whole.
    fn carry_out_on_all(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "health" => {
                let wanted: Health = read_body(body)?;
                self.set_health(&wanted.instance, wanted.good);
            }
            "deform" => {
                let wanted: Deform = read_body(body)?;
                self.deform(&wanted.id, wanted.members);
            }
            "key" => {
                let wanted: KeySpec = read_body(body)?;
                let key = Key {
                    secret: wanted.secret,
                    allowed: wanted.allow,
                    denied: wanted.deny,
                };
                self.set_key(&wanted.key, key);
            }
            "remove-key" => {
                let key = read_body::<Remover>(body)?.key;
                if !self.remove_key(&key) {
                    return Err(format!("there is no key {key:?}"));
                }
            }
            "deny" => {
                let operations = read_body::<Deny>(body)?.operations;
                for operation in &operations {
                    known(operation)?;
                }
                let operations: Vec<&str> = operations.iter().map(String::as_str).collect();
                self.deny(&operations);
            }
            "permit-all" => self.permit_all(),
            "timings" => {
                let wanted: TimingsSpec = read_body(body)?;
                self.set_timings(|timings| *timings = wanted.over(std::mem::take(timings)));
            }
            "quirks" => {
                let wanted: Quirks = read_body(body)?;
                self.set_quirks(|quirks| *quirks = wanted);
            }
            "plan" => self.plan_as(&read_body::<Plan>(body)?)?,
            "forget-plans" => self.forget_plans(),
            "end-operations" => self.end_operations(),
            other => return Err(format!("{other:?} is not known; allowed are {VERBS}")),
        }
        Ok(json!({}))
    }

    fn plan_as(&self, wanted: &Plan) -> Result<(), String> {
        known(&wanted.operation)?;
        let mut ending = match wanted.ending.as_str() {
            "success" => Ending::success(),
            "failure" => {
                let reason = wanted.reason.as_deref().unwrap_or("unknown");
                Ending::failure(reason, wanted.message.as_deref().unwrap_or_default())
            }
            "timeout" => Ending::timeout(),
            "never" => Ending::never(),
            other => {
                let allowed = "success, failure, timeout, never";
                return Err(format!(
                    "ending {other:?} is not known; allowed are {allowed}"
                ));
            }
        };
        if let Some(span) = wanted.after {
            ending = ending.after(span.least);
        }
        if wanted.applied {
            ending = ending.applied();
        }
        if wanted.without_reference {
            ending = ending.without_reference();
        }
        self.plan(&wanted.operation, ending, wanted.times);
        Ok(())
    }
}

/// An error for an id that no operation has.
fn known(operation: &str) -> Result<(), String> {
    if calls::exists(operation) {
        Ok(())
    } else {
        Err(format!("there is no operation {operation:?}"))
    }
}

fn told<T: serde::Serialize>(added: Result<T, super::HandleError>) -> Result<Value, String> {
    let added = added.map_err(|error| error.to_string())?;
    Ok(json!({ "added": added }))
}

fn done(result: Result<(), super::HandleError>) -> Result<Value, String> {
    result
        .map(|()| json!({}))
        .map_err(|error| error.to_string())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    machine: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Of {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add {
    to: String,
    add: ServiceSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Remove {
    from: String,
    id: String,
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
struct Health {
    instance: String,
    good: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deform {
    id: String,
    members: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Remover {
    key: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Deny {
    operations: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    operation: String,
    ending: String,
    reason: Option<String>,
    message: Option<String>,
    after: Option<Span>,
    times: Option<u64>,
    #[serde(default)]
    applied: bool,
    #[serde(default)]
    without_reference: bool,
}
