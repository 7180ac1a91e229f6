//! What roles allow: the API key's and the service account's.

use bowline_scenarios::scenario;
use bowline_simulator::journal::Filter;

use super::harness::{Harness, I1, NODE};

#[scenario]
async fn exoscale_case_101_a_key_that_may_not_list_is_enough_for_nodes(test: Harness) {
    test.cloud.deny(&[
        "list-instances",
        "list-instance-types",
        "list-load-balancers",
        "list-instance-pools",
    ]);
    test.join_fleet(10, "standard.small");
    test.join(I1);
    for number in 1..=10 {
        test.initialized(&format!("fleet-{number}")).await;
    }
    let node = test.initialized(NODE).await;
    assert_eq!(node["spec"]["providerID"], format!("exoscale://{I1}"));
    test.until_ready(NODE, "True").await;
    test.cloud.destroy(I1).unwrap();
    test.until_deleted(NODE).await;
    let lists = test.cloud_calls("");
    assert!(lists.len() <= 3, "a refusal is an answer: {lists:?}");
}

#[scenario]
async fn exoscale_case_110_the_originals_role_is_enough_for_nodes_and_nothing_is_refused(
    test: Harness,
) {
    test.join(I1);
    test.initialized(NODE).await;
    test.until_ready(NODE, "True").await;
    test.cloud.stop(I1).unwrap();
    test.shutdown_taint(NODE, true).await;
    test.cloud.start(I1).unwrap();
    test.shutdown_taint(NODE, false).await;
    test.cloud.destroy(I1).unwrap();
    test.until_deleted(NODE).await;
    let refused = Filter::any().server("exoscale").status(403);
    assert_eq!(test.count(&refused), 0);
    // What the API server refused is asked there.
}
