//! A cluster with three nodes that are Ready, for Services.

use std::time::Duration;

use bowline_scenarios::TestCluster;
use bowline_scenarios::objects::service;
use bowline_simulator::journal::Entry;
use serde_json::Value;

use crate::triton::harness::{ACCOUNT_ID, Harness, name};

/// What annotations of Services begin with.
pub(crate) const PREFIX: &str = "cloud.tritoncompute/";
/// The tag with the DNS services of a machine.
const SERVICES: &str = "triton.cns.services";
/// How often is looked whether the name service has published something, which nobody tells.
const GLANCE: Duration = Duration::from_millis(500);
/// So many glances are longer than any publication takes.
const GLANCES: usize = 600;

pub(crate) struct ServiceHarness(Harness);

bowline_scenarios::harness!(ServiceHarness, 0: Harness);

impl ServiceHarness {
    /// With a running manager.
    pub(crate) async fn new() -> Self {
        Self::configured("").await
    }

    /// The same with that cloud config file.
    pub(crate) async fn configured(file: &str) -> Self {
        let mut test = Harness::without_monitor(3, file).await;
        for number in 1..=3 {
            test.put_known(number, "True").await;
        }
        test.start().await;
        Self(test)
    }

    /// Creates a Service, and waits until it shows its name and that is reported.
    pub(crate) async fn serve(&self, name: &str) -> Value {
        self.serve_as(service(name)).await
    }

    /// The same, changed like that.
    pub(crate) async fn serve_as(&self, service: Value) -> Value {
        let name = service["metadata"]["name"].as_str().unwrap().to_owned();
        self.create_service(service).await;
        self.until_published(&name).await;
        self.until_event(&name, "EnsuredLoadBalancer").await;
        self.service(&name)
    }

    /// The DNS label of a Service, as the data center knows it.
    pub(crate) fn label(&self, service: &str) -> String {
        format!("{}.shop", self.cluster.names().own(service))
    }

    /// The DNS name of a Service outside, as the data center knows it.
    pub(crate) fn outside(&self, service: &str) -> String {
        outside(&self.label(service))
    }

    /// What each of the three machines carries: the labels in its tag, as the scenario reads them, sorted.
    pub(crate) fn carried(&self) -> [Vec<String>; 3] {
        [1, 2, 3].map(|number| carried(self, &self.cloud, number))
    }

    /// Waits until the machines carry these labels.
    pub(crate) async fn until_carried(&self, wanted: [&[&str]; 3]) {
        let cloud = &self.cloud;
        let is = |bench: &TestCluster| {
            (1..)
                .zip(wanted)
                .all(|(at, it)| carried(bench, cloud, at) == *it)
        };
        self.until(&format!("the machines carry {wanted:?}"), is)
            .await;
    }

    /// Waits until so many addresses are published under the name of a Service.
    pub(crate) async fn until_resolved(&self, service: &str, count: usize) {
        let name = self.outside(service);
        for _ in 0..GLANCES {
            if self.cloud.resolve(&name).len() == count {
                return;
            }
            tokio::time::sleep(GLANCE).await;
        }
        panic!("{name} has {:?}", self.cloud.resolve(&name));
    }

    /// The calls that changed something in the data center, from that entry of the journal on.
    pub(crate) fn changes(&self, mark: usize) -> Vec<Entry> {
        let entries = self.entries().into_iter().skip(mark);
        entries
            .filter(|it| it.server == "triton" && it.is_mutating())
            .collect()
    }
}

/// The DNS name of a label outside.
pub(crate) fn outside(label: &str) -> String {
    format!("{label}.svc.{ACCOUNT_ID}.eg-1.cns.example.com")
}

fn carried(
    bench: &TestCluster,
    cloud: &bowline_simulator_triton::Triton,
    number: u32,
) -> Vec<String> {
    let machine = cloud.machine(&name(number));
    let tag = machine.and_then(|it| it.tag(SERVICES).map(str::to_owned));
    let tag = bench.cluster.names().plain(&tag.unwrap_or_default());
    let labels = tag.split(',').filter(|it| !it.is_empty());
    let plain = |entry: &str| entry.split(':').next().unwrap_or_default().to_owned();
    let mut labels: Vec<String> = labels.map(plain).collect();
    // Their order follows the server's names.
    labels.sort_unstable();
    labels
}
