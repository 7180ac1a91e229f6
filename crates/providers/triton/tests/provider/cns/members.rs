//! Cases on who serves.

use bowline_core::{Ready, TrafficPolicy};
use bowline_simulator_triton::State;
use serde_json::json;

use super::shop::{CLUSTER, Shop, id, outside};

async fn open() -> Shop {
    let mut shop = Shop::new();
    shop.add("web");
    shop.ensure("web").await.good();
    shop.changes();
    shop
}

#[tokio::test(start_paused = true)]
async fn triton_case_34_a_node_that_is_not_ready_leaves_and_returns() {
    let mut shop = open().await;
    shop.nodes[1].ready = Ready::False;
    let outcome = shop.ensure("web").await;
    assert!(outcome.good().plan.is_empty(), "its kubelet may be late");
    let pause = outcome.again.unwrap();
    assert!(pause.as_secs() <= 5, "{pause:?}");
    tokio::time::sleep(pause).await;
    shop.ensure("web").await.good();
    assert_eq!(shop.tags(), ["web.prod:30080", "", "web.prod:30080"]);
    shop.nodes[1].ready = Ready::True;
    shop.ensure("web").await.good();
    assert_eq!(shop.tags(), ["web.prod:30080"; 3]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_35_only_nodes_with_endpoints_serve_and_new_ones_come_first() {
    let mut shop = Shop::new();
    shop.add("web").traffic_policy = TrafficPolicy::Local;
    shop.serve_on("web", &["k8s-2"]);
    shop.ensure("web").await.good();
    assert_eq!(shop.tags(), ["", "web.prod:30080", ""]);
    shop.changes();
    shop.serve_on("web", &["k8s-3"]);
    shop.ensure("web").await.good();
    assert_eq!(shop.tags(), ["", "", "web.prod:30080"]);
    let changes = shop.changes();
    assert!(changes[0].contains(&id(3)), "{changes:?}");
    // Without any endpoint those who served stay for a while: pods may be on their way.
    shop.serve_on("web", &[]);
    let outcome = shop.ensure("web").await;
    assert!(outcome.good().plan.is_empty());
    assert_eq!(outcome.again.unwrap().as_secs(), 30);
    tokio::time::sleep(outcome.again.unwrap()).await;
    shop.ensure("web").await.good();
    assert_eq!(shop.tags(), [""; 3]);
    assert_eq!(shop.status("web"), [outside("web.prod")]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_38_a_machine_that_is_hidden_is_left_out_and_stays_hidden() {
    let mut shop = Shop::new();
    let hidden = Some(json!(true));
    shop.sim
        .set_tag(&id(2), "triton.cns.disable", hidden)
        .unwrap();
    shop.add("web");
    let outcome = shop.ensure("web").await;
    assert!(outcome.good().events().contains("CNSDisabledOnNode"));
    assert_eq!(shop.tags(), ["web.prod:30080", "", "web.prod:30080"]);
    assert_eq!(shop.machine(2).tags["triton.cns.disable"], json!(true));
}

#[tokio::test(start_paused = true)]
async fn the_selector_and_the_state_of_machines_choose_as_well() {
    let mut shop = open().await;
    shop.nodes[0].labels.insert("pool".into(), "web".into());
    shop.nodes[1].labels.insert("pool".into(), "web".into());
    shop.annotate("web", "node_selector", "pool=web");
    shop.ensure("web").await.good();
    assert_eq!(shop.tags(), ["web.prod:30080", "web.prod:30080", ""]);
    shop.sim.set_state(&id(2), State::Stopped).unwrap();
    shop.wait(10).await;
    shop.ensure("web").await.good();
    assert_eq!(shop.tags(), ["web.prod:30080", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_left_the_cluster_is_clean_and_an_excluded_node_keeps_its_mark() {
    let mut shop = open().await;
    let excluded = shop.nodes.remove(2);
    shop.nodes.remove(1);
    shop.excluded.excluded.extend(excluded.provider_id);
    shop.ensure("web").await.good();
    assert_eq!(shop.tags(), ["web.prod:30080", "", ""]);
    assert_eq!(shop.machine(2).tag("bowline.node"), None);
    assert_eq!(shop.machine(3).tag("bowline.node"), Some(CLUSTER));
    assert_eq!(shop.machine(3).tag("bowline.cns"), None);
    assert!(shop.ensure("web").await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_a_node_cannot_be_read_no_machine_loses_anything() {
    let mut shop = open().await;
    shop.nodes.remove(1);
    shop.excluded.unknown.push("k8s-2".to_owned());
    assert!(shop.ensure("web").await.good().plan.is_empty());
    assert_eq!(shop.tags(), ["web.prod:30080"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_another_cluster_is_left_alone_until_it_is_taken_over() {
    let other = "dddddddd-0000-4000-8000-00000000000d";
    let mut shop = Shop::new();
    for (key, value) in [
        ("bowline.node", other),
        ("bowline.cns", "old.prod"),
        ("triton.cns.services", "mine:1,old.prod:30000"),
    ] {
        shop.sim.set_tag(&id(1), key, Some(json!(value))).unwrap();
    }
    shop.add("web");
    let outcome = shop.ensure("web").await;
    let reason = "MachineOwnedByOtherCluster";
    assert!(outcome.good().events().contains(reason));
    assert_eq!(shop.tag(1), "mine:1,old.prod:30000");
    assert_eq!(shop.news().await, Some(("k8s-1".to_owned(), reason)));
    let annotations = &mut shop.nodes[0].annotations;
    annotations.insert("cloud.tritoncompute/take_over".into(), "true".into());
    shop.ensure("web").await.good();
    assert_eq!(shop.tag(1), "mine:1,web.prod:30080");
    assert_eq!(shop.machine(1).tag("bowline.node"), Some(CLUSTER));
    assert!(shop.ensure("web").await.good().plan.is_empty());
}
