//! Which changes of a Service ask the cloud, and which do not.

use bowline_scenarios::cloud::{ID, SIZE};
use bowline_scenarios::{Setup, Sharing, TestCluster, scenario};
use serde_json::{Value, json};

use crate::services::harness::{join, settled};

/// Lets that change of a settled Service happen; the controller must look because of it, or not.
async fn looks(bench: &TestCluster, what: &str, change: Value, counts: bool) {
    bench.balancers().clear();
    bench.patch_service("web", change).await;
    let looked = |it: &TestCluster| it.balancers().count("look at") > 0;
    if counts {
        bench.until(&format!("a look: {what}"), looked).await;
    }
    bench.settle().await;
    assert_eq!(looked(bench), counts, "{what}");
}

#[scenario]
async fn framework_case_071_annotations_and_ports_count_and_labels_and_selectors_do_not() {
    let bench = settled().await;
    let port = |port: Value| json!({ "spec": { "ports": [port] } });
    let number = bench.service("web")["spec"]["ports"][0]["nodePort"].clone();
    for (what, change, counts) in [
        (
            "label",
            json!({ "metadata": { "labels": { "a": "b" } } }),
            false,
        ),
        (
            "selector",
            json!({ "spec": { "selector": { "app": "x" } } }),
            false,
        ),
        (
            "annotation",
            json!({ "metadata": { "annotations": { "any.test/key": "1" } } }),
            true,
        ),
        (
            "gone again",
            json!({ "metadata": { "annotations": { "any.test/key": null } } }),
            true,
        ),
        (
            "port name",
            port(json!({ "name": "www", "port": 80, "targetPort": 8080, "nodePort": number })),
            true,
        ),
        (
            "target port",
            port(json!({ "name": "www", "port": 80, "targetPort": "http", "nodePort": number })),
            true,
        ),
        (
            "application protocol",
            port(
                json!({ "name": "www", "port": 80, "targetPort": "http", "nodePort": number,
                             "appProtocol": "http" }),
            ),
            true,
        ),
    ] {
        looks(&bench, what, change, counts).await;
    }
}

#[scenario]
async fn changes_are_reported_with_the_reasons_and_texts_of_the_framework() {
    let bench = settled().await;
    let spec = |spec: Value| json!({ "spec": spec });
    for (change, reason, text) in [
        (
            json!({ "externalTrafficPolicy": "Local" }),
            "ExternalTrafficPolicy",
            "Cluster -> Local",
        ),
        (
            json!({ "loadBalancerSourceRanges": ["10.0.0.0/8", "192.0.2.0/24"] }),
            "LoadBalancerSourceRanges",
            "[] -> [10.0.0.0/8 192.0.2.0/24]",
        ),
        (
            json!({ "loadBalancerIP": "192.0.2.1" }),
            "LoadbalancerIP",
            " -> 192.0.2.1",
        ),
        (
            json!({ "externalIPs": ["192.0.2.7"] }),
            "ExternalIP",
            "Count: 0 -> 1",
        ),
        (
            json!({ "externalIPs": ["192.0.2.8"] }),
            "ExternalIP",
            "Added: 192.0.2.8",
        ),
        (
            json!({ "type": "NodePort", "loadBalancerSourceRanges": null,
                        "loadBalancerIP": null, "allocateLoadBalancerNodePorts": null,
                        "externalTrafficPolicy": "Cluster", "healthCheckNodePort": null }),
            "Type",
            "LoadBalancer -> NodePort",
        ),
    ] {
        let reported = format!("Normal {reason}: {text}");
        let before = bench.news("web").len();
        bench.patch_service("web", spec(change)).await;
        bench
            .until(&reported, |it| it.news("web").contains(&reported))
            .await;
        bench.settle().await;
        let changes = bench.news("web").split_off(before);
        let others = changes
            .iter()
            .filter(|it| it.contains(" -> ") || it.contains("Added"));
        assert_eq!(
            others.collect::<Vec<_>>(),
            [&reported],
            "one for each change"
        );
    }
}

#[scenario]
async fn framework_case_072_the_traffic_policy_counts_and_the_members_stay() {
    let bench = settled().await;
    let local = json!({ "spec": { "externalTrafficPolicy": "Local" } });
    looks(&bench, "local", local, true).await;
    assert_eq!(bench.balancers().calls(), ["look at shop/web (n1 n2 n3)"]);
    let service = bench.service("web");
    assert!(service["spec"]["healthCheckNodePort"].is_u64());
    // The server refuses to change the port of a Local Service; its coming and going counts.
    let cluster = json!({ "spec": { "externalTrafficPolicy": "Cluster" } });
    looks(&bench, "cluster", cluster, true).await;
}

#[scenario]
async fn framework_case_073_the_number_of_address_families_counts() {
    let mut bench = crate::services::harness::set_up(Setup {
        sharing: Sharing::Alone,
        ..Setup::default()
    })
    .await;
    if let Some(plane) = bench.cluster.plane() {
        // The simulated server has addresses of both families.
        let ranges = "--service-cluster-ip-range=10.96.0.0/12,fd00:10:96::/112";
        plane
            .control(&format!("restart kube-apiserver {ranges}"))
            .await;
    }
    bench.start();
    bench.ensured("web").await;
    let both = json!({ "spec": { "ipFamilyPolicy": "PreferDualStack" } });
    looks(&bench, "a second family", both, true).await;
    assert_eq!(bench.balancers().count("look at"), 1);
    assert_eq!(
        bench.service("web")["spec"]["ipFamilies"],
        json!(["IPv4", "IPv6"])
    );
    if let Some(cluster) = bench.cluster.simulated() {
        // A server lets nobody change the order.
        let mut service = bench.service("web");
        service["spec"]["ipFamilies"] = json!(["IPv6", "IPv4"]);
        cluster.install([service]).unwrap();
        bench.settle().await;
        let looks = bench.balancers().count("look at");
        assert_eq!(looks, 1, "another order is no change");
    }
}

#[scenario]
async fn framework_case_074_the_order_of_source_ranges_counts() {
    let bench = settled().await;
    for ranges in [
        ["192.0.2.0/24", "10.0.0.0/8"],
        ["10.0.0.0/8", "192.0.2.0/24"],
    ] {
        let change = json!({ "spec": { "loadBalancerSourceRanges": ranges } });
        looks(&bench, ranges[0], change, true).await;
    }
}

#[scenario]
async fn framework_case_075_nothing_changed_and_nothing_is_asked() {
    let bench = settled().await;
    bench.balancers().clear();
    bench.cluster.break_watches();
    bench.settle().await;
    // A new list, too.
    bench.unseen(async || {}).await;
    bench.long(3600).await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
}

#[scenario]
async fn our_own_annotation_and_status_ask_nothing_but_a_persons_change_of_them_does() {
    let bench = settled().await;
    bench.settle().await;
    assert_eq!(bench.balancers().count("look at"), 1);
    for wrong in [json!("lb-77"), Value::Null] {
        let change = json!({ "metadata": { "annotations": { ID: wrong } } });
        looks(&bench, "another id", change, true).await;
        let service = bench.service("web");
        assert_eq!(service["metadata"]["annotations"][ID], "lb-1", "put back");
        assert_eq!(bench.balancers().count("look at"), 1, "and that is all");
    }
}

#[scenario]
async fn a_removed_finalizer_is_put_back() {
    let bench = settled().await;
    bench
        .patch_service("web", json!({ "metadata": { "finalizers": null } }))
        .await;
    bench
        .until("it is back", |it| {
            it.finalizers("web") == [crate::services::harness::FIN]
        })
        .await;
}

#[scenario]
async fn a_changed_port_is_made_before_the_old_one_goes() {
    let bench = settled().await;
    bench.balancers().clear();
    let change = json!({ "spec": { "ports": [{ "name": "http", "port": 8080 }] } });
    bench.patch_service("web", change).await;
    bench
        .until("that is reported", |it| {
            it.event_count("web", "EnsuredLoadBalancer") == 2
        })
        .await;
    assert_eq!(
        bench.balancers().writes(),
        [
            "create port shop/web TCP/8080",
            "delete port shop/web TCP/80"
        ]
    );
}

#[scenario]
async fn a_bad_setting_is_told_once_and_members_keep_being_updated() {
    let bench = settled().await;
    let bad = json!({ "metadata": { "annotations": { SIZE: "bad" } } });
    bench.patch_service("web", bad).await;
    bench.until_event("web", "InvalidLoadBalancerConfig").await;
    join(&bench, "n4").await;
    let wanted = ["n1", "n2", "n3", "n4"];
    bench
        .until("the new member", |it| it.balancers().members() == wanted)
        .await;
    bench.long(3600).await;
    assert_eq!(bench.balancers().members(), wanted);
    assert_eq!(bench.event_count("web", "InvalidLoadBalancerConfig"), 1);
    assert_eq!(bench.event_count("web", "SyncLoadBalancerFailed"), 0);
    assert!(!bench.entrances("web").is_empty(), "what works stays");
    let condition = bench.condition("web");
    let start = format!(
        "False InvalidLoadBalancerConfig: annotation {SIZE}: \"bad\" is not allowed; next try at "
    );
    assert!(condition.starts_with(&start), "{condition}");
    let good = json!({ "metadata": { "annotations": { SIZE: "large" } } });
    bench.patch_service("web", good).await;
    bench
        .until("it is ready", |it| it.condition("web") == "True Ready")
        .await;
    let settings = &bench.balancers().all()[0].settings;
    assert_eq!(settings[SIZE], "large");
    // It went away, so that it is news when it comes back.
    let bad = json!({ "metadata": { "annotations": { SIZE: "bad" } } });
    bench.patch_service("web", bad).await;
    bench
        .until("it is reported again", |it| {
            it.event_count("web", "InvalidLoadBalancerConfig") == 2
        })
        .await;
}
