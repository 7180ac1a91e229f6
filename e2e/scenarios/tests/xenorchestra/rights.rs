//! What the role of the original's chart allows is enough.

use bowline_scenarios::xenorchestra::ACCOUNTS;
use bowline_scenarios::{scenario, status};
use bowline_simulator::journal::Filter;

use super::stage::{H2, NODE, Stage, VM1, ZONE};

/// Everything that happens to a node: it comes, moves, sleeps, wakes and goes.
async fn live(stage: &Stage) {
    stage.joined().await;
    stage.cloud.migrate(VM1, H2).unwrap();
    stage.until_label(ZONE, H2).await;
    stage.until_synced(1).await;
    stage.cloud.halt(VM1).unwrap();
    stage.shutdown_taint(NODE, true).await;
    stage.cloud.start(VM1).unwrap();
    stage.shutdown_taint(NODE, false).await;
    stage.cloud.destroy(VM1).unwrap();
    stage.until_deleted(NODE).await;
    stage.message(NODE, "DeletingNode").await;
}

#[scenario]
async fn xenorchestra_case_86_the_originals_role_is_enough_and_nothing_is_refused() {
    let mut stage = Stage::idle("", &[]).await;
    // The event about a server that does not answer, of the other group.
    stage.fail("*", status(503));
    stage.start().await;
    let told = Filter::any()
        .server("kubernetes")
        .path("/apis/events.k8s.io/v1/namespaces/kube-system/events*");
    let told = stage.until_called("the trouble is told", &told).await;
    assert!(told.is_mutating());
    // On a real server other scenarios tell the same trouble.
    assert!([200, 201, 409].contains(&told.status), "{told:?}");
    stage.world.faults.clear();
    live(&stage).await;
    // What the API server refused is asked there.
    stage.end().await;
}

#[scenario]
async fn xenorchestra_case_86_the_controllers_own_accounts_are_enough_as_well() {
    let mut stage = Stage::idle("", &[ACCOUNTS]).await;
    stage.start().await;
    live(&stage).await;
    let refused = Filter::any().server("kubernetes").status(403);
    assert_eq!(stage.matching(&refused), []);
    stage.end().await;
}
