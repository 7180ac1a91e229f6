//! Exoscale in the sandbox: one zone, one instance pool in each account.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use bowline_simulator::sandbox::{
    Account, Balancer, Balancers, NamedAccount, Running, Section, Settings, SimulatedCloud,
    SimulatorKind, Words,
};
use bowline_simulator::{KubeletSpec, World};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::original::manifest;
use crate::simulate::SERVER;
use crate::{
    BalancerInfo, BalancerSpec, Config, DEFAULT_ZONE, Exoscale, InstanceInfo, InstanceSpec, Key,
    PoolSpec,
};

pub const KIND: SimulatorKind = SimulatorKind {
    server: SERVER,
    title: "Exoscale",
    api: "Exoscale API",
    provider_id: "exoscale://",
    balancer: Some(Words {
        name: "network load balancer",
        behind: "that sends to the instance pool of the nodes",
        follows: "The load balancer follows the pool by itself",
    }),
    knows_power: true,
    is_guest: false,
    account: ("kube-system", "cloud-controller-manager"),
    manifest,
    accounts: &[
        NamedAccount {
            name: "geneva",
            // So that nobody has to wait for a minute in front of a sandbox.
            line: "guard: {nodeAge: 10s, looksApart: 5s}",
        },
        NamedAccount {
            name: "partner",
            line: "",
        },
    ],
    start,
};

/// The pool of all machines: a load balancer sends to pools.
const POOL: &str = "nodes";

/// Where machines have their addresses (of the range for benchmarks, as those for documentation are too
/// small), and how many of them each account has: more than the machines of the largest sandbox.
const RANGE: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
const ADDRESSES: u32 = 1 << 12;
/// Addresses of load balancers that each account has for itself.
const BALANCERS: u32 = 100;

/// The simulated Exoscale of a sandbox.
struct Simulated {
    cloud: Arc<Exoscale>,
    /// Host and port of its API.
    authority: String,
    /// The API key of the account, and its secret.
    key: (String, String),
    /// The last address that a machine got. Accounts share a cloud's addresses, not its machines.
    last: AtomicU32,
}

fn start(world: &World, account: Account) -> BoxFuture<'_, Result<Running>> {
    async move {
        let name = format!("EXO{:024x}", account.number);
        let key = (name, format!("secret-of-{}", account.name));
        let config = Config {
            keys: [(key.0.clone(), Key::new(&key.1))].into(),
            ..Config::default()
        };
        let first = u32::try_from(account.number)? * ADDRESSES;
        let first = u32::from(RANGE) + first;
        let cloud = Exoscale::new(world, config);
        cloud.skip_balancer_addresses(u32::try_from(account.number)? * BALANCERS);
        cloud.add_pool(&PoolSpec::named(POOL, 0))?;
        Running::serve(world, account, cloud.clone(), |authority| Simulated {
            cloud,
            authority,
            key,
            last: AtomicU32::new(first),
        })
        .await
    }
    .boxed()
}

impl SimulatedCloud for Simulated {
    fn url(&self) -> String {
        format!("http://{}/v2", self.authority)
    }

    fn settings(&self, folder: &Path) -> Settings {
        let (key, secret) = &self.key;
        let pair = format!(
            "{{\"name\": \"sandbox\", \"api_key\": \"{key}\", \"api_secret\": \"{secret}\"}}\n"
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

    fn section(&self, name: &str, folder: &Path) -> Section {
        let (url, (key, secret)) = (self.url(), &self.key);
        Section::with_secret(folder, format!("{name}.secret"), secret, |secret| {
            format!(
                "global:\n  zone: {DEFAULT_ZONE}\n  apiEndpoint: {url}\n  apiKey: {key}\n  \
                 apiSecret: {secret}\n"
            )
        })
    }

    fn boot(&self, machine: &str) -> Result<KubeletSpec> {
        let address = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let spec = InstanceSpec::named(machine).pool(POOL);
        self.cloud.add_instance(&spec.public_ip(address.into()))?;
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

    fn add_balancer(&self, name: &str) -> Result<()> {
        self.cloud.add_balancer(&BalancerSpec::named(name))?;
        Ok(())
    }

    fn remove_balancer(&self, id: &str) -> Result<()> {
        Ok(self.cloud.remove_balancer(id)?)
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
    let targets = behind.map(|it| it.name.clone()).collect();
    let services = info.services.iter();
    let parts = services
        .map(|it| format!("service {}/{}", it.protocol, it.port))
        .collect();
    Balancer {
        owner: String::new(),
        is_made: info.state != "creating",
        addresses: BTreeSet::from([info.ip.to_string()]),
        name: info.name,
        parts,
        targets,
    }
}
