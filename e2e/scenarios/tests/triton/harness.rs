//! A cluster, a simulated data center, kubelets on its machines, and the manager between them.

use bowline_scenarios::objects::{known, labels};
use bowline_scenarios::triton::{self, CloudHarness};
use bowline_scenarios::{Setup, TestCluster, is_real};
use bowline_simulator::journal::Filter;
use bowline_simulator_triton::{Fixture, MachineSpec, machine_id};
use serde_json::Value;

pub(crate) const ACCOUNT_ID: &str = bowline_simulator_triton::DEFAULT_ACCOUNT_ID;
/// Longer than any proof, budget or back-off of the guard takes.
pub(crate) const A_WHILE: u64 = 900;

/// The id of the machine with that number.
pub(crate) fn id(number: u32) -> String {
    format!("5b1e2d3c-0000-4000-8000-{number:012}")
}

/// The provider id of its node.
pub(crate) fn provider_id(number: u32) -> String {
    machine_id(&id(number))
}

/// The name of the machine with that number, and of its node.
pub(crate) fn name(number: u32) -> String {
    format!("k8s-{number}")
}

/// Everything that is up.
pub(crate) struct Harness(CloudHarness);

bowline_scenarios::harness!(Harness, 0: CloudHarness);

impl Harness {
    /// With machines `k8s-1` to `k8s-<count>`, and the manager running.
    pub(crate) async fn new(count: u32) -> Self {
        Self::configured(count, "").await
    }

    /// The same with that cloud config file.
    pub(crate) async fn configured(count: u32, file: &str) -> Self {
        let mut test = Self::idle(count, file, &[]).await;
        test.start().await;
        test
    }

    /// The same without the manager, for [`CloudHarness::start`], and with further arguments.
    pub(crate) async fn idle(count: u32, file: &str, arguments: &[&str]) -> Self {
        Self::idle_as(&triton::role(), count, file, arguments).await
    }

    /// The same with the rights of that manifest.
    pub(crate) async fn idle_as(
        manifest: &[Value],
        count: u32,
        file: &str,
        arguments: &[&str],
    ) -> Self {
        let inner = Self::inner(manifest, count, file, arguments).await;
        Self(inner.with_monitor())
    }

    async fn inner(manifest: &[Value], count: u32, file: &str, arguments: &[&str]) -> CloudHarness {
        let machines = (1..=count).map(|number| MachineSpec::named(&name(number)).id(&id(number)));
        let fixture = Fixture {
            machines: machines.collect(),
            ..Fixture::default()
        };
        let often = ["--node-status-update-frequency=5s"];
        let often: &[&str] = if is_real() { &often } else { &[] };
        let arguments = [often, arguments].concat();
        let seed = Setup::default().seed;
        let inner = CloudHarness::set_up_as(manifest, seed, fixture, file, &arguments).await;
        inner.with_kubelets()
    }

    /// The same without anybody who looks after kubelets: nodes stay as they are put.
    pub(crate) async fn without_monitor(count: u32, file: &str) -> Self {
        Self(Self::inner(&triton::role(), count, file, &[]).await)
    }

    /// The kubelet of that machine comes up.
    pub(crate) fn join(&self, number: u32) {
        let kubelet = self.cloud.kubelet(&name(number)).unwrap();
        self.join_as(kubelet);
    }

    /// The same, and its node is initialised and Ready.
    pub(crate) async fn joined(&self, number: u32) -> Value {
        self.join(number);
        let name = name(number);
        self.until_initialized(&name).await;
        self.until_ready(&name, "True").await;
        self.node(&name)
    }

    /// Puts the node of that machine there as it was initialised long ago, with that status of Ready.
    pub(crate) async fn put_known(&self, number: u32, readiness: &str) {
        let name = name(number);
        let host = format!("Hostname:{name}");
        let node = known(&name, &provider_id(number), readiness, &[&host]);
        self.put(node).await;
    }

    /// Waits until machines were listed so many times more.
    pub(crate) async fn until_listed(&self, more: usize) {
        let count = lists(self) + more;
        let what = format!("machines are listed {count} times");
        self.until(&what, |it| lists(it) >= count).await;
    }

    /// The manager's writes of that node; `*` for all.
    pub(crate) fn node_writes_to(&self, name: &str) -> usize {
        self.0.writes_to(&format!("/api/v1/nodes/{name}")).len()
    }
}

fn lists(bench: &TestCluster) -> usize {
    let lists = Filter::any().server("triton").method("GET");
    bench.world.journal.count(&lists.path("/acme/machines"))
}

/// A label of a node; empty if it has none.
pub(crate) fn label(node: &Value, key: &str) -> String {
    labels(node).remove(key).unwrap_or_default()
}
