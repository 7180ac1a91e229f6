//! A rack without an API in the sandbox: its operator keeps the file.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::Result;
use bowline_simulator::machines::Power;
use bowline_simulator::rbac;
use bowline_simulator::sandbox::{
    Account, NamedAccount, Running, Section, Settings, SimulatedCloud, SimulatorKind, written,
};
use bowline_simulator::{KubeletSpec, World};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::simulate::SERVER;
use crate::{Inventory, Machine, PATH, Rack};

/// Machines from a file.
pub const KIND: SimulatorKind = SimulatorKind {
    server: SERVER,
    title: "static",
    api: "file of machines",
    provider_id: "static://",
    balancer: None,
    knows_power: true,
    is_guest: false,
    account: ("kube-system", "bowline"),
    // There is no original.
    manifest: || rbac::shipped(include_str!("../../../../deploy/rbac.yaml")),
    accounts: &[NamedAccount {
        name: "rack",
        line: "",
    }],
    start,
};

/// Where machines have their addresses: no other cloud of the sandbox has any there.
const RANGE: Ipv4Addr = Ipv4Addr::new(10, 50, 0, 0);
/// How long a machine starts. It is entered first, and the provider reads the file every 5 s: a
/// kubelet that came before would wait a minute for the next look at it.
const STARTING: Duration = Duration::from_secs(6);

/// The simulated rack of a sandbox.
struct Simulated {
    world: World,
    rack: Arc<Rack>,
    /// Host and port of its API.
    authority: String,
    /// How many machines got an address.
    numbered: AtomicU32,
}

fn start(world: &World, account: Account) -> BoxFuture<'_, Result<Running>> {
    async move {
        let rack = Rack::new(world, Inventory::default())?;
        Running::serve(world, account, rack.clone(), |authority| Simulated {
            world: world.clone(),
            rack,
            authority,
            numbered: AtomicU32::new(0),
        })
        .await
    }
    .boxed()
}

impl SimulatedCloud for Simulated {
    fn url(&self) -> String {
        format!("http://{}{PATH}", self.authority)
    }

    fn settings(&self, folder: &Path) -> Settings {
        let (name, path) = ("machines.yaml", folder.join("machines.yaml"));
        Settings {
            arguments: vec![format!("--cloud-config={}", path.display())],
            files: vec![(name, self.rack.keep_in(path))],
            environment: BTreeMap::new(),
        }
    }

    fn section(&self, name: &str, folder: &Path) -> Section {
        let file = format!("{name}.machines.yaml");
        let path = folder.join(&file);
        Section {
            settings: format!("file: {}\n", written(&path)),
            files: vec![(file, self.rack.keep_in(path))],
        }
    }

    fn boot(&self, machine: &str) -> Result<KubeletSpec> {
        let number = self.numbered.fetch_add(1, Ordering::Relaxed) + 1;
        let address = Ipv4Addr::from(u32::from(RANGE) + number);
        let entry = Machine {
            name: machine.to_owned(),
            addresses: BTreeMap::from([("InternalIP".to_owned(), vec![address.to_string()])]),
            r#type: "r640".to_owned(),
            zone: "row-a".to_owned(),
            region: "geneva".to_owned(),
            ..Machine::default()
        };
        let id = entry.id();
        self.rack.add(entry)?;
        self.world.machines.set(&id, Power::Off);
        let (rack, name) = (self.rack.clone(), machine.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(STARTING).await;
            rack.follow(&name);
        });
        Ok(KubeletSpec {
            node_name: machine.to_owned(),
            machine_id: id,
            own_addresses: vec![IpAddr::V4(address)],
            system_uuid: self.world.random.uuid(),
            ..KubeletSpec::default()
        })
    }

    fn stop(&self, machine: &str) -> Result<()> {
        Ok(self.rack.stop(machine)?)
    }

    fn start(&self, machine: &str) -> Result<()> {
        Ok(self.rack.start(machine)?)
    }

    fn destroy(&self, machine: &str) -> Result<()> {
        Ok(self.rack.destroy(machine)?)
    }
}

#[cfg(test)]
mod tests {
    use bowline_simulator::sandbox::Place;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn file_and_kubelets_follow_what_is_done_to_a_machine() {
        let folder = tempfile::tempdir().unwrap();
        let world = World::simulated(1);
        let account = Account {
            name: "rack".to_owned(),
            number: 0,
            place: Place::Pipe,
        };
        let running = start(&world, account).await.unwrap();
        let section = running.cloud.section("rack", folder.path());
        assert_eq!(section.files[0].1.trim(), "machines: []");
        let path = folder.path().join("rack.machines.yaml");
        assert_eq!(section.settings, format!("file: {}\n", path.display()));
        let text = || std::fs::read_to_string(&path).unwrap();
        let power = || world.machines.power("static://rack-1");

        let kubelet = running.cloud.boot("rack-1").unwrap();
        assert_eq!(kubelet.machine_id, "static://rack-1");
        assert_eq!(power(), Some(Power::Off), "it is still starting");
        assert!(text().contains("name: rack-1") && text().contains("10.50.0.1"));
        tokio::time::sleep(STARTING * 2).await;
        assert_eq!(power(), Some(Power::Running));

        running.cloud.stop("rack-1").unwrap();
        assert!(text().contains("state: stopped"), "{}", text());
        assert_eq!(power(), Some(Power::Off));
        running.cloud.start("rack-1").unwrap();
        assert!(text().contains("state: running"), "{}", text());
        assert_eq!(power(), Some(Power::Running));
        running.cloud.destroy("rack-1").unwrap();
        assert!(text().contains("gone: true"), "{}", text());
        assert_eq!(power(), None);
        let error = running.cloud.start("rack-1").unwrap_err().to_string();
        assert_eq!(error, "cannot start the machine rack-1: it is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_is_stopped_while_it_starts_stays_off() {
        let world = World::simulated(1);
        let cloud = Simulated {
            world: world.clone(),
            rack: Rack::new(&world, Inventory::default()).unwrap(),
            authority: String::new(),
            numbered: AtomicU32::new(0),
        };
        cloud.boot("rack-1").unwrap();
        cloud.stop("rack-1").unwrap();
        tokio::time::sleep(STARTING * 2).await;
        assert_eq!(world.machines.power("static://rack-1"), Some(Power::Off));
    }
}
