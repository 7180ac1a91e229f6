//! Xen Orchestra in the sandbox: one pool of two hosts.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};
use bowline_simulator::sandbox::{
    Account, NamedAccount, Pools, Running, Section, Settings, SimulatedCloud, SimulatorKind,
};
use bowline_simulator::{KubeletSpec, World};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::original::manifest;
use crate::simulate::SERVER;
use crate::{Config, DEFAULT_TOKEN, HostSpec, PoolSpec, VmSpec, XenOrchestra};

pub const KIND: SimulatorKind = SimulatorKind {
    server: SERVER,
    title: "Xen Orchestra",
    api: "Xen Orchestra",
    provider_id: "xenorchestra://",
    balancer: None,
    knows_power: true,
    is_guest: false,
    account: ("kube-system", "xenorchestra-cloud-controller-manager"),
    manifest,
    accounts: &[NamedAccount {
        name: "lab",
        line: "",
    }],
    start,
};

/// The pool of all machines.
const POOL: &str = "lab";
const HOSTS: [&str; 2] = ["xcp-1", "xcp-2"];

/// Where machines have their addresses: no other cloud of the sandbox has any there.
const RANGE: Ipv4Addr = Ipv4Addr::new(10, 40, 0, 0);

/// The simulated Xen Orchestra of a sandbox.
struct Simulated {
    cloud: Arc<XenOrchestra>,
    /// Host and port of its API.
    authority: String,
    /// How many machines got an address.
    numbered: AtomicU32,
}

fn start(world: &World, account: Account) -> BoxFuture<'_, Result<Running>> {
    async move {
        let cloud = XenOrchestra::new(world, Config::default());
        cloud.add_pool(&PoolSpec::named(POOL))?;
        for host in HOSTS {
            cloud.add_host(&HostSpec::named(host, POOL))?;
        }
        Running::serve(world, account, cloud.clone(), |authority| Simulated {
            cloud,
            authority,
            numbered: AtomicU32::new(0),
        })
        .await
    }
    .boxed()
}

impl SimulatedCloud for Simulated {
    fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    fn settings(&self, folder: &Path) -> Settings {
        let config = format!("url: {}\ntoken: {DEFAULT_TOKEN}\n", self.url());
        let file = folder.join("config.yaml");
        Settings {
            files: vec![("config.yaml", config)],
            environment: BTreeMap::new(),
            arguments: vec![
                format!("--cloud-config={}", file.display()),
                "--controllers=cloud-node,cloud-node-lifecycle,cloud-node-label-sync".to_owned(),
            ],
        }
    }

    fn section(&self, name: &str, folder: &Path) -> Section {
        let url = self.url();
        Section::with_secret(folder, format!("{name}.token"), DEFAULT_TOKEN, |token| {
            format!("url: {url}\ntoken: {token}\n")
        })
    }

    fn boot(&self, machine: &str) -> Result<KubeletSpec> {
        let number = self.numbered.fetch_add(1, Ordering::Relaxed) + 1;
        let address = Ipv4Addr::from(u32::from(RANGE) + number).to_string();
        let spec = VmSpec::named(machine).pool(POOL).ip(&address);
        self.cloud.add_vm(&spec)?;
        Ok(self.cloud.kubelet(machine)?)
    }

    fn stop(&self, machine: &str) -> Result<()> {
        Ok(self.cloud.halt(machine)?)
    }

    fn start(&self, machine: &str) -> Result<()> {
        Ok(self.cloud.start(machine)?)
    }

    fn destroy(&self, machine: &str) -> Result<()> {
        Ok(self.cloud.destroy(machine)?)
    }

    fn pools(&self) -> Option<&dyn Pools> {
        Some(self)
    }
}

impl Pools for Simulated {
    fn migrate(&self, machine: &str) -> Result<String> {
        let mut vms = self.cloud.vms().into_iter();
        let vm = vms.find(|it| it.name == machine);
        let from = vm.and_then(|it| it.host);
        let mut hosts = self.cloud.hosts().into_iter();
        let to = hosts.find(|it| Some(&it.id) != from.as_ref());
        let to = to.context("there is no other host")?;
        self.cloud.migrate(machine, &to.id)?;
        Ok(to.id)
    }

    fn disconnect(&self) -> Result<()> {
        Ok(self.cloud.disconnect_pool(POOL)?)
    }

    fn connect(&self) -> Result<()> {
        Ok(self.cloud.connect_pool(POOL)?)
    }
}
