//! The slow comparison with the cloud, and what is left there without a Service.

use std::time::Duration;

use crate::bench::{Bench, MANAGER, gaps};
use crate::cloud::{Balancer, Look};

const PERIOD: Duration = Duration::from_secs(3600);
const ORPHANS: &str = "bowline_orphaned_load_balancers{cloud=\"demo\"}";
/// Where orphans are told about.
const LEASE: &str = "cloud-controller-manager";

fn audited(flags: &[&str]) -> Bench {
    let mut bench = Bench::idle(7, &["demo"], flags);
    bench.cloud().audit_every(PERIOD);
    bench.start();
    bench
}

fn stray(cluster: Option<&str>) -> Balancer {
    Balancer {
        id: "lb-stray".into(),
        cluster: cluster.map(str::to_owned),
        ..Balancer::default()
    }
}

#[tokio::test(start_paused = true)]
async fn services_are_compared_with_the_cloud_once_per_period_and_some_more() {
    let bench = audited(&[]);
    bench.ensured("web").await;
    let writes = bench.writes().len();
    bench.seconds(10 * 3600).await;
    let looks = gaps(&bench.cloud().times("look at"));
    assert!((8..=10).contains(&looks.len()), "{looks:?}");
    assert!(
        looks.iter().all(|it| (3600..4500).contains(it)),
        "{looks:?}"
    );
    assert!(
        looks.iter().any(|it| *it != looks[0]),
        "jittered: {looks:?}"
    );
    assert_eq!(bench.writes().len(), writes);
    assert_eq!(bench.told("web", "EnsuringLoadBalancer"), 1);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changed_in_the_cloud_is_repaired_and_told() {
    let bench = audited(&[]);
    bench.ensured("web").await;
    bench.cloud().tamper(|all| {
        let balancer = all.values_mut().next().unwrap();
        balancer.members.pop_first();
    });
    bench.until_told("web", "LoadBalancerDrifted").await;
    bench
        .until("it is repaired", |it| it.cloud().members().len() == 3)
        .await;
    let text = "Warning LoadBalancerDrifted: Load balancer is not as it was left; repairing: \
                create member default/web n1";
    assert!(bench.events("web").contains(&text.to_owned()));
    bench.seconds(5).await;
    assert_eq!(bench.told("web", "EnsuredLoadBalancer"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_was_removed_is_made_again_with_its_new_address() {
    let bench = audited(&[]);
    bench.ensured("web").await;
    bench.cloud().tamper(std::collections::BTreeMap::clear);
    bench
        .until("the new address", |it| {
            it.ingress("web")[0]["ip"] == "192.0.2.2"
        })
        .await;
    let annotations = &bench.service("web").unwrap()["metadata"]["annotations"];
    assert_eq!(annotations["demo.test/id"], "lb-2");
}

#[tokio::test(start_paused = true)]
async fn orphans_are_reported_once_and_left_alone() {
    let bench = audited(&[]);
    bench.ensured("web").await;
    bench.cloud().tamper(|all| {
        all.insert("uid-1".into(), stray(Some("kubernetes")));
        all.insert("uid-2".into(), stray(Some("another-cluster")));
    });
    bench.until_told(LEASE, "OrphanedLoadBalancer").await;
    assert_eq!(bench.metric(ORPHANS), Some(1.0));
    assert_eq!(
        bench.events(LEASE),
        [
            "Warning OrphanedLoadBalancer: Load balancer k8s-uid-1 (lb-stray) in cloud demo was made \
          for a Service with uid uid-1 that does not exist; its mark has the name that every cluster has by \
          default, so that it may be another cluster's"
        ]
    );
    bench.seconds(10 * 3600).await;
    assert_eq!(bench.told(LEASE, "OrphanedLoadBalancer"), 1);
    assert_eq!(bench.cloud().count("remove orphan"), 0);
    bench.cloud().tamper(|all| {
        all.remove("uid-1");
    });
    bench.seconds(2 * 3600).await;
    assert_eq!(bench.metric(ORPHANS), Some(0.0));
    assert!(bench.writes().iter().all(|it| it.caller == MANAGER));
}

#[tokio::test(start_paused = true)]
async fn an_orphan_of_a_cluster_that_has_the_default_name_is_never_removed() {
    let bench = audited(&["--remove-orphaned-load-balancers"]);
    bench.ensured("web").await;
    bench.cloud().tamper(|all| {
        all.insert("uid-1".into(), stray(Some("kubernetes")));
    });
    bench.until_told(LEASE, "OrphanedLoadBalancer").await;
    bench.seconds(5 * 3600).await;
    assert_eq!(bench.cloud().count("remove orphan"), 0);
}

#[tokio::test(start_paused = true)]
async fn orphans_are_removed_if_the_operator_says_so_and_the_mark_names_this_cluster() {
    let bench = audited(&["--remove-orphaned-load-balancers", "--cluster-name=prod"]);
    bench.ensured("web").await;
    bench.cloud().tamper(|all| {
        all.insert("uid-1".into(), stray(Some("prod")));
        all.insert("uid-2".into(), stray(Some("kubernetes")));
        all.insert(
            "uid-3".into(),
            Balancer {
                id: "lb-unnamed".into(),
                ..stray(None)
            },
        );
    });
    bench.seconds(5 * 3600).await;
    assert_eq!(bench.cloud().count("remove orphan"), 1);
    let left: Vec<String> = bench
        .cloud()
        .balancers()
        .into_iter()
        .map(|it| it.id)
        .collect();
    assert_eq!(left.len(), 3);
    assert!(left.contains(&"lb-1".to_owned()) && left.contains(&"lb-unnamed".to_owned()));
    assert_eq!(bench.told(LEASE, "RemovedOrphan"), 1);
    let events = bench.events(LEASE);
    let doubt = "its mark names no cluster, so that it may be another cluster's";
    assert!(
        events
            .iter()
            .any(|it| it.contains("lb-unnamed") && it.contains(doubt))
    );
}

#[tokio::test(start_paused = true)]
async fn a_service_that_vanished_before_a_restart_is_an_orphan() {
    let mut bench = audited(&[]);
    bench.ensured("web").await;
    bench.kill().await;
    bench.strip("web");
    bench.start();
    bench.until_told(LEASE, "OrphanedLoadBalancer").await;
    assert_eq!(bench.cloud().balancers().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_or_lags_makes_no_orphan() {
    let bench = audited(&["--remove-orphaned-load-balancers"]);
    // A load balancer that is gone at the second look, because its removal was under way.
    bench.cloud().tamper(|all| {
        all.insert("uid-1".into(), stray(Some("kubernetes")));
    });
    bench
        .until("the first look", |it| it.cloud().count("list") == 1)
        .await;
    bench.cloud().tamper(std::collections::BTreeMap::clear);
    bench
        .until("the second look", |it| it.cloud().count("list") == 2)
        .await;
    bench.cloud().tamper(|all| {
        all.insert("uid-1".into(), stray(Some("kubernetes")));
    });
    bench.cloud().say([Look::Error("503"), Look::Error("503")]);
    bench.seconds(2 * 3600 + 1800).await;
    assert_eq!(bench.events(LEASE), [""; 0]);
    assert_eq!(bench.cloud().count("remove orphan"), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_period_nothing_is_compared() {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench.cloud().tamper(std::collections::BTreeMap::clear);
    bench.cloud().clear();
    bench.seconds(48 * 3600).await;
    assert_eq!(bench.cloud().calls(), [""; 0]);
}
