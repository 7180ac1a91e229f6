//! Exoscale in the sandbox: one zone, one instance pool.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_simulator::World;
use bowline_simulator::exoscale::{
    BalancerInfo, Config, DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, InstanceInfo,
    InstanceSpec, PoolSpec,
};
use bowline_simulator::fleet::Kubelet;
use bowline_simulator::kubernetes::auth::originals;
use bowline_simulator::serve::Server;
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Balancer, Balancers, Entry, Running, Settings, SimulatedCloud, Words};

/// Exoscale.
pub(super) const ENTRY: Entry = Entry {
    name: "exoscale",
    api: "Exoscale API",
    provider_id: "exoscale://",
    balancer: Some(Words {
        name: "network load balancer",
        behind: "that sends to the instance pool of the nodes",
        follows: "The load balancer follows the pool by itself",
    }),
    account: ("kube-system", "cloud-controller-manager"),
    grant: |cluster| cluster.install(originals::exoscale()),
    start,
};

/// The pool of all machines: a load balancer sends to pools.
const POOL: &str = "nodes";

/// The simulated Exoscale of a sandbox.
struct Simulated {
    cloud: Arc<Exoscale>,
    address: SocketAddr,
}

fn start(world: &World, address: SocketAddr) -> BoxFuture<'_, Result<Running>> {
    async move {
        let cloud = Exoscale::new(world, Config::default());
        cloud.add_pool(&PoolSpec::named(POOL, 0))?;
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
        format!("http://{}/v2", self.address)
    }

    fn settings(&self, folder: &Path) -> Settings {
        let pair = format!(
            "{{\"name\": \"sandbox\", \"api_key\": \"{DEFAULT_KEY}\", \"api_secret\": \"{DEFAULT_SECRET}\"}}\n"
        );
        let file = folder.join("credentials.json").display().to_string();
        Settings {
            files: vec![("credentials.json", pair)],
            environment: BTreeMap::from([
                ("EXOSCALE_API_ENDPOINT".to_owned(), self.url()),
                ("EXOSCALE_API_CREDENTIALS_FILE".to_owned(), file),
                ("EXOSCALE_API_ZONE".to_owned(), DEFAULT_ZONE.to_owned()),
            ]),
            arguments: vec!["--allow-untagged-cloud".to_owned()],
        }
    }

    fn boot(&self, machine: &str) -> Result<Kubelet> {
        self.cloud
            .add_instance(&InstanceSpec::named(machine).pool(POOL))?;
        Ok(self.cloud.kubelet(machine)?)
    }

    fn stop(&self, machine: &str) -> Result<()> {
        Ok(self.cloud.stop(machine)?)
    }

    fn start(&self, machine: &str) -> Result<()> {
        Ok(self.cloud.start(machine)?)
    }

    fn destroy(&self, machine: &str) -> Result<()> {
        Ok(self.cloud.destroy(machine)?)
    }

    fn balancers(&self) -> Balancers {
        let instances = self.cloud.instances();
        let all = self.cloud.balancers().into_iter();
        all.map(|it| (it.id.clone(), seen(it, &instances)))
            .collect()
    }
}

/// A load balancer, and the names of the machines in the pools behind it.
fn seen(info: BalancerInfo, instances: &[InstanceInfo]) -> Balancer {
    let pools: BTreeSet<&str> = info.services.iter().map(|it| it.pool.as_str()).collect();
    let behind = instances.iter().filter(|it| {
        let pool = it.pool.as_deref();
        pool.is_some_and(|pool| pools.contains(pool))
    });
    let members = behind.map(|it| it.name.clone()).collect();
    let services = info.services.iter();
    let parts = services
        .map(|it| format!("service {}/{}", it.protocol, it.port))
        .collect();
    Balancer {
        is_made: info.state != "creating",
        addresses: BTreeSet::from([info.ip.to_string()]),
        name: info.name,
        parts,
        members,
    }
}
