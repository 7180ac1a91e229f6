//! A cluster, simulated Talos machines with kubelets on them, and the manager between them: the real
//! provider under the role of the original's chart.

use bowline_scenarios::TestCluster;
use bowline_scenarios::log::Log;
use bowline_scenarios::objects::{PROVIDED_NODE_IP, fresh, node_info};
use bowline_scenarios::talos::{Beginning, CloudHarness};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator_talos::{OS_IMAGE, PlatformSpec};
use serde_json::Value;
use tracing::subscriber::DefaultGuard;

/// How often addresses and marks are looked at again where a scenario waits for it.
pub(crate) const OFTEN: &str = "--node-status-update-frequency=10s";
/// The label with a machine's platform.
pub(crate) const PLATFORM: &str = "node.cloudprovider.kubernetes.io/platform";
/// The label of machines that may be taken away.
pub(crate) const LIFECYCLE: &str = "node.cloudprovider.kubernetes.io/lifecycle";
/// The label with the cluster's name.
pub(crate) const CLUSTER: &str = "node.cloudprovider.kubernetes.io/clustername";
/// Of calls for platform metadata that failed.
pub(crate) const METADATA_ERRORS: &str =
    "talosccm_api_request_errors_total{request=\"platformmetadata\"}";

/// Everything that is up.
pub(crate) struct Harness {
    inner: CloudHarness,
    log: Log,
    _logging: DefaultGuard,
}

bowline_scenarios::harness!(Harness, inner: CloudHarness);

impl Harness {
    /// With the chart's controllers and no configuration.
    pub(crate) async fn new() -> Self {
        Self::with(Beginning::default()).await
    }

    /// With this cloud config, which is looked at often.
    pub(crate) async fn configured(config: &str) -> Self {
        let flags = [bowline_scenarios::talos::CONTROLLERS, OFTEN];
        let beginning = Beginning {
            config,
            flags: &flags,
            ..Beginning::default()
        };
        Self::with(beginning).await
    }

    /// With a manager that begins like this.
    pub(crate) async fn with(beginning: Beginning<'_>) -> Self {
        let mut harness = Self::idle(beginning).await;
        harness.start().await;
        harness
    }

    /// The same without the manager, which [`bowline_scenarios::cloud_harness::CloudHarness::start`] starts.
    pub(crate) async fn idle(beginning: Beginning<'_>) -> Self {
        Self::at(CloudHarness::set_up(beginning).await)
    }

    pub(crate) fn at(inner: CloudHarness) -> Self {
        let (log, logging) = Log::keep();
        Self {
            inner: inner.with_kubelets(),
            log,
            _logging: logging,
        }
    }

    /// A machine on metal with a kubelet.
    pub(crate) fn join_metal(&self, name: &str, addresses: &[&str]) {
        self.join_on(name, addresses, PlatformSpec::default());
    }

    /// A machine on that platform with a kubelet.
    pub(crate) fn join_on(&self, name: &str, addresses: &[&str], platform: PlatformSpec) {
        self.cloud.add(name, addresses, platform);
        self.join(name);
    }

    /// A kubelet on that machine.
    pub(crate) fn join(&self, machine: &str) {
        self.join_as(self.cloud.kubelet(machine).unwrap());
    }

    /// Waits until a node is initialised, and gives it as it is when that was told.
    pub(crate) async fn ready(&self, name: &str) -> Value {
        self.until_initialized(name).await;
        self.node(name)
    }

    /// The calls to machines whose query fits.
    pub(crate) fn asked(&self, query: &str) -> Vec<Entry> {
        asked(self, query)
    }

    /// Waits for so many more looks at that node's machine: metadata first, then addresses.
    pub(crate) async fn rounds(&self, address: &str, more: usize) {
        let query = format!("*node={address}&type=AddressStatuses*");
        let before = self.asked(&query).len();
        let done = |it: &TestCluster| asked(it, &query).len() >= before + more;
        self.until("the machine is asked again", done).await;
        self.settle_writes().await;
    }

    /// What a look causes follows within a moment.
    async fn settle_writes(&self) {
        self.seconds(2).await;
    }

    /// The manager's writes to that node.
    pub(crate) fn node_changes(&self, name: &str) -> Vec<Entry> {
        let path = format!("/api/v1/nodes/{name}");
        [path.clone(), format!("{path}/status")]
            .iter()
            .flat_map(|path| self.writes_to(path))
            .collect()
    }

    /// What was logged, in the scenario's names.
    pub(crate) fn said(&self) -> String {
        self.cluster.names().plain(&self.log.text())
    }

    /// Checks that this was logged.
    pub(crate) fn assert_said(&self, words: &str) {
        let said = self.said();
        assert!(said.contains(words), "no {words:?} in\n{said}");
    }

    /// Waits until that is logged; calls go on all the time.
    pub(crate) async fn until_said(&self, words: &str) {
        self.until(&format!("{words:?} is logged"), |_| {
            self.said().contains(words)
        })
        .await;
    }

    /// How many nodes have met a metric; nothing is nothing.
    pub(crate) fn counted(&self, series: &str) -> u64 {
        let value = self.metric(series).unwrap_or_default();
        // Counts are whole and small.
        format!("{value:.0}").parse().unwrap()
    }
}

fn asked(bench: &TestCluster, query: &str) -> Vec<Entry> {
    bench.matching(&Filter::any().server("talos").query(query))
}

/// A Node of a Talos machine as its kubelet registers it, with that annotation.
pub(crate) fn talos_node(name: &str, node_ip: Option<&str>) -> Value {
    let mut node = fresh(name);
    node["status"]["nodeInfo"] = node_info("", OS_IMAGE);
    if let Some(node_ip) = node_ip {
        node["metadata"]["annotations"][PROVIDED_NODE_IP] = node_ip.into();
    }
    node
}

/// Nothing but the platform's name.
pub(crate) fn platform(name: &str) -> PlatformSpec {
    PlatformSpec {
        platform: name.to_owned(),
        ..PlatformSpec::default()
    }
}

/// A platform that gives its machines ids.
pub(crate) fn cloud_platform(name: &str, provider_id: &str) -> PlatformSpec {
    PlatformSpec {
        provider_id: provider_id.to_owned(),
        instance_id: provider_id.rsplit('/').next().unwrap().to_owned(),
        ..platform(name)
    }
}
