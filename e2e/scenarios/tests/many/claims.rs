//! Nothing is configured about nodes: each is of the cloud that alone has its machine, and of nobody while that cannot
//! be told.

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::{is_real, scenario, status};
use bowline_simulator::faults::Rule;

use crate::stage::{EAST, Stage, TALOS, TRITON, Telling, WEST, XEN};

/// Longer than the patience of every retry.
fn a_while() -> u64 {
    if is_real() { 10 } else { 300 }
}

#[scenario]
async fn a_machine_of_the_same_name_in_both_accounts_is_nobodys_until_one_is_gone() {
    let mut stage = Stage::idle(Telling::Claims).await;
    let east = stage.machine(EAST, 11);
    let twin = stage.machine(WEST, 21);
    let name = stage.cluster.names().own(&east.name);
    stage.west.rename(&twin.id, &name).unwrap();
    stage.create(east.node()).await;
    stage.start().await;
    let told = stage.message(&east.name, "NodeContested").await;
    assert_eq!(
        told,
        "left alone: claimed by several clouds (cloudscale-a, cloudscale-b)"
    );
    stage.seconds(a_while()).await;
    assert!(stage.writes(&east.name).is_empty());
    assert!(is_uninitialized(&stage.node(&east.name)));
    stage.destroy(&twin);
    // Whoever is nobody's is looked at once in a minute.
    stage.until_initialized(&east.name).await;
    stage.assert_right(&east);
    stage.stop().await;
}

#[scenario]
async fn while_one_cloud_cannot_answer_nodes_that_say_whose_they_are_go_on_and_others_wait() {
    let mut stage = Stage::idle(Telling::Claims).await;
    let (talos, known, unknown) = (
        stage.machine(TALOS, 41),
        stage.machine(XEN, 51),
        stage.machine(XEN, 52),
    );
    let denied = Rule::new(status(403)).server(TRITON).named("denied");
    stage.world.faults.add(denied).unwrap();
    stage.start().await;
    let mut node = known.node();
    node["spec"]["providerID"] = known.provider_id.as_str().into();
    stage.create(unknown.node()).await;
    stage.create(node).await;
    stage.create(talos.node()).await;
    for machine in [&talos, &known] {
        stage.until_initialized(&machine.name).await;
        stage.assert_right(machine);
    }
    let told = stage
        .message(&unknown.name, "NodeInitializationFailed")
        .await;
    assert!(told.contains("triton could not answer"), "{told}");
    assert!(stage.writes(&unknown.name).is_empty());
    stage.world.faults.clear();
    stage.until_initialized(&unknown.name).await;
    stage.assert_right(&unknown);
    stage.stop().await;
}
