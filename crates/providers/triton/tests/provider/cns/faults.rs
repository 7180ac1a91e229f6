//! What goes wrong, and what does not because of it.

use bowline_core::Goal;
use serde_json::json;

use crate::shop::{Shop, id, outside};

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_be_written_is_not_waited_for() {
    let mut shop = Shop::new();
    let compute_node = shop.machine(2).compute_node.unwrap();
    for number in [1, 3] {
        let other = "c0000000-0000-4000-8000-00000000000f";
        shop.cloud.migrate(&id(number), other).unwrap();
    }
    shop.cloud.kill_compute_node(&compute_node);
    shop.add("web");
    let outcome = shop.ensure("web").await;
    outcome.good();
    assert!(outcome.reasons().contains("CNSTagPending"), "{outcome:?}");
    assert_eq!(
        shop.news().await,
        Some(("k8s-2".to_owned(), "CNSTagPending"))
    );
    shop.wait(60).await;
    shop.ensure("web").await.good();
    assert_eq!(shop.news().await, None, "it was told");
    assert_eq!(shop.tags(), ["web.prod:30080", "", "web.prod:30080"]);
    assert_eq!(shop.status("web"), [outside("web.prod")]);
    shop.delete("web").await.good();
    assert_eq!(shop.tags(), [""; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_understands_is_left_alone() {
    let mut shop = Shop::new();
    shop.cloud
        .set_tag(&id(1), "triton.cns.services", Some(json!(7)))
        .unwrap();
    shop.add("web");
    let outcome = shop.ensure("web").await;
    assert!(outcome.good().reasons().contains("BadCNSTag"));
    assert_eq!(shop.news().await, Some(("k8s-1".to_owned(), "BadCNSTag")));
    shop.ensure("web").await.good();
    assert_eq!(shop.news().await, None, "it was told");
    assert_eq!(shop.machine(1).tags["triton.cns.services"], json!(7));
    assert_eq!(shop.tag(2), "web.prod:30080");
    shop.delete("web").await.good();
    assert_eq!(shop.tag(2), "");
}

#[tokio::test(start_paused = true)]
async fn while_the_name_service_is_down_nothing_is_begun_and_removals_wait() {
    let mut shop = Shop::new();
    shop.add("old");
    shop.ensure("old").await.good();
    shop.cloud.set_quirks(|it| it.names_down = true);
    shop.restart();
    shop.changes();
    shop.add("web");
    let outcome = shop.ensure("web").await;
    assert!(outcome.error.is_some());
    assert_eq!(shop.status("web"), [""; 0]);
    assert!(shop.delete("old").await.error.is_some());
    shop.cloud.set_quirks(|it| it.names_down = false);
    shop.wait(60).await;
    shop.ensure("web").await.good();
    assert_eq!(shop.status("web"), [outside("web.prod")]);
    shop.delete("old").await.good();
    assert_eq!(shop.tags(), ["web.prod:30080"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_goes_while_its_tags_are_on_their_way_leaves_nothing() {
    let mut shop = Shop::new();
    shop.cloud
        .set_timings(|it| it.job = std::time::Duration::from_secs(5));
    shop.add("web");
    let mut draft = shop.draft("web", Goal::Present).await.unwrap();
    draft.executor.carry_out(0).await.unwrap();
    assert_eq!(shop.changes().len(), 3);
    assert_eq!(shop.tags(), [""; 3]);
    shop.delete("web").await.good();
    shop.wait(60).await;
    assert_eq!(shop.tags(), [""; 3]);
}
