//! Triton's CloudAPI, simulated: accounts, machines with tags and metadata, networks and fabrics,
//! firewall rules, the name service and the change feed of one data center.
//!
//! ```text
//!  request ─▶ routes: version ─▶ signature ─▶ throttle ─▶ rights ─▶ answer ◀─ render
//!                                                          │
//!                accounts · machines · labels · networks · firewall ──▶ model ──▶ feed
//!                                │                                        ▲
//!                                └──▶ jobs: what happens at its time ─────┘ names: every 10 s
//! ```
//!
//! Differences from a real one: conditions of policies are not evaluated, NICs cannot be added or
//! removed, and there are no snapshots, disks, volumes and migrations through the API.

mod accounts;
mod appliance;
mod calls;
mod cmon;
mod config;
mod control;
mod curve;
mod defaults;
mod dns;
mod feed;
mod firewall;
mod fixture;
mod jobs;
mod keys;
mod labels;
mod limits;
mod load;
mod machines;
mod model;
mod names;
mod networks;
mod new_machine;
mod original;
mod parameters;
mod refusals;
mod render;
mod rights;
mod routes;
mod sandbox;
mod signature;
mod simulate;
mod tag_rules;
#[cfg(test)]
mod tests;
mod throttle;
mod verbs;
mod versions;
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
use tokio::sync::broadcast;

use model::Cloud;

pub use appliance::{ApplianceInfo, EntryInfo};
pub use bowline_simulator::control::{ControlError, ControlResult};
pub use cmon::{CMON, Cmon};
pub use config::{
    DEFAULT_ACCOUNT, DEFAULT_ACCOUNT_ID, DEFAULT_DATACENTER, DEFAULT_FINGERPRINT,
    DEFAULT_PRIVATE_KEY, DEFAULT_PUBLIC_KEY, Quirks, Throttle, Timings, TimingsSpec,
};
pub use defaults::{BALANCER_IMAGE, EXTERNAL, FABRIC, MACHINE_IMAGE};
pub use dns::{Dns, DnsError};
pub use fixture::{
    AccountSpec, Fixture, ImageSpec, MachineSpec, NetworkSpec, PackageSpec, RoleSpec, RuleSpec,
    UserSpec,
};
pub use model::{Limit, State, dnsify};
pub use original::manifest;
pub use sandbox::KIND;
pub use views::{MachineInfo, RuleInfo};

/// The name in the journal and in fault rules.
pub const NAME: &str = "triton";

#[derive(Debug)]
pub struct Triton {
    world: World,
    /// What a reset goes back to.
    fixture: Fixture,
    cloud: Mutex<Cloud>,
    /// Where the change feed hears of machines.
    changes: broadcast::Sender<feed::Change>,
    /// For timers, which must not keep the cloud alive.
    me: Weak<Self>,
}

impl Triton {
    /// A cloud with the content of a fixture; see [`Fixture`] for what is there without one.
    pub fn from_fixture(world: &World, fixture: Fixture) -> ControlResult<Arc<Self>> {
        let fixture = fixture.completed();
        let cloud = Arc::new_cyclic(|me| Self {
            world: world.clone(),
            cloud: Mutex::new(Self::empty(&fixture)),
            fixture,
            changes: feed::channel(),
            me: me.clone(),
        });
        cloud.load()?;
        Ok(cloud)
    }

    fn now(&self) -> Timestamp {
        self.world.clock.now()
    }

    /// Does something to the cloud as it is now, and tells everybody what came of it.
    fn with<T>(&self, work: impl FnOnce(&mut Cloud) -> T) -> T {
        let now = self.now();
        let mut cloud = self.cloud.lock().unwrap_or_else(PoisonError::into_inner);
        cloud.settle(now);
        let result = work(&mut cloud);
        cloud.settle(now);
        let touched = std::mem::take(&mut cloud.touched);
        for change in cloud.changes(&touched, now) {
            // Nobody may be listening.
            let _ = self.changes.send(change);
        }
        for (id, _) in touched {
            let machine = machine_id(&id);
            match cloud.machines.get(&id) {
                Some(it) if it.state.runs() => self.world.machines.set(&machine, Power::Running),
                Some(it) if it.state.lives() => self.world.machines.set(&machine, Power::Off),
                _ => self.world.machines.destroy(&machine),
            }
        }
        self.set_alarm(&mut cloud, now);
        result
    }

    /// Sees to it that what is still to happen happens at its time, whether or not anybody asks.
    fn set_alarm(&self, cloud: &mut Cloud, now: Timestamp) {
        let Some(due) = cloud.events.first_key_value().map(|((due, _), _)| *due) else {
            return;
        };
        if cloud.alarm.is_some_and(|alarm| alarm > now && alarm <= due) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        cloud.alarm = Some(due);
        let wait = std::time::Duration::try_from(due.duration_since(now)).unwrap_or_default();
        let me = self.me.clone();
        runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            if let Some(me) = me.upgrade() {
                me.with(|_| ());
            }
        });
    }
}

/// The key of a machine in the register of machines: what its Node has as provider ID.
pub fn machine_id(machine: &str) -> String {
    format!("triton://{machine}")
}

impl Api for Triton {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operation(&self, method: &Method, path: &str) -> Option<&'static str> {
        match calls::find(method, path) {
            calls::Found::Call(operation, _) => Some(operation),
            _ => None,
        }
    }

    fn answer<'a>(&'a self, mut request: Request<Bytes>, _peer: &'a Peer) -> BoxFuture<'a, Answer> {
        async move {
            let mut answer = self.respond(&request);
            if answer.response.status() == StatusCode::SWITCHING_PROTOCOLS {
                self.take_over(&mut request, &mut answer.response, &answer.caller);
            }
            answer
        }
        .boxed()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }

    fn error_body(&self, status: StatusCode, message: &str) -> Value {
        let code = match status.as_u16() {
            401 => "InvalidCredentials",
            403 => "NotAuthorized",
            404 => "ResourceNotFound",
            429 => "TooManyRequestsError",
            503 => "ServiceUnavailableError",
            _ => "InternalError",
        };
        json!({ "code": code, "message": message })
    }
}
