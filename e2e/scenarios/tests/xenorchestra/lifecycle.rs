//! Nodes whose machines are off, gone, or not to be seen.

use bowline_scenarios::objects::{SHUTDOWN, has_taint};
use bowline_scenarios::{scenario, status};
use bowline_simulator::KubeletSpec;
use bowline_simulator::faults::Action;
use bowline_simulator::journal::Entry;
use bowline_simulator::machines::Power;
use bowline_simulator_xenorchestra::PowerState;

use super::harness::{A_WHILE, H3, Harness, NODE, PA, VM_NAME, VM1, VM2, known_node};

/// The kubelet of VM1 comes up on what the scenario switches by itself.
fn join_apart(test: &Harness) -> &'static str {
    let machine = "rack://one";
    test.world.machines.set(machine, Power::Running);
    test.join_as(KubeletSpec {
        machine_id: machine.to_owned(),
        ..test.kubelet()
    });
    machine
}

#[scenario]
async fn xenorchestra_case_46_a_deleted_vm_takes_its_node_with_it_after_two_looks() {
    let story = async |settings: &str| {
        let test = Harness::configured(settings).await;
        test.joined().await;
        let before = test.reads().len();
        test.cloud.destroy(VM1).unwrap();
        test.until_deleted(NODE).await;
        let message = test.message(NODE, "DeletingNode").await;
        let wanted = "Deleting node w1 because it does not exist in the cloud provider";
        assert_eq!(message, wanted);
        let looks = test.reads().split_off(before);
        let gone = |it: &&Entry| it.path == format!("/rest/v0/vms/{VM1}") && it.status == 404;
        assert!(looks.iter().filter(gone).count() >= 2, "{looks:?}");
        test.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_47_a_ready_node_is_kept_whatever_is_said(test: Harness) {
    join_apart(&test);
    test.until_ready(NODE, "True").await;
    test.cloud.destroy(VM1).unwrap();
    test.long(A_WHILE).await;
    assert!(test.find(NODE).is_some());
    assert_eq!(test.event_count(NODE, "DeletingNode"), 0);
}

#[scenario]
async fn xenorchestra_case_48_a_disconnected_pool_deletes_nothing() {
    let story = async |settings: &str| {
        let test = Harness::configured(settings).await;
        test.put_known("False").await;
        test.until_read(1).await;
        let before = test.content(NODE);
        test.cloud.disconnect_pool(PA).unwrap();
        test.until_read(3).await;
        test.long(A_WHILE).await;
        assert_eq!(test.content(NODE), before);
        assert_eq!(test.event_count(NODE, "DeletingNode"), 0);
        // It comes back without the VM: now that is proven.
        test.cloud.connect_pool(PA).unwrap();
        test.cloud.destroy(VM1).unwrap();
        test.until_deleted(NODE).await;
        test.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_49_and_52_pages_and_failures_of_the_server_prove_nothing() {
    let story = async |fault| {
        let test = Harness::new().await;
        test.cloud.destroy(VM1).unwrap();
        test.fail("vms/*", fault);
        test.put_known("False").await;
        // That one is there and proves the account.
        let there = format!("xenorchestra://{PA}/{VM2}");
        test.silent_node("there", Some(&there)).await;
        let before = test.content(NODE);
        test.until_read(3).await;
        test.long(A_WHILE).await;
        assert_eq!(test.content(NODE), before);
        test.world.faults.clear();
        test.until_deleted(NODE).await;
        test.end().await;
    };
    futures::join!(story(Action::Html { code: 404 }), story(status(503)));
}

#[scenario]
async fn xenorchestra_case_52_an_unavailable_server_taints_nothing(test: Harness) {
    test.cloud.halt(VM1).unwrap();
    test.fail("*", status(503));
    test.put_known("False").await;
    let before = test.content(NODE);
    test.long(A_WHILE).await;
    assert_eq!(test.content(NODE), before);
    test.world.faults.clear();
    test.shutdown_taint(NODE, true).await;
}

#[scenario]
async fn xenorchestra_case_50_the_shutdown_taint_follows_the_state() {
    let running = async {
        let test = Harness::new().await;
        test.put_known("False").await;
        test.until_read(2).await;
        test.seconds(20).await;
        assert!(!has_taint(&test.node(NODE), SHUTDOWN), "it is running");
        test.end().await;
    };
    let story = async |state| {
        let test = Harness::new().await;
        test.cloud.set_power(VM1, state).unwrap();
        test.put_known("False").await;
        test.shutdown_taint(NODE, true).await;
        test.end().await;
    };
    futures::join!(
        running,
        story(PowerState::Halted),
        story(PowerState::Paused),
        story(PowerState::Suspended)
    );
}

/// A node whose VM was halted, tainted by now; and what its kubelet runs on.
async fn halted() -> (Harness, &'static str) {
    let test = Harness::new().await;
    let machine = join_apart(&test);
    test.until_ready(NODE, "True").await;
    test.world.machines.set(machine, Power::Off);
    test.cloud.halt(VM1).unwrap();
    test.shutdown_taint(NODE, true).await;
    (test, machine)
}

#[scenario]
async fn xenorchestra_case_51_a_node_that_is_ready_again_loses_the_taint() {
    let (test, machine) = halted().await;
    test.cloud.start(VM1).unwrap();
    test.world.machines.set(machine, Power::Running);
    test.until_ready(NODE, "True").await;
    test.shutdown_taint(NODE, false).await;
    test.end().await;
}

#[scenario]
async fn xenorchestra_case_81_the_taint_stays_until_the_node_is_ready() {
    let (test, machine) = halted().await;
    test.cloud.start(VM1).unwrap();
    test.until_read(2).await;
    test.seconds(20).await;
    let node = test.node(NODE);
    assert!(has_taint(&node, SHUTDOWN), "it runs, but is not Ready");
    test.world.machines.set(machine, Power::Running);
    test.until_ready(NODE, "True").await;
    test.shutdown_taint(NODE, false).await;
    test.end().await;
}

#[scenario]
async fn xenorchestra_case_53_a_renamed_vm_is_the_same_and_its_label_follows() {
    let story = async |settings: &str| {
        let test = Harness::configured(settings).await;
        // Two Nodes of one VM would be proof case 48.
        let mut other = known_node("False");
        other["metadata"]["name"] = "w2".into();
        other["spec"]["providerID"] = format!("xenorchestra://{PA}/{VM2}").into();
        test.put(other).await;
        test.put_known("True").await;
        test.cloud.rename(VM2, "Worker (two)").unwrap();
        test.cloud.rename(VM1, "Worker (one)").unwrap();
        test.until_label(VM_NAME, "Worker--one").await;
        test.long(A_WHILE).await;
        assert!(test.find(NODE).is_some());
        assert!(test.find("w2").is_some(), "it exists, also if not Ready");
        assert_eq!(test.synced(), [""; 0]);
        test.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_54_a_vm_that_runs_in_another_pool_is_neither_gone_nor_off(
    test: Harness,
) {
    test.cloud.migrate(VM1, H3).unwrap();
    test.put_known("False").await;
    test.until_read(3).await;
    test.long(A_WHILE).await;
    assert!(!has_taint(&test.node(NODE), SHUTDOWN));
    // Also while the pool that its id names is not there.
    test.cloud.disconnect_pool(PA).unwrap();
    test.until_read(3).await;
    assert!(!has_taint(&test.node(NODE), SHUTDOWN));
}
