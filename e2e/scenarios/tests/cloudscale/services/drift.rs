//! What somebody changed by hand in the cloud.

use bowline_scenarios::objects::entrances;
use bowline_scenarios::scenario;

use super::shop::{Shop, UUID, annotation};

const PERIOD: &str = "CLOUDSCALE_DRIFT_CHECK_PERIOD";

#[scenario]
async fn cloudscale_case_86_a_member_that_was_removed_by_hand_is_back_after_the_next_check() {
    let shop = Shop::with(&[(PERIOD, "10s")], &[]).await;
    shop.serve().await;
    let mark = shop.mark();
    let member = shop.balancer().pools[0].members[0].uuid.clone();
    shop.cloud.remove(&member).unwrap();
    shop.until_members(&["11", "12"]).await;
    assert_eq!(shop.changes_from(mark), ["POST members"]);
    let message = shop.message("web", "LoadBalancerDrifted").await;
    assert!(message.contains("member"), "{message}");
    shop.end().await;
}

#[scenario]
async fn cloudscale_case_86_a_load_balancer_that_was_removed_by_hand_is_made_anew() {
    let shop = Shop::with(&[(PERIOD, "10s")], &[]).await;
    shop.serve().await;
    let lost = shop.balancer().uuid;
    shop.cloud.remove(&lost).unwrap();
    shop.message("web", "LoadBalancerRecreated").await;
    let shown = shop
        .until_service("web", "it shows the new addresses", |it| {
            let all = shop.cloud.balancers();
            let addresses = all.first().map(|it| it.vip_addresses.clone());
            let shown = entrances(it);
            addresses.is_some_and(|all| {
                let all = all.iter().map(|it| format!("{it} Proxy"));
                all.collect::<Vec<_>>() == shown
            })
        })
        .await;
    let new = shop.balancer();
    assert_ne!(new.uuid, lost);
    assert_eq!(annotation(&shown, UUID), new.uuid);
    assert_eq!(shop.members().len(), 2);
    shop.end().await;
}

#[scenario]
async fn cloudscale_case_86_without_a_period_nothing_is_looked_at() {
    let shop = Shop::with(&[(PERIOD, "0")], &[]).await;
    shop.serve().await;
    shop.seconds(3).await;
    let (mark, calls) = (shop.mark(), shop.cloud_calls("/v1/load-balancers*").len());
    shop.cloud.remove(&shop.balancer().uuid).unwrap();
    shop.long(7200).await;
    assert_eq!(shop.changes_from(mark), [""; 0]);
    assert_eq!(shop.cloud_calls("/v1/load-balancers*").len(), calls);
    shop.end().await;
}
