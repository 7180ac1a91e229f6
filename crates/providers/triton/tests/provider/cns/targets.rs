//! Cases on who serves.

use bowline_core::{Ready, TrafficPolicy};
use bowline_simulator_triton::State;
use serde_json::json;

use super::harness::{CLUSTER, Harness, id, outside};

async fn open() -> Harness {
    let mut test = Harness::new();
    test.add("web");
    test.ensure("web").await.good();
    test.changes();
    test
}

#[tokio::test(start_paused = true)]
async fn triton_case_34_a_node_that_is_not_ready_leaves_and_returns() {
    let mut test = open().await;
    test.nodes[1].ready = Ready::False;
    let outcome = test.ensure("web").await;
    assert!(outcome.good().plan.is_empty(), "its kubelet may be late");
    let pause = outcome.again.unwrap();
    assert!(pause.as_secs() <= 5, "{pause:?}");
    tokio::time::sleep(pause).await;
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:30080", "", "web.prod:30080"]);
    test.nodes[1].ready = Ready::True;
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:30080"; 3]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_35_only_nodes_with_endpoints_serve_and_new_ones_come_first() {
    let mut test = Harness::new();
    test.add("web").traffic_policy = TrafficPolicy::Local;
    test.serve_on("web", &["k8s-2"]);
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["", "web.prod:30080", ""]);
    test.changes();
    test.serve_on("web", &["k8s-3"]);
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["", "", "web.prod:30080"]);
    let changes = test.changes();
    assert!(changes[0].contains(&id(3)), "{changes:?}");
    // Without any endpoint those who served stay for a while: pods may be on their way.
    test.serve_on("web", &[]);
    let outcome = test.ensure("web").await;
    assert!(outcome.good().plan.is_empty());
    assert_eq!(outcome.again.unwrap().as_secs(), 30);
    tokio::time::sleep(outcome.again.unwrap()).await;
    test.ensure("web").await.good();
    assert_eq!(test.tags(), [""; 3]);
    assert_eq!(test.status("web"), [outside("web.prod")]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_38_a_machine_that_is_hidden_is_left_out_and_stays_hidden() {
    let mut test = Harness::new();
    let hidden = Some(json!(true));
    test.sim
        .set_tag(&id(2), "triton.cns.disable", hidden)
        .unwrap();
    test.add("web");
    let outcome = test.ensure("web").await;
    assert!(outcome.good().events().contains("CNSDisabledOnNode"));
    assert_eq!(test.tags(), ["web.prod:30080", "", "web.prod:30080"]);
    assert_eq!(test.machine(2).tags["triton.cns.disable"], json!(true));
}

#[tokio::test(start_paused = true)]
async fn the_selector_and_the_state_of_machines_choose_as_well() {
    let mut test = open().await;
    test.nodes[0].labels.insert("pool".into(), "web".into());
    test.nodes[1].labels.insert("pool".into(), "web".into());
    test.annotate("web", "node_selector", "pool=web");
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:30080", "web.prod:30080", ""]);
    test.sim.set_state(&id(2), State::Stopped).unwrap();
    test.wait(10).await;
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:30080", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_left_the_cluster_is_clean_and_an_excluded_node_keeps_its_mark() {
    let mut test = open().await;
    let excluded = test.nodes.remove(2);
    test.nodes.remove(1);
    test.excluded.excluded.extend(excluded.provider_id);
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:30080", "", ""]);
    assert_eq!(test.machine(2).tag("bowline.node"), None);
    assert_eq!(test.machine(3).tag("bowline.node"), Some(CLUSTER));
    assert_eq!(test.machine(3).tag("bowline.cns"), None);
    assert!(test.ensure("web").await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn while_a_node_cannot_be_read_no_machine_loses_anything() {
    let mut test = open().await;
    test.nodes.remove(1);
    test.excluded.unknown.push("k8s-2".to_owned());
    assert!(test.ensure("web").await.good().plan.is_empty());
    assert_eq!(test.tags(), ["web.prod:30080"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_another_cluster_is_left_alone_until_it_is_taken_over() {
    let other = "dddddddd-0000-4000-8000-00000000000d";
    let mut test = Harness::new();
    for (key, value) in [
        ("bowline.node", other),
        ("bowline.cns", "old.prod"),
        ("triton.cns.services", "mine:1,old.prod:30000"),
    ] {
        test.sim.set_tag(&id(1), key, Some(json!(value))).unwrap();
    }
    test.add("web");
    let outcome = test.ensure("web").await;
    let reason = "MachineOwnedByOtherCluster";
    assert!(outcome.good().events().contains(reason));
    assert_eq!(test.tag(1), "mine:1,old.prod:30000");
    assert_eq!(test.events().await, Some(("k8s-1".to_owned(), reason)));
    let annotations = &mut test.nodes[0].annotations;
    annotations.insert("cloud.tritoncompute/take_over".into(), "true".into());
    test.ensure("web").await.good();
    assert_eq!(test.tag(1), "mine:1,web.prod:30080");
    assert_eq!(test.machine(1).tag("bowline.node"), Some(CLUSTER));
    assert!(test.ensure("web").await.good().plan.is_empty());
}
