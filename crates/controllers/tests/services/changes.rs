//! Which changes of a Service ask the cloud, and which do not.

use serde_json::{Value, json};

use crate::bench::Bench;
use crate::cloud::{ID, SIZE};

/// Whether that change of a settled Service makes the controller look.
async fn looks(bench: &Bench, change: Value) -> bool {
    bench.cloud().clear();
    bench.patch("web", change).await;
    bench.seconds(30).await;
    bench.cloud().count("look at") > 0
}

async fn settled() -> Bench {
    let bench = Bench::new();
    bench.ensured("web").await;
    bench
}

#[tokio::test(start_paused = true)]
async fn framework_case_071_annotations_and_ports_count_and_labels_and_selectors_do_not() {
    let bench = settled().await;
    let port = |port: Value| json!({ "spec": { "ports": [port] } });
    let number = bench.service("web").unwrap()["spec"]["ports"][0]["nodePort"].clone();
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
        assert_eq!(looks(&bench, change).await, counts, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_072_the_traffic_policy_counts_and_the_members_stay() {
    let bench = settled().await;
    let local = json!({ "spec": { "externalTrafficPolicy": "Local" } });
    assert!(looks(&bench, local).await);
    assert_eq!(bench.cloud().calls(), ["look at default/web (n1 n2 n3)"]);
    let service = bench.service("web").unwrap();
    assert!(service["spec"]["healthCheckNodePort"].is_u64());
    // The server refuses to change the port of a Local Service; its coming and going counts.
    let cluster = json!({ "spec": { "externalTrafficPolicy": "Cluster" } });
    assert!(looks(&bench, cluster).await);
}

#[tokio::test(start_paused = true)]
async fn framework_case_073_the_number_of_address_families_counts() {
    let bench = settled().await;
    let both = json!({ "spec": {
        "ipFamilyPolicy": "PreferDualStack", "ipFamilies": ["IPv4", "IPv6"],
    } });
    bench.cloud().clear();
    let mut service = bench.service("web").unwrap();
    service["spec"]["ipFamilies"] = both["spec"]["ipFamilies"].clone();
    bench.put_service(service.clone());
    bench.seconds(30).await;
    assert_eq!(bench.cloud().count("look at"), 1);
    service["spec"]["ipFamilies"] = json!(["IPv6", "IPv4"]);
    bench.put_service(service);
    bench.seconds(30).await;
    assert_eq!(
        bench.cloud().count("look at"),
        1,
        "another order is no change"
    );
}

#[tokio::test(start_paused = true)]
async fn framework_case_074_the_order_of_source_ranges_counts() {
    let bench = settled().await;
    for ranges in [
        ["192.0.2.0/24", "10.0.0.0/8"],
        ["10.0.0.0/8", "192.0.2.0/24"],
    ] {
        let change = json!({ "spec": { "loadBalancerSourceRanges": ranges } });
        assert!(looks(&bench, change).await);
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_075_nothing_changed_and_nothing_is_asked() {
    let bench = settled().await;
    bench.cloud().clear();
    bench.cluster.api().break_watches();
    bench.seconds(3600).await;
    bench.cluster.api().compact();
    bench.cluster.api().break_watches();
    bench.seconds(3600).await;
    assert_eq!(bench.cloud().calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn our_own_annotation_and_status_ask_nothing_but_a_persons_change_of_them_does() {
    let bench = settled().await;
    assert_eq!(bench.cloud().count("look at"), 1);
    for wrong in [json!("lb-77"), Value::Null] {
        let change = json!({ "metadata": { "annotations": { ID: wrong } } });
        assert!(looks(&bench, change).await);
        let service = bench.service("web").unwrap();
        assert_eq!(service["metadata"]["annotations"][ID], "lb-1", "put back");
        assert_eq!(bench.cloud().count("look at"), 1, "and that is all");
    }
}

#[tokio::test(start_paused = true)]
async fn a_removed_finalizer_is_put_back() {
    let bench = settled().await;
    bench
        .patch("web", json!({ "metadata": { "finalizers": null } }))
        .await;
    bench
        .until("it is back", |it| it.finalizers("web").is_array())
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_port_is_made_before_the_old_one_goes() {
    let bench = settled().await;
    bench.cloud().clear();
    let change = json!({ "spec": { "ports": [{ "name": "http", "port": 8080 }] } });
    bench.patch("web", change).await;
    bench.seconds(10).await;
    assert_eq!(
        bench.cloud().writes(),
        [
            "create port default/web TCP/8080",
            "delete port default/web TCP/80"
        ]
    );
    assert_eq!(bench.told("web", "EnsuredLoadBalancer"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_bad_setting_is_told_once_and_members_keep_being_updated() {
    let bench = settled().await;
    let bad = json!({ "metadata": { "annotations": { SIZE: "bad" } } });
    bench.patch("web", bad).await;
    bench.until_told("web", "InvalidLoadBalancerConfig").await;
    bench.add_node("n4");
    bench.seconds(3600).await;
    assert_eq!(bench.cloud().members(), ["n1", "n2", "n3", "n4"]);
    assert_eq!(bench.told("web", "InvalidLoadBalancerConfig"), 1);
    assert_eq!(bench.told("web", "SyncLoadBalancerFailed"), 0);
    assert!(bench.ingress("web").is_array(), "what works stays");
    let condition = bench.condition("web").unwrap();
    let start = format!(
        "False InvalidLoadBalancerConfig: annotation {SIZE}: \"bad\" is not allowed; next try at "
    );
    assert!(condition.starts_with(&start), "{condition}");
    let good = json!({ "metadata": { "annotations": { SIZE: "large" } } });
    bench.patch("web", good).await;
    bench
        .until("it is ready", |it| {
            it.condition("web").as_deref() == Some("True Ready")
        })
        .await;
    let settings = &bench.cloud().balancers()[0].settings;
    assert_eq!(settings[SIZE], "large");
    // It went away, so that it is news when it comes back.
    let bad = json!({ "metadata": { "annotations": { SIZE: "bad" } } });
    bench.patch("web", bad).await;
    bench
        .until("it is told again", |it| {
            it.told("web", "InvalidLoadBalancerConfig") == 2
        })
        .await;
}
