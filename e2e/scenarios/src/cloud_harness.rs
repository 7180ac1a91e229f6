//! Test clusters with simulated clouds and the real providers: one cloud, with the permissions of an original's
//! manifest, or several at once.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::metrics::Metrics;
use bowline_core::{Cloud, CloudName};
use bowline_http::{CallMetrics, Connector, Seams};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator::serve::{Api, Server};
use bowline_simulator::{KubeletSpec, World};
use bowline_simulator_kubernetes::fleet::{Fleet, Settings};
use bowline_simulator_kubernetes::monitor::{self, Monitor};
use futures::future::LocalBoxFuture;
use serde_json::Value;

use crate::objects::text;
use crate::{Granted, LEASE, Replica, Setup, Sharing, TestCluster};

/// What is read where the role allows it, and done without where it does not: what is the cluster's own.
pub const OPTIONAL_READS: [&str; 4] = [
    "/api/v1/namespaces/kube-system",
    "/api/v1/namespaces/default/services/kubernetes",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    "/apis/networking.k8s.io/v1/servicecidrs",
];
/// How often a process that cannot start is started.
const STARTS: u32 = 10;
/// The pause before that.
const RESTART: Duration = Duration::from_secs(1);

/// The controller manager that Bowline replaces.
pub struct Original<'a> {
    /// Its command name.
    pub command: &'static str,
    pub provider: &'static str,
    /// Its service account.
    pub account: &'static str,
    /// The objects of its manifest.
    pub manifest: &'a [Value],
}

/// Builds the provider of one manager; one that cannot start reports why.
pub type ProviderFactory =
    dyn Fn(World, Arc<Metrics>) -> LocalBoxFuture<'static, Result<Arc<dyn Cloud>, String>>;

/// A simulated cloud, its server, and how the provider of a manager is built for it.
pub struct Served<C> {
    pub cloud: Arc<C>,
    /// Where it is served.
    pub server: Server,
    pub factory: Box<ProviderFactory>,
}

/// What a cloud is called where there are several: its own name, which is also that of its server in the journal and
/// the label of its metrics, or its provider's.
#[derive(Clone, Copy, Debug)]
pub struct Called<'a> {
    name: Option<&'a str>,
    provider: &'static str,
    default_host: &'static str,
}

impl<'a> Called<'a> {
    /// A cloud of that provider; without a name of its own, it listens at that host in the pipes.
    pub(crate) fn only(
        name: Option<&'a str>,
        provider: &'static str,
        default_host: &'static str,
    ) -> Self {
        Self {
            name,
            provider,
            default_host,
        }
    }

    pub(crate) fn name(&self) -> CloudName {
        CloudName::parse(self.name.unwrap_or(self.provider)).unwrap()
    }

    /// The label of its metrics.
    pub(crate) fn label(&self) -> Option<String> {
        self.name.map(str::to_owned)
    }

    /// Where it is on the network.
    pub(crate) fn host(&self) -> String {
        let own = self.name.map(|name| format!("{name}.localhost"));
        own.unwrap_or_else(|| self.default_host.to_owned())
    }

    /// What its provider takes from outside, in that world.
    pub(crate) fn seams(name: &CloudName, world: &World, metrics: Option<CallMetrics>) -> Seams {
        Seams {
            name: name.clone(),
            connector: Connector::simulated(world.pipes.clone()),
            clock: world.clock.clone(),
            random: world.random.fork(),
            metrics,
        }
    }

    /// Serves its API there.
    pub(crate) fn serve(&self, world: &World, api: Arc<dyn Api>) -> Server {
        let builder = Server::builder(world, api);
        let builder = match self.name {
            Some(name) => builder.named(name),
            None => builder,
        };
        builder.pipe(&format!("{}:80", self.host()))
    }
}

/// One cloud of a test cluster: how its providers are built, and the provider of the manager that starts next.
struct ProviderSlot {
    factory: Box<ProviderFactory>,
    next: Rc<RefCell<Option<Arc<dyn Cloud>>>>,
}

impl ProviderSlot {
    fn on(bench: &mut TestCluster, factory: Box<ProviderFactory>) -> Self {
        let next: Rc<RefCell<Option<Arc<dyn Cloud>>>> = Rc::default();
        let ready = Rc::clone(&next);
        bench.add_provider(move |_| ready.take().expect("the provider was made"));
        Self { factory, next }
    }

    /// Makes the provider of the next manager, which counts in these metrics; one that cannot start is started again.
    async fn take(&self, world: &World, metrics: &Arc<Metrics>) {
        let mut tries = 0;
        let cloud = loop {
            tries += 1;
            match (self.factory)(world.clone(), metrics.clone()).await {
                Ok(cloud) => break cloud,
                Err(error) if tries == STARTS => panic!("it does not start: {error}"),
                Err(_) => tokio::time::sleep(RESTART).await,
            }
        };
        self.next.replace(Some(cloud));
    }
}

/// A test cluster whose managers work with several simulated clouds.
pub struct Several {
    bench: TestCluster,
    slots: Vec<ProviderSlot>,
    servers: Vec<Server>,
}

crate::wrapper!(Several, bench: TestCluster);

impl Several {
    /// No cloud yet.
    pub fn on(bench: TestCluster) -> Self {
        Self {
            bench,
            slots: Vec::new(),
            servers: Vec::new(),
        }
    }

    /// One more cloud.
    pub fn add<C>(&mut self, served: Served<C>) -> Arc<C> {
        self.slots
            .push(ProviderSlot::on(&mut self.bench, served.factory));
        self.servers.push(served.server);
        served.cloud
    }

    /// Starts the manager, as a new process would.
    pub async fn start(&mut self) {
        let metrics = Metrics::new();
        for slot in &self.slots {
            slot.take(&self.bench.world, &metrics).await;
        }
        self.bench.start_with(metrics);
    }
}

/// A test cluster whose managers work with one simulated cloud.
pub struct CloudHarness<C> {
    bench: TestCluster,
    pub cloud: Arc<C>,
    /// Who the manager is to the API server.
    pub user: String,
    slot: ProviderSlot,
    _server: Server,
    fleet: Option<Fleet>,
    _monitor: Option<Monitor>,
}

crate::wrapper!(CloudHarness<C>, bench: TestCluster, C);

impl<C> CloudHarness<C> {
    /// A bench with the original's rights, and with the cloud that `open` serves on it. The manager is not started
    /// yet.
    pub async fn open(
        seed: u64,
        flags: &[&str],
        original: &Original<'_>,
        open: impl FnOnce(&TestCluster) -> Served<C>,
    ) -> Self {
        Self::open_on(Sharing::Shared, seed, flags, original, open).await
    }

    /// The same, on a server of its own if it has to be.
    pub async fn open_on(
        sharing: Sharing,
        seed: u64,
        flags: &[&str],
        original: &Original<'_>,
        open: impl FnOnce(&TestCluster) -> Served<C>,
    ) -> Self {
        let mut bench = TestCluster::set_up(Setup {
            seed,
            sharing,
            clouds: &[],
            flags,
            program: (original.command, original.provider),
        })
        .await;
        let Granted { config, user } = bench
            .cluster
            .grant(original.account, original.manifest)
            .await;
        bench.act_as(config);
        let served = open(&bench);
        Self {
            slot: ProviderSlot::on(&mut bench, served.factory),
            bench,
            cloud: served.cloud,
            user,
            _server: served.server,
            fleet: None,
            _monitor: None,
        }
    }

    /// The same with kubelets, which [`CloudHarness::join_as`] starts.
    #[must_use]
    pub fn with_kubelets(mut self) -> Self {
        self.fleet = Some(self.bench.cluster.fleet(Settings::default()));
        self
    }

    /// The same with what taints the nodes of silent ones.
    #[must_use]
    pub fn with_monitor(self) -> Self {
        let monitor = self.cluster.monitor(monitor::Settings::default());
        Self {
            _monitor: Some(monitor),
            ..self
        }
    }

    /// Starts a kubelet.
    pub fn join_as(&self, kubelet: KubeletSpec) {
        let fleet = self.fleet.as_ref().expect("the harness has kubelets");
        self.cluster.join_as(fleet, kubelet);
    }

    /// Starts the manager, as a new process would; one that cannot start is started again.
    pub async fn start(&mut self) {
        let metrics = self.make_provider().await;
        self.bench.start_with(metrics);
    }

    /// Starts one of several managers, which compete for a lease; `name` is its name in the journal.
    pub async fn replica(&self, name: &str, flags: &[&str]) -> Replica {
        let config = self.cluster.manager(name).await;
        let metrics = self.make_provider().await;
        self.bench.replica_in(metrics, name, &config, flags)
    }

    /// The provider of the next manager, which counts in these metrics.
    async fn make_provider(&self) -> Arc<Metrics> {
        let metrics = Metrics::new();
        self.slot.take(&self.bench.world, &metrics).await;
        metrics
    }

    /// The manager's calls that could have changed what that path means.
    pub fn writes_to(&self, path: &str) -> Vec<Entry> {
        let filter = Filter::any().server("kubernetes").caller(&self.user);
        self.matching(&filter.mutating().path(path))
    }

    /// Stops the manager, which must end well, and checks that nobody refused it anything: the
    /// original's role was enough.
    pub async fn end(mut self) {
        self.bench.stop().await;
        for status in [401, 403] {
            let filter = Filter::any().server("kubernetes").caller(&self.user);
            let mut refused = self.matching(&filter.status(status));
            refused.retain(|it| it.is_mutating() || !OPTIONAL_READS.contains(&it.path.as_str()));
            assert!(refused.is_empty(), "refused: {refused:?}");
        }
        let lease = self.cluster.lease(LEASE).expect("there is a lease");
        let holder = text(&lease["spec"]["holderIdentity"]);
        assert_eq!(holder, "", "the lease is released");
    }
}
