//! A cluster, a simulated Xen Orchestra, kubelets on its VMs, and the manager between them: the real
//! provider under the role of the original's chart.

use bowline_scenarios::objects::{known, labels, node_info, ready};
use bowline_scenarios::xenorchestra::CloudHarness;
use bowline_scenarios::{Setup, TestCluster, is_real};
use bowline_simulator::KubeletSpec;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator_xenorchestra::{Fixture, HostSpec, PoolSpec, VmSpec};
use serde_json::{Value, json};

/// The pools of the cases.
pub(crate) const PA: &str = "0b2f7c0e-3c1d-4f55-9d0a-6f1f6c3b7a10";
pub(crate) const PB: &str = "7e5a1d34-90bc-4d2e-8f61-3a2b1c0d9e8f";
/// Their hosts: two in the first, one in the second.
pub(crate) const H1: &str = "6d6f4f6e-7f2b-4e0c-8a86-2f3b8c0f9e21";
pub(crate) const H2: &str = "2c8b7a90-5e4d-4b3c-9a1f-7d6e5f4c3b2a";
pub(crate) const H3: &str = "94d0c2e1-6b5a-4f7e-8c3d-1a0b9c8d7e6f";
/// The VMs, on the first and the second host.
pub(crate) const VM1: &str = "c1a9d5b2-4e7f-4a63-9b1d-0f2e3d4c5b6a";
pub(crate) const VM2: &str = "9f0e4c6d-1b2a-4f3e-8d7c-5a6b7c8d9e0f";
/// A VM that never was.
pub(crate) const NOBODY: &str = "00000000-0000-4000-8000-000000000000";
/// The node of VM1.
pub(crate) const NODE: &str = "w1";
/// Longer than any proof, budget or back-off of the guard takes.
pub(crate) const A_WHILE: u64 = 900;

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
pub(crate) const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
pub(crate) const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
pub(crate) const TYPE: &str = "node.kubernetes.io/instance-type";
pub(crate) const BETA_TYPE: &str = "beta.kubernetes.io/instance-type";
pub(crate) const HOST_ID: &str = "topology.k8s.xenorchestra/host_id";
pub(crate) const HOST_NAME: &str = "topology.k8s.xenorchestra/host_name_label";
pub(crate) const POOL_ID: &str = "topology.k8s.xenorchestra/pool_id";
pub(crate) const POOL_NAME: &str = "topology.k8s.xenorchestra/pool_name_label";
pub(crate) const VM_NAME: &str = "vm.k8s.xenorchestra/name_label";
pub(crate) const FIRST_HOST: &str = "topology.k8s.xenorchestra/original_host_id";
pub(crate) const FIRST_POOL: &str = "topology.k8s.xenorchestra/original_pool_id";

const GIB: u64 = 1 << 30;

/// The provider id of VM1.
pub(crate) fn id1() -> String {
    format!("xenorchestra://{PA}/{VM1}")
}

/// The labels that the node of VM1 gets.
pub(crate) fn wanted_labels() -> [(&'static str, &'static str); 11] {
    [
        (ZONE, H1),
        (BETA_ZONE, H1),
        (REGION, PA),
        (BETA_REGION, PA),
        (TYPE, "4vCPU-4GB"),
        (BETA_TYPE, "4vCPU-4GB"),
        (HOST_ID, H1),
        (HOST_NAME, "xcp-1"),
        (POOL_ID, PA),
        (POOL_NAME, "lab-pool"),
        (VM_NAME, "worker-1"),
    ]
}

fn fixture() -> Fixture {
    Fixture {
        pools: vec![
            PoolSpec::named("lab pool").id(PA),
            PoolSpec::named("dr pool").id(PB),
        ],
        hosts: vec![
            HostSpec::named("xcp 1", PA).id(H1),
            HostSpec::named("xcp-2", PA).id(H2),
            HostSpec::named("dr-host", PB).id(H3),
        ],
        vms: vec![
            VmSpec::named("worker 1")
                .id(VM1)
                .host(H1)
                .size(4, 4 * GIB)
                .ip("10.20.0.11"),
            VmSpec::named("worker-2")
                .id(VM2)
                .host(H2)
                .size(2, 8 * GIB)
                .ip("10.20.0.12"),
        ],
        ..Fixture::default()
    }
}

/// Everything that is up.
pub(crate) struct Harness(CloudHarness);

bowline_scenarios::harness!(Harness, 0: CloudHarness);

impl Harness {
    /// With the original's command line and a file such as the original's: events are followed.
    pub(crate) async fn new() -> Self {
        Self::configured("").await
    }

    /// Before a server whose VMs have to be read again and again: there are no events, and the period is
    /// short where time is real.
    pub(crate) async fn polling() -> Self {
        Self::configured("events: no\n").await
    }

    /// With further lines in the file.
    pub(crate) async fn configured(settings: &str) -> Self {
        let mut test = Self::idle(settings, &[]).await;
        test.start().await;
        test
    }

    /// The same without the manager, which `start` starts, and with further flags.
    pub(crate) async fn idle(settings: &str, arguments: &[&str]) -> Self {
        let seed = Setup::default().seed;
        let often = ["--node-status-update-frequency=5s"];
        let often: &[&str] = if is_real() { &often } else { &[] };
        let arguments = [often, arguments].concat();
        let inner = CloudHarness::set_up(seed, fixture(), settings, &arguments).await;
        Self(inner.with_kubelets().with_monitor())
    }

    /// The kubelet of VM1, which is told its address.
    pub(crate) fn kubelet(&self) -> KubeletSpec {
        KubeletSpec {
            node_name: NODE.to_owned(),
            provided_node_ip: Some("10.20.0.11".to_owned()),
            ..self.cloud.kubelet(VM1).unwrap()
        }
    }

    /// It comes up.
    pub(crate) fn join(&self) {
        self.join_as(self.kubelet());
    }

    /// The same, and its node is initialised and Ready.
    pub(crate) async fn joined(&self) -> Value {
        self.join();
        self.until_initialized(NODE).await;
        self.until_ready(NODE, "True").await;
        self.node(NODE)
    }

    /// Puts the node of VM1 there as it was initialised long ago, with that status of Ready.
    pub(crate) async fn put_known(&self, readiness: &str) {
        self.put(known_node(readiness)).await;
    }

    /// The manager's calls that could have changed nodes of that name; `*` for all.
    pub(crate) fn writes_to(&self, name: &str) -> Vec<Entry> {
        self.0.writes_to(&format!("/api/v1/nodes/{name}"))
    }

    /// The reads of VMs, each by itself or in a list; not those that ask whether the server answers.
    pub(crate) fn reads(&self) -> Vec<Entry> {
        reads_of(self)
    }

    /// Waits for so many more of them.
    pub(crate) async fn until_read(&self, more: usize) {
        let count = self.reads().len() + more;
        let done = |it: &TestCluster| reads_of(it).len() >= count;
        self.until("VMs are read again", done).await;
    }

    /// Makes calls to the server go wrong, instead of what went wrong before.
    pub(crate) fn fail(&self, path: &str, action: Action) {
        let rule = Rule::new(action).server("xenorchestra");
        let rule = rule.on("*", &format!("/rest/v0/{path}"));
        self.fault(rule.named("fault"));
    }

    /// Waits until the node of VM1 has that label.
    pub(crate) async fn until_label(&self, key: &str, value: &str) {
        let what = format!("{key} is {value}");
        let is = |it: &TestCluster| it.find(NODE).is_some_and(|node| label(&node, key) == value);
        self.until(&what, is).await;
    }

    /// What label synchronisation told about the node of VM1: `Type Reason: message`.
    pub(crate) fn synced(&self) -> Vec<String> {
        synced(self)
    }

    /// Waits until it told so much.
    pub(crate) async fn until_synced(&self, count: usize) -> Vec<String> {
        let done = |it: &TestCluster| synced(it).len() >= count;
        self.until("what changed is reported", done).await;
        self.synced()
    }

    /// Lets two rounds over all nodes go by, in which things are read that have not been.
    pub(crate) async fn rounds(&self) {
        self.seconds(if is_real() { 15 } else { 650 }).await;
    }
}

fn reads_of(bench: &TestCluster) -> Vec<Entry> {
    let filter = Filter::any().server("xenorchestra").path("/rest/v0/vms*");
    let mut reads = bench.matching(&filter);
    reads.retain(|it| !it.query.contains("limit=1"));
    reads
}

fn synced(bench: &TestCluster) -> Vec<String> {
    let source = " cloud-node-label-sync-controller: ";
    let all = bench.events(NODE).into_iter();
    let ours = all.filter(|it| it.contains(source));
    ours.map(|it| it.replace(source, ": ").replace(" (1)", ""))
        .collect()
}

/// The node of VM1 as it was initialised long ago, with that status of Ready.
pub(crate) fn known_node(readiness: &str) -> Value {
    let host = format!("Hostname:{NODE}");
    let mut node = known(NODE, &id1(), readiness, &["ExternalIP:10.20.0.11", &host]);
    for (key, value) in wanted_labels() {
        node["metadata"]["labels"][key] = value.into();
    }
    node["status"]["nodeInfo"] = node_info(VM1, "");
    node["status"]["conditions"] = json!([ready(readiness)]);
    node
}

/// A label of a node; empty if it has none.
pub(crate) fn label(node: &Value, key: &str) -> String {
    labels(node).remove(key).unwrap_or_default()
}

/// Checks these labels of a node.
#[track_caller]
pub(crate) fn assert_labels(node: &Value, wanted: &[(&str, &str)]) {
    let all = labels(node);
    for (key, value) in wanted {
        assert_eq!(all.get(*key).map(String::as_str), Some(*value), "{key}");
    }
}

/// Checks that a node has no such labels.
#[track_caller]
pub(crate) fn assert_without(node: &Value, keys: &[&str]) {
    let all = labels(node);
    for key in keys {
        assert!(!all.contains_key(*key), "{key}");
    }
}
