//! A Service gets its load balancer.

use std::time::Duration;

use bowline_core::IpMode;
use bowline_scenarios::cloud::{ID, Look};
use bowline_scenarios::objects::service;
use bowline_scenarios::{refuse, scenario};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::services::harness::{self, FIN, STATUS, changed};

#[scenario]
async fn framework_case_058_a_new_service_gets_finalizer_load_balancer_and_address() {
    let bench = harness::new().await;
    let begun = bench.world.clock.now();
    bench.ensured("web").await;
    assert!(bench.since(begun) < Duration::from_secs(1) + bench.slack());
    assert_eq!(
        bench.news("web"),
        [
            "Normal EnsuringLoadBalancer: Ensuring load balancer",
            "Normal EnsuredLoadBalancer: Ensured load balancer",
        ]
    );
    assert_eq!(bench.finalizers("web"), [FIN]);
    assert_eq!(bench.entrances("web"), ["192.0.2.1 VIP"]);
    let service = bench.service("web");
    assert_eq!(service["metadata"]["annotations"][ID], "lb-1");
    assert_eq!(bench.condition("web"), "True Ready");
    let calls = bench.balancers().calls();
    assert_eq!(calls[0], "look at shop/web (n1 n2 n3)");
    assert_eq!(bench.balancers().members(), ["n1", "n2", "n3"]);
    assert_eq!(
        bench.balancers().all()[0].cluster.as_deref(),
        Some("kubernetes")
    );
    // Finalizer, annotation, status: three writes, and nothing happens after them.
    let writes = bench.all_service_writes().into_iter();
    let paths: Vec<String> = writes.map(|it| it.path).collect();
    assert_eq!(paths, [STATUS; 3]);
    let before = (
        bench.all_service_writes().len(),
        bench.balancers().calls().len(),
    );
    bench.long(3600).await;
    assert_eq!(
        (
            bench.all_service_writes().len(),
            bench.balancers().calls().len()
        ),
        before,
        "a resync makes no call"
    );
}

#[scenario]
async fn the_finalizer_is_there_before_the_first_call_and_the_id_before_the_last() {
    let bench = harness::new().await;
    bench.balancers().take(Duration::from_secs(2));
    bench.create_service(service("web")).await;
    let cloud = bench.balancers();
    bench.until("a look", |_| cloud.count("look at") == 1).await;
    assert_eq!(bench.finalizers("web"), [FIN]);
    bench
        .until("the first member", |_| cloud.count("create member") == 1)
        .await;
    let service = bench.service("web");
    assert_eq!(service["metadata"]["annotations"][ID], "lb-1");
    assert_eq!(bench.entrances("web"), [""; 0]);
    bench.until_event("web", "EnsuredLoadBalancer").await;
}

#[scenario]
async fn framework_case_059_a_service_of_a_foreign_class_is_left_alone() {
    let bench = harness::new().await;
    for (name, class) in [("a", "vendor.test/lb"), ("b", "bowline.dev/other")] {
        bench
            .create_service(changed(name, |it| {
                it["spec"]["loadBalancerClass"] = class.into();
            }))
            .await;
    }
    bench.long(600).await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
    assert_eq!(bench.all_service_writes(), []);
    assert_eq!(bench.news("a"), [""; 0]);
    assert_eq!(bench.finalizers("a"), [""; 0]);
}

#[scenario]
async fn framework_case_068_a_service_that_another_program_serves_is_held_and_no_more() {
    let bench = harness::new().await;
    bench.balancers().say([Look::Elsewhere]);
    bench.create_service(service("web")).await;
    bench
        .until("a look", |it| it.balancers().count("look at") == 1)
        .await;
    bench.long(3600).await;
    assert_eq!(bench.finalizers("web"), [FIN]);
    assert_eq!(bench.reasons("web"), ["EnsuringLoadBalancer"]);
    assert_eq!(bench.entrances("web"), [""; 0]);
    assert_eq!(bench.balancers().count("look at"), 1);
}

#[scenario]
async fn framework_case_070_a_refused_status_is_tried_again_and_a_missing_service_is_not() {
    let story = async |(code, again): (u16, bool)| {
        let bench = harness::new().await;
        // Finalizer, annotation, address.
        let refused = bench.fault(refuse(code, "PATCH", STATUS).after(2).times(1));
        bench.create_service(service("web")).await;
        refused.struck(1).await;
        if again {
            bench.until_event("web", "EnsuredLoadBalancer").await;
        }
        // Longer than the first pause before another try.
        bench.seconds(10).await;
        let failed = bench.event_count("web", "SyncLoadBalancerFailed");
        assert_eq!(failed, usize::from(again), "after {code}");
        assert_eq!(bench.balancers().count("look at"), 1 + usize::from(again));
        let shown = bench.entrances("web") == ["192.0.2.1 VIP"];
        assert_eq!(shown, again);
        if again {
            let events = bench.news("web");
            let reported = events.iter().find(|it| it.contains("SyncLoad")).unwrap();
            let start = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed \
                             to update load balancer status: ";
            assert!(reported.starts_with(start), "{reported}");
            assert_eq!(bench.event_count("web", "EnsuredLoadBalancer"), 1);
        }
    };
    join_all([(409, true), (404, false)].map(story)).await;
}

#[scenario]
async fn framework_case_084_a_service_without_nodes_is_made_and_that_is_told() {
    let bench = harness::new().await;
    for name in ["n1", "n2", "n3"] {
        bench.delete(name).await;
    }
    // Members follow nodes after a moment of quiet.
    bench.settle().await;
    bench.ensured("web").await;
    assert_eq!(
        bench.news("web"),
        [
            "Normal EnsuringLoadBalancer: Ensuring load balancer",
            "Warning UnAvailableLoadBalancer: There are no available nodes for LoadBalancer",
            "Normal EnsuredLoadBalancer: Ensured load balancer",
        ]
    );
    assert_eq!(bench.balancers().members(), [""; 0]);
    assert!(bench.condition("web").starts_with("False NoTargets: "));
    assert_eq!(bench.entrances("web").len(), 1);
}

#[scenario]
async fn framework_case_093_tcp_and_udp_on_one_port_are_one_plan() {
    let bench = harness::new().await;
    bench
        .create_service(changed("dns", |it| {
            it["spec"]["ports"] = json!([
                { "name": "tcp", "protocol": "TCP", "port": 53 },
                { "name": "udp", "protocol": "UDP", "port": 53 },
            ]);
        }))
        .await;
    bench.until_event("dns", "EnsuredLoadBalancer").await;
    assert_eq!(bench.balancers().count("look at"), 1);
    let ports: Vec<String> = bench.balancers().all()[0].ports.iter().cloned().collect();
    assert_eq!(ports, ["TCP/53", "UDP/53"]);
}

#[scenario]
async fn framework_case_094_a_service_without_node_ports_is_handled_like_any_other() {
    let bench = harness::new().await;
    bench
        .create_service(changed("web", |it| {
            it["spec"]["allocateLoadBalancerNodePorts"] = false.into();
        }))
        .await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    let service = bench.service("web");
    assert_eq!(service["spec"]["ports"][0]["nodePort"], Value::Null);
}

#[scenario]
async fn the_mode_of_an_address_is_compared_and_written_by_value() {
    let bench = harness::new().await;
    bench.balancers().publish_as(IpMode::Proxy);
    bench.ensured("web").await;
    assert_eq!(bench.entrances("web"), ["192.0.2.1 Proxy"]);
    bench.balancers().publish_as(IpMode::Vip);
    let wanted = json!({ "metadata": { "annotations": { "a": "b" } } });
    bench.patch_service("web", wanted).await;
    bench
        .until("the mode follows", |it| {
            it.entrances("web") == ["192.0.2.1 VIP"]
        })
        .await;
}
