//! Cases on changes of the mode, and on trouble around load balancer machines.

use std::time::Duration;

use bowline_core::Goal;
use bowline_simulator_triton::State;

use super::harness::{Harness, NAME, node, open};

const FRONT: &str = "web.prod.svc.aaaaaaaa-0000-4000-8000-00000000000a.eg-1.cns.example.com";

fn tag(test: &Harness, machine: &str, key: &str) -> Option<String> {
    let machine = test.sim.machine(machine).unwrap();
    machine.tag(key).map(str::to_owned)
}

/// What a machine has for the name service; empty if there is nothing.
fn names(test: &Harness, machine: &str) -> String {
    tag(test, machine, "triton.cns.services").unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn from_names_of_nodes_to_machines_the_label_leaves_the_nodes_first() {
    let mut test = Harness::new();
    test.set("mode", "cns");
    test.reconcile().await.good();
    assert_eq!(test.shown(), FRONT);
    assert!(names(&test, "k8s-1").starts_with("web.prod:"));
    test.set("mode", "clb");
    test.ensure().await.good();
    assert!(test.shown().starts_with("203.0.113."), "{}", test.shown());
    let none = tag(&test, NAME, "triton.cns.services");
    assert_eq!(none, None, "nodes still have it");
    let both = names(&test, "k8s-1");
    assert!(both.contains("k8s-nodes-cccccccc"), "{both}");
    assert!(both.contains("web.prod:30080"), "{both}");
    test.reconcile().await.good();
    assert_eq!(names(&test, "k8s-1"), "k8s-nodes-cccccccc");
    assert_eq!(names(&test, NAME), "web.prod");
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn from_machines_to_names_of_nodes_the_machines_go_when_the_name_is_shown() {
    let mut test = open().await;
    test.set("mode", "cns");
    test.ensure().await.good();
    assert_eq!((test.shown().as_str(), test.names().len()), (FRONT, 1));
    test.reconcile().await.good();
    assert_eq!((test.shown().as_str(), test.names().len()), (FRONT, 0));
    assert_eq!(names(&test, "k8s-1"), "web.prod:30080,web.prod:30443");
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let mut test = open().await;
    test.restart();
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn while_the_name_service_is_down_nothing_is_made_and_what_serves_stays() {
    let mut test = Harness::new();
    test.sim.set_quirks(|it| {
        it.names_down = true;
        it.networks_without_suffixes = true;
    });
    let outcome = test.ensure().await;
    assert!(outcome.error.is_some() || !outcome.plan.problems.is_empty());
    assert_eq!((test.machines().len(), test.writes().len()), (0, 0));
    test.sim.set_quirks(|it| it.names_down = false);
    test.wait(61).await;
    test.ensure().await.good();
    let shown = test.shown();
    test.calls();
    test.sim.set_quirks(|it| it.names_down = true);
    test.wait(61).await;
    let outcome = test.ensure().await;
    assert!(outcome.good().plan.is_empty());
    assert_eq!(test.shown(), shown);
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_on_a_dead_compute_node_holds_up_nothing_else() {
    let mut test = open().await;
    let compute_node = test.machine().compute_node.unwrap();
    test.sim.kill_compute_node(&compute_node);
    test.service.ports[0].node_port = 30999;
    test.service.source_ranges = vec!["198.51.100.0/24".to_owned()];
    let outcome = test.ensure().await;
    assert_eq!(outcome.reasons(), ["CLBChangePending"]);
    assert!(test.rules()[0].1.rule.contains("198.51.100.0/24"));
    test.sim.revive_compute_node(&compute_node);
    test.ensure().await.good();
    assert!(test.metadata("portmap").unwrap().contains(":30999"));
}

#[tokio::test(start_paused = true)]
async fn nodes_come_and_go_without_a_word_to_the_machines() {
    let mut test = open().await;
    let fourth =
        bowline_simulator_triton::MachineSpec::named("k8s-4").id(&super::harness::node_id(4));
    test.sim.add_machine(&fourth).unwrap();
    test.nodes.push(node(4));
    test.nodes.remove(0);
    test.wait(10).await;
    test.ensure().await.good();
    assert_eq!(names(&test, "k8s-4"), "k8s-nodes-cccccccc");
    let mut writes = test.writes().into_iter();
    assert_eq!(writes.find(|it| it.contains("metadata")), None);
    for key in ["triton.cns.services", "bowline.cns", "bowline.node"] {
        let left = tag(&test, "k8s-1", key);
        assert_eq!(left, None, "{key}: it has left the cluster");
    }
    // A node that nobody can read may be its node.
    let mut request = test.request(Goal::Present);
    request.nodes.remove(0);
    request.excluded.unknown = vec!["k8s-2".to_owned()];
    let draft = test.balancers().draft(&request).await.unwrap();
    assert!(draft.plan.is_empty(), "{:?}", draft.plan.steps);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_somebody_destroyed_is_made_again() {
    let mut test = open().await;
    let old = test.machine().id;
    test.sim.destroy(NAME).unwrap();
    test.wait(10).await;
    test.ensure().await.good();
    let new = test.machine();
    assert_ne!(new.id, old);
    assert_eq!(new.state, State::Running);
    assert!(test.shown().contains(&new.addresses[0]));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_somebody_else_has_is_reported_and_theirs_stays() {
    let mut test = Harness::new();
    let theirs = bowline_simulator_triton::MachineSpec::named(NAME);
    test.sim.add_machine(&theirs).unwrap();
    let outcome = test.ensure().await;
    assert_eq!(outcome.reasons(), ["CLBNameTaken"]);
    let later = test.ensure().await.hint.unwrap();
    assert!(later > Duration::from_secs(200), "{later:?}");
    assert_eq!(test.machines(), []);
    assert!(test.sim.machine(NAME).is_some());
}
