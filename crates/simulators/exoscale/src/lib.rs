//! Exoscale's API v2, simulated: instances, instance pools, network load balancers and SKS clusters,
//! in several zones that know nothing of each other.
//!
//! ```text
//!  request ─▶ routes: zone ─▶ signature ─▶ calls (operation id) ─▶ role ─▶ answer ◀─ render
//!                                                    │
//!                       instances · pools · balancers · services · clusters ──▶ model
//!                           │ (fields: what was asked)                            ▲
//!                           └──────▶ operations: what happens when they end ──────┘
//! ```

mod balancer_fixture;
mod balancers;
mod calls;
mod catalog;
mod clusters;
mod config;
mod control;
mod fields;
mod fixture;
mod instances;
mod load;
mod metadata;
mod model;
mod operations;
mod original;
mod pools;
mod refusals;
mod render;
mod routes;
mod sandbox;
mod services;
mod signature;
mod simulate;
#[cfg(test)]
mod tests;
mod verbs;
mod views;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use bowline_simulator::World;
use bowline_simulator::control::Control;
use bowline_simulator::machines::Power;
use bowline_simulator::serve::{Answer, Api, Peer};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use model::Cloud;

pub use balancer_fixture::{BalancerSpec, HealthcheckSpec, ServiceSpec};
pub use bowline_simulator::control::{ControlError, ControlResult};
pub use config::{Config, DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Key, Quirks, Timings};
pub use fixture::{
    ClusterSpec, Fixture, InstanceSpec, KeySpec, NetworkSpec, NodepoolSpec, PoolSpec,
};
pub use metadata::{METADATA, Metadata};
pub use model::{Healthcheck, State};
pub use operations::Ending;
pub use original::manifest;
pub use sandbox::KIND;
pub use views::{BalancerInfo, InstanceInfo, PoolInfo, ServiceInfo};

/// The name in the journal and in fault rules.
pub const NAME: &str = "exoscale";

#[derive(Debug)]
pub struct Exoscale {
    world: World,
    config: Config,
    /// What a reset goes back to.
    fixture: Fixture,
    cloud: Mutex<Cloud>,
    /// For timers, which must not keep the cloud alive.
    me: Weak<Self>,
}

impl Exoscale {
    /// An empty cloud.
    pub fn new(world: &World, config: Config) -> Arc<Self> {
        Self::assemble(world, config, Fixture::default())
    }

    /// A cloud with the content of a fixture.
    pub fn from_fixture(world: &World, fixture: Fixture) -> ControlResult<Arc<Self>> {
        let cloud = Self::assemble(world, fixture.config(), fixture);
        cloud.load()?;
        Ok(cloud)
    }

    fn assemble(world: &World, config: Config, fixture: Fixture) -> Arc<Self> {
        let cloud = Self::empty(&config);
        Arc::new_cyclic(|me| Self {
            world: world.clone(),
            config,
            fixture,
            cloud: Mutex::new(cloud),
            me: me.clone(),
        })
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// Does something to the cloud as it is now, and tells the register of machines what came of it.
    fn with<T>(&self, work: impl FnOnce(&mut Cloud) -> T) -> T {
        let now = self.now();
        let mut cloud = self.cloud.lock().unwrap_or_else(PoisonError::into_inner);
        for zone in cloud.zones.values_mut() {
            zone.settle(now);
        }
        let result = work(&mut cloud);
        for zone in cloud.zones.values_mut() {
            for id in std::mem::take(&mut zone.touched) {
                let machine = machine_id(&id);
                match zone.instances.get(&id) {
                    Some(instance) if instance.state.runs() => {
                        self.world.machines.set(&machine, Power::Running);
                    }
                    Some(_) => self.world.machines.set(&machine, Power::Off),
                    None => self.world.machines.destroy(&machine),
                }
            }
        }
        result
    }
}

/// The key of an instance in the register of machines: what its Node has as provider ID.
pub fn machine_id(instance: &str) -> String {
    format!("exoscale://{instance}")
}

impl Api for Exoscale {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operation(&self, method: &Method, path: &str) -> Option<&'static str> {
        self.operation_of(method, path)
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, _peer: &'a Peer) -> BoxFuture<'a, Answer> {
        async move { self.respond(&request) }.boxed()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }

    fn error_body(&self, _status: StatusCode, message: &str) -> Value {
        json!({ "message": message })
    }
}
