//! The Service of the specification's cases before a simulated data center.

use std::sync::Arc;

use bowline_core::{Endpoints, Service};
use bowline_simulator::World;
use bowline_simulator_triton::{Fixture, MachineInfo, RuleInfo, Triton as Simulated};
use bowline_test_kit::{Outcome, ServiceHarness, seams, service, wraps};
pub(crate) use bowline_test_kit::{port, steps};
use bowline_triton::{Triton, TritonMetrics, build};

pub(crate) use crate::common::{CLUSTER, id as node_id, node};
use crate::common::{simulation, sources};

pub(crate) const UID: &str = "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01";
pub(crate) const ACCOUNT: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
pub(crate) const NAME: &str = "kubernetes-clb-3f0c2a9e-0";
const PREFIX: &str = "cloud.tritoncompute/";

pub(crate) struct Harness {
    inner: ServiceHarness<Simulated, Triton>,
    file: String,
    /// Where the file is, which the provider follows.
    folder: tempfile::TempDir,
}

wraps!(Harness => inner: ServiceHarness<Simulated, Triton>);

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With these further lines about load balancers.
    pub(crate) fn with(lines: &str) -> Self {
        Self::staged(Fixture::default(), 3, lines)
    }

    /// With that many nodes in that scene.
    pub(crate) fn staged(fixture: Fixture, nodes: u32, lines: &str) -> Self {
        let simulation = simulation(fixture, nodes);
        let allowed = "allowed-packages = g4-highcpu-1G\nallowed-images = nonesuch, \
                       33333333-3333-4333-8333-444444444444";
        let file =
            format!("[LoadBalancer]\nmode = clb\nclb-package = lb1.small\n{allowed}\n{lines}\n");
        let folder = tempfile::tempdir().unwrap();
        let cloud = provider(&simulation.world, &file, &folder);
        let web = named("web", UID, &[(80, 30080), (443, 30443)]);
        let nodes = (1..=nodes).map(node).collect();
        let mut harness = ServiceHarness::new(simulation.with(cloud), PREFIX, web, nodes);
        harness.cluster_uid = Some(CLUSTER.to_owned());
        harness.endpoints = Some(Endpoints::new());
        harness.removes_blindly = true;
        Self {
            inner: harness,
            file,
            folder,
        }
    }

    /// The provider begins anew; the cloud goes on.
    pub(crate) fn restart(&mut self) {
        self.inner.harness.cloud = provider(&self.world, &self.file, &self.folder);
    }

    pub(crate) async fn delete(&mut self) -> Outcome {
        self.service.deleting = true;
        self.inner.delete().await
    }

    /// Plans and carries out until time alone changes nothing any more.
    pub(crate) async fn reconcile(&mut self) -> Outcome {
        loop {
            let outcome = self.ensure().await;
            match outcome.again {
                Some(again) => tokio::time::sleep(again).await,
                None => return outcome,
            }
        }
    }

    pub(crate) fn machines(&self) -> Vec<MachineInfo> {
        let mut all = self.sim.machines();
        all.retain(|it| it.tags.contains_key("bowline.clb"));
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    #[track_caller]
    pub(crate) fn machine(&self) -> MachineInfo {
        let mut all = self.machines();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.machines().into_iter().map(|it| it.name).collect()
    }

    /// Metadata of the only machine, by its name behind the prefix.
    #[track_caller]
    pub(crate) fn metadata(&self, name: &str) -> Option<String> {
        let key = format!("cloud.tritoncompute:{name}");
        let value = self.machine().metadata.get(&key).cloned()?;
        value.as_str().map(str::to_owned)
    }

    /// `kind: text` of every rule of ours, by kind.
    pub(crate) fn rules(&self) -> Vec<(String, RuleInfo)> {
        let kind = |rule: &RuleInfo| {
            let description = rule.description.clone().unwrap_or_default();
            description.split(':').nth(3).unwrap_or_default().to_owned()
        };
        let rules = self.sim.rules().into_iter().map(|it| (kind(&it), it));
        let mut rules: Vec<(String, RuleInfo)> = rules.collect();
        rules.sort_by(|one, other| one.0.cmp(&other.0));
        rules
    }
}

/// A test whose load balancer is there, and whose calls are forgotten.
pub(crate) async fn open() -> Harness {
    let mut test = Harness::new();
    test.ensure().await.good();
    test.calls();
    test
}

fn provider(world: &World, file: &str, folder: &tempfile::TempDir) -> Arc<Triton> {
    let path = folder.path().join("cloud.conf");
    std::fs::write(&path, file).unwrap();
    let sources = sources(&[], Some(path));
    let seams = seams(world, "triton");
    build(sources, &seams, &TritonMetrics::default()).unwrap()
}

pub(crate) fn set(service: &mut Service, name: &str, value: &str) {
    bowline_test_kit::set(service, PREFIX, name, value);
}

pub(crate) fn named(name: &str, uid: &str, ports: &[(u16, u16)]) -> Service {
    Service {
        ports: ports.iter().map(|(a, b)| port("TCP", *a, *b)).collect(),
        ..service("prod", name, uid)
    }
}
