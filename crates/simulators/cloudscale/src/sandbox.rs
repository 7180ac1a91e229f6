//! cloudscale.ch in the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
    BalancerInfo, BalancerSpec, BalancerStatus, BalancerTimings, Cloudscale, Config, DEFAULT_TOKEN,
    MachineSpec, NetworkSpec, Timings,
};

pub const KIND: SimulatorKind = SimulatorKind {
    server: SERVER,
    title: "cloudscale.ch",
    api: "cloudscale API",
    provider_id: PREFIX,
    balancer: Some(Words {
        name: "load balancer",
        behind: "with every node of this cloud as a target",
        follows: "The targets follow the nodes",
    }),
    knows_power: true,
    is_guest: false,
    account: ("kube-system", "cloud-controller-manager"),
    manifest,
    accounts: &[NamedAccount {
        name: "zurich",
        // Its nodes are told by a label, so that no other cloud waits for its word about theirs.
        line: "nodeSelector: site=zurich",
    }],
    start,
};

const PREFIX: &str = "cloudscale://";
/// The private network of all machines: members of load balancers have an address in one.
const NETWORK: &str = "nodes";
/// Room for the largest sandbox.
const RANGE: &str = "10.10.0.0/16";
/// What a write to a load balancer takes. In the largest sandbox there are thousands, one after the
/// other, and the people in front of it should not wait for minutes.
const CALL: Duration = Duration::from_millis(5);

/// The simulated cloudscale.ch of a sandbox.
struct Simulated {
    cloud: Arc<Cloudscale>,
    /// Host and port of its API.
    authority: String,
    /// Whose an address is, or was: a member may outlive its machine.
    machines: Mutex<BTreeMap<IpAddr, String>>,
}

fn start(world: &World, account: Account) -> BoxFuture<'_, Result<Running>> {
    async move {
        let balancers = BalancerTimings {
            call: CALL,
            ..BalancerTimings::default()
        };
        let config = Config {
            timings: Timings {
                load_balancers: balancers,
                ..Timings::default()
            },
            ..Config::default()
        };
        let cloud = Cloudscale::new(world, config);
        cloud.add_network(&NetworkSpec::named(NETWORK).subnet(RANGE.parse()?))?;
        Running::serve(world, account, cloud.clone(), |authority| Simulated {
            cloud,
            authority,
            machines: Mutex::default(),
        })
        .await
    }
    .boxed()
}

impl SimulatedCloud for Simulated {
    fn url(&self) -> String {
        format!("http://{}/v1", self.authority)
    }

    fn settings(&self, folder: &Path) -> Settings {
        let token = folder.join("token").display().to_string();
        let url = format!("http://{}/", self.authority);
        Settings {
            files: vec![("token", DEFAULT_TOKEN.to_owned())],
            environment: BTreeMap::from([
                ("CLOUDSCALE_API_URL".to_owned(), url),
                ("CLOUDSCALE_ACCESS_TOKEN_FILE".to_owned(), token),
            ]),
            arguments: Vec::new(),
        }
    }

    fn section(&self, name: &str, folder: &Path) -> Section {
        let url = format!("http://{}/", self.authority);
        Section::with_secret(folder, format!("{name}.token"), DEFAULT_TOKEN, |token| {
            format!("apiUrl: {url}\naccessToken: {token}\n")
        })
    }

    fn boot(&self, machine: &str) -> Result<KubeletSpec> {
        let spec = MachineSpec::named(machine)
            .interface("public", None)
            .interface(NETWORK, None);
        let uuid = self.cloud.add_server(&spec)?;
        Ok(KubeletSpec {
            node_name: machine.to_owned(),
            machine_id: format!("{PREFIX}{uuid}"),
            system_uuid: uuid,
            ..KubeletSpec::default()
        })
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

    fn addresses(&self, machine: &str) -> Vec<IpAddr> {
        let all = self.cloud.servers().into_iter();
        let mut found = all
            .filter(|it| it.name == machine)
            .flat_map(|it| it.addresses);
        let mut addresses: Vec<IpAddr> = found.by_ref().collect();
        // Its interface in the private network is the last.
        addresses.reverse();
        addresses
    }

    fn add_balancer(&self, name: &str) -> Result<()> {
        self.cloud.add_balancer(&BalancerSpec::named(name))?;
        Ok(())
    }

    fn remove_balancer(&self, id: &str) -> Result<()> {
        Ok(self.cloud.remove(id)?)
    }

    fn balancers(&self) -> Balancers {
        let all = self.cloud.balancers();
        if all.is_empty() {
            return Balancers::new();
        }
        let mut machines = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        for server in self.cloud.servers() {
            for address in server.addresses {
                machines.insert(address, server.name.clone());
            }
        }
        let all = all.into_iter();
        all.map(|it| (it.uuid.clone(), seen(it, &machines)))
            .collect()
    }
}

/// A load balancer, and the names of the machines behind it.
fn seen(info: BalancerInfo, machines: &BTreeMap<IpAddr, String>) -> Balancer {
    let mut parts = BTreeSet::new();
    let mut targets = BTreeSet::new();
    for pool in info.pools {
        parts.extend(
            pool.listeners
                .iter()
                .map(|it| format!("listener {}", it.name)),
        );
        parts.extend(pool.monitor.map(|it| format!("health monitor {}", it.kind)));
        parts.insert(format!("pool {}", pool.name));
        let names = pool.members.iter().map(|member| {
            let machine = machines.get(&member.address);
            machine.map_or_else(|| member.address.to_string(), Clone::clone)
        });
        targets.extend(names);
    }
    Balancer {
        name: info.name,
        addresses: info.vip_addresses.iter().map(ToString::to_string).collect(),
        owner: String::new(),
        is_made: info.status != BalancerStatus::Changing,
        parts,
        targets,
    }
}
