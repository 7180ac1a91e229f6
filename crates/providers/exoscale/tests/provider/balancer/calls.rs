//! How many calls plans cost, and what is believed of a list that Services share.

use bowline_core::Goal;
use futures::future::join_all;

use super::harness::{Harness, L1, OTHER, UID, named};

const LIST: &str = "list-load-balancers";

fn lists(test: &Harness) -> usize {
    let calls = test.calls();
    let lists = calls.iter().filter(|it| it.operation == LIST);
    lists.count()
}

#[tokio::test(start_paused = true)]
async fn services_that_come_at_once_share_a_list() {
    let mut test = Harness::new().await;
    let mut requests = Vec::new();
    for number in 1..=20 {
        let uid = format!("b0000000-0000-4000-8000-{number:012}");
        test.service = named(&format!("s-{number}"), &uid);
        requests.push(test.request(Goal::Present));
    }
    let drafts = requests.iter().map(|it| test.balancers().draft(it));
    for draft in join_all(drafts).await {
        assert!(!draft.unwrap().plan.is_empty());
    }
    assert_eq!(lists(&test), 1);
}

#[tokio::test(start_paused = true)]
async fn who_wrote_lists_again_and_others_do_not() {
    let mut test = Harness::new().await;
    test.ensure().await.good();
    test.calls();
    test.delete().await.good();
    assert_eq!(lists(&test), 1, "it wrote, so it looks again");
    test.ensure().await.good();
    test.calls();
    test.service = named("other", OTHER);
    test.draft(Goal::Present).await.unwrap();
    assert_eq!(lists(&test), 0, "another's writes are not ours");
}

#[tokio::test(start_paused = true)]
async fn what_a_kept_list_shows_as_ours_is_read_before_it_goes() {
    let test = Harness::new().await;
    test.place("edge", &[]);
    let label = |uid: &str| {
        let labels = [("bowline-service-uid", uid), ("k8s-cluster-uid", "blue")];
        test.sim.label_balancer(L1, &labels).unwrap();
    };
    label(UID);
    let plan = test.draft(Goal::Absent).await.unwrap().plan;
    assert!(!plan.is_empty());
    // Another Service got it meanwhile.
    label(OTHER);
    test.calls();
    let plan = test.draft(Goal::Absent).await.unwrap().plan;
    assert!(plan.is_empty(), "{plan:?}");
    assert_eq!(lists(&test), 0, "the list is the kept one");
}
