//! The simulated clouds: without latency, in this process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use bowline_simulator::sandbox::{Account, Place, Running, Settings, SimulatorKind};
use bowline_simulator::{KubeletSpec, World};

/// Any port of this machine.
pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

const ALL: [SimulatorKind; 5] = [
    bowline_simulator_cloudscale::KIND,
    bowline_simulator_exoscale::KIND,
    bowline_simulator_talos::KIND,
    bowline_simulator_triton::KIND,
    bowline_simulator_xenorchestra::KIND,
];

/// The kind of that name.
pub(crate) fn named(name: &str) -> Result<&'static SimulatorKind> {
    let mut all = ALL.iter();
    all.find(|kind| kind.server.name == name).with_context(|| {
        let names: Vec<&str> = ALL.iter().map(|kind| kind.server.name).collect();
        format!("no cloud is called {name}; there are {}", names.join(", "))
    })
}

/// A simulated cloud with machines that run.
pub(crate) struct Cloud {
    pub(crate) kind: &'static SimulatorKind,
    pub(crate) running: Running,
    pub(crate) kubelets: Vec<KubeletSpec>,
}

impl Cloud {
    pub(crate) async fn start(
        world: &World,
        kind: &'static SimulatorKind,
        machines: usize,
    ) -> Result<Self> {
        let account = Account {
            name: kind.server.name.to_owned(),
            number: 0,
            place: Place::Socket(LOOPBACK),
        };
        let running = (kind.start)(world, account).await?;
        let boot = |number| running.cloud.boot(&format!("worker-{number}"));
        let kubelets = (1..=machines).map(boot).collect::<Result<Vec<_>>>()?;
        Ok(Self {
            kind,
            running,
            kubelets,
        })
    }

    /// The settings of its provider, with their files in that folder.
    pub(crate) fn settings(&self, folder: &Path) -> Result<Settings> {
        let settings = self.running.cloud.settings(folder);
        for (name, content) in &settings.files {
            std::fs::write(folder.join(name), content)?;
        }
        Ok(settings)
    }
}
