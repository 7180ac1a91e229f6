//! The slow comparison with the cloud, and what is left there without a Service.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_scenarios::cloud::{Balancer, ID, Look};
use bowline_scenarios::{LEASE, TestCluster, is_real, scenario};

use crate::services::harness::{self, strip};

const ORPHANS: &str = "bowline_orphaned_load_balancers{cloud=\"demo\"}";

/// Between two comparisons.
fn period() -> Duration {
    Duration::from_secs(if is_real() { 4 } else { 600 })
}

async fn audited(flags: &[&str]) -> TestCluster {
    let mut bench = harness::idle(flags).await;
    bench.balancers().audit_every(period());
    bench.start();
    bench
}

/// Waits until load balancers were listed so often. A look for orphans takes two lists, a minute apart, if
/// the first shows any.
async fn until_listed(bench: &TestCluster, times: usize) {
    let what = format!("load balancers are listed {times} times");
    let done = |it: &TestCluster| it.balancers().count("list") >= times;
    bench.until(&what, done).await;
    bench.seconds(1).await;
}

fn stray(cluster: Option<&str>) -> Balancer {
    Balancer {
        id: "lb-stray".into(),
        cluster: cluster.map(str::to_owned),
        ..Balancer::default()
    }
}

#[scenario]
async fn services_are_compared_with_the_cloud_once_per_period_and_some_more() {
    let bench = audited(&[]).await;
    bench.ensured("web").await;
    let writes = bench.all_service_writes().len();
    let looks = |it: &TestCluster| it.balancers().times("look at");
    bench
        .until("nine comparisons", |it| looks(it).len() == 10)
        .await;
    let looks = looks(&bench);
    let apart = looks.windows(2).map(|pair| pair[1].duration_since(pair[0]));
    let apart: Vec<Duration> = apart.map(|it| it.try_into().unwrap()).collect();
    let longest = period().mul_f64(1.25) + bench.slack();
    let fits = |it: &Duration| (period()..longest).contains(it);
    assert!(apart.iter().all(fits), "{apart:?}");
    let jitter = period().mul_f64(0.01);
    let is_other = |it: &Duration| it.abs_diff(apart[0]) > jitter;
    assert!(apart.iter().any(is_other), "jittered: {apart:?}");
    assert_eq!(bench.all_service_writes().len(), writes);
    assert_eq!(bench.event_count("web", "EnsuringLoadBalancer"), 1);
}

#[scenario]
async fn what_somebody_changed_in_the_cloud_is_repaired_and_told() {
    let bench = audited(&[]).await;
    bench.ensured("web").await;
    bench.balancers().tamper(|all| {
        let balancer = all.values_mut().next().unwrap();
        balancer.members.pop_first();
    });
    bench.until_event("web", "LoadBalancerDrifted").await;
    bench
        .until("it is repaired", |it| {
            it.balancers().members().len() == 3 && it.event_count("web", "EnsuredLoadBalancer") == 2
        })
        .await;
    let text = "Warning LoadBalancerDrifted: Load balancer is not as it was left; repairing: \
                    create member shop/web n1";
    assert!(bench.news("web").contains(&text.to_owned()));
}

#[scenario]
async fn a_load_balancer_that_was_removed_is_made_again_with_its_new_address() {
    let bench = audited(&[]).await;
    bench.ensured("web").await;
    bench.balancers().tamper(BTreeMap::clear);
    bench
        .until("the new address", |it| {
            it.entrances("web") == ["192.0.2.2 VIP"]
        })
        .await;
    let annotations = &bench.service("web")["metadata"]["annotations"];
    assert_eq!(annotations[ID], "lb-2");
}

#[scenario]
async fn orphans_are_reported_once_and_left_alone() {
    let bench = audited(&[]).await;
    bench.ensured("web").await;
    bench.balancers().tamper(|all| {
        all.insert("uid-1".into(), stray(Some("kubernetes")));
        all.insert("uid-2".into(), stray(Some("another-cluster")));
    });
    bench.until_event(LEASE, "OrphanedLoadBalancer").await;
    assert_eq!(bench.metric(ORPHANS), Some(1.0));
    assert_eq!(
        bench.news(LEASE),
        [
            "Warning OrphanedLoadBalancer: Load balancer k8s-uid-1 (lb-stray) in cloud demo was \
                 made for a Service with uid uid-1 that does not exist; its mark has the name that \
                 every cluster has by default, so that it may be another cluster's"
        ]
    );
    let listed = bench.balancers().count("list");
    until_listed(&bench, listed + if is_real() { 2 } else { 16 }).await;
    assert_eq!(bench.event_count(LEASE, "OrphanedLoadBalancer"), 1);
    assert_eq!(bench.balancers().count("remove orphan"), 0);
    bench.balancers().tamper(|all| {
        all.remove("uid-1");
    });
    bench
        .until("it is counted no more", |it| {
            it.metric(ORPHANS) == Some(0.0)
        })
        .await;
}

#[scenario]
async fn an_orphan_of_a_cluster_that_has_the_default_name_is_never_removed() {
    let bench = audited(&["--remove-orphaned-load-balancers"]).await;
    bench.ensured("web").await;
    bench.balancers().tamper(|all| {
        all.insert("uid-1".into(), stray(Some("kubernetes")));
    });
    bench.until_event(LEASE, "OrphanedLoadBalancer").await;
    let listed = bench.balancers().count("list");
    until_listed(&bench, listed + if is_real() { 1 } else { 8 }).await;
    assert_eq!(bench.balancers().count("remove orphan"), 0);
}

#[scenario]
async fn orphans_are_removed_if_the_operator_says_so_and_the_mark_names_this_cluster() {
    let flags = ["--remove-orphaned-load-balancers", "--cluster-name=prod"];
    let bench = audited(&flags).await;
    bench.ensured("web").await;
    bench.balancers().tamper(|all| {
        all.insert("uid-1".into(), stray(Some("prod")));
        all.insert("uid-2".into(), stray(Some("kubernetes")));
        let unnamed = Balancer {
            id: "lb-unnamed".into(),
            ..stray(None)
        };
        all.insert("uid-3".into(), unnamed);
    });
    bench.until_event(LEASE, "RemovedOrphan").await;
    let listed = bench.balancers().count("list");
    until_listed(&bench, listed + if is_real() { 1 } else { 6 }).await;
    assert_eq!(bench.balancers().count("remove orphan"), 1);
    let left = bench.balancers().all().into_iter().map(|it| it.id);
    let left: Vec<String> = left.collect();
    assert_eq!(left.len(), 3);
    assert!(left.contains(&"lb-1".to_owned()) && left.contains(&"lb-unnamed".to_owned()));
    assert_eq!(bench.event_count(LEASE, "RemovedOrphan"), 1);
    let doubt = "its mark names no cluster, so that it may be another cluster's";
    let is_doubt = |it: &String| it.contains("lb-unnamed") && it.contains(doubt);
    assert!(bench.news(LEASE).iter().any(is_doubt));
}

#[scenario]
async fn a_service_that_vanished_before_a_restart_is_an_orphan() {
    let mut bench = audited(&[]).await;
    bench.ensured("web").await;
    bench.kill().await;
    strip(&bench, "web").await;
    bench.start();
    bench.until_event(LEASE, "OrphanedLoadBalancer").await;
    assert_eq!(bench.balancers().all().len(), 1);
}

#[scenario]
async fn a_list_that_fails_or_lags_makes_no_orphan() {
    let bench = audited(&["--remove-orphaned-load-balancers"]).await;
    let plant = || {
        bench.balancers().tamper(|all| {
            all.insert("uid-1".into(), stray(Some("kubernetes")));
        });
    };
    // A load balancer that is gone at the second look, because its removal was under way.
    plant();
    until_listed(&bench, 1).await;
    bench.balancers().tamper(BTreeMap::clear);
    until_listed(&bench, 2).await;
    plant();
    bench
        .balancers()
        .say([Look::Error("503"), Look::Error("503")]);
    until_listed(&bench, 4).await;
    assert_eq!(bench.news(LEASE), [""; 0]);
    assert_eq!(bench.balancers().count("remove orphan"), 0);
}

#[scenario]
async fn without_a_period_nothing_is_compared() {
    let bench = harness::settled().await;
    bench.balancers().tamper(BTreeMap::clear);
    bench.balancers().clear();
    bench.long(48 * 3600).await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
}
