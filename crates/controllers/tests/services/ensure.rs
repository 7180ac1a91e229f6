//! A Service gets its load balancer.

use std::time::Duration;

use bowline_core::IpMode;
use serde_json::{Value, json};

use crate::bench::{Bench, FIN, refuse};
use crate::cloud::{ID, Look};

#[tokio::test(start_paused = true)]
async fn framework_case_058_a_new_service_gets_finalizer_load_balancer_and_address() {
    let bench = Bench::new();
    let begun = bench.now();
    bench.ensured("web").await;
    assert!(bench.world.clock.since(begun) < Duration::from_secs(1));
    assert_eq!(
        bench.events("web"),
        [
            "Normal EnsuringLoadBalancer: Ensuring load balancer",
            "Normal EnsuredLoadBalancer: Ensured load balancer",
        ]
    );
    assert_eq!(bench.finalizers("web"), json!([FIN]));
    assert_eq!(
        bench.ingress("web"),
        json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }])
    );
    let service = bench.service("web").unwrap();
    assert_eq!(service["metadata"]["annotations"][ID], "lb-1");
    assert_eq!(bench.condition("web").unwrap(), "True Ready");
    let calls = bench.cloud().calls();
    assert_eq!(calls[0], "look at default/web (n1 n2 n3)");
    assert_eq!(bench.cloud().members(), ["n1", "n2", "n3"]);
    assert_eq!(
        bench.cloud().balancers()[0].cluster.as_deref(),
        Some("kubernetes")
    );
    // Finalizer, annotation, status: three writes, and nothing happens after them.
    let paths: Vec<String> = bench.writes().into_iter().map(|it| it.path).collect();
    let path = "/api/v1/namespaces/default/services/web/status";
    assert_eq!(paths, [path; 3]);
    let before = (bench.writes().len(), bench.cloud().calls().len());
    bench.seconds(3600).await;
    assert_eq!(
        (bench.writes().len(), bench.cloud().calls().len()),
        before,
        "a resync makes no call"
    );
}

#[tokio::test(start_paused = true)]
async fn the_finalizer_is_there_before_the_first_call_and_the_id_before_the_last() {
    let bench = Bench::new();
    bench.cloud().take(Duration::from_secs(1));
    bench.create("web").await;
    let cloud = bench.cloud();
    bench.until("a look", |_| cloud.count("look at") == 1).await;
    assert_eq!(bench.finalizers("web"), json!([FIN]));
    bench
        .until("the first member", |_| cloud.count("create member") == 1)
        .await;
    let service = bench.service("web").unwrap();
    assert_eq!(service["metadata"]["annotations"][ID], "lb-1");
    assert_eq!(bench.ingress("web"), Value::Null);
    bench.until_told("web", "EnsuredLoadBalancer").await;
}

#[tokio::test(start_paused = true)]
async fn framework_case_059_a_service_of_a_foreign_class_is_left_alone() {
    let bench = Bench::new();
    for (name, class) in [("a", "vendor.test/lb"), ("b", "bowline.dev/other")] {
        bench
            .create_with(name, |it| it["spec"]["loadBalancerClass"] = class.into())
            .await;
    }
    bench.seconds(600).await;
    assert_eq!(bench.cloud().calls(), [""; 0]);
    assert_eq!((bench.writes().len(), bench.events("a")), (0, vec![]));
    assert_eq!(bench.finalizers("a"), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn framework_case_068_a_service_that_another_program_serves_is_held_and_no_more() {
    let bench = Bench::new();
    bench.cloud().say([Look::Elsewhere]);
    bench.create("web").await;
    bench.seconds(3600).await;
    assert_eq!(bench.finalizers("web"), json!([FIN]));
    assert_eq!(bench.reasons("web"), ["EnsuringLoadBalancer"]);
    assert_eq!(bench.ingress("web"), Value::Null);
    assert_eq!(bench.cloud().count("look at"), 1);
}

#[tokio::test(start_paused = true)]
async fn framework_case_070_a_refused_status_is_tried_again_and_a_missing_service_is_not() {
    for (code, again) in [(409, true), (404, false)] {
        let bench = Bench::new();
        // Finalizer, annotation, address.
        let path = "/api/v1/namespaces/default/services/web/status";
        bench.fault(refuse(code, "PATCH", path).after(2).times(1));
        bench.create("web").await;
        bench.seconds(60).await;
        let failed = bench.told("web", "SyncLoadBalancerFailed");
        assert_eq!(failed, usize::from(again), "after {code}");
        assert_eq!(bench.cloud().count("look at"), 1 + usize::from(again));
        let shown = bench.ingress("web") == json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }]);
        assert_eq!(shown, again);
        if again {
            let events = bench.events("web");
            let told = events.iter().find(|it| it.contains("SyncLoad")).unwrap();
            let start = "Warning SyncLoadBalancerFailed: Error syncing load balancer: failed to \
                         update load balancer status: ";
            assert!(told.starts_with(start), "{told}");
            assert_eq!(bench.told("web", "EnsuredLoadBalancer"), 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_084_a_service_without_nodes_is_made_and_that_is_told() {
    let bench = Bench::new();
    for name in ["n1", "n2", "n3"] {
        bench.delete_node(name);
    }
    bench.ensured("web").await;
    assert_eq!(
        bench.events("web"),
        [
            "Normal EnsuringLoadBalancer: Ensuring load balancer",
            "Warning UnAvailableLoadBalancer: There are no available nodes for LoadBalancer",
            "Normal EnsuredLoadBalancer: Ensured load balancer",
        ]
    );
    assert_eq!(bench.cloud().members(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn framework_case_093_tcp_and_udp_on_one_port_are_one_plan() {
    let bench = Bench::new();
    bench
        .create_with("dns", |it| {
            it["spec"]["ports"] = json!([
                { "name": "tcp", "protocol": "TCP", "port": 53 },
                { "name": "udp", "protocol": "UDP", "port": 53 },
            ]);
        })
        .await;
    bench.until_told("dns", "EnsuredLoadBalancer").await;
    assert_eq!(bench.cloud().count("look at"), 1);
    let ports: Vec<String> = bench.cloud().balancers()[0].ports.iter().cloned().collect();
    assert_eq!(ports, ["TCP/53", "UDP/53"]);
}

#[tokio::test(start_paused = true)]
async fn framework_case_094_a_service_without_node_ports_is_handled_like_any_other() {
    let bench = Bench::new();
    bench
        .create_with("web", |it| {
            it["spec"]["allocateLoadBalancerNodePorts"] = false.into();
        })
        .await;
    bench.until_told("web", "EnsuredLoadBalancer").await;
    let service = bench.service("web").unwrap();
    assert_eq!(service["spec"]["ports"][0]["nodePort"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn the_mode_of_an_address_is_compared_and_written_by_value() {
    let bench = Bench::new();
    bench.cloud().publish_as(IpMode::Proxy);
    bench.ensured("web").await;
    assert_eq!(
        bench.ingress("web"),
        json!([{ "ip": "192.0.2.1", "ipMode": "Proxy" }])
    );
    bench.cloud().publish_as(IpMode::Vip);
    let wanted = json!({ "metadata": { "annotations": { "a": "b" } } });
    bench.patch("web", wanted).await;
    bench
        .until("the mode follows", |it| {
            it.ingress("web")[0]["ipMode"] == "VIP"
        })
        .await;
}
