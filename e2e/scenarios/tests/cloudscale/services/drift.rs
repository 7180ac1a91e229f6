//! What somebody changed by hand in the cloud.

use bowline_scenarios::objects::entrances;
use bowline_scenarios::scenario;

use super::service_harness::{ServiceHarness, UUID, annotation};

const PERIOD: &str = "CLOUDSCALE_DRIFT_CHECK_PERIOD";

#[scenario]
async fn cloudscale_case_86_a_member_that_was_removed_by_hand_is_back_after_the_next_check() {
    let test = ServiceHarness::with(&[(PERIOD, "10s")], &[]).await;
    test.serve().await;
    let mark = test.mark();
    let member = test.balancer().pools[0].members[0].uuid.clone();
    test.cloud.remove(&member).unwrap();
    test.until_members(&["11", "12"]).await;
    assert_eq!(test.changes_from(mark), ["POST members"]);
    let message = test.message("web", "LoadBalancerDrifted").await;
    assert!(message.contains("member"), "{message}");
    test.end().await;
}

#[scenario]
async fn cloudscale_case_86_a_load_balancer_that_was_removed_by_hand_is_made_anew() {
    let test = ServiceHarness::with(&[(PERIOD, "10s")], &[]).await;
    test.serve().await;
    let lost = test.balancer().uuid;
    test.cloud.remove(&lost).unwrap();
    test.message("web", "LoadBalancerRecreated").await;
    let shown = test
        .until_service("web", "it shows the new addresses", |it| {
            let all = test.cloud.balancers();
            let addresses = all.first().map(|it| it.vip_addresses.clone());
            let shown = entrances(it);
            addresses.is_some_and(|all| {
                let all = all.iter().map(|it| format!("{it} Proxy"));
                all.collect::<Vec<_>>() == shown
            })
        })
        .await;
    let new = test.balancer();
    assert_ne!(new.uuid, lost);
    assert_eq!(annotation(&shown, UUID), new.uuid);
    assert_eq!(test.members().len(), 2);
    test.end().await;
}

#[scenario]
async fn cloudscale_case_86_without_a_period_nothing_is_looked_at() {
    let test = ServiceHarness::with(&[(PERIOD, "0")], &[]).await;
    test.serve().await;
    test.seconds(3).await;
    let (mark, calls) = (test.mark(), test.cloud_calls("/v1/load-balancers*").len());
    test.cloud.remove(&test.balancer().uuid).unwrap();
    test.long(7200).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.cloud_calls("/v1/load-balancers*").len(), calls);
    test.end().await;
}
