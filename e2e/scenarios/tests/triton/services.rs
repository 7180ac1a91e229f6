//! Services by DNS: a name of the nodes, kept by tags of their machines.

use std::time::Duration;

use bowline_scenarios::objects::{annotated, service};
use bowline_scenarios::{is_real, scenario};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::{Value, json};

use crate::triton::harness::{id, name};
use crate::triton::service_harness::{PREFIX, ServiceHarness, outside};

/// Nodes with a pod that is ready.
fn ready<'a>(nodes: &[&'a str]) -> Vec<(&'a str, Value)> {
    let ready = json!({ "ready": true });
    nodes.iter().map(|node| (*node, ready.clone())).collect()
}

#[scenario]
async fn a_service_has_a_dns_name_of_all_nodes_until_it_is_deleted(test: ServiceHarness) {
    let web = test.serve("web").await;
    assert_eq!(test.entrances("web"), [outside("web.shop")]);
    let port = &web["spec"]["ports"][0]["nodePort"];
    let namespaces: Api<Namespace> = Api::all(test.admin());
    let cluster = namespaces.get("kube-system").await.unwrap().metadata.uid;
    for number in 1..=3 {
        let machine = test.cloud.machine(&name(number)).unwrap();
        let entry = format!("{}:{port}", test.label("web"));
        assert_eq!(machine.tag("triton.cns.services"), Some(&*entry));
        assert_eq!(machine.tag("bowline.node"), cluster.as_deref());
    }
    test.until_resolved("web", 3).await;
    let targets = test.cloud.resolve_services(&test.outside("web"));
    assert!(
        targets.iter().all(|(it, _)| json!(it) == *port),
        "{targets:?}"
    );
    let reported = web["metadata"]["annotations"][format!("{PREFIX}status")].as_str();
    assert!(
        reported.is_some_and(|it| it.contains("80/TCP")),
        "{reported:?}"
    );
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(test.carried(), [const { Vec::<String>::new() }; 3]);
    test.until_resolved("web", 0).await;
}

#[scenario]
async fn two_services_at_once_share_machines_with_each_other_and_with_somebody_else(
    test: ServiceHarness,
) {
    let tag = Some(json!("k8s-api:6443"));
    test.cloud
        .set_tag(&id(1), "triton.cns.services", tag)
        .unwrap();
    futures::join!(test.serve("web"), test.serve("api"));
    let ours: &[&str] = &["api.shop", "web.shop"];
    let first: &[&str] = &["api.shop", "k8s-api", "web.shop"];
    test.until_carried([first, ours, ours]).await;
    test.delete_service("api").await;
    test.until_service_gone("api").await;
    let left: &[&str] = &["web.shop"];
    test.until_carried([&["k8s-api", "web.shop"], left, left])
        .await;
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    test.until_carried([&["k8s-api"], &[], &[]]).await;
}

#[scenario]
async fn a_node_that_is_not_ready_leaves_within_fifteen_seconds_and_returns(test: ServiceHarness) {
    test.serve("web").await;
    let web: &[&str] = &["web.shop"];
    let begun = test.world.clock.now();
    test.set_ready("k8s-2", "Unknown").await;
    test.until_carried([web, &[], web]).await;
    let took = test.since(begun);
    assert!(is_real() || took <= Duration::from_secs(15), "{took:?}");
    test.set_ready("k8s-2", "True").await;
    test.until_carried([web, web, web]).await;
    assert_eq!(test.entrances("web"), [outside("web.shop")]);
}

#[scenario]
async fn a_local_service_is_where_its_pods_are(test: ServiceHarness) {
    test.cluster.put_endpoints("web", &ready(&["k8s-2"])).await;
    let mut local = service("web");
    local["spec"]["externalTrafficPolicy"] = "Local".into();
    test.serve_as(local).await;
    let web: &[&str] = &["web.shop"];
    test.until_carried([&[], web, &[]]).await;
    test.cluster.put_endpoints("web", &ready(&["k8s-3"])).await;
    test.until_carried([&[], &[], web]).await;
    // Without pods those who served stay for half a minute.
    test.cluster.put_endpoints("web", &[]).await;
    test.until_carried([&[], &[], &[]]).await;
    test.cluster
        .put_endpoints("web", &ready(&["k8s-1", "k8s-2"]))
        .await;
    test.until_carried([web, web, &[]]).await;
}

#[scenario]
async fn a_restart_with_ten_services_writes_no_tag(mut test: ServiceHarness) {
    let names: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    for name in &names {
        test.create_service(service(name)).await;
    }
    for name in &names {
        test.until_published(name).await;
        test.until_event(name, "EnsuredLoadBalancer").await;
    }
    test.stop().await;
    let mark = test.mark();
    test.start().await;
    test.until_listed(2).await;
    // In memory all are compared again several times; on the real clock at least once.
    test.seconds(if is_real() { 10 } else { 600 }).await;
    let changes = test.changes(mark);
    assert!(changes.is_empty(), "{changes:?}");
    let written = test.all_service_writes().len();
    test.seconds(if is_real() { 5 } else { 600 }).await;
    assert_eq!(test.all_service_writes().len(), written);
}

#[scenario]
async fn while_the_name_service_is_down_a_new_service_waits_and_gets_its_name_when_it_is_back(
    test: ServiceHarness,
) {
    test.cloud.set_quirks(|quirks| quirks.names_down = true);
    let mark = test.mark();
    test.create_service(service("web")).await;
    test.until_event("web", "SyncLoadBalancerFailed").await;
    assert_eq!(test.changes(mark), []);
    assert_eq!(test.entrances("web"), [""; 0]);
    test.cloud.set_quirks(|quirks| quirks.names_down = false);
    test.until_published("web").await;
    test.until_resolved("web", 3).await;
}

#[scenario]
async fn a_wrong_annotation_is_named_and_changes_nothing(test: ServiceHarness) {
    test.serve("web").await;
    let mark = test.mark();
    let key = format!("{PREFIX}cns_port_mode");
    test.annotate("web", &key, Some("bogus")).await;
    let message = test.message("web", "InvalidAnnotation").await;
    assert!(message.contains("cns_port_mode"), "{message}");
    assert!(message.contains("bogus"), "{message}");
    let mut api = annotated("api", &[(&*format!("{PREFIX}cns_service"), "store")]);
    api["spec"]["ports"][0]["port"] = 8080.into();
    test.serve_as(api).await;
    // The other Service is as it was.
    let both: &[&str] = &["store", "web.shop"];
    test.until_carried([both, both, both]).await;
    let changes = test.changes(mark);
    assert!(!format!("{changes:?}").contains("DELETE"), "{changes:?}");
}

#[scenario]
async fn what_another_tool_takes_away_is_put_back(test: ServiceHarness) {
    test.serve("web").await;
    let tags = json!({ "role": "worker" });
    let tags = tags.as_object().unwrap().clone();
    test.cloud.replace_tags(&id(2), tags).unwrap();
    let web: &[&str] = &["web.shop"];
    test.until_carried([web, web, web]).await;
    let machine = test.cloud.machine(&name(2)).unwrap();
    assert_eq!(machine.tag("role"), Some("worker"));
}
