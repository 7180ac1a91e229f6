//! The measured run: a cluster and a cloud here, the manager in a process of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_scenarios::measure::CLOUD;
use bowline_simulator::World;
use bowline_simulator::journal::Filter;
use bowline_simulator::sandbox::{Account, Running};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::fleet::{Fleet, Settings, UNINITIALIZED};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Any port of this machine.
pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Who the manager is in the journal.
const MANAGER: &str = "system:serviceaccount:kube-system:cloud-controller-manager";
/// How long everything may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(600);

/// What a run costs.
pub(crate) struct Measured {
    pub(crate) cloud_calls: usize,
    /// Writes that were made.
    pub(crate) node_writes: usize,
    /// Writes that were refused because a kubelet was faster, and made again.
    pub(crate) conflicts: usize,
    pub(crate) event_writes: usize,
    pub(crate) other_calls: usize,
    pub(crate) time: Duration,
    pub(crate) peak_kb: u64,
    pub(crate) resident_kb: u64,
}

/// Everything that is up.
pub(crate) struct Harness {
    world: World,
    cluster: Cluster,
    cloud: Running,
    fleet: Fleet,
    manager: Child,
    _folder: tempfile::TempDir,
}

impl Harness {
    /// Brings everything up; returns when the manager leads.
    pub(crate) async fn set_up(program: &Path) -> Result<Self> {
        let world = World::real();
        let cluster = Cluster::on_socket(&world, LOOPBACK).await?;
        cluster.install((CLOUD.manifest)())?;
        let account = Account {
            name: CLOUD.server.name.to_owned(),
            number: 0,
            address: LOOPBACK,
        };
        let cloud = (CLOUD.start)(&world, account).await?;
        let folder = tempfile::tempdir()?;
        let settings = cloud.cloud.settings(folder.path());
        for (name, content) in &settings.files {
            std::fs::write(folder.path().join(name), content)?;
        }
        let kubeconfig = folder.path().join("kubeconfig");
        let (namespace, account) = CLOUD.account;
        let account = cluster.account_kubeconfig(namespace, account)?;
        std::fs::write(&kubeconfig, account)?;
        let fleet = Fleet::new(&world, cluster.admin()?, Settings::default());
        let manager = Command::new(program)
            .arg(format!("--cloud-provider={}", CLOUD.server.name))
            .args(["--allow-untagged-cloud", "--secure-port=0"])
            .arg("--kube-api-qps=-1")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(&settings.arguments)
            .envs(&settings.environment)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let lists = Filter::any()
            .server("kubernetes")
            .caller(MANAGER)
            .path("/api/v1/nodes");
        tokio::time::timeout(PATIENCE, world.journal.wait_for(&lists, 1))
            .await
            .context("the manager does not watch the nodes")?;
        Ok(Self {
            world,
            cluster,
            cloud,
            fleet,
            manager,
            _folder: folder,
        })
    }

    /// Lets all kubelets register, and waits until every node is initialised.
    pub(crate) async fn join_all(mut self, nodes: usize) -> Result<Measured> {
        let machines = (1..=nodes).map(|number| self.cloud.cloud.boot(&format!("worker-{number}")));
        let kubelets = machines.collect::<Result<Vec<_>>>()?;
        self.world.journal.clear();
        let begun = Instant::now();
        for kubelet in kubelets {
            self.fleet.join(kubelet)?;
        }
        let waiting = tokio::time::timeout(PATIENCE, self.all_initialised(nodes));
        waiting.await.context("not all nodes were initialised")??;
        let time = begun.elapsed();
        let events = calls("/api/v1/namespaces/*/events*");
        // One event for each node and one about the lease; they come after the nodes.
        let _ = tokio::time::timeout(PATIENCE, self.world.journal.wait_for(&events, nodes)).await;
        let count = |filter: &Filter| self.world.journal.count(filter);
        let attempts = count(&calls("/api/v1/nodes*").mutating());
        let conflicts = count(&calls("/api/v1/nodes*").mutating().status(409));
        let node_writes = attempts - conflicts;
        let event_writes = count(&events);
        let all = count(&Filter::any().server("kubernetes").caller(MANAGER));
        let process = self.manager.id().context("the manager has ended")?;
        let measured = Measured {
            cloud_calls: count(&Filter::any().server(&self.cloud.recorded_as)),
            node_writes,
            conflicts,
            event_writes,
            other_calls: all - attempts - event_writes,
            time,
            peak_kb: memory(process, "VmHWM")?,
            resident_kb: memory(process, "VmRSS")?,
        };
        self.manager.kill().await?;
        Ok(measured)
    }

    async fn all_initialised(&self, nodes: usize) -> Result<()> {
        let api: Api<Node> = Api::all(self.cluster.admin()?);
        let mut done = std::collections::BTreeSet::new();
        let mut changes = pin!(
            watcher(api, watcher::Config::default())
                .default_backoff()
                .applied_objects()
        );
        while let Some(node) = changes.try_next().await? {
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
            if !taints
                .into_iter()
                .flatten()
                .any(|taint| taint.key == UNINITIALIZED)
            {
                done.insert(node.name_any());
            }
            if done.len() == nodes {
                return Ok(());
            }
        }
        anyhow::bail!("the watch ended")
    }
}

fn calls(path: &str) -> Filter {
    Filter::any()
        .server("kubernetes")
        .caller(MANAGER)
        .path(path)
}

/// A number of `/proc/<pid>/status`, in kB.
fn memory(process: u32, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(number
        .with_context(|| format!("no {name} in the status of {process}"))?
        .parse()?)
}
