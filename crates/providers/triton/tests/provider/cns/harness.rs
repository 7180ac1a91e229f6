//! A cluster before a simulated data center, and its Services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BalancerRequest, Balancers, Cloud, DraftError, Endpoints, ExcludedNodes, Goal, Node,
    PreparedPlan, Service, ServicePort,
};
use bowline_simulator::World;
use bowline_simulator::journal::Entry;
use bowline_simulator_triton::{DEFAULT_ACCOUNT_ID, Fixture, MachineInfo, Triton as Simulated};
pub(crate) use bowline_test_kit::steps;
use bowline_test_kit::{self as kit, Outcome, drive, seams, wraps};
use bowline_triton::{Triton, TritonMetrics, build};
use prometheus_client::registry::Registry;
use tempfile::TempDir;

pub(crate) use crate::common::{CLUSTER, id, node};
use crate::common::{simulation, sources};

const PREFIX: &str = "cloud.tritoncompute/";
/// Another look that is due so soon belongs to the same change.
const SOON: Duration = Duration::from_secs(1);
/// Plans that one change takes at most.
const MOST_PLANS: usize = 10;

pub(crate) fn outside(label: &str) -> String {
    format!("{label}.svc.{DEFAULT_ACCOUNT_ID}.eg-1.cns.example.com")
}

pub(crate) fn inside(label: &str) -> String {
    format!("{label}.svc.{DEFAULT_ACCOUNT_ID}.int.eg-1.example.com")
}

/// A cluster of nodes `k8s-1`, … before a data center.
pub(crate) struct Harness {
    test: kit::Harness<Simulated, Triton>,
    pub(crate) registry: Registry,
    pub(crate) nodes: Vec<Node>,
    pub(crate) excluded: ExcludedNodes,
    /// By name; all are in the namespace `prod`.
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) endpoints: Endpoints,
    pub(crate) has_ip_mode: bool,
    file: TempDir,
}

wraps!(Harness => test: kit::Harness<Simulated, Triton>);

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with("", Fixture::default())
    }

    pub(crate) fn configured(text: &str) -> Self {
        Self::with(text, Fixture::default())
    }

    pub(crate) fn with(text: &str, fixture: Fixture) -> Self {
        let simulation = simulation(fixture, 3);
        let file = tempfile::tempdir().unwrap();
        std::fs::write(file.path().join("cloud.conf"), text).unwrap();
        let (provider, registry) = provider(&simulation.world, &file);
        Self {
            test: simulation.with(provider),
            registry,
            nodes: (1..=3).map(node).collect(),
            excluded: ExcludedNodes::default(),
            services: BTreeMap::new(),
            endpoints: Endpoints::new(),
            has_ip_mode: true,
            file,
        }
    }

    /// The provider begins anew; the cloud goes on.
    pub(crate) fn restart(&mut self) {
        (self.test.cloud, self.registry) = provider(&self.test.world, &self.file);
    }

    /// Another configuration, and so a restart.
    pub(crate) fn configure(&mut self, text: &str) {
        std::fs::write(self.file.path().join("cloud.conf"), text).unwrap();
        self.restart();
    }

    /// Adds a Service of the namespace `prod` with port 80, which nodes have at 30080.
    pub(crate) fn add(&mut self, name: &str) -> &mut Service {
        let number = self.services.len() + 1;
        let mut service = service(name);
        if name != "web" {
            service.uid = format!("3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0b{number:02}");
        }
        self.services.entry(name.to_owned()).or_insert(service)
    }

    pub(crate) fn service(&mut self, name: &str) -> &mut Service {
        self.services.get_mut(name).unwrap()
    }

    pub(crate) fn annotate(&mut self, name: &str, key: &str, value: &str) {
        bowline_test_kit::set(self.service(name), PREFIX, key, value);
    }

    pub(crate) fn annotation(&self, name: &str, key: &str) -> &str {
        let key = format!("{PREFIX}{key}");
        self.services[name].annotation(&key).unwrap_or_default()
    }

    pub(crate) fn balancers(&self) -> &dyn Balancers {
        self.cloud.balancers().unwrap()
    }

    pub(crate) fn request(&self, name: &str, goal: Goal) -> BalancerRequest {
        let all = self.services.values().cloned().map(Arc::new);
        // A removal is planned without a look at nodes.
        let nodes = match goal {
            Goal::Present => self.nodes.iter().cloned().map(Arc::new).collect(),
            Goal::Absent => Vec::new(),
        };
        BalancerRequest {
            service: Arc::new(self.services[name].clone()),
            goal,
            nodes,
            excluded: self.excluded.clone(),
            all: Arc::new(all.collect()),
            all_known: true,
            cluster_name: "kubernetes".to_owned(),
            has_ip_mode: self.has_ip_mode,
            cluster_uid: Some(CLUSTER.to_owned()),
            living: None,
            rules: Arc::default(),
            endpoints: Some(Arc::new(self.endpoints.clone())),
        }
    }

    pub(crate) async fn draft(&self, name: &str, goal: Goal) -> Result<PreparedPlan, DraftError> {
        self.balancers().draft(&self.request(name, goal)).await
    }

    /// Plans and carries out once; what is to be published is written to the Service.
    pub(crate) async fn once(&mut self, name: &str) -> Outcome {
        self.go(name, Goal::Present).await
    }

    /// The same, and again for as long as another look is due at once.
    pub(crate) async fn ensure(&mut self, name: &str) -> Outcome {
        let mut all = self.once(name).await;
        for _ in 0..MOST_PLANS {
            let Some(pause) = all.again.filter(|it| *it <= SOON) else {
                return all;
            };
            tokio::time::sleep(pause).await;
            let next = self.once(name).await;
            all.notices.extend(next.notices);
            all.plan.problems.extend(next.plan.problems);
            (all.error, all.again) = (next.error, next.again);
        }
        panic!("it never ends: {all:?}");
    }

    pub(crate) async fn delete(&mut self, name: &str) -> Outcome {
        self.service(name).deleting = true;
        let outcome = self.go(name, Goal::Absent).await;
        if outcome.error.is_none() {
            self.services.remove(name);
        }
        outcome
    }

    /// The same until the process dies after that many looks at steps, and all it would have
    /// published with it. Says whether it ended before.
    pub(crate) async fn until_crash(&mut self, name: &str, goal: Goal, looks: u64) -> bool {
        let draft = self.draft(name, goal).await.unwrap();
        let mut lost = self.services[name].clone();
        let outcome = drive(&mut lost, draft, Some(looks)).await;
        assert!(outcome.died() || outcome.error.is_none(), "{outcome:?}");
        assert!(!outcome.gaps, "{outcome:?}");
        !outcome.died()
    }

    async fn go(&mut self, name: &str, goal: Goal) -> Outcome {
        match self.draft(name, goal).await {
            Ok(draft) => {
                let service = self.services.get_mut(name).unwrap();
                drive(service, draft, None).await
            }
            Err(error) => Outcome::not_drafted(&error),
        }
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn status(&self, name: &str) -> Vec<String> {
        let entrances = self.services[name].ingress.iter();
        entrances.map(ToString::to_string).collect()
    }

    pub(crate) fn machine(&self, number: u32) -> MachineInfo {
        self.sim.machine(&id(number)).unwrap()
    }

    /// The tag of a machine that drives the name service; empty if there is none.
    pub(crate) fn tag(&self, number: u32) -> String {
        let machine = self.machine(number);
        let tag = machine.tag("triton.cns.services");
        tag.unwrap_or_default().to_owned()
    }

    pub(crate) fn tags(&self) -> [String; 3] {
        [1, 2, 3].map(|number| self.tag(number))
    }

    /// The changes since the last time this was asked: `METHOD path body`.
    pub(crate) fn changes(&self) -> Vec<String> {
        let calls = self.entries().into_iter().filter(Entry::is_mutating);
        calls
            .map(|it| format!("{} {} {}", it.method, it.path, it.body))
            .collect()
    }

    pub(crate) fn metric(&self, line: &str) -> Option<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let mut lines = text.lines();
        lines.find_map(|it| it.strip_prefix(line).map(|it| it.trim().to_owned()))
    }

    /// The next event about a node: its name and the reason.
    pub(crate) async fn events(&self) -> Option<(String, &'static str)> {
        let next = tokio::time::timeout(Duration::from_secs(1), self.cloud.next_event());
        let events = next.await.ok()?;
        Some((events.regarding.name, events.reason))
    }

    pub(crate) fn serve_on(&mut self, name: &str, nodes: &[&str]) {
        let key = self.services[name].key.clone();
        let nodes: BTreeSet<String> = nodes.iter().map(ToString::to_string).collect();
        if nodes.is_empty() {
            self.endpoints.remove(&key);
        } else {
            self.endpoints.insert(key, nodes);
        }
    }
}

fn provider(world: &World, file: &TempDir) -> (Arc<Triton>, Registry) {
    let sources = sources(&[], Some(file.path().join("cloud.conf")));
    let mut registry = Registry::default();
    let metrics = TritonMetrics::register(&mut registry);
    let seams = seams(world, "triton");
    (build(sources, &seams, &metrics).unwrap(), registry)
}

pub(crate) fn port(protocol: &str, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        target_port: "8080".to_owned(),
        ..bowline_test_kit::port(protocol, port, node_port)
    }
}

fn service(name: &str) -> Service {
    Service {
        ports: vec![port("TCP", 80, 30080)],
        ..bowline_test_kit::service("prod", name, "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01")
    }
}
