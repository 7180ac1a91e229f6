//! A cluster, a simulated Exoscale, and the manager between them: the real provider under the role of
//! the original's manifest.

use bowline_scenarios::exoscale::CloudHarness;
use bowline_scenarios::{Setup, TestCluster};
use bowline_simulator::journal::{Entry, Filter};

/// Pool `workers` of the cases.
pub(crate) const P1: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
/// Pool `others` of the cases.
pub(crate) const P2: &str = "aa0e0d0c-0b0a-4908-8706-050403020101";
/// An instance of pool `workers`.
pub(crate) const I1: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
/// Another instance of pool `workers`.
pub(crate) const I2: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7d";
/// An instance of no pool.
pub(crate) const I4: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7f";

/// The common data of the cases.
const FIXTURE: &str = "
instance_pools:
- {name: workers, id: 0f0e0d0c-0b0a-4908-8706-050403020100}
- {name: others, id: aa0e0d0c-0b0a-4908-8706-050403020101}
instances:
- name: Pool-a1b2c-xyz
  id: 6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c
  instance_pool: workers
  public_ip: 198.51.100.21
- name: pool-a1b2c-abc
  id: 6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7d
  instance_pool: workers
  public_ip: 198.51.100.22
- name: pool-ffff0-abc
  id: 6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7e
  instance_pool: others
  public_ip: 198.51.100.23
- name: alone
  id: 6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7f
  public_ip: 198.51.100.24
";

/// Everything that is up.
pub(crate) struct Harness(CloudHarness);

bowline_scenarios::harness!(Harness, 0: CloudHarness);

impl Harness {
    /// Without the manager, for `start`: with that cloud config file and further arguments.
    pub(crate) async fn idle(file: &str, arguments: &[&str]) -> Self {
        let seed = Setup::default().seed;
        Self(CloudHarness::set_up(seed, FIXTURE, file, &[], arguments).await)
    }

    /// The same with a seed for everything that is random.
    pub(crate) async fn seeded(seed: u64) -> Self {
        Self(CloudHarness::set_up(seed, FIXTURE, "", &[], &[]).await)
    }

    /// The same with further variables in the provider's environment.
    pub(crate) async fn with(environment: &[(&str, &str)]) -> Self {
        let seed = Setup::default().seed;
        Self(CloudHarness::set_up(seed, FIXTURE, "", environment, &[]).await)
    }

    /// The calls to the cloud from that entry of the journal on, by the API's names of them.
    pub(crate) fn asked(&self, mark: usize) -> Vec<String> {
        let entries = calls_of_cloud(self, mark).into_iter();
        entries.map(|it| it.operation).collect()
    }

    /// Those that change something.
    pub(crate) fn changes(&self, mark: usize) -> Vec<String> {
        let entries = calls_of_cloud(self, mark).into_iter();
        let changes = entries.filter(Entry::is_mutating);
        changes.map(|it| it.operation).collect()
    }

    /// Waits until the cloud was asked for that, from that entry of the journal on.
    pub(crate) async fn until_asked(&self, mark: usize, operation: &str) {
        let done = |it: &TestCluster| {
            let mut all = calls_of_cloud(it, mark).into_iter();
            all.any(|it| it.operation == operation)
        };
        self.until(&format!("the cloud is asked: {operation}"), done)
            .await;
    }
}

fn calls_of_cloud(bench: &TestCluster, mark: usize) -> Vec<Entry> {
    let cloud = Filter::any().server("exoscale");
    let entries = bench.entries().into_iter().skip(mark);
    entries.filter(|it| cloud.matches(it)).collect()
}
