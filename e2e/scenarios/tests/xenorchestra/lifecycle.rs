//! Nodes whose machines are off, gone, or not to be seen.

use bowline_scenarios::objects::{SHUTDOWN, has_taint};
use bowline_scenarios::{scenario, status};
use bowline_simulator::KubeletSpec;
use bowline_simulator::faults::Action;
use bowline_simulator::journal::Entry;
use bowline_simulator::machines::Power;
use bowline_simulator_xenorchestra::PowerState;

use super::stage::{A_WHILE, H3, NODE, PA, Stage, VM_NAME, VM1, VM2, known_node};

/// The kubelet of VM1 comes up on what the scenario switches by itself.
fn join_apart(stage: &Stage) -> &'static str {
    let machine = "rack://one";
    stage.world.machines.set(machine, Power::Running);
    stage.join_as(KubeletSpec {
        machine_id: machine.to_owned(),
        ..stage.kubelet()
    });
    machine
}

#[scenario]
async fn xenorchestra_case_46_a_deleted_vm_takes_its_node_with_it_after_two_looks() {
    let story = async |settings: &str| {
        let stage = Stage::configured(settings).await;
        stage.joined().await;
        let before = stage.reads().len();
        stage.cloud.destroy(VM1).unwrap();
        stage.until_deleted(NODE).await;
        let message = stage.message(NODE, "DeletingNode").await;
        let wanted = "Deleting node w1 because it does not exist in the cloud provider";
        assert_eq!(message, wanted);
        let looks = stage.reads().split_off(before);
        let gone = |it: &&Entry| it.path == format!("/rest/v0/vms/{VM1}") && it.status == 404;
        assert!(looks.iter().filter(gone).count() >= 2, "{looks:?}");
        stage.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_47_a_ready_node_is_kept_whatever_is_said(stage: Stage) {
    join_apart(&stage);
    stage.until_ready(NODE, "True").await;
    stage.cloud.destroy(VM1).unwrap();
    stage.long(A_WHILE).await;
    assert!(stage.find(NODE).is_some());
    assert_eq!(stage.told(NODE, "DeletingNode"), 0);
}

#[scenario]
async fn xenorchestra_case_48_a_disconnected_pool_deletes_nothing() {
    let story = async |settings: &str| {
        let stage = Stage::configured(settings).await;
        stage.put_known("False").await;
        stage.until_read(1).await;
        let before = stage.content(NODE);
        stage.cloud.disconnect_pool(PA).unwrap();
        stage.until_read(3).await;
        stage.long(A_WHILE).await;
        assert_eq!(stage.content(NODE), before);
        assert_eq!(stage.told(NODE, "DeletingNode"), 0);
        // It comes back without the VM: now that is proven.
        stage.cloud.connect_pool(PA).unwrap();
        stage.cloud.destroy(VM1).unwrap();
        stage.until_deleted(NODE).await;
        stage.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_49_and_52_pages_and_failures_of_the_server_prove_nothing() {
    let story = async |fault| {
        let stage = Stage::new().await;
        stage.cloud.destroy(VM1).unwrap();
        stage.fail("vms/*", fault);
        stage.put_known("False").await;
        // That one is there and proves the account.
        let there = format!("xenorchestra://{PA}/{VM2}");
        stage.silent_node("there", Some(&there)).await;
        let before = stage.content(NODE);
        stage.until_read(3).await;
        stage.long(A_WHILE).await;
        assert_eq!(stage.content(NODE), before);
        stage.world.faults.clear();
        stage.until_deleted(NODE).await;
        stage.end().await;
    };
    futures::join!(story(Action::Html { code: 404 }), story(status(503)));
}

#[scenario]
async fn xenorchestra_case_52_an_unavailable_server_taints_nothing(stage: Stage) {
    stage.cloud.halt(VM1).unwrap();
    stage.fail("*", status(503));
    stage.put_known("False").await;
    let before = stage.content(NODE);
    stage.long(A_WHILE).await;
    assert_eq!(stage.content(NODE), before);
    stage.world.faults.clear();
    stage.shutdown_taint(NODE, true).await;
}

#[scenario]
async fn xenorchestra_case_50_the_shutdown_taint_follows_the_state() {
    let running = async {
        let stage = Stage::new().await;
        stage.put_known("False").await;
        stage.until_read(2).await;
        stage.seconds(20).await;
        assert!(!has_taint(&stage.node(NODE), SHUTDOWN), "it is running");
        stage.end().await;
    };
    let story = async |state| {
        let stage = Stage::new().await;
        stage.cloud.set_power(VM1, state).unwrap();
        stage.put_known("False").await;
        stage.shutdown_taint(NODE, true).await;
        stage.end().await;
    };
    futures::join!(
        running,
        story(PowerState::Halted),
        story(PowerState::Paused),
        story(PowerState::Suspended)
    );
}

/// A node whose VM was halted, tainted by now; and what its kubelet runs on.
async fn halted() -> (Stage, &'static str) {
    let stage = Stage::new().await;
    let machine = join_apart(&stage);
    stage.until_ready(NODE, "True").await;
    stage.world.machines.set(machine, Power::Off);
    stage.cloud.halt(VM1).unwrap();
    stage.shutdown_taint(NODE, true).await;
    (stage, machine)
}

#[scenario]
async fn xenorchestra_case_51_a_node_that_is_ready_again_loses_the_taint() {
    let (stage, machine) = halted().await;
    stage.cloud.start(VM1).unwrap();
    stage.world.machines.set(machine, Power::Running);
    stage.until_ready(NODE, "True").await;
    stage.shutdown_taint(NODE, false).await;
    stage.end().await;
}

#[scenario]
async fn xenorchestra_case_81_the_taint_stays_until_the_node_is_ready() {
    let (stage, machine) = halted().await;
    stage.cloud.start(VM1).unwrap();
    stage.until_read(2).await;
    stage.seconds(20).await;
    let node = stage.node(NODE);
    assert!(has_taint(&node, SHUTDOWN), "it runs, but is not Ready");
    stage.world.machines.set(machine, Power::Running);
    stage.until_ready(NODE, "True").await;
    stage.shutdown_taint(NODE, false).await;
    stage.end().await;
}

#[scenario]
async fn xenorchestra_case_53_a_renamed_vm_is_the_same_and_its_label_follows() {
    let story = async |settings: &str| {
        let stage = Stage::configured(settings).await;
        // Two Nodes of one VM would be proof case 48.
        let mut other = known_node("False");
        other["metadata"]["name"] = "w2".into();
        other["spec"]["providerID"] = format!("xenorchestra://{PA}/{VM2}").into();
        stage.put(other).await;
        stage.put_known("True").await;
        stage.cloud.rename(VM2, "Worker (two)").unwrap();
        stage.cloud.rename(VM1, "Worker (one)").unwrap();
        stage.until_label(VM_NAME, "Worker--one").await;
        stage.long(A_WHILE).await;
        assert!(stage.find(NODE).is_some());
        assert!(stage.find("w2").is_some(), "it exists, also if not Ready");
        assert_eq!(stage.synced(), [""; 0]);
        stage.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_54_a_vm_that_runs_in_another_pool_is_neither_gone_nor_off(stage: Stage) {
    stage.cloud.migrate(VM1, H3).unwrap();
    stage.put_known("False").await;
    stage.until_read(3).await;
    stage.long(A_WHILE).await;
    assert!(!has_taint(&stage.node(NODE), SHUTDOWN));
    // Also while the pool that its id names is not there.
    stage.cloud.disconnect_pool(PA).unwrap();
    stage.until_read(3).await;
    assert!(!has_taint(&stage.node(NODE), SHUTDOWN));
}
