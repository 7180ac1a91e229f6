//! `--mode=observe`: the controller looks, plans and writes nothing.

use std::time::Duration;

use bowline_scenarios::cloud::{Balancer, SIZE};
use bowline_scenarios::objects::service;
use bowline_scenarios::{TestCluster, is_real, scenario};

use crate::services::harness::{ALONE, FIN, join, settled};

#[scenario]
async fn an_observer_looks_and_changes_nothing_anywhere() {
    let mut bench = settled().await;
    bench.ensured("old").await;
    bench.stop().await;
    bench.use_flags(&[
        ALONE,
        "--mode=observe",
        "--remove-orphaned-load-balancers",
        "--cluster-name=prod",
    ]);
    let period = Duration::from_secs(if is_real() { 4 } else { 600 });
    bench.balancers().audit_every(period);
    bench.balancers().tamper(|all| {
        let stray = Balancer {
            id: "lb-stray".into(),
            cluster: Some("prod".into()),
            ..Balancer::default()
        };
        all.insert("stray".into(), stray);
    });
    bench.balancers().clear();
    let (writes, events) = (bench.all_service_writes().len(), bench.news("web").len());
    let before = bench.balancers().all();
    bench.start();
    bench.create_service(service("new")).await;
    bench.delete_service("old").await;
    join(&bench, "n4").await;
    bench.annotate("web", SIZE, Some("bad")).await;
    let all = ["shop/new", "shop/old (absent)", "shop/web (n1 n2 n3 n4)"];
    bench
        .until(
            "it looked at all, and twice for orphans",
            |it: &TestCluster| {
                let count = |text: &&str| it.balancers().count(text);
                all.iter().all(|it| count(it) > 0) && count(&"list") >= 2
            },
        )
        .await;
    bench.settle().await;
    assert_eq!(bench.balancers().writes(), [""; 0]);
    assert_eq!(bench.balancers().all(), before);
    assert_eq!(bench.all_service_writes().len(), writes);
    assert_eq!(bench.news("web").len(), events);
    assert_eq!(bench.finalizers("old"), [FIN]);
    assert_eq!(bench.finalizers("new"), [""; 0]);
}
