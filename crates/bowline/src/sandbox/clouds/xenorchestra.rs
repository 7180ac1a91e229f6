//! Xen Orchestra in the sandbox: one pool of two hosts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_simulator::World;
use bowline_simulator::fleet::Kubelet;
use bowline_simulator::kubernetes::auth::originals;
use bowline_simulator::serve::Server;
use bowline_simulator::xenorchestra::{
    Config, DEFAULT_TOKEN, HostSpec, PoolSpec, VmSpec, XenOrchestra,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Entry, Pools, Running, Settings, SimulatedCloud};

/// Xen Orchestra.
pub(super) const ENTRY: Entry = Entry {
    name: "xenorchestra",
    api: "Xen Orchestra",
    provider_id: "xenorchestra://",
    balancer: None,
    account: ("kube-system", "xenorchestra-cloud-controller-manager"),
    grant: |cluster| cluster.install(originals::xenorchestra()),
    start,
};

/// The pool of all machines.
const POOL: &str = "lab";
/// Its hosts.
const HOSTS: [&str; 2] = ["xcp-1", "xcp-2"];

/// The simulated Xen Orchestra of a sandbox.
struct Simulated {
    cloud: Arc<XenOrchestra>,
    address: SocketAddr,
}

fn start(world: &World, address: SocketAddr) -> BoxFuture<'_, Result<Running>> {
    async move {
        let cloud = XenOrchestra::new(world, Config::default());
        cloud.add_pool(&PoolSpec::named(POOL))?;
        for host in HOSTS {
            cloud.add_host(&HostSpec::named(host, POOL))?;
        }
        let server = Server::builder(world, cloud.clone());
        let server = server.plain(address).await?;
        let address = server.local_addr().context("the cloud has no address")?;
        let cloud = Arc::new(Simulated { cloud, address });
        Ok(Running { cloud, server })
    }
    .boxed()
}

impl SimulatedCloud for Simulated {
    fn url(&self) -> String {
        format!("http://{}", self.address)
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

    fn boot(&self, machine: &str) -> Result<Kubelet> {
        self.cloud.add_vm(&VmSpec::named(machine).pool(POOL))?;
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
