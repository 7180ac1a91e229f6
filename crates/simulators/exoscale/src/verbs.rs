//! The control handle over HTTP: the verbs, the whole state, and the reset.

use bowline_simulator::control::{Control, ControlResult, Done, added, done};
use bowline_simulator::faults::Span;
use bowline_simulator::timings::Timed;
use serde_json::{Map, Value, json};

use super::balancer_fixture::{BalancerSpec, ServiceSpec};
use super::calls;
use super::config::{Key, Quirks, TimingsSpec};
use super::fixture::{ClusterSpec, InstanceSpec, KeySpec, NetworkSpec, PoolSpec};
use super::operations::Operation;
use super::render::View;
use super::routes::instances;
use super::{Ending, Exoscale, State};

const VERBS: &str = "add, add-pool, add-private-network, add-cluster, add-load-balancer, \
    add-service, stop, start, destroy, rename, state, remove-load-balancer, remove-service, \
    health, deform, key, remove-key, deny, permit-all, timings, quirks, plan, forget-plans, \
    end-operations";

impl Control for Exoscale {
    fn state(&self) -> Value {
        self.with(|cloud| {
            let zones = cloud.zones.iter().map(|(name, zone)| {
                let view = View {
                    cloud,
                    zone,
                    now: self.now(),
                };
                let operations = zone.operations.all().map(Operation::show);
                let shown = json!({
                    "instances": instances(&view, |_| true),
                    "instance-pools": zone.pools.all().map(|it| view.pool(it)).collect::<Vec<_>>(),
                    "load-balancers": zone.balancers.all().filter_map(|it| view.balancer(it))
                        .collect::<Vec<_>>(),
                    "sks-clusters": zone.clusters.all().map(|it| view.cluster(it)).collect::<Vec<_>>(),
                    "private-networks": zone.networks.all().map(|it| view.network(it))
                        .collect::<Vec<_>>(),
                    "operations": operations.collect::<Vec<_>>(),
                });
                (name.clone(), shown)
            });
            json!({ "zones": zones.collect::<Map<_, _>>() })
        })
    }

    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => added(body, |spec: InstanceSpec| self.add_instances(&spec)),
            "add-pool" => added(body, |spec: PoolSpec| self.add_pool(&spec)),
            "add-private-network" => {
                added(body, |spec: NetworkSpec| self.add_private_network(&spec))
            }
            "add-cluster" => added(body, |spec: ClusterSpec| self.add_cluster(&spec)),
            "add-load-balancer" => added(body, |spec: BalancerSpec| self.add_balancer(&spec)),
            "add-service" => added(body, |to: Add| self.add_service(&to.to, &to.add)),
            "stop" => done(body, |to: Which| self.stop(&to.machine)),
            "start" => done(body, |to: Which| self.start(&to.machine)),
            "destroy" => done(body, |to: Which| self.destroy(&to.machine)),
            "rename" => done(body, |to: Rename| self.rename(&to.machine, &to.name)),
            "state" => done(body, |to: InState| {
                let state = State::parse(&to.state);
                let state = state.ok_or_else(|| format!("{:?} is no state", to.state))?;
                self.set_state(&to.machine, state).done()
            }),
            "remove-load-balancer" => done(body, |to: Of| self.remove_balancer(&to.id)),
            "remove-service" => done(body, |to: Remove| self.remove_service(&to.from, &to.id)),
            _ => self.carry_out_on_all(verb, body),
        }
    }

    fn reset(&self) -> ControlResult {
        self.with(|cloud| {
            for zone in cloud.zones.values_mut() {
                let all: Vec<String> = zone.instances.all().map(|it| it.id.clone()).collect();
                zone.lose_instances(&all);
            }
        });
        self.with(|cloud| *cloud = Self::empty(&self.config));
        self.load()
    }
}

impl Exoscale {
    /// The verbs that are about the cloud as a whole.
    fn carry_out_on_all(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "health" => done(body, |to: Health| self.set_health(&to.instance, to.good)),
            "deform" => done(body, |to: Deform| self.deform(&to.id, to.members)),
            "key" => done(body, |to: KeySpec| {
                let key = Key {
                    secret: to.secret,
                    allowed: to.allow,
                    denied: to.deny,
                };
                self.set_key(&to.key, key);
            }),
            "remove-key" => done(body, |Remover { key }| {
                let removed = self.remove_key(&key).then_some(());
                removed.ok_or_else(|| format!("there is no key {key:?}"))
            }),
            "deny" => done(body, |Deny { operations }| {
                operations.iter().try_for_each(|one| known(one))?;
                let operations: Vec<&str> = operations.iter().map(String::as_str).collect();
                self.deny(&operations);
                Ok::<_, String>(())
            }),
            "permit-all" => done(body, |_: Value| self.permit_all()),
            "timings" => done(body, |to: TimingsSpec| {
                self.set_timings(|timings| *timings = std::mem::take(timings).or_as(&to));
            }),
            "quirks" => done(body, |to: Quirks| self.set_quirks(|quirks| *quirks = to)),
            "plan" => done(body, |to: Plan| self.plan_as(&to)),
            "forget-plans" => done(body, |_: Value| self.forget_plans()),
            "end-operations" => done(body, |_: Value| self.end_operations()),
            other => Err(format!("{other:?} is not known; allowed are {VERBS}")),
        }
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

bowline_simulator::bodies! {
    Which { machine: String }
    Of { id: String }
    Add { to: String, add: ServiceSpec }
    Remove { from: String, id: String }
    Rename { machine: String, name: String }
    InState { machine: String, state: String }
    Health { instance: String, good: Option<bool> }
    Deform { id: String, members: Map<String, Value> }
    Remover { key: String }
    Deny { operations: Vec<String> }
    Plan {
        operation: String,
        ending: String,
        reason: Option<String>,
        message: Option<String>,
        after: Option<Span>,
        times: Option<u64>,
        #[serde(default)] applied: bool,
        #[serde(default)] without_reference: bool
    }
}
