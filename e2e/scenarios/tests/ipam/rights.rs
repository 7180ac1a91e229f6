//! Pod ranges need no right that the original's role, or ours, does not give.

use bowline_scenarios::objects::fresh;
use bowline_scenarios::scenario;
use bowline_simulator::journal::Filter;
use bowline_simulator_kubernetes::fixture;
use serde_json::Value;

use crate::ipam::harness::{idle, until_given};

async fn check(account: &str, objects: Vec<Value>) {
    let mut bench = idle(&["--cluster-cidr=10.244.0.0/23"]).await;
    let granted = bench.cluster.grant(account, &objects).await;
    bench.act_as(granted.config);
    // One that waits at the start is touched, and then written; one has to do without.
    bench.create(fresh("n1")).await;
    bench.start();
    until_given(&bench, "n1").await;
    bench.create(fresh("n2")).await;
    until_given(&bench, "n2").await;
    bench.create(fresh("n3")).await;
    bench.until_event("n3", "CIDRNotAvailable").await;
    let calls = bench.matching(&Filter::any().caller(&granted.user));
    assert!(!calls.is_empty());
    let refused: Vec<_> = calls.into_iter().filter(|it| it.status == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[scenario]
async fn pod_ranges_fit_into_the_role_of_talos() {
    let account = "talos-cloud-controller-manager";
    check(account, bowline_simulator_talos::manifest()).await;
}

#[scenario]
async fn pod_ranges_fit_into_the_role_we_ship() {
    let text = include_str!("../../../../deploy/rbac.yaml");
    let objects = fixture::parse("deploy/rbac.yaml", text).unwrap();
    check("bowline", objects).await;
}
