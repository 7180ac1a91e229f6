//! Nothing is configured about nodes: each is of the cloud that alone has its machine, and of nobody while that cannot
//! be told.

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::{is_real, scenario, status};
use bowline_simulator::faults::Rule;

use crate::many::harness::{EAST, Harness, TALOS, TRITON, Telling, WEST, XEN};

/// Longer than the patience of every retry.
fn a_while() -> u64 {
    if is_real() { 10 } else { 300 }
}

#[scenario]
async fn a_machine_of_the_same_name_in_both_accounts_is_nobodys_until_one_is_gone() {
    let mut test = Harness::idle(Telling::Claims).await;
    let east = test.machine(EAST, 11);
    let twin = test.machine(WEST, 21);
    let name = test.cluster.names().own(&east.name);
    test.west.rename(&twin.id, &name).unwrap();
    test.create(east.node()).await;
    test.start().await;
    let reported = test.message(&east.name, "NodeContested").await;
    assert_eq!(
        reported,
        "left alone: claimed by several clouds (cloudscale-a, cloudscale-b)"
    );
    test.seconds(a_while()).await;
    assert!(test.writes(&east.name).is_empty());
    assert!(is_uninitialized(&test.node(&east.name)));
    test.destroy(&twin);
    // Whoever is nobody's is looked at once in a minute.
    test.until_initialized(&east.name).await;
    test.assert_right(&east);
    test.stop().await;
}

#[scenario]
async fn while_one_cloud_cannot_answer_nodes_that_say_whose_they_are_go_on_and_others_wait() {
    let mut test = Harness::idle(Telling::Claims).await;
    let (talos, known, unknown) = (
        test.machine(TALOS, 41),
        test.machine(XEN, 51),
        test.machine(XEN, 52),
    );
    let denied = Rule::new(status(403)).server(TRITON).named("denied");
    test.world.faults.add(denied).unwrap();
    test.start().await;
    let mut node = known.node();
    node["spec"]["providerID"] = known.provider_id.as_str().into();
    test.create(unknown.node()).await;
    test.create(node).await;
    test.create(talos.node()).await;
    for machine in [&talos, &known] {
        test.until_initialized(&machine.name).await;
        test.assert_right(machine);
    }
    let reported = test
        .message(&unknown.name, "NodeInitializationFailed")
        .await;
    assert!(reported.contains("triton did not answer"), "{reported}");
    assert!(test.writes(&unknown.name).is_empty());
    test.world.faults.clear();
    test.until_initialized(&unknown.name).await;
    test.assert_right(&unknown);
    test.stop().await;
}
