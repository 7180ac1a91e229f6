//! Triton in the sandbox: one data center with a public network and a fabric, and its DNS.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bowline_simulator::sandbox::{
    Account, Balancer, Balancers, Extras, NamedAccount, Place, Running, Section, Settings,
    SimulatedCloud, SimulatorKind, Words,
};
use bowline_simulator::{KubeletSpec, World};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::original::manifest;
use crate::simulate::SERVER;
use crate::{
    DEFAULT_ACCOUNT, DEFAULT_PRIVATE_KEY, Dns, EXTERNAL, FABRIC, Fixture, MachineInfo, MachineSpec,
    State, Triton,
};

pub const KIND: SimulatorKind = SimulatorKind {
    server: SERVER,
    title: "Triton",
    api: "CloudAPI",
    provider_id: "triton://",
    balancer: Some(Words {
        name: "load balancer",
        behind: "that is a DNS name of all nodes",
        follows: "The DNS name follows the nodes",
    }),
    knows_power: true,
    is_guest: false,
    account: ("kube-system", "bowline"),
    manifest,
    accounts: &[NamedAccount {
        name: "campus",
        line: "",
    }],
    start,
};

/// A route of somebody else's.
const FOREIGN: (&str, &str) = ("10.99.0.0/16", "10.20.0.1");
/// A package for load balancer machines.
const PACKAGE: &str = "g4-highcpu-1G";

/// The simulated data center of a sandbox.
struct Simulated {
    cloud: Arc<Triton>,
    /// Host and port of its API.
    authority: String,
    /// None on a pipe.
    names: Option<Dns>,
}

fn start(world: &World, account: Account) -> BoxFuture<'_, Result<Running>> {
    async move {
        let fixture = Fixture {
            unlimited: true,
            services: BTreeMap::from([(
                "cmon".to_owned(),
                "https://cmon.eg-1.cns.example.com:9163".to_owned(),
            )]),
            ..Fixture::default()
        };
        let cloud = Triton::from_fixture(world, fixture)?;
        // People in front of a sandbox should not wait for real name servers and appliances.
        cloud.set_timings(|timings| {
            timings.commit = Duration::from_secs(1);
            timings.appliance = Duration::from_secs(1);
        });
        cloud.set_routes(FABRIC, &[FOREIGN])?;
        let names = match account.place {
            Place::Socket(address) => {
                Some(Dns::serve(&cloud, SocketAddr::new(address.ip(), 0)).await?)
            }
            Place::Pipe => None,
        };
        Running::serve(world, account, cloud.clone(), |authority| Simulated {
            cloud,
            authority,
            names,
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
        let config = format!(
            "[LoadBalancer]\nclb-package = {PACKAGE}\n\
             [Routes]\nenabled = true\n\
             [Metrics]\nmode = discovery\n"
        );
        let file = folder.join("cloud.conf");
        let arguments = [
            format!("--cloud-config={}", file.display()),
            format!("--triton-endpoint={}", self.url()),
            "--triton-credentials-secret=kube-system/triton-credentials".to_owned(),
            "--controllers=*,node-ipam-controller".to_owned(),
            "--allocate-node-cidrs".to_owned(),
            "--cluster-cidr=10.244.0.0/16".to_owned(),
            "--configure-cloud-routes".to_owned(),
            "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics,/sd/triton"
                .to_owned(),
        ];
        Settings {
            files: vec![("cloud.conf", config)],
            environment: BTreeMap::new(),
            arguments: arguments.to_vec(),
        }
    }

    fn section(&self, name: &str, folder: &Path) -> Section {
        let url = self.url();
        Section::with_secret(folder, format!("{name}.key"), DEFAULT_PRIVATE_KEY, |key| {
            format!(
                "global:\n  tritonEndpoint: {url}\n  tritonAccount: {DEFAULT_ACCOUNT}\n  \
                 tritonPrivateKey: {key}\n"
            )
        })
    }

    fn boot(&self, machine: &str) -> Result<KubeletSpec> {
        let spec = MachineSpec::named(machine).networks(&[EXTERNAL, FABRIC]);
        self.cloud.add_machine(&spec)?;
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

    fn crowd(&self, count: usize) -> Result<()> {
        for number in 0..count {
            let spec = MachineSpec::named(&format!("crowd-{number}")).networks(&[]);
            self.cloud.add_machine(&spec)?;
        }
        Ok(())
    }

    fn balancers(&self) -> Balancers {
        let machines = self.cloud.machines();
        let mut all = names(&machines);
        let is_appliance =
            |it: &&MachineInfo| it.tag("bowline.uid").is_some() && it.state != State::Deleted;
        let appliances = machines.iter().filter(is_appliance);
        all.extend(appliances.map(|it| (it.id.clone(), self.appliance(it, &machines))));
        all
    }

    fn remove_balancer(&self, id: &str) -> Result<()> {
        Ok(self.cloud.destroy(id)?)
    }

    fn routes(&self) -> Option<BTreeMap<String, String>> {
        Some(self.cloud.routes(FABRIC))
    }

    fn addresses_of(&self, name: &str) -> BTreeSet<String> {
        let answer = self.cloud.resolve(name).into_iter();
        answer.map(|ip| ip.to_string()).collect()
    }

    fn extras(&self) -> Option<Extras> {
        let names = self.names.as_ref()?.local_addr();
        Some(Extras {
            dig: format!("dig @{} -p {}", names.ip(), names.port()),
            class: "cloud.tritoncompute/clb",
            page: "/sd/triton",
            kept: ("triton-cmon-client", "triton-cmon-scrape"),
        })
    }
}

/// What the name service answers about Services: each is a load balancer with the machines that it names.
fn names(machines: &[MachineInfo]) -> Balancers {
    let mut all = Balancers::new();
    for machine in machines {
        for name in &machine.dns_names {
            let Some((service, _)) = name.split_once(".svc.") else {
                continue;
            };
            // Names of nodes for load balancer machines, and of one network only.
            if service.contains("k8s-nodes") || service.matches('.').count() != 1 {
                continue;
            }
            let balancer = all.entry(service.to_owned()).or_insert_with(|| Balancer {
                name: service.to_owned(),
                is_made: true,
                ..Balancer::default()
            });
            balancer.addresses.insert(name.clone());
            balancer.targets.insert(machine.name.clone());
        }
    }
    all
}

impl Simulated {
    /// A load balancer machine, and the machines that it sends to.
    fn appliance(&self, machine: &MachineInfo, all: &[MachineInfo]) -> Balancer {
        let entries = self.cloud.appliance(&machine.id);
        let entries = entries.map(|it| it.entries).unwrap_or_default();
        let targets: BTreeSet<String> = entries
            .iter()
            .flat_map(|it| &it.targets)
            .map(|(ip, _)| ip.to_string())
            .collect();
        let behind = all
            .iter()
            .filter(|it| it.addresses.iter().any(|address| targets.contains(address)));
        Balancer {
            name: format!("machine {}", machine.name),
            owner: machine.tag("bowline.uid").unwrap_or_default().to_owned(),
            addresses: machine.addresses.iter().cloned().collect(),
            is_made: machine.state == State::Running,
            parts: entries
                .iter()
                .map(|it| format!("entry {}/{}", it.kind, it.listen))
                .collect(),
            targets: behind.map(|it| it.name.clone()).collect(),
        }
    }
}
