//! A manager that dies between two steps, answers that get lost, and runs that are all the same.

use bowline_scenarios::objects::{entrances, finalizers, service};
use bowline_scenarios::{only_in_memory, refuse, run_scenario, scenario, status};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_cloudscale::BalancerInfo;
use futures::future::join_all;

use super::service_harness::{FINALIZER, ServiceHarness, UUID, annotation};

/// Load balancer, pool, two members, listener, monitor.
pub(crate) const STEPS: usize = 6;

/// What the cloud has, without uuids and times.
fn shape(balancer: &BalancerInfo) -> Vec<String> {
    // Some accounts may read which cluster it is, and some may not.
    let tags = balancer.tags.keys().filter(|it| *it != "k8s-cluster-uid");
    let mut shape = vec![format!("{} {:?}", balancer.zone, tags.count())];
    for pool in &balancer.pools {
        shape.push(pool.name.clone());
        let members = pool.members.iter().map(|it| it.address.to_string());
        shape.extend(members);
        shape.extend(pool.listeners.iter().map(|it| it.name.clone()));
        shape.extend(pool.monitor.iter().map(|it| it.kind.clone()));
    }
    shape.sort();
    shape
}

const WANTED: [&str; 6] = [
    "10.20.0.11",
    "10.20.0.12",
    "rma1 2",
    "tcp",
    "tcp/80",
    "tcp/http",
];

/// The Service shows its load balancer, there is one of each, and another look changes nothing.
pub(crate) async fn assert_settled(test: &ServiceHarness, what: &str) {
    let shown = test.until_published("web").await;
    let balancer = test.balancer();
    assert_eq!(shape(&balancer), WANTED, "{what}");
    assert_eq!(annotation(&shown, UUID), balancer.uuid, "{what}");
    assert_eq!(entrances(&shown).len(), 2, "{what}");
    test.seconds(3).await;
    let mark = test.mark();
    test.annotate("web", "example.org/note", Some("look again"))
        .await;
    test.until_looked(mark).await;
    assert_eq!(test.changes_from(mark), [""; 0], "{what}");
    assert_eq!(test.written_from(mark), [], "{what}");
}

#[scenario]
async fn a_manager_that_dies_after_any_step_leaves_nothing_that_the_next_one_makes_twice() {
    let story = async |steps: usize| {
        let mut test = ServiceHarness::new().await;
        test.create_service(service("web")).await;
        test.until("it is time to die", |_| test.changes().len() >= steps)
            .await;
        test.kill().await;
        test.start().await;
        assert_settled(&test, &format!("died after {steps}")).await;
        assert_eq!(test.changes().len(), STEPS, "died after {steps}");
        test.end().await;
    };
    join_all((1..=STEPS).map(story)).await;
}

#[scenario]
async fn a_manager_that_dies_during_a_removal_leaves_nothing_behind(mut test: ServiceHarness) {
    test.serve().await;
    let mark = test.mark();
    // The load balancer goes, and the Service cannot be let go any more.
    let path = "/api/v1/namespaces/shop/services/web/status";
    let refused = test.fault(refuse(500, "PATCH", path));
    test.delete_service("web").await;
    test.until_asked(mark, "DELETE load-balancers").await;
    refused.struck(1).await;
    test.kill().await;
    test.world.faults.clear();
    assert_eq!(finalizers(&test.service("web")), [FINALIZER]);
    test.start().await;
    test.until_service_gone("web").await;
    assert_eq!(test.changes_from(mark), ["DELETE load-balancers"]);
    assert_eq!(test.cloud.balancers(), []);
}

#[scenario]
async fn answers_that_get_lost_make_nothing_twice() {
    let story = async |path: &str| {
        let test = ServiceHarness::new().await;
        let lost = Rule::new(Action::LostAnswer).server("cloudscale");
        test.fault(lost.on("POST", path).times(1));
        test.create_service(service("web")).await;
        assert_settled(&test, path).await;
        test.end().await;
    };
    let paths = [
        "/v1/load-balancers",
        "/v1/load-balancers/pools",
        "/v1/load-balancers/pools/*/members",
        "/v1/load-balancers/listeners",
        "/v1/load-balancers/health-monitors",
    ];
    join_all(paths.map(story)).await;
}

#[test]
fn the_life_of_a_service_is_the_same_in_every_run() {
    if !only_in_memory("a real server has a time and ids of its own") {
        return;
    }
    let transcript = || {
        run_scenario!(async || {
            let test = ServiceHarness::new().await;
            let trouble = Rule::new(status(503)).server("cloudscale");
            test.fault(trouble.on("POST", "*").times(3));
            test.serve().await;
            test.delete("worker-b").await;
            test.until_members(&["11"]).await;
            test.delete_service("web").await;
            test.until_service_gone("web").await;
            let transcript = test.transcript_from(0);
            test.end().await;
            transcript
        })
    };
    let first = transcript();
    assert!(first.lines().count() > 50);
    assert_eq!(transcript(), first);
}
