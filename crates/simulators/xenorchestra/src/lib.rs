//! Xen Orchestra, simulated: its REST API v0 and its socket, over pools of hosts with VMs.
//!
//! ```text
//!  request ─▶ routes: prefix, TLS ─▶ auth ─▶ calls (operation id) ─▶ reads: lists · render ─▶ answer
//!               │                                    │
//!               ├─▶ socket: JSON-RPC                 ├─▶ actions · tasks: what happens when ─▶ model
//!               └─▶ page: the sign-in                └─▶ events: who listens ◀── changes ──────┘
//! ```

mod actions;
mod auth;
mod calls;
mod config;
mod control;
mod events;
mod filter;
mod fixture;
mod guest;
mod lists;
mod load;
mod model;
mod original;
mod reads;
mod refusals;
mod render;
mod routes;
mod sandbox;
mod simulate;
mod socket;
mod tasks;
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

pub use bowline_simulator::control::{ControlError, ControlResult};
pub use config::{
    Config, DEFAULT_PASSWORD, DEFAULT_TOKEN, DEFAULT_USER, Privilege, Quirks, Release, Timings,
    User,
};
pub use fixture::{Fixture, HostSpec, PoolSpec, Size, TokenSpec, UserSpec, VmSpec};
pub use model::{Connection, Heard, PowerState};
pub use original::manifest;
pub use sandbox::KIND;
pub use views::{HostInfo, PoolInfo, VmInfo};

/// The name in the journal and in fault rules.
pub const NAME: &str = "xenorchestra";

#[derive(Debug)]
pub struct XenOrchestra {
    world: World,
    config: Config,
    /// What a reset goes back to.
    fixture: Fixture,
    cloud: Mutex<Cloud>,
    /// For timers and streams, which must not keep it alive.
    me: Weak<Self>,
}

impl XenOrchestra {
    /// One without pools.
    pub fn new(world: &World, config: Config) -> Arc<Self> {
        Self::assemble(world, config, Fixture::default())
    }

    /// One with the content of a fixture.
    pub fn from_fixture(world: &World, fixture: Fixture) -> ControlResult<Arc<Self>> {
        let orchestra = Self::assemble(world, fixture.config(), fixture);
        orchestra.load()?;
        Ok(orchestra)
    }

    fn assemble(world: &World, config: Config, fixture: Fixture) -> Arc<Self> {
        let cloud = Self::empty(world, &config);
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

    /// Does something to everything as it is now, and tells the register of machines and those who listen
    /// what came of it.
    fn with<T>(&self, work: impl FnOnce(&mut Cloud) -> T) -> T {
        let now = self.now();
        let mut cloud = self.cloud.lock().unwrap_or_else(PoisonError::into_inner);
        cloud.settle(now);
        let result = work(&mut cloud);
        cloud.settle(now);
        cloud.publish();
        for id in std::mem::take(&mut cloud.switched) {
            let machine = machine_id(&id);
            match cloud.vms.get(&id).map(|vm| vm.power) {
                Some(PowerState::Running) => self.world.machines.set(&machine, Power::Running),
                Some(_) => self.world.machines.set(&machine, Power::Off),
                None => self.world.machines.destroy(&machine),
            }
        }
        self.wake_for(&mut cloud, now);
        result
    }

    /// Sees to it that somebody looks when the next thing is due. Whoever looks in between sees what is true
    /// by then all the same; this is for those who listen.
    fn wake_for(&self, cloud: &mut Cloud, now: Timestamp) {
        let Some(next) = cloud.due.keys().next().map(|(at, _)| *at) else {
            return;
        };
        if cloud.wake.is_some_and(|wake| wake <= next) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        cloud.wake = Some(next);
        let after = next.duration_since(now).unsigned_abs();
        let me = self.me.clone();
        runtime.spawn(async move {
            tokio::time::sleep(after).await;
            if let Some(orchestra) = me.upgrade() {
                orchestra.with(|cloud| cloud.wake = None);
            }
        });
    }
}

/// The key of a VM in the register of machines. Not the provider ID of its Node, which names a pool too,
/// and a VM may move to another.
pub fn machine_id(vm: &str) -> String {
    format!("xenorchestra://{vm}")
}

impl Api for XenOrchestra {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operation(&self, method: &Method, path: &str) -> Option<&'static str> {
        let (_, inside) = path.split_once(routes::ROOT)?;
        calls::call(method, inside.trim_matches('/')).map(|(operation, _)| operation)
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, _peer: &'a Peer) -> BoxFuture<'a, Answer> {
        async move {
            let (response, caller) = self.respond(request).await;
            Answer { response, caller }
        }
        .boxed()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }

    fn error_body(&self, _status: StatusCode, message: &str) -> Value {
        json!({ "error": message })
    }
}
