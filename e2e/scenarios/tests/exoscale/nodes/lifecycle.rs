//! Nodes whose machines are off, gone, or somebody else's.

use bowline_scenarios::objects::{SHUTDOWN, has_taint, known, node_info, silent, text};
use bowline_scenarios::{is_real, scenario, status};
use bowline_simulator::KubeletSpec;
use bowline_simulator::faults::Action;
use bowline_simulator::machines::Power;
use bowline_simulator_exoscale::{InstanceSpec, State};

use super::harness::{A_WHILE, Harness, I1, I2, NOBODY, NODE, OTHER};

fn id(instance: &str) -> String {
    format!("exoscale://{instance}")
}

#[scenario]
async fn exoscale_case_27_a_destroyed_instance_takes_its_node_with_it_and_no_other(test: Harness) {
    test.join(I1);
    test.join(I2);
    test.until_ready(NODE, "True").await;
    test.until_ready(OTHER, "True").await;
    let other = test.content(OTHER);
    test.cloud.destroy(I1).unwrap();
    test.until_deleted(NODE).await;
    let message = test.message(NODE, "DeletingNode").await;
    let wanted = format!("Deleting node {NODE} because it does not exist in the cloud provider");
    assert_eq!(message, wanted);
    test.long(A_WHILE).await;
    assert_eq!(test.content(OTHER), other);
}

#[scenario]
async fn what_is_destroyed_but_still_shown_is_gone_as_well(test: Harness) {
    test.silent_node(NODE, Some(&id(I1))).await;
    test.cloud.set_state(I1, State::Destroying).unwrap();
    test.shutdown_taint(NODE, true).await;
    test.deform(I1, &serde_json::json!({ "state": "expunging" }));
    test.until_deleted(NODE).await;
}

#[scenario]
async fn exoscale_case_28_while_the_api_fails_or_hangs_nothing_is_deleted() {
    let story = async |fault| {
        let test = Harness::new().await;
        test.fail(fault);
        test.silent_node("x", Some(&id(NOBODY))).await;
        // That one is there and proves the account.
        test.silent_node(NODE, Some(&id(I1))).await;
        let before = test.content("x");
        test.long(A_WHILE).await;
        assert_eq!(test.content("x"), before);
        // Again and again; on the real clock there is not much time for calls that hang.
        let least = if is_real() { 1 } else { 10 };
        assert!(test.cloud_calls("*").len() >= least);
        test.world.faults.clear();
        test.until_deleted("x").await;
        test.end().await;
    };
    futures::join!(story(status(500)), story(Action::Hang));
}

#[scenario]
async fn exoscale_case_82_a_denial_neither_deletes_nor_taints(test: Harness) {
    test.cloud.deny(&["get-instance", "list-instances"]);
    test.silent_node(NODE, Some(&id(I1))).await;
    test.silent_node("x", Some(&id(NOBODY))).await;
    test.cloud.stop(I1).unwrap();
    let before = (test.content(NODE), test.content("x"));
    test.long(A_WHILE).await;
    assert_eq!((test.content(NODE), test.content("x")), before);
    assert!(test.cloud_calls("*").len() > 3);
    test.cloud.permit_all();
    test.shutdown_taint(NODE, true).await;
    test.until_deleted("x").await;
}

#[scenario]
async fn exoscale_case_29_the_shutdown_taint_follows_the_state(test: Harness) {
    test.silent_node(NODE, Some(&id(I1))).await;
    test.silent_node(OTHER, Some(&id(I2))).await;
    test.seconds(30).await;
    assert!(!has_taint(&test.node(NODE), SHUTDOWN), "it is running");
    test.cloud.set_state(I1, State::Stopping).unwrap();
    test.shutdown_taint(NODE, true).await;
    test.cloud.set_state(I2, State::Stopped).unwrap();
    test.shutdown_taint(OTHER, true).await;
}

#[scenario]
async fn exoscale_case_30_a_ready_node_loses_the_shutdown_taint_without_a_question(test: Harness) {
    let mut node = known(NODE, &id(I1), "True", &["Hostname:h"]);
    node["spec"]["taints"] = serde_json::json!([{
        "key": bowline_core::SHUTDOWN_TAINT, "effect": "NoSchedule",
    }]);
    // Whoever asks is told nothing.
    test.fail(status(500));
    test.put(node).await;
    test.shutdown_taint(NODE, false).await;
}

#[scenario]
async fn exoscale_case_95_the_taint_stays_until_the_node_is_ready(test: Harness) {
    // The kubelet lives on what the scenario switches by itself.
    let machine = "rack://one";
    test.world.machines.set(machine, Power::Running);
    test.join_as(KubeletSpec {
        machine_id: machine.to_owned(),
        ..test.kubelet(I1)
    });
    test.until_ready(NODE, "True").await;
    test.world.machines.set(machine, Power::Off);
    test.cloud.stop(I1).unwrap();
    test.shutdown_taint(NODE, true).await;
    test.cloud.start(I1).unwrap();
    test.seconds(60).await;
    assert!(
        has_taint(&test.node(NODE), SHUTDOWN),
        "it runs, but is not Ready"
    );
    test.world.machines.set(machine, Power::Running);
    test.until_ready(NODE, "True").await;
    test.shutdown_taint(NODE, false).await;
}

#[scenario]
async fn exoscale_case_37_a_foreign_node_costs_no_call_and_is_never_touched(test: Harness) {
    test.silent_node("foreign", Some("hcloud://42")).await;
    let before = test.content("foreign");
    test.long(A_WHILE).await;
    assert_eq!(test.content("foreign"), before);
    assert_eq!(test.cloud_calls("*").len(), 0);
    assert_eq!(test.writes_to("*").len(), 0);
}

/// The account is proven by a Node with a provider id, as proof case 9 wants it: what a kubelet says of itself proves
/// nothing.
#[scenario]
async fn exoscale_case_83_a_settled_node_without_an_id_goes_with_its_machine(test: Harness) {
    let spec = InstanceSpec::named("witness");
    let witness = test.cloud.add_instance(&spec).unwrap();
    let id = format!("exoscale://{witness}");
    let host = "Hostname:witness";
    test.put(known("witness", &id, "True", &[host])).await;
    // Kubelets of some nodepools know of no cloud: no taint, and nobody gives them an id.
    let mut node = silent(NODE, None);
    node["status"]["nodeInfo"] = node_info(I1, "");
    let mut other = silent(OTHER, None);
    other["status"]["nodeInfo"] = node_info(I2, "");
    test.put(node).await;
    test.put(other).await;
    test.seconds(30).await;
    test.cloud.destroy(I1).unwrap();
    test.until_deleted(NODE).await;
    test.long(A_WHILE).await;
    let other = test.node(OTHER);
    assert_eq!(text(&other["spec"]["providerID"]), "");
}

#[scenario]
async fn exoscale_case_92_an_id_of_no_override_costs_no_call_and_the_node_is_kept(test: Harness) {
    test.silent_node("rack", Some("exoscale://rack7-u12")).await;
    let message = test.message("rack", "MalformedProviderID").await;
    assert!(message.contains("exoscale://rack7-u12"), "{message}");
    let before = test.content("rack");
    test.long(A_WHILE).await;
    assert_eq!(test.content("rack"), before);
    assert_eq!(test.event_count("rack", "MalformedProviderID"), 1);
    assert_eq!(test.cloud_calls("*").len(), 0);
    assert_eq!(test.writes_to("*").len(), 0);
}

#[scenario]
async fn exoscale_case_93_a_bare_uuid_is_an_id_too(test: Harness) {
    test.silent_node(NODE, Some(I1)).await;
    test.cloud.stop(I1).unwrap();
    test.shutdown_taint(NODE, true).await;
}
