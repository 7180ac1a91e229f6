//! Cases on changes of the mode, and on trouble around load balancer machines.

use std::time::Duration;

use bowline_core::Goal;
use bowline_simulator_triton::State;

use super::shop::{NAME, Shop, node, open};

const FRONT: &str = "web.prod.svc.aaaaaaaa-0000-4000-8000-00000000000a.eg-1.cns.example.com";

fn tag(shop: &Shop, machine: &str, key: &str) -> Option<String> {
    let machine = shop.sim.machine(machine).unwrap();
    machine.tag(key).map(str::to_owned)
}

/// What a machine has for the name service; empty if there is nothing.
fn names(shop: &Shop, machine: &str) -> String {
    tag(shop, machine, "triton.cns.services").unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn from_names_of_nodes_to_machines_the_label_leaves_the_nodes_first() {
    let mut shop = Shop::new();
    shop.set("mode", "cns");
    shop.settle().await.good();
    assert_eq!(shop.shown(), FRONT);
    assert!(names(&shop, "k8s-1").starts_with("web.prod:"));
    shop.set("mode", "clb");
    shop.ensure().await.good();
    assert!(shop.shown().starts_with("203.0.113."), "{}", shop.shown());
    let none = tag(&shop, NAME, "triton.cns.services");
    assert_eq!(none, None, "nodes still have it");
    let both = names(&shop, "k8s-1");
    assert!(both.contains("k8s-nodes-cccccccc"), "{both}");
    assert!(both.contains("web.prod:30080"), "{both}");
    shop.settle().await.good();
    assert_eq!(names(&shop, "k8s-1"), "k8s-nodes-cccccccc");
    assert_eq!(names(&shop, NAME), "web.prod");
    assert!(shop.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn from_machines_to_names_of_nodes_the_machines_go_when_the_name_is_shown() {
    let mut shop = open().await;
    shop.set("mode", "cns");
    shop.ensure().await.good();
    assert_eq!((shop.shown().as_str(), shop.names().len()), (FRONT, 1));
    shop.settle().await.good();
    assert_eq!((shop.shown().as_str(), shop.names().len()), (FRONT, 0));
    assert_eq!(names(&shop, "k8s-1"), "web.prod:30080,web.prod:30443");
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut shop = open().await;
    shop.restart();
    assert!(shop.ensure().await.good().plan.is_empty());
    assert_eq!(shop.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn while_the_name_service_is_down_nothing_is_made_and_what_serves_stays() {
    let mut shop = Shop::new();
    shop.sim.set_quirks(|it| {
        it.names_down = true;
        it.networks_without_suffixes = true;
    });
    let outcome = shop.ensure().await;
    assert!(outcome.error.is_some() || !outcome.plan.problems.is_empty());
    assert_eq!((shop.machines().len(), shop.writes().len()), (0, 0));
    shop.sim.set_quirks(|it| it.names_down = false);
    shop.wait(61).await;
    shop.ensure().await.good();
    let shown = shop.shown();
    shop.calls();
    shop.sim.set_quirks(|it| it.names_down = true);
    shop.wait(61).await;
    let outcome = shop.ensure().await;
    assert!(outcome.good().plan.is_empty());
    assert_eq!(shop.shown(), shown);
    assert_eq!(shop.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_on_a_dead_compute_node_holds_up_nothing_else() {
    let mut shop = open().await;
    let compute_node = shop.machine().compute_node.unwrap();
    shop.sim.kill_compute_node(&compute_node);
    shop.service.ports[0].node_port = 30999;
    shop.service.source_ranges = vec!["198.51.100.0/24".to_owned()];
    let outcome = shop.ensure().await;
    assert_eq!(outcome.reasons(), ["CLBChangePending"]);
    assert!(shop.rules()[0].1.rule.contains("198.51.100.0/24"));
    shop.sim.revive_compute_node(&compute_node);
    shop.ensure().await.good();
    assert!(shop.metadata("portmap").unwrap().contains(":30999"));
}

#[tokio::test(start_paused = true)]
async fn nodes_come_and_go_without_a_word_to_the_machines() {
    let mut shop = open().await;
    let fourth = bowline_simulator_triton::MachineSpec::named("k8s-4").id(&super::shop::node_id(4));
    shop.sim.add_machine(&fourth).unwrap();
    shop.nodes.push(node(4));
    shop.nodes.remove(0);
    shop.wait(10).await;
    shop.ensure().await.good();
    assert_eq!(names(&shop, "k8s-4"), "k8s-nodes-cccccccc");
    let mut writes = shop.writes().into_iter();
    assert_eq!(writes.find(|it| it.contains("metadata")), None);
    for key in ["triton.cns.services", "bowline.cns", "bowline.node"] {
        let left = tag(&shop, "k8s-1", key);
        assert_eq!(left, None, "{key}: it has left the cluster");
    }
    // A node that nobody can read may be its node.
    let mut request = shop.request(Goal::Present);
    request.nodes.remove(0);
    request.excluded.unknown = vec!["k8s-2".to_owned()];
    let draft = shop.balancers().draft(&request).await.unwrap();
    assert!(draft.plan.is_empty(), "{:?}", draft.plan.steps);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_somebody_destroyed_is_made_again() {
    let mut shop = open().await;
    let old = shop.machine().id;
    shop.sim.destroy(NAME).unwrap();
    shop.wait(10).await;
    shop.ensure().await.good();
    let new = shop.machine();
    assert_ne!(new.id, old);
    assert_eq!(new.state, State::Running);
    assert!(shop.shown().contains(&new.addresses[0]));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_somebody_else_has_is_told_and_theirs_stays() {
    let mut shop = Shop::new();
    let theirs = bowline_simulator_triton::MachineSpec::named(NAME);
    shop.sim.add_machine(&theirs).unwrap();
    let outcome = shop.ensure().await;
    assert_eq!(outcome.reasons(), ["CLBNameTaken"]);
    let later = shop.ensure().await.hint.unwrap();
    assert!(later > Duration::from_secs(200), "{later:?}");
    assert_eq!(shop.machines(), []);
    assert!(shop.sim.machine(NAME).is_some());
}
