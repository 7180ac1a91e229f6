//! A cluster, a simulated cloudscale.ch, kubelets on its servers, and the manager between them: the
//! real provider under the role of the original's manifest.

use bowline_scenarios::cloudscale::CloudHarness;
use bowline_scenarios::objects::known;
use bowline_scenarios::{Setup, TestCluster};
use bowline_simulator::KubeletSpec;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator_cloudscale::MachineSpec;

/// Server `worker-a` of the cases.
pub(crate) const A: &str = "3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";
/// Server `worker-b` of the cases.
pub(crate) const B: &str = "b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58";
/// A server that never was.
pub(crate) const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// The fixture F of the cases.
const FIXTURE: &str = "
networks:
- name: k8s
  subnets:
  - {cidr: 10.20.0.0/24, uuid: 7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d}
machines:
- name: worker-a
  uuid: 3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.11, '2001:db8:1:1101::11']}
  - {network: k8s, addresses: [10.20.0.11]}
- name: worker-b
  uuid: b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.12, '2001:db8:1:1101::12']}
  - {network: k8s, addresses: [10.20.0.12]}
";

/// Everything that is up.
pub(crate) struct Harness(CloudHarness);

bowline_scenarios::harness!(Harness, 0: CloudHarness);

impl Harness {
    /// With servers A and B, the command line of the original's manifest, and its environment.
    pub(crate) async fn new() -> Self {
        Self::with(&[], &[]).await
    }

    /// The same with further variables and arguments.
    pub(crate) async fn with(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut test = Self::idle(environment, arguments).await;
        test.start().await;
        test
    }

    /// The same without the manager, which `start` starts.
    pub(crate) async fn idle(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::seeded(Setup::default().seed, environment, arguments).await
    }

    /// The same with a seed for everything that is random.
    pub(crate) async fn seeded(
        seed: u64,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let inner = CloudHarness::set_up(seed, FIXTURE, environment, arguments).await;
        Self(inner.with_kubelets().with_monitor())
    }

    /// Stops the manager and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.0.stop().await;
        self.0.start().await;
    }

    /// Makes a server, under the scenario's name of it.
    pub(crate) fn add_server(&self, spec: &MachineSpec) -> String {
        self.cloud.add_server(&self.own(spec)).unwrap()
    }

    /// Makes several: `fleet-1`, `fleet-2` and so on, each with a kubelet.
    pub(crate) fn join_fleet(&self, count: u32) {
        let mut spec = self.own(&MachineSpec::named("fleet"));
        spec.count = Some(count);
        for (uuid, number) in self.cloud.add_servers(&spec).unwrap().iter().zip(1..) {
            self.join(&format!("fleet-{number}"), uuid);
        }
    }

    fn own(&self, spec: &MachineSpec) -> MachineSpec {
        let mut spec = spec.clone();
        spec.name = self.cluster.names().own(&spec.name);
        spec
    }

    /// A node that is well and was initialised before: its server proves that the token is of the cluster's project.
    pub(crate) async fn witness(&self) {
        let id = format!("cloudscale://{B}");
        let host = "Hostname:witness";
        self.put(known("witness", &id, "True", &[host])).await;
    }

    /// A kubelet on that server, as the node of that name.
    pub(crate) fn join(&self, name: &str, uuid: &str) {
        self.join_as(KubeletSpec {
            node_name: name.to_owned(),
            machine_id: format!("cloudscale://{uuid}"),
            ..KubeletSpec::default()
        });
    }

    /// The calls to the cloud whose path fits.
    pub(crate) fn cloud_calls(&self, path: &str) -> Vec<Entry> {
        calls_of_cloud(self, path)
    }

    /// Waits for so many calls to the cloud.
    pub(crate) async fn until_cloud_calls(&self, count: usize) {
        let done = |it: &TestCluster| calls_of_cloud(it, "*").len() >= count;
        self.until("the cloud is asked again", done).await;
    }

    /// Makes the cloud go wrong, instead of what went wrong before.
    pub(crate) fn fail(&self, path: &str, action: Action) {
        let rule = Rule::new(action).server("cloudscale").on("*", path);
        self.fault(rule.named("fault"));
    }
}

fn calls_of_cloud(bench: &TestCluster, path: &str) -> Vec<Entry> {
    let filter = Filter::any().server("cloudscale").path(path);
    bench.matching(&filter)
}
