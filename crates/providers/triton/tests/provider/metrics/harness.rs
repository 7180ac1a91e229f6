//! A data center, its metrics service, a cluster, and the provider that does its chores between
//! them.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Chores as _, Cloud, PageAnswer};
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::{Identity, Server};
use bowline_simulator_triton::{Cmon, DEFAULT_PRIVATE_KEY, Fixture, Triton as Simulated};
use bowline_test_kit::{Simulation, wraps};
use bowline_triton::keys::PrivateKey;
use bowline_triton::{Triton, TritonMetrics, build};
use prometheus_client::registry::Registry;
use rustls_pki_types::PrivateKeyDer;
use serde_json::Value;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::cluster::FakeCluster;
pub(crate) use crate::common::{CLUSTER as UID, id};
use crate::common::{simulation, sources};

pub(crate) const CMON: &str = "cmon.eg-1.cns.example.com";
/// Simulated time after which a wait is given up.
const PATIENCE: Duration = Duration::from_secs(3600);

pub(crate) struct Harness {
    simulation: Simulation<Simulated>,
    pub(crate) cluster: Arc<FakeCluster>,
    pub(crate) provider: Option<Arc<Triton>>,
    pub(crate) registry: Registry,
    working: Option<AbortHandle>,
    cmon: Option<Server>,
}

wraps!(Harness => simulation: Simulation<Simulated>);

impl Harness {
    /// With machines and nodes `k8s-1` to `k8s-<count>`.
    pub(crate) fn new(count: u32) -> Self {
        let services = [("cmon".to_owned(), format!("https://{CMON}:9163"))];
        let fixture = Fixture {
            services: services.into(),
            ..Fixture::default()
        };
        let cluster = Arc::new(FakeCluster::default());
        for number in 1..=count {
            cluster.add(number);
        }
        Self {
            simulation: simulation(fixture, count),
            cluster,
            provider: None,
            registry: Registry::default(),
            working: None,
            cmon: None,
        }
    }

    pub(crate) fn open_cmon(&mut self) {
        let own = rcgen::generate_simple_self_signed([CMON.to_owned()]).unwrap();
        let identity = Identity {
            chain: vec![own.cert.der().clone()],
            key: PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap(),
            client_authorities: Vec::new(),
        };
        let server = Server::builder(&self.world, Cmon::new(&self.sim));
        let server = server.pipe_for_any_client(&format!("{CMON}:9163"), identity);
        self.cmon = Some(server.unwrap());
    }

    pub(crate) fn close_cmon(&mut self) {
        self.cmon = None;
    }

    /// Starts the provider in that mode, and its chores; ends those that were before.
    pub(crate) fn start(&mut self, mode: &str) {
        self.start_with(mode, DEFAULT_PRIVATE_KEY);
    }

    pub(crate) fn start_with(&mut self, mode: &str, key: &str) {
        self.stop();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cloud.conf");
        std::fs::write(&file, format!("[Metrics]\nmode = {mode}\n")).unwrap();
        let variables = [("SDC_PRIVATE_KEY", key), ("TRITON_TLS_INSECURE", "1")];
        let sources = sources(&variables, Some(file));
        let seams = self.seams("triton");
        self.registry = Registry::default();
        let metrics = TritonMetrics::register(&mut self.registry);
        let provider = build(sources, &seams, &metrics).unwrap();
        let (working, cluster) = (Arc::clone(&provider), Arc::clone(&self.cluster));
        let working = tokio::spawn(async move {
            let chores = working.chores().expect("it has chores");
            chores.run(&*cluster).await;
        });
        self.provider = Some(provider);
        self.working = Some(working.abort_handle());
    }

    pub(crate) fn stop(&mut self) {
        if let Some(working) = self.working.take() {
            working.abort();
        }
        self.provider = None;
    }

    pub(crate) async fn until(&self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < PATIENCE, "never: {what}");
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// A page of the provider, if it shows it.
    pub(crate) fn page(&self, path: &str) -> Option<String> {
        match self.provider.as_ref()?.page(path)? {
            PageAnswer::Shown { body, .. } => Some(body),
            PageAnswer::NotNow(_) => None,
        }
    }

    /// What Prometheus is told of the machines.
    pub(crate) fn discovered(&self) -> Vec<Value> {
        let page = self.page("/sd/triton").unwrap_or_else(|| "[]".to_owned());
        serde_json::from_str(&page).unwrap()
    }

    pub(crate) fn set_tag(&self, number: u32, key: &str, value: &str) {
        let value = Some(value.into());
        self.sim.set_tag(&id(number), key, value).unwrap();
    }

    /// Adds a key to the account.
    pub(crate) fn add_key(&self, text: &str) {
        let key = PrivateKey::parse(text, None).unwrap();
        self.sim.add_key("acme", &key.public_line()).unwrap();
    }

    pub(crate) fn tag(&self, number: u32, key: &str) -> Option<String> {
        let machine = self.sim.machine(&id(number)).unwrap();
        machine.tag(key).map(str::to_owned)
    }

    pub(crate) fn asked_cmon(&self) -> usize {
        self.world.journal.count(&Filter::any().server("cmon"))
    }

    pub(crate) fn tag_writes(&self) -> usize {
        let tags = Filter::any().server("triton").mutating().path("*/tags*");
        self.world.journal.count(&tags)
    }
}
