//! A data center, its metrics service, a cluster, and the provider that does its chores between them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::{
    BoxFuture, Cloud, Cluster, ClusterError, Kept, ManagedObject, ManagedObjectKind, Node,
    PageAnswer, ProviderEvent, Secret,
};
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::{Identity, Server};
use bowline_simulator_triton::{Cmon, DEFAULT_PRIVATE_KEY, Fixture, Triton as Simulated};
use bowline_test_kit::{Simulation, wraps};
use bowline_triton::{Triton, TritonMetrics, build};
use prometheus_client::registry::Registry;
use rustls_pki_types::PrivateKeyDer;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

pub(crate) use crate::common::{CLUSTER as UID, id};
use crate::common::{node, simulation, sources};

/// Where the metrics service is.
pub(crate) const CMON: &str = "cmon.eg-1.cns.example.com";
/// Simulated time after which a wait is given up.
const PATIENCE: Duration = Duration::from_secs(3600);

pub(crate) struct Stage {
    simulation: Simulation<Simulated>,
    pub(crate) desk: Arc<Desk>,
    pub(crate) provider: Option<Arc<Triton>>,
    pub(crate) registry: Registry,
    working: Option<AbortHandle>,
    cmon: Option<Server>,
}

wraps!(Stage => simulation: Simulation<Simulated>);

impl Stage {
    /// With machines and nodes `k8s-1` to `k8s-<count>`.
    pub(crate) fn new(count: u32) -> Self {
        let services = [("cmon".to_owned(), format!("https://{CMON}:9163"))];
        let scene = Fixture {
            services: services.into(),
            ..Fixture::default()
        };
        let desk = Arc::new(Desk::default());
        for number in 1..=count {
            desk.add(number);
        }
        Self {
            simulation: simulation(scene, count),
            desk,
            provider: None,
            registry: Registry::default(),
            working: None,
            cmon: None,
        }
    }

    /// Lets the metrics service answer.
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

    /// Lets it answer no more.
    pub(crate) fn close_cmon(&mut self) {
        self.cmon = None;
    }

    /// Starts the provider in that mode, and its chores; ends those that were before.
    pub(crate) fn start(&mut self, mode: &str) {
        self.start_with(mode, DEFAULT_PRIVATE_KEY);
    }

    /// The same with another key.
    pub(crate) fn start_with(&mut self, mode: &str, key: &str) {
        self.stop();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cloud.conf");
        std::fs::write(&file, format!("[Metrics]\nmode = {mode}\n")).unwrap();
        let variables = [("SDC_PRIVATE_KEY", key), ("TRITON_TLS_INSECURE", "1")];
        let sources = sources(&variables, Some(file));
        let surroundings = self.surroundings("triton");
        self.registry = Registry::default();
        let metrics = TritonMetrics::register(&mut self.registry);
        let provider = build(sources, &surroundings, &metrics).unwrap();
        let (working, desk) = (Arc::clone(&provider), Arc::clone(&self.desk));
        let working = tokio::spawn(async move {
            let chores = working.chores().expect("it has chores");
            chores.run(&*desk).await;
        });
        self.provider = Some(provider);
        self.working = Some(working.abort_handle());
    }

    /// Ends the chores.
    pub(crate) fn stop(&mut self) {
        if let Some(working) = self.working.take() {
            working.abort();
        }
        self.provider = None;
    }

    /// Waits until something is so.
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

    /// A tag of a machine.
    pub(crate) fn tag(&self, number: u32, key: &str) -> Option<String> {
        let machine = self.sim.machine(&id(number)).unwrap();
        machine.tag(key).map(str::to_owned)
    }

    /// Requests that the metrics service had.
    pub(crate) fn asked_cmon(&self) -> usize {
        self.world.journal.count(&Filter::any().server("cmon"))
    }

    /// Calls that change tags.
    pub(crate) fn tag_writes(&self) -> usize {
        let tags = Filter::any().server("triton").mutating().path("*/tags*");
        self.world.journal.count(&tags)
    }
}

/// What is in an object.
type Content = BTreeMap<String, Secret>;

/// A cluster: nodes, and what is kept in it.
#[derive(Default)]
pub(crate) struct Desk {
    nodes: Mutex<BTreeMap<u32, Arc<Node>>>,
    changed: Notify,
    objects: Mutex<BTreeMap<(&'static str, String), Content>>,
    foreign: Mutex<BTreeSet<String>>,
    news: Mutex<Vec<ProviderEvent>>,
    pub(crate) observing: std::sync::atomic::AtomicBool,
    pub(crate) writes: std::sync::atomic::AtomicUsize,
}

impl Desk {
    /// The node of the machine with that number joins.
    pub(crate) fn add(&self, number: u32) {
        self.change(number, Some(node(number)));
    }

    /// A node changes, or leaves.
    pub(crate) fn change(&self, number: u32, node: Option<Node>) {
        let mut nodes = self.nodes.lock().unwrap();
        match node {
            Some(node) => drop(nodes.insert(number, Arc::new(node))),
            None => drop(nodes.remove(&number)),
        }
        self.changed.notify_one();
    }

    pub(crate) fn node(&self, number: u32) -> Node {
        Node::clone(&self.nodes.lock().unwrap()[&number])
    }

    pub(crate) fn object(&self, kind: &'static str, name: &str) -> BTreeMap<String, String> {
        let objects = self.objects.lock().unwrap();
        let data = objects.get(&(kind, name.to_owned()));
        let entry = |(key, value): (&String, &Secret)| (key.clone(), value.reveal().to_owned());
        data.into_iter().flatten().map(entry).collect()
    }

    /// Somebody has made an object of that name.
    pub(crate) fn occupy(&self, name: &str) {
        self.foreign.lock().unwrap().insert(name.to_owned());
    }

    /// `reason kind name: message` of every event.
    pub(crate) fn told(&self) -> Vec<String> {
        let line = |it: &ProviderEvent| {
            let about = &it.regarding;
            format!(
                "{} {} {}: {}",
                it.reason, about.kind, about.name, it.message
            )
        };
        self.news.lock().unwrap().iter().map(line).collect()
    }
}

impl Cluster for Desk {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn namespace(&self) -> &'static str {
        "kube-system"
    }

    fn address(&self) -> &'static str {
        "https://bowline-metrics.kube-system.svc:10258"
    }

    fn uid(&self) -> BoxFuture<'_, Result<String, ClusterError>> {
        Box::pin(async { Ok(UID.to_owned()) })
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.lock().unwrap().values().cloned().collect()
    }

    fn knows_all_nodes(&self) -> bool {
        true
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn is_observing(&self) -> bool {
        self.observing.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn read<'a>(
        &'a self,
        kind: ManagedObjectKind,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Content>, ClusterError>> {
        let key = (kind.as_str(), name.to_owned());
        let found = self.objects.lock().unwrap().get(&key).cloned();
        Box::pin(async move { Ok(found) })
    }

    fn keep<'a>(&'a self, object: &'a ManagedObject) -> BoxFuture<'a, Result<Kept, ClusterError>> {
        Box::pin(async move {
            if self.foreign.lock().unwrap().contains(&object.name) {
                let object = object.name.clone();
                return Err(ClusterError::Foreign { object });
            }
            let key = (object.kind.as_str(), object.name.clone());
            let mut objects = self.objects.lock().unwrap();
            if objects.get(&key) == Some(&object.data) {
                return Ok(Kept::Same);
            }
            if self.is_observing() {
                return Ok(Kept::Observed);
            }
            objects.insert(key, object.data.clone());
            let count = &self.writes;
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(Kept::Written)
        })
    }

    fn tell(&self, news: ProviderEvent) {
        self.news.lock().unwrap().push(news);
    }
}
