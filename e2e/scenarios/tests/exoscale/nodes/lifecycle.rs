//! Nodes whose machines are off, gone, or somebody else's.

use bowline_scenarios::objects::{SHUTDOWN, has_taint, known, node_info, silent, text};
use bowline_scenarios::{is_real, scenario, status};
use bowline_simulator::KubeletSpec;
use bowline_simulator::faults::Action;
use bowline_simulator::machines::Power;
use bowline_simulator_exoscale::{InstanceSpec, State};

use super::stage::{A_WHILE, I1, I2, NOBODY, NODE, OTHER, Stage};

fn id(instance: &str) -> String {
    format!("exoscale://{instance}")
}

#[scenario]
async fn exoscale_case_27_a_destroyed_instance_takes_its_node_with_it_and_no_other(stage: Stage) {
    stage.join(I1);
    stage.join(I2);
    stage.until_ready(NODE, "True").await;
    stage.until_ready(OTHER, "True").await;
    let other = stage.content(OTHER);
    stage.cloud.destroy(I1).unwrap();
    stage.until_deleted(NODE).await;
    let message = stage.message(NODE, "DeletingNode").await;
    let wanted = format!("Deleting node {NODE} because it does not exist in the cloud provider");
    assert_eq!(message, wanted);
    stage.long(A_WHILE).await;
    assert_eq!(stage.content(OTHER), other);
}

#[scenario]
async fn what_is_destroyed_but_still_shown_is_gone_as_well(stage: Stage) {
    stage.silent_node(NODE, Some(&id(I1))).await;
    stage.cloud.set_state(I1, State::Destroying).unwrap();
    stage.shutdown_taint(NODE, true).await;
    stage.deform(I1, &serde_json::json!({ "state": "expunging" }));
    stage.until_deleted(NODE).await;
}

#[scenario]
async fn exoscale_case_28_while_the_api_fails_or_hangs_nothing_is_deleted() {
    let story = async |fault| {
        let stage = Stage::new().await;
        stage.fail(fault);
        stage.silent_node("x", Some(&id(NOBODY))).await;
        // That one is there and proves the account.
        stage.silent_node(NODE, Some(&id(I1))).await;
        let before = stage.content("x");
        stage.long(A_WHILE).await;
        assert_eq!(stage.content("x"), before);
        // Again and again; on the real clock there is not much time for calls that hang.
        let least = if is_real() { 1 } else { 10 };
        assert!(stage.cloud_calls("*").len() >= least);
        stage.world.faults.clear();
        stage.until_deleted("x").await;
        stage.end().await;
    };
    futures::join!(story(status(500)), story(Action::Hang));
}

#[scenario]
async fn exoscale_case_82_a_denial_neither_deletes_nor_taints(stage: Stage) {
    stage.cloud.deny(&["get-instance", "list-instances"]);
    stage.silent_node(NODE, Some(&id(I1))).await;
    stage.silent_node("x", Some(&id(NOBODY))).await;
    stage.cloud.stop(I1).unwrap();
    let before = (stage.content(NODE), stage.content("x"));
    stage.long(A_WHILE).await;
    assert_eq!((stage.content(NODE), stage.content("x")), before);
    assert!(stage.cloud_calls("*").len() > 3);
    stage.cloud.permit_all();
    stage.shutdown_taint(NODE, true).await;
    stage.until_deleted("x").await;
}

#[scenario]
async fn exoscale_case_29_the_shutdown_taint_follows_the_state(stage: Stage) {
    stage.silent_node(NODE, Some(&id(I1))).await;
    stage.silent_node(OTHER, Some(&id(I2))).await;
    stage.seconds(30).await;
    assert!(!has_taint(&stage.node(NODE), SHUTDOWN), "it is running");
    stage.cloud.set_state(I1, State::Stopping).unwrap();
    stage.shutdown_taint(NODE, true).await;
    stage.cloud.set_state(I2, State::Stopped).unwrap();
    stage.shutdown_taint(OTHER, true).await;
}

#[scenario]
async fn exoscale_case_30_a_ready_node_loses_the_shutdown_taint_without_a_question(stage: Stage) {
    let mut node = known(NODE, &id(I1), "True", &["Hostname:h"]);
    node["spec"]["taints"] = serde_json::json!([{
        "key": bowline_core::SHUTDOWN_TAINT, "effect": "NoSchedule",
    }]);
    // Whoever asks is told nothing.
    stage.fail(status(500));
    stage.put(node).await;
    stage.shutdown_taint(NODE, false).await;
}

#[scenario]
async fn exoscale_case_95_the_taint_stays_until_the_node_is_ready(stage: Stage) {
    // The kubelet lives on what the scenario switches by itself.
    let machine = "rack://one";
    stage.world.machines.set(machine, Power::Running);
    stage.join_as(KubeletSpec {
        machine_id: machine.to_owned(),
        ..stage.kubelet(I1)
    });
    stage.until_ready(NODE, "True").await;
    stage.world.machines.set(machine, Power::Off);
    stage.cloud.stop(I1).unwrap();
    stage.shutdown_taint(NODE, true).await;
    stage.cloud.start(I1).unwrap();
    stage.seconds(60).await;
    assert!(
        has_taint(&stage.node(NODE), SHUTDOWN),
        "it runs, but is not Ready"
    );
    stage.world.machines.set(machine, Power::Running);
    stage.until_ready(NODE, "True").await;
    stage.shutdown_taint(NODE, false).await;
}

#[scenario]
async fn exoscale_case_37_a_foreign_node_costs_no_call_and_is_never_touched(stage: Stage) {
    stage.silent_node("foreign", Some("hcloud://42")).await;
    let before = stage.content("foreign");
    stage.long(A_WHILE).await;
    assert_eq!(stage.content("foreign"), before);
    assert_eq!(stage.cloud_calls("*").len(), 0);
    assert_eq!(stage.writes_to("*").len(), 0);
}

/// The account is proven by a Node with a provider id, as proof case 9 wants it: what a kubelet says of itself proves
/// nothing.
#[scenario]
async fn exoscale_case_83_a_settled_node_without_an_id_goes_with_its_machine(stage: Stage) {
    let spec = InstanceSpec::named("witness");
    let witness = stage.cloud.add_instance(&spec).unwrap();
    let id = format!("exoscale://{witness}");
    let host = "Hostname:witness";
    stage.put(known("witness", &id, "True", &[host])).await;
    // Kubelets of some nodepools know of no cloud: no taint, and nobody gives them an id.
    let mut node = silent(NODE, None);
    node["status"]["nodeInfo"] = node_info(I1, "");
    let mut other = silent(OTHER, None);
    other["status"]["nodeInfo"] = node_info(I2, "");
    stage.put(node).await;
    stage.put(other).await;
    stage.seconds(30).await;
    stage.cloud.destroy(I1).unwrap();
    stage.until_deleted(NODE).await;
    stage.long(A_WHILE).await;
    let other = stage.node(OTHER);
    assert_eq!(text(&other["spec"]["providerID"]), "");
}

#[scenario]
async fn exoscale_case_92_an_id_of_no_override_costs_no_call_and_the_node_is_kept(stage: Stage) {
    stage
        .silent_node("rack", Some("exoscale://rack7-u12"))
        .await;
    let message = stage.message("rack", "MalformedProviderID").await;
    assert!(message.contains("exoscale://rack7-u12"), "{message}");
    let before = stage.content("rack");
    stage.long(A_WHILE).await;
    assert_eq!(stage.content("rack"), before);
    assert_eq!(stage.told("rack", "MalformedProviderID"), 1);
    assert_eq!(stage.cloud_calls("*").len(), 0);
    assert_eq!(stage.writes_to("*").len(), 0);
}

#[scenario]
async fn exoscale_case_93_a_bare_uuid_is_an_id_too(stage: Stage) {
    stage.silent_node(NODE, Some(I1)).await;
    stage.cloud.stop(I1).unwrap();
    stage.shutdown_taint(NODE, true).await;
}
