//! Services by DNS: a name of the nodes, kept by tags of their machines.

use std::time::Duration;

use bowline_scenarios::objects::{annotated, service};
use bowline_scenarios::{is_real, scenario};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::{Value, json};

use crate::shop::{PREFIX, Shop, outside};
use crate::stage::{id, name};

/// Nodes with a pod that is ready.
fn ready<'a>(nodes: &[&'a str]) -> Vec<(&'a str, Value)> {
    let ready = json!({ "ready": true });
    nodes.iter().map(|node| (*node, ready.clone())).collect()
}

#[scenario]
async fn a_service_has_a_dns_name_of_all_nodes_until_it_is_deleted(shop: Shop) {
    let web = shop.serve("web").await;
    assert_eq!(shop.entrances("web"), [outside("web.shop")]);
    let port = &web["spec"]["ports"][0]["nodePort"];
    let namespaces: Api<Namespace> = Api::all(shop.admin());
    let cluster = namespaces.get("kube-system").await.unwrap().metadata.uid;
    for number in 1..=3 {
        let machine = shop.cloud.machine(&name(number)).unwrap();
        let entry = format!("{}:{port}", shop.label("web"));
        assert_eq!(machine.tag("triton.cns.services"), Some(&*entry));
        assert_eq!(machine.tag("bowline.node"), cluster.as_deref());
    }
    shop.until_resolved("web", 3).await;
    let targets = shop.cloud.resolve_services(&shop.outside("web"));
    assert!(
        targets.iter().all(|(it, _)| json!(it) == *port),
        "{targets:?}"
    );
    let told = web["metadata"]["annotations"][format!("{PREFIX}status")].as_str();
    assert!(told.is_some_and(|it| it.contains("80/TCP")), "{told:?}");
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    assert_eq!(shop.carried(), [const { Vec::<String>::new() }; 3]);
    shop.until_resolved("web", 0).await;
}

#[scenario]
async fn two_services_at_once_share_machines_with_each_other_and_with_somebody_else(shop: Shop) {
    let tag = Some(json!("k8s-api:6443"));
    shop.cloud
        .set_tag(&id(1), "triton.cns.services", tag)
        .unwrap();
    futures::join!(shop.serve("web"), shop.serve("api"));
    let ours: &[&str] = &["api.shop", "web.shop"];
    let first: &[&str] = &["api.shop", "k8s-api", "web.shop"];
    shop.until_carried([first, ours, ours]).await;
    shop.delete_service("api").await;
    shop.until_service_gone("api").await;
    let left: &[&str] = &["web.shop"];
    shop.until_carried([&["k8s-api", "web.shop"], left, left])
        .await;
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    shop.until_carried([&["k8s-api"], &[], &[]]).await;
}

#[scenario]
async fn a_node_that_is_not_ready_leaves_within_fifteen_seconds_and_returns(shop: Shop) {
    shop.serve("web").await;
    let web: &[&str] = &["web.shop"];
    let begun = shop.world.clock.now();
    shop.set_ready("k8s-2", "Unknown").await;
    shop.until_carried([web, &[], web]).await;
    let took = shop.since(begun);
    assert!(is_real() || took <= Duration::from_secs(15), "{took:?}");
    shop.set_ready("k8s-2", "True").await;
    shop.until_carried([web, web, web]).await;
    assert_eq!(shop.entrances("web"), [outside("web.shop")]);
}

#[scenario]
async fn a_local_service_is_where_its_pods_are(shop: Shop) {
    shop.cluster.put_endpoints("web", &ready(&["k8s-2"])).await;
    let mut local = service("web");
    local["spec"]["externalTrafficPolicy"] = "Local".into();
    shop.serve_as(local).await;
    let web: &[&str] = &["web.shop"];
    shop.until_carried([&[], web, &[]]).await;
    shop.cluster.put_endpoints("web", &ready(&["k8s-3"])).await;
    shop.until_carried([&[], &[], web]).await;
    // Without pods those who served stay for half a minute.
    shop.cluster.put_endpoints("web", &[]).await;
    shop.until_carried([&[], &[], &[]]).await;
    shop.cluster
        .put_endpoints("web", &ready(&["k8s-1", "k8s-2"]))
        .await;
    shop.until_carried([web, web, &[]]).await;
}

#[scenario]
async fn a_restart_with_ten_services_writes_no_tag(mut shop: Shop) {
    let names: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    for name in &names {
        shop.create_service(service(name)).await;
    }
    for name in &names {
        shop.until_published(name).await;
        shop.until_told(name, "EnsuredLoadBalancer").await;
    }
    shop.stop().await;
    let mark = shop.mark();
    shop.start().await;
    shop.until_listed(2).await;
    // In memory all are compared again several times; on the real clock at least once.
    shop.seconds(if is_real() { 10 } else { 600 }).await;
    let changes = shop.changes(mark);
    assert!(changes.is_empty(), "{changes:?}");
    let written = shop.all_service_writes().len();
    shop.seconds(if is_real() { 5 } else { 600 }).await;
    assert_eq!(shop.all_service_writes().len(), written);
}

#[scenario]
async fn while_the_name_service_is_down_a_new_service_waits_and_gets_its_name_when_it_is_back(
    shop: Shop,
) {
    shop.cloud.set_quirks(|quirks| quirks.names_down = true);
    let mark = shop.mark();
    shop.create_service(service("web")).await;
    shop.until_told("web", "SyncLoadBalancerFailed").await;
    assert_eq!(shop.changes(mark), []);
    assert_eq!(shop.entrances("web"), [""; 0]);
    shop.cloud.set_quirks(|quirks| quirks.names_down = false);
    shop.until_published("web").await;
    shop.until_resolved("web", 3).await;
}

#[scenario]
async fn a_wrong_annotation_is_named_and_changes_nothing(shop: Shop) {
    shop.serve("web").await;
    let mark = shop.mark();
    let key = format!("{PREFIX}cns_port_mode");
    shop.annotate("web", &key, Some("bogus")).await;
    let message = shop.message("web", "InvalidAnnotation").await;
    assert!(message.contains("cns_port_mode"), "{message}");
    assert!(message.contains("bogus"), "{message}");
    let mut api = annotated("api", &[(&*format!("{PREFIX}cns_service"), "store")]);
    api["spec"]["ports"][0]["port"] = 8080.into();
    shop.serve_as(api).await;
    // The other Service is as it was.
    let both: &[&str] = &["store", "web.shop"];
    shop.until_carried([both, both, both]).await;
    let changes = shop.changes(mark);
    assert!(!format!("{changes:?}").contains("DELETE"), "{changes:?}");
}

#[scenario]
async fn what_another_tool_takes_away_is_put_back(shop: Shop) {
    shop.serve("web").await;
    let tags = json!({ "role": "worker" });
    let tags = tags.as_object().unwrap().clone();
    shop.cloud.replace_tags(&id(2), tags).unwrap();
    let web: &[&str] = &["web.shop"];
    shop.until_carried([web, web, web]).await;
    let machine = shop.cloud.machine(&name(2)).unwrap();
    assert_eq!(machine.tag("role"), Some("worker"));
}
