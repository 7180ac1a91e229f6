//! Several clouds in one cluster: whose Service, whose node.

use bowline_scenarios::{Bench, Setup, scenario};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::stage::{FIN, changed, node, set_up, settled};

async fn two_clouds() -> Bench {
    let mut bench = set_up(Setup {
        clouds: &[("demo", "demo"), ("west", "west")],
        ..Setup::default()
    })
    .await;
    bench.put(node("w1", "west://w1")).await;
    bench.put(node("x1", "elsewhere://x1")).await;
    bench.start();
    bench
}

async fn create(bench: &Bench, name: &str, class: Option<&str>) {
    let service = changed(name, |it| {
        if let Some(class) = class {
            it["spec"]["loadBalancerClass"] = class.into();
        }
    });
    bench.create_service(service).await;
}

/// Faster than anybody looks: another type, and back with another class.
async fn reclassify(bench: &Bench, name: &str, class: &str) {
    bench
        .unseen(async || {
            let plain = json!({ "spec": { "type": "ClusterIP" } });
            bench.patch_service(name, plain).await;
            let other = json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": class } });
            bench.patch_service(name, other).await;
        })
        .await;
}

#[test]
fn the_class_says_which_cloud_serves_a_service_and_each_has_its_own_nodes() {
    scenario!(async || {
        let bench = two_clouds().await;
        create(&bench, "plain", None).await;
        create(&bench, "east", Some("bowline.dev/demo")).await;
        create(&bench, "west", Some("bowline.dev/west")).await;
        for name in ["plain", "east", "west"] {
            bench.until_told(name, "EnsuredLoadBalancer").await;
        }
        assert_eq!(bench.clouds[0].balancers().all().len(), 2);
        assert_eq!(bench.clouds[0].balancers().count("(n1 n2 n3)"), 2);
        assert_eq!(bench.clouds[1].balancers().members(), ["w1"]);
    });
}

#[test]
fn a_change_of_one_clouds_nodes_does_not_concern_the_other() {
    scenario!(async || {
        let bench = two_clouds().await;
        create(&bench, "plain", None).await;
        bench.until_told("plain", "EnsuredLoadBalancer").await;
        bench.balancers().clear();
        bench.put(node("w2", "west://w2")).await;
        bench.put(node("x2", "elsewhere://x2")).await;
        bench.settle().await;
        assert_eq!(bench.balancers().calls(), [""; 0]);
    });
}

#[test]
fn a_service_that_lost_its_class_with_its_type_is_cleaned_up_where_it_was() {
    scenario!(async || {
        let story = async |restart: bool| {
            let mut bench = two_clouds().await;
            create(&bench, "web", Some("bowline.dev/west")).await;
            bench.until_told("web", "EnsuredLoadBalancer").await;
            if restart {
                bench.stop().await;
            }
            let change = json!({ "spec": { "type": "ClusterIP" } });
            bench.patch_service("web", change).await;
            let service = bench.service("web");
            assert_eq!(service["spec"]["loadBalancerClass"], Value::Null);
            if restart {
                bench.start();
            }
            bench.until_told("web", "DeletedLoadBalancer").await;
            assert_eq!(bench.clouds[1].balancers().all(), []);
            assert_eq!(bench.finalizers("web"), [""; 0]);
            // A process that does not remember has to ask everybody.
            let looks = bench.clouds[0].balancers().count("look at");
            assert_eq!(looks, usize::from(restart));
        };
        join_all([false, true].map(story)).await;
    });
}

#[test]
fn a_service_that_becomes_somebody_elses_is_let_go_and_not_written() {
    scenario!(async || {
        let bench = settled().await;
        reclassify(&bench, "web", "vendor.test/lb").await;
        let writes = bench.all_service_writes().len();
        bench
            .until("ours is removed", |it| it.balancers().all().is_empty())
            .await;
        bench.settle().await;
        assert_eq!(bench.all_service_writes().len(), writes);
        assert_eq!(bench.finalizers("web"), [FIN]);
    });
}

#[test]
fn a_service_that_moves_to_another_cloud_leaves_nothing_behind() {
    scenario!(async || {
        let bench = two_clouds().await;
        create(&bench, "web", Some("bowline.dev/west")).await;
        bench.until_told("web", "EnsuredLoadBalancer").await;
        reclassify(&bench, "web", "bowline.dev/demo").await;
        bench
            .until("it is served anew", |it| {
                it.told("web", "EnsuredLoadBalancer") == 2
            })
            .await;
        assert_eq!(bench.clouds[1].balancers().all(), []);
        assert_eq!(bench.clouds[0].balancers().members(), ["n1", "n2", "n3"]);
        assert_eq!(bench.finalizers("web"), [FIN]);
    });
}
