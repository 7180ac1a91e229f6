//! What the role of the original's chart allows is enough.

use bowline_scenarios::xenorchestra::ACCOUNTS;
use bowline_scenarios::{scenario, status};
use bowline_simulator::journal::Filter;

use super::harness::{H2, Harness, NODE, VM1, ZONE};

/// Everything that happens to a node: it comes, moves, sleeps, wakes and goes.
async fn live(test: &Harness) {
    test.joined().await;
    test.cloud.migrate(VM1, H2).unwrap();
    test.until_label(ZONE, H2).await;
    test.until_synced(1).await;
    test.cloud.halt(VM1).unwrap();
    test.shutdown_taint(NODE, true).await;
    test.cloud.start(VM1).unwrap();
    test.shutdown_taint(NODE, false).await;
    test.cloud.destroy(VM1).unwrap();
    test.until_deleted(NODE).await;
    test.message(NODE, "DeletingNode").await;
}

#[scenario]
async fn xenorchestra_case_86_the_originals_role_is_enough_and_nothing_is_refused() {
    let mut test = Harness::idle("", &[]).await;
    // The event about a server that does not answer, of the other group.
    test.fail("*", status(503));
    test.start().await;
    let reported = Filter::any()
        .server("kubernetes")
        .path("/apis/events.k8s.io/v1/namespaces/kube-system/events*");
    let reported = test
        .until_called("the trouble is reported", &reported)
        .await;
    assert!(reported.is_mutating());
    // On a real server other scenarios tell the same trouble.
    assert!([200, 201, 409].contains(&reported.status), "{reported:?}");
    test.world.faults.clear();
    live(&test).await;
    // What the API server refused is asked there.
    test.end().await;
}

#[scenario]
async fn xenorchestra_case_86_the_controllers_own_accounts_are_enough_as_well() {
    let mut test = Harness::idle("", &[ACCOUNTS]).await;
    test.start().await;
    live(&test).await;
    let refused = Filter::any().server("kubernetes").status(403);
    assert_eq!(test.matching(&refused), []);
    test.end().await;
}
