//! Talos in the sandbox: machines of their own, on metal, asked through one of the control plane.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_simulator::sandbox::{
    Account, Host, NamedAccount, Place, Running, Section, Settings, SimulatedCloud, SimulatorKind,
    written,
};
use bowline_simulator::{KubeletSpec, World};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::original::manifest;
use crate::simulate::SERVER;
use crate::{Access, Config, MachineSpec, NAME, PlatformSpec, Stage, Talos, Timings};

pub const KIND: SimulatorKind = SimulatorKind {
    server: SERVER,
    title: "Talos",
    api: "Talos API",
    provider_id: "talos://",
    balancer: None,
    knows_power: false,
    is_guest: true,
    account: ("kube-system", "talos-cloud-controller-manager"),
    manifest,
    accounts: &[NamedAccount {
        name: "metal",
        line: "",
    }],
    start,
};

/// The machine whose API is asked; it passes questions on to the others. It is no node here.
const ENDPOINT: &str = "control-plane";
/// Its address, and the first of all machines: room for the largest sandbox.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 30, 0, 1);
/// How long the certificate in the talosconfig is good. A real one lasts six hours and is written
/// anew in time; here nobody would.
const LIFETIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// The simulated machines of a sandbox.
struct Simulated {
    talos: Arc<Talos>,
    /// Host and port of its API.
    authority: String,
    /// How many machines got an address.
    numbered: AtomicU32,
    talosconfig: String,
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "all clouds are started alike; the others keep the name"
)]
fn start(world: &World, account: Account) -> BoxFuture<'_, Result<Running>> {
    async move {
        let config = Config {
            // People in front of a sandbox should not wait for what does not answer.
            timings: Timings {
                down: Duration::ZERO,
                ..Timings::default()
            },
            ..Config::default()
        };
        let talos = Talos::new(world, config)?;
        let first = format!("eth0/{FIRST}/16");
        talos.add_machine(&MachineSpec::named(ENDPOINT, &[&first]).control_plane())?;
        let (server, authority) = match account.place {
            Place::Socket(address) => {
                let server = talos.listen(ENDPOINT, address).await?;
                let address = server.local_addr().context("the machine has no address")?;
                (server, address.to_string())
            }
            Place::Pipe => {
                let server = talos.on_pipe(ENDPOINT, &format!("{FIRST}:50000"));
                (server, FIRST.to_string())
            }
        };
        let access = Access::reader(&[&authority]).lifetime(LIFETIME);
        let talosconfig = talos.talosconfig(&access)?;
        let cloud = Arc::new(Simulated {
            talos,
            authority,
            numbered: AtomicU32::new(0),
            talosconfig,
        });
        Ok(Running {
            cloud,
            server,
            recorded_as: NAME.to_owned(),
        })
    }
    .boxed()
}

impl SimulatedCloud for Simulated {
    fn url(&self) -> String {
        format!("https://{}", self.authority)
    }

    fn settings(&self, folder: &Path) -> Settings {
        let file = folder.join("talosconfig").display().to_string();
        Settings {
            files: vec![("talosconfig", self.talosconfig.clone())],
            environment: BTreeMap::from([("TALOSCONFIG".to_owned(), file)]),
            arguments: vec!["--controllers=cloud-node".to_owned()],
        }
    }

    /// The talosconfig is one secret as a whole, and named as one.
    fn section(&self, name: &str, folder: &Path) -> Section {
        let file = format!("{name}.talosconfig");
        let settings = format!("talosconfig: {}\n", written(&folder.join(&file)));
        Section {
            files: vec![(file, self.talosconfig.clone())],
            settings,
        }
    }

    fn boot(&self, machine: &str) -> Result<KubeletSpec> {
        let number = self.numbered.fetch_add(1, Ordering::Relaxed) + 1;
        let address = format!("eth0/{}/16", Ipv4Addr::from(u32::from(FIRST) + number));
        let platform = PlatformSpec {
            hostname: machine.to_owned(),
            zone: "hall-1".to_owned(),
            instance_type: "metal-16".to_owned(),
            ..PlatformSpec::default()
        };
        let spec = MachineSpec::named(machine, &[&address]).platform(platform);
        self.talos.add_machine(&spec)?;
        Ok(self.talos.kubelet(machine)?)
    }

    fn stop(&self, machine: &str) -> Result<()> {
        Ok(self.talos.set_stage(machine, Stage::Down)?)
    }

    fn start(&self, machine: &str) -> Result<()> {
        Ok(self.talos.set_stage(machine, Stage::Ready)?)
    }

    fn destroy(&self, machine: &str) -> Result<()> {
        Ok(self.talos.set_stage(machine, Stage::Absent)?)
    }

    fn run_on(&self, host: &Host) -> Result<KubeletSpec> {
        let addresses = host.addresses.iter().enumerate();
        let addresses: Vec<String> = addresses.map(|(at, it)| on_link(at, *it)).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let platform = PlatformSpec {
            platform: host.platform.to_owned(),
            hostname: host.name.clone(),
            zone: "rma1".to_owned(),
            instance_type: "flex-8-4".to_owned(),
            provider_id: host.kubelet.machine_id.clone(),
            ..PlatformSpec::default()
        };
        let machine = MachineSpec::named(&host.name, &addresses).platform(platform);
        self.talos
            .add_machine(&machine.machine_id(&host.kubelet.machine_id))?;
        Ok(self.talos.kubelet(&host.name)?)
    }
}

/// An address, as Talos says which link it is on: the first is inside, the others are the platform's.
fn on_link(number: usize, address: IpAddr) -> String {
    let inside = number == 0;
    let link = if inside { "eth0" } else { "external" };
    let length = match (inside, address.is_ipv4()) {
        (true, true) => 24,
        (true, false) => 64,
        (false, true) => 32,
        (false, false) => 128,
    };
    format!("{link}/{address}/{length}")
}
