//! What roles allow: the API key's and the service account's.

use bowline_scenarios::scenario;
use bowline_simulator::journal::Filter;

use super::stage::{I1, NODE, Stage};

#[scenario]
async fn exoscale_case_101_a_key_that_may_not_list_is_enough_for_nodes(stage: Stage) {
    stage.cloud.deny(&[
        "list-instances",
        "list-instance-types",
        "list-load-balancers",
        "list-instance-pools",
    ]);
    stage.join_fleet(10, "standard.small");
    stage.join(I1);
    for number in 1..=10 {
        stage.initialized(&format!("fleet-{number}")).await;
    }
    let node = stage.initialized(NODE).await;
    assert_eq!(node["spec"]["providerID"], format!("exoscale://{I1}"));
    stage.until_ready(NODE, "True").await;
    stage.cloud.destroy(I1).unwrap();
    stage.until_deleted(NODE).await;
    let lists = stage.cloud_calls("");
    assert!(lists.len() <= 3, "a refusal is an answer: {lists:?}");
}

#[scenario]
async fn exoscale_case_110_the_originals_role_is_enough_for_nodes_and_nothing_is_refused(
    stage: Stage,
) {
    stage.join(I1);
    stage.initialized(NODE).await;
    stage.until_ready(NODE, "True").await;
    stage.cloud.stop(I1).unwrap();
    stage.shutdown_taint(NODE, true).await;
    stage.cloud.start(I1).unwrap();
    stage.shutdown_taint(NODE, false).await;
    stage.cloud.destroy(I1).unwrap();
    stage.until_deleted(NODE).await;
    let refused = Filter::any().server("exoscale").status(403);
    assert_eq!(stage.count(&refused), 0);
    // What the API server refused is asked there.
}
