//! A Service that cannot be read is neither gone nor changed.

use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator_kubernetes::kinds::{self, Kind};

use crate::services::harness::{self, settled};

/// Why these scenarios stay in memory.
const UNREADABLE: &str = "a real server cannot read such a Service itself";

/// Stores a Service that our manager cannot read.
fn break_service(bench: &TestCluster, name: &str) {
    let mut broken = bench.service(name);
    broken["spec"]["ports"] = "of a later Kubernetes".into();
    bench
        .cluster
        .simulated()
        .unwrap()
        .api()
        .put(services(), broken);
}

fn services() -> &'static Kind {
    kinds::by_kind("", "v1", "Service").unwrap()
}

#[scenario(only_in_memory = UNREADABLE)]
async fn a_service_that_cannot_be_read_keeps_its_load_balancer() {
    let bench = harness::with(&["--remove-orphaned-load-balancers", "--cluster-name=prod"]).await;
    bench.ensured("web").await;
    let right = bench.service("web");
    break_service(&bench, "web");
    // Long enough for every comparison, and for orphans to be looked for.
    bench.seconds(7200).await;
    assert_eq!(bench.balancers().count("delete load balancer"), 0);
    assert_eq!(bench.balancers().all().len(), 1);
    // It can be read again, and is served as before.
    let cluster = bench.cluster.simulated().unwrap();
    cluster.api().put(services(), right);
    bench.delete_service("web").await;
    bench.until_service_gone("web").await;
    assert_eq!(bench.balancers().all(), []);
}

#[scenario(only_in_memory = UNREADABLE)]
async fn a_service_that_vanishes_while_it_cannot_be_read_is_cleaned_away() {
    let bench = settled().await;
    break_service(&bench, "web");
    bench.seconds(60).await;
    assert_eq!(bench.balancers().all().len(), 1);
    let cluster = bench.cluster.simulated().unwrap();
    assert!(cluster.api().delete(services(), "shop", "web"));
    bench.until_event("web", "DeletedLoadBalancer").await;
    assert_eq!(bench.balancers().all(), []);
}
