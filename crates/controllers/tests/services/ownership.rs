//! Several clouds in one cluster: whose Service, whose node.

use serde_json::{Value, json};

use crate::bench::{Bench, FIN, node};

fn two_clouds() -> Bench {
    let mut bench = Bench::idle(7, &["demo", "west"], &[]);
    bench.put_node(node("w1", "west://w1"));
    bench.put_node(node("x1", "elsewhere://x1"));
    bench.start();
    bench
}

async fn create(bench: &Bench, name: &str, class: Option<&str>) {
    bench
        .create_with(name, |it| {
            if let Some(class) = class {
                it["spec"]["loadBalancerClass"] = class.into();
            }
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_class_says_which_cloud_serves_a_service_and_each_has_its_own_nodes() {
    let bench = two_clouds();
    create(&bench, "plain", None).await;
    create(&bench, "east", Some("bowline.dev/demo")).await;
    create(&bench, "west", Some("bowline.dev/west")).await;
    for name in ["plain", "east", "west"] {
        bench.until_told(name, "EnsuredLoadBalancer").await;
    }
    assert_eq!(bench.clouds[0].balancers().len(), 2);
    assert_eq!(bench.clouds[0].count("(n1 n2 n3)"), 2);
    assert_eq!(bench.clouds[1].members(), ["w1"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_one_clouds_nodes_does_not_concern_the_other() {
    let bench = two_clouds();
    create(&bench, "plain", None).await;
    bench.until_told("plain", "EnsuredLoadBalancer").await;
    bench.cloud().clear();
    bench.put_node(node("w2", "west://w2"));
    bench.put_node(node("x2", "elsewhere://x2"));
    bench.seconds(30).await;
    assert_eq!(bench.cloud().calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_lost_its_class_with_its_type_is_cleaned_up_where_it_was() {
    for restart in [false, true] {
        let mut bench = two_clouds();
        create(&bench, "web", Some("bowline.dev/west")).await;
        bench.until_told("web", "EnsuredLoadBalancer").await;
        if restart {
            bench.stop().await;
        }
        let change = json!({ "spec": { "type": "ClusterIP" } });
        bench.patch("web", change).await;
        let service = bench.service("web").unwrap();
        assert_eq!(service["spec"]["loadBalancerClass"], Value::Null);
        if restart {
            bench.start();
        }
        bench.until_told("web", "DeletedLoadBalancer").await;
        assert_eq!(bench.clouds[1].balancers(), []);
        assert_eq!(bench.finalizers("web"), Value::Null);
        // A process that does not remember has to ask everybody.
        assert_eq!(bench.clouds[0].count("look at"), usize::from(restart));
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_becomes_somebody_elses_is_let_go_and_not_written() {
    let bench = Bench::new();
    bench.ensured("web").await;
    // Faster than anybody looks: another type, and back with another class.
    let mut service = bench.service("web").unwrap();
    service["spec"]["loadBalancerClass"] = "vendor.test/lb".into();
    bench.put_service(service);
    let writes = bench.writes().len();
    bench
        .until("ours is removed", |it| it.cloud().balancers().is_empty())
        .await;
    bench.seconds(60).await;
    assert_eq!(bench.writes().len(), writes);
    assert_eq!(bench.finalizers("web"), json!([FIN]));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_moves_to_another_cloud_leaves_nothing_behind() {
    let bench = two_clouds();
    create(&bench, "web", Some("bowline.dev/west")).await;
    bench.until_told("web", "EnsuredLoadBalancer").await;
    // Faster than anybody looks: another type, and back with another class.
    let mut service = bench.service("web").unwrap();
    service["spec"]["loadBalancerClass"] = "bowline.dev/demo".into();
    bench.put_service(service);
    bench
        .until("it is served anew", |it| {
            it.told("web", "EnsuredLoadBalancer") == 2
        })
        .await;
    assert_eq!(bench.clouds[1].balancers(), []);
    assert_eq!(bench.clouds[0].members(), ["n1", "n2", "n3"]);
    assert_eq!(bench.finalizers("web"), json!([FIN]));
}
