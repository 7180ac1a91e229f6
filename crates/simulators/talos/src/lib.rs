//! The API of Talos machines, simulated: a whole cluster of them, asked through one or several of its
//! machines, as apid does it.
//!
//! ```text
//!  connection ─▶ gate: TLS, client certificate (authority, purpose, expiry by the world's clock)
//!  request ─▶ endpoint: role ─▶ routes: which machine? ─▶ reach: does it answer? ─▶ service ─▶ answer
//!                                                                                    │
//!                     control, verbs, load ──▶ model: machines, resources, members ◀─┘
//! ```

mod authorities;
mod config;
mod control;
mod control_server;
mod definitions;
mod endpoint;
mod fixture;
mod load;
mod model;
mod notation;
mod original;
mod published;
mod routes;
mod sandbox;
mod service;
mod simulate;
mod talosconfig;
#[cfg(test)]
mod tests;
mod verbs;
mod watch;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bowline_simulator::World;
use bowline_simulator::keys::Keys;
use bowline_simulator::machines::Power;
use bowline_simulator::serve::{Gate, ServeError, Server};
use tokio::sync::watch::{Receiver, Sender};

use model::Cluster;

pub use authorities::{Algorithm, AuthorityError};
pub use bowline_simulator::control::{ControlError, ControlResult};
pub use config::{Config, Timings};
pub use control::{Failure, MachineInfo};
pub use control_server::ControlServer;
pub use fixture::{Fixture, MachineSpec, NetworksSpec, PlatformSpec, SystemSpec};
pub use model::Stage;
pub use notation::{AddressError, address, addresses};
pub use original::manifest;
pub use published::Published;
pub use sandbox::KIND;
pub use talosconfig::{Access, READER};

/// The name in the journal and in fault rules.
pub const NAME: &str = "talos";
/// The version of Talos that the machines run.
pub const VERSION: &str = "v1.13.5";
/// The name of the operating system in the Nodes of the machines.
pub const OS_IMAGE: &str = "Talos (v1.13.5)";

pub struct Talos {
    world: World,
    config: Config,
    /// What a reset goes back to.
    fixture: Fixture,
    keys: Keys,
    cluster: Mutex<Cluster>,
    /// How the names of Nodes begin, before those of their machines.
    node_prefix: Mutex<String>,
    /// Changes when all connections shall end.
    hang_up: Sender<u64>,
    /// Changes with what machines publish.
    changed: Sender<u64>,
}

impl std::fmt::Debug for Talos {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Talos").finish_non_exhaustive()
    }
}

impl Talos {
    /// A cluster without machines, whose keys are drawn from the world's randomness.
    pub fn new(world: &World, config: Config) -> ControlResult<Arc<Self>> {
        Self::assemble(
            world,
            config,
            Fixture::default(),
            Keys::seeded(&world.random),
        )
    }

    /// A cluster with the content of a fixture.
    pub fn from_fixture(world: &World, fixture: Fixture) -> ControlResult<Arc<Self>> {
        let keys = Keys::seeded(&world.random);
        Self::from_fixture_with(world, fixture, keys)
    }

    /// The same, with keys from elsewhere.
    pub fn from_fixture_with(
        world: &World,
        fixture: Fixture,
        keys: Keys,
    ) -> ControlResult<Arc<Self>> {
        let talos = Self::assemble(world, fixture.config(), fixture, keys)?;
        talos.load()?;
        Ok(talos)
    }

    fn assemble(
        world: &World,
        config: Config,
        fixture: Fixture,
        keys: Keys,
    ) -> ControlResult<Arc<Self>> {
        let cluster = Cluster::empty(&config, &keys)?;
        Ok(Arc::new(Self {
            world: world.clone(),
            config,
            fixture,
            keys,
            cluster: Mutex::new(cluster),
            node_prefix: Mutex::default(),
            hang_up: Sender::new(0),
            changed: Sender::new(0),
        }))
    }

    /// Serves the API of that machine on a socket; the machine need not exist yet. Port 0 picks a free one.
    pub async fn listen(
        self: &Arc<Self>,
        machine: &str,
        address: SocketAddr,
    ) -> Result<Server, ServeError> {
        let builder = Server::builder(&self.world, self.endpoint(machine));
        builder.gated(address, self.gate(machine)).await
    }

    /// Serves the API of that machine on a pipe of the world, with TLS as on a socket.
    pub fn on_pipe(self: &Arc<Self>, machine: &str, authority: &str) -> Server {
        let builder = Server::builder(&self.world, self.endpoint(machine));
        builder.gated_pipe(authority, self.gate(machine))
    }

    fn gate(self: &Arc<Self>, machine: &str) -> Gate {
        let (talos, machine) = (Arc::downgrade(self), machine.to_owned());
        let settings = move || {
            let talos = talos.upgrade()?;
            match talos.tls_of(&machine) {
                Ok(settings) => settings,
                Err(error) => {
                    tracing::error!(%error, machine, "a certificate cannot be made");
                    None
                }
            }
        };
        Gate::new(settings, self.hang_up.subscribe())
    }

    /// Does something to the cluster, and tells the register of machines what came of it.
    fn with<T>(&self, work: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        let result = work(&mut cluster);
        for (register, power) in std::mem::take(&mut cluster.touched) {
            match power {
                Some(power) => self.world.machines.set(&register, power),
                None => self.world.machines.destroy(&register),
            }
        }
        let changes = cluster.changes;
        self.changed.send_if_modified(|reported| {
            let news = *reported != changes;
            *reported = changes;
            news
        });
        result
    }

    /// Sees every later change of what machines publish.
    fn changes(&self) -> Receiver<u64> {
        self.changed.subscribe()
    }

    /// Whether the world lets that machine run: one that another simulated cloud owns may be off.
    fn runs(&self, register: &str) -> bool {
        self.world.machines.power(register) == Some(Power::Running)
    }
}
