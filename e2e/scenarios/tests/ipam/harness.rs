//! What scenarios of pod ranges begin with.

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{Setup, TestCluster};
use serde_json::Value;

/// The flags that let the controller run beside the others.
pub(crate) const ALLOCATE: [&str; 2] = [
    "--controllers=*,node-ipam-controller",
    "--allocate-node-cidrs",
];
pub(crate) const CLOUD: &str = "--cidr-allocator-type=CloudAllocator";

/// Everything but the manager, whose node IPAM will have these flags.
pub(crate) async fn idle(flags: &[&str]) -> TestCluster {
    let flags: Vec<&str> = ALLOCATE.iter().chain(flags).copied().collect();
    TestCluster::set_up(Setup {
        flags: &flags,
        ..Setup::default()
    })
    .await
}

/// A running manager whose node IPAM has these flags.
pub(crate) async fn running(flags: &[&str]) -> TestCluster {
    let mut bench = idle(flags).await;
    bench.start();
    bench
}

/// A node that waits for its cloud, in vain if nothing is said about its machine.
pub(crate) async fn join(bench: &TestCluster, name: &str) -> Vec<String> {
    bench.create(fresh(name)).await;
    until_given(bench, name).await
}

/// A node whose machine has these addresses (with prefix lengths), the first of which is the node's.
pub(crate) async fn create_with_machine(bench: &TestCluster, name: &str, addresses: &[&str]) {
    let own: Vec<String> = addresses
        .iter()
        .map(|text| format!("InternalIP:{}", text.split('/').next().unwrap()))
        .collect();
    let own: Vec<&str> = own.iter().map(String::as_str).collect();
    let found = machine(&format!("demo://{name}"), &own);
    bench.cloud().say(name, Script::Machine(found));
    bench.cloud().networks().say(name, addresses);
    bench.create(fresh(name)).await;
}

/// The same, until it has pod ranges.
pub(crate) async fn join_with_machine(
    bench: &TestCluster,
    name: &str,
    addresses: &[&str],
) -> Vec<String> {
    create_with_machine(bench, name, addresses).await;
    until_given(bench, name).await
}

pub(crate) async fn until_given(bench: &TestCluster, name: &str) -> Vec<String> {
    let what = format!("node {name} has pod ranges");
    bench
        .until(&what, |bench| !ranges(bench, name).is_empty())
        .await;
    ranges(bench, name)
}

/// The pod ranges of a node; the first is the single one of older clients.
pub(crate) fn ranges(bench: &TestCluster, name: &str) -> Vec<String> {
    let node = bench.node(name);
    let list = node["spec"]["podCIDRs"].as_array().into_iter().flatten();
    let list: Vec<String> = list.map(|it| it.as_str().unwrap().to_owned()).collect();
    let single = node["spec"]["podCIDR"].as_str().map(str::to_owned);
    assert_eq!(single.as_ref(), list.first());
    list
}

/// A node that has pod ranges from before.
pub(crate) fn with_ranges(name: &str, ranges: &[&str]) -> Value {
    let mut node = fresh(name);
    node["spec"]["podCIDR"] = ranges[0].into();
    node["spec"]["podCIDRs"] = ranges.to_vec().into();
    node
}

/// The value of a series of the node IPAM controller.
pub(crate) fn metric(bench: &TestCluster, name: &str, range: &str) -> Option<f64> {
    bench.metric(&format!(
        "node_ipam_controller_{name}{{clusterCIDR=\"{range}\"}}"
    ))
}
