//! A cluster, a simulated Exoscale, kubelets on its instances, and the manager between them: the real
//! provider under the role of the original's manifest.

use bowline_scenarios::exoscale::CloudHarness;
use bowline_scenarios::{Setup, TestCluster};
use bowline_simulator::KubeletSpec;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator_exoscale::InstanceSpec;
use serde_json::Value;

/// The instance of the cases.
pub(crate) const I1: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
/// Another instance.
pub(crate) const I2: &str = "b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58";
/// An instance that never was.
pub(crate) const NOBODY: &str = "00000000-0000-4000-8000-000000000000";
/// The node of I1.
pub(crate) const NODE: &str = "pool-a1b2c-xyz";
/// The node of I2.
pub(crate) const OTHER: &str = "pool-a1b2c-abc";
/// Longer than any proof, budget or back-off of the guard takes.
pub(crate) const A_WHILE: u64 = 900;

const FIXTURE: &str = "
private_networks:
- {name: inside}
instance_pools:
- {name: workers, id: 0f0e0d0c-0b0a-4908-8706-050403020100}
instances:
- name: Pool-a1b2c-xyz
  id: 6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c
  public_ip: 198.51.100.21
  instance_pool: workers
- name: pool-a1b2c-abc
  id: b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58
  public_ip: 198.51.100.22
  instance_pool: workers
";

/// Everything that is up.
pub(crate) struct Harness(CloudHarness);

bowline_scenarios::harness!(Harness, 0: CloudHarness);

impl Harness {
    /// With both instances, the command line of the original's manifest, and its environment.
    pub(crate) async fn new() -> Self {
        Self::with("", &[]).await
    }

    /// The same with this cloud config, in which `@` stands for what the names of nodes begin with.
    pub(crate) async fn configured(config: &str) -> Self {
        Self::with(config, &[]).await
    }

    /// The same with further flags.
    pub(crate) async fn with(config: &str, flags: &[&str]) -> Self {
        let mut test = Self::idle(config, flags).await;
        test.start().await;
        test
    }

    /// The same without the manager, which `start` starts.
    pub(crate) async fn idle(config: &str, flags: &[&str]) -> Self {
        let seed = Setup::default().seed;
        let inner = CloudHarness::set_up(seed, FIXTURE, config, &[], flags).await;
        Self(inner.with_kubelets().with_monitor())
    }

    /// A kubelet on that instance, under its name.
    pub(crate) fn join(&self, instance: &str) {
        self.join_as(self.kubelet(instance));
    }

    pub(crate) fn kubelet(&self, instance: &str) -> KubeletSpec {
        self.cloud.kubelet(instance).unwrap()
    }

    /// A kubelet on a machine that is no instance.
    pub(crate) fn join_outside(&self, name: &str, node_ip: Option<&str>) {
        let machine = format!("rack://{name}");
        let running = bowline_simulator::machines::Power::Running;
        self.world.machines.set(&machine, running);
        self.join_as(KubeletSpec {
            node_name: name.to_owned(),
            machine_id: machine,
            system_uuid: NOBODY.to_owned(),
            os_image: String::new(),
            provided_node_ip: node_ip.map(str::to_owned),
            ..KubeletSpec::default()
        });
    }

    /// Makes several instances, each with a kubelet: `fleet-1`, `fleet-2` and so on.
    pub(crate) fn join_fleet(&self, count: u32, kind: &str) {
        let mut spec = InstanceSpec::named("fleet").kind(kind);
        spec.count = Some(count);
        for id in self.cloud.add_instances(&spec).unwrap() {
            self.join(&id);
        }
    }

    /// The manager's calls that could have changed nodes of that name; `*` for all.
    pub(crate) fn writes_to(&self, name: &str) -> Vec<Entry> {
        let filter = Filter::any().server("kubernetes").caller(&self.user);
        self.matching(&filter.mutating().path(&format!("/api/v1/nodes/{name}")))
    }

    /// The calls to the cloud about nodes whose path fits, after `/v2/instance`.
    pub(crate) fn cloud_calls(&self, path: &str) -> Vec<Entry> {
        calls_of_cloud(self, path)
    }

    /// Waits for so many calls to the cloud about nodes.
    pub(crate) async fn until_cloud_calls(&self, count: usize) {
        let done = |it: &TestCluster| calls_of_cloud(it, "*").len() >= count;
        self.until("the cloud is asked again", done).await;
    }

    /// Makes reads of instances go wrong, instead of what went wrong before.
    pub(crate) fn fail(&self, action: Action) {
        let rule = Rule::new(action).server("exoscale");
        self.fault(rule.on("*", "/v2/instance*").named("fault"));
    }

    /// Changes members of an instance's JSON.
    pub(crate) fn deform(&self, id: &str, members: &Value) {
        self.cloud.deform(id, members.as_object().cloned().unwrap());
    }
}

fn calls_of_cloud(bench: &TestCluster, path: &str) -> Vec<Entry> {
    let filter = Filter::any().server("exoscale");
    bench.matching(&filter.path(&format!("/v2/instance{path}")))
}
