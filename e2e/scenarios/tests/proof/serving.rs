//! The serving port, leases and the smaller promises.

use std::time::Duration;

use bowline_core::CLEANUP_FINALIZER;
use bowline_scenarios::cloud::runs;
use bowline_scenarios::objects::{fresh, service};
use bowline_scenarios::{Replica, Setup, TestCluster, is_real, scenario};
use serde_json::{Value, json};
use tokio::time::Instant;

/// The leases of two managers, each of which replaces the other.
const LEASES: [&str; 2] = ["manager-a", "manager-b"];
/// Twice what a lease lasts.
const TWO_LEASES: Duration = Duration::from_secs(30);

/// A manager with a lease of its own that holds the other one besides.
async fn manager(bench: &TestCluster, name: &str, [own, other]: [&str; 2]) -> Replica {
    let names = bench.cluster.names();
    let own = format!("--leader-elect-resource-name={}", names.own(own));
    let hold = format!("--hold-leases={}", names.own(other));
    bench.replica(name, &[&own, &hold]).await
}

#[scenario]
async fn proof_case_41_of_two_managers_that_hold_each_other_s_lease_one_leads() {
    let bench = TestCluster::for_replicas(41).await;
    let begun = Instant::now();
    let [a, b] = LEASES;
    let first = manager(&bench, "a", [a, b]).await;
    let second = manager(&bench, "b", [b, a]).await;
    let what = "one has both leases";
    let both = |it: &TestCluster| !it.holder(a).is_empty() && it.holder(a) == it.holder(b);
    bench.until(what, both).await;
    assert!(begun.elapsed() <= TWO_LEASES + bench.slack());
    bench.cloud().say("n1", runs("n1", "10.0.0.1"));
    bench.put(fresh("n1")).await;
    bench.until_initialized("n1").await;
    let has = |manager: &Replica, lease: &str| {
        let series = format!("leader_election_master_status{{name=\"{lease}\"}}");
        manager.metric(&series) == Some(1.0)
    };
    assert!(
        LEASES
            .into_iter()
            .all(|it| has(&first, it) != has(&second, it))
    );
    // The other one takes its turn.
    let (leader, standby) = if has(&first, a) {
        (first, second)
    } else {
        (second, first)
    };
    let holder = bench.holder(a);
    leader.stop().await.0.unwrap();
    bench.until_held(b, &holder).await;
    bench.until(what, both).await;
    assert!(standby.is_running());
}

/// The manager of Services alone, with load balancers of the cloud `demo`, and not started.
async fn services_alone() -> TestCluster {
    let bench = TestCluster::set_up(Setup {
        flags: &["--controllers=service"],
        ..Setup::default()
    })
    .await;
    bench.cloud().offer_balancers();
    bench
}

/// A Service of somebody else's class, who holds it.
async fn foreign(bench: &TestCluster, name: &str) {
    let mut theirs = service(name);
    theirs["spec"]["loadBalancerClass"] = "vendor.test/lb".into();
    theirs["metadata"]["finalizers"] = json!([CLEANUP_FINALIZER]);
    bench.create_service(theirs).await;
}

async fn make_plain(bench: &TestCluster, name: &str) {
    let plain = json!({ "spec": { "type": "ClusterIP" } });
    bench.patch_service(name, plain).await;
}

#[scenario]
async fn proof_case_42_a_foreign_service_of_another_type_keeps_its_finalizer() {
    let mut bench = services_alone().await;
    foreign(&bench, "before").await;
    foreign(&bench, "while").await;
    make_plain(&bench, "before").await;
    bench.start();
    let looked = |name: &str| {
        let look = format!("look at shop/{name} ");
        move |it: &TestCluster| it.balancers().count(&look) > 0
    };
    bench.until("it is looked at", looked("before")).await;
    make_plain(&bench, "while").await;
    bench.until("it is looked at", looked("while")).await;
    bench.long(1500).await;
    for name in ["before", "while"] {
        assert_eq!(bench.finalizers(name), [CLEANUP_FINALIZER], "{name}");
        assert_eq!(bench.service_writes(name), [], "{name}");
        assert_eq!(bench.event_count(name, "DeletedLoadBalancer"), 0, "{name}");
    }
    if !is_real() {
        // After five minutes: its own controller may just be slow.
        assert_eq!(bench.event_count("while", "FinalizerNotOurs"), 1);
    }
    assert_eq!(bench.balancers().writes(), [""; 0]);
}

#[scenario]
async fn proof_case_42_our_own_of_another_type_goes_with_and_without_a_condition() {
    for bare in [false, true] {
        let mut bench = services_alone().await;
        bench.start();
        bench.ensured("web").await;
        bench.stop().await;
        if bare {
            // As an original leaves it.
            let change = |it: &mut Value| it["status"]["conditions"] = json!([]);
            bench.change_service("web", change).await;
        }
        make_plain(&bench, "web").await;
        bench.start();
        bench.until_event("web", "DeletedLoadBalancer").await;
        assert_eq!(bench.finalizers("web"), [""; 0]);
        assert_eq!(bench.balancers().all(), []);
    }
}
