//! The cloudscale.ch API, simulated: servers, load balancers and what belongs to them, for several
//! projects.
//!
//! ```text
//!  request ─▶ write_lock (one write per load balancer) ─▶ routes (token, path) ─▶ kinds ─▶ answer
//!                                                           │                    ▲ render
//!                                                           ▼                    │
//!                       servers · networks · floating · balancers ──────▶ model
//!                             (fields: what was asked; shelf: what they have in common)
//! ```

mod balancers;
mod catalog;
mod config;
mod control;
mod fields;
mod fixture;
mod floating;
mod interfaces;
mod kinds;
mod load;
mod model;
mod networks;
mod new_server;
mod original;
mod refusals;
mod render;
mod routes;
mod sandbox;
mod servers;
mod shelf;
mod simulate;
#[cfg(test)]
mod tests;
mod verbs;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bowline_simulator::World;
use bowline_simulator::control::Control;
use bowline_simulator::serve::{Answer, Api, Peer};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Request;
use jiff::Timestamp;

use catalog::ZONES;
use model::Cloud;

pub use balancers::{
    BalancerInfo, BalancerSpec, BalancerStatus, Health, Http, HttpSpec, ListenerInfo, ListenerSpec,
    MemberInfo, MemberSpec, MonitorInfo, MonitorSpec, PoolInfo, PoolSpec, VipSpec,
};
pub use bowline_simulator::control::{ControlError, ControlResult};
pub use config::{BalancerTimings, Config, DEFAULT_PROJECT, DEFAULT_TOKEN, Quirks, Timings, Token};
pub use control::MachineInfo;
pub use fixture::{
    Fixture, FloatingIpSpec, InterfaceSpec, Length, MachineSpec, NetworkSpec, SubnetSpec, TokenSpec,
};
pub use model::Status;
pub use original::manifest;
pub use sandbox::KIND;

/// The name in the journal and in fault rules.
pub const NAME: &str = "cloudscale";

#[derive(Debug)]
pub struct Cloudscale {
    world: World,
    config: Config,
    /// What a reset goes back to.
    fixture: Fixture,
    cloud: Mutex<Cloud>,
    /// For timers, which must not keep the cloud alive.
    me: Weak<Self>,
}

impl Cloudscale {
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

    fn lock(&self) -> MutexGuard<'_, Cloud> {
        self.cloud.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Api for Cloudscale {
    fn name(&self) -> &'static str {
        NAME
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, _peer: &'a Peer) -> BoxFuture<'a, Answer> {
        async move {
            let _lock = self.lock_balancer(&request).await;
            self.respond(&request)
        }
        .boxed()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}
