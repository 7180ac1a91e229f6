//! What proves that a machine is gone, and what does not.

use std::time::Duration;

use bowline_core::{Cloud as _, Lookup, Power};
use bowline_simulator::faults::Rule;

use super::harness::{Harness, found, gone, id, known, lookup, presence, unclear};

/// A rule that answers with that status.
fn refuses(path: &str, code: u16) -> Rule {
    let mut rule = Rule::new(bowline_test_kit::status(code));
    path.clone_into(&mut rule.path);
    rule
}

#[tokio::test(start_paused = true)]
async fn triton_case_23_a_destroyed_machine_is_gone_by_its_own_word() {
    let test = Harness::new(4);
    let provider = test.provider();
    found(lookup(&provider, &known(1)).await);
    test.sim.destroy("k8s-1").unwrap();
    // Whoever only asks whether it is there hears it at once, the others with the next list.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let text = gone(presence(&provider, &[known(1)]).await.remove(0));
    assert!(text.contains("410"), "{text}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let text = gone(lookup(&provider, &known(1)).await);
    assert_eq!(text, format!("GET machines/{} answered 410", id(1)));
    // A failed one never ran.
    test.sim.fail("k8s-2").unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let text = gone(presence(&provider, &[known(2)]).await.remove(0));
    assert!(text.contains("failed"), "{text}");
    provider.instances().unwrap().canary().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn triton_case_23_a_404_is_believed_only_with_a_list_and_an_account() {
    let test = Harness::new(4);
    let provider = test.provider();
    found(lookup(&provider, &known(1)).await);
    test.sim.forget("k8s-1").unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    let text = gone(presence(&provider, &[known(1)]).await.remove(0));
    assert!(text.contains("answered 404 (VM not found)"), "{text}");
    assert!(text.contains("not among the 3 machines"), "{text}");
    // The list fails after the 404.
    let mut list = refuses("/acme/machines", 403);
    list.after = 1;
    test.world.faults.add(list).unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    unclear(presence(&provider, &[known(1)]).await.remove(0));
    test.world.faults.clear();
    // The account does not answer.
    test.world.faults.add(refuses("/acme", 401)).unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    unclear(lookup(&provider, &known(1)).await);
}

#[tokio::test(start_paused = true)]
async fn triton_case_23_a_machine_whose_image_is_lost_is_kept() {
    let test = Harness::new(3);
    let provider = test.provider();
    test.sim.lose_image("k8s-1", true).unwrap();
    let instance = found(lookup(&provider, &known(1)).await);
    assert_eq!(instance.power, Power::On);
    // And if the list misses it for a moment, the next one has it.
    let mut answer = Rule::new(bowline_test_kit::answer(200, serde_json::json!([])));
    answer.path = "/acme/machines".to_owned();
    answer.times = Some(1);
    test.world.faults.add(answer).unwrap();
    tokio::time::sleep(Duration::from_secs(61)).await;
    found(lookup(&provider, &known(1)).await);
    let missed = test.count(&format!("GET /acme/machines/{} 404", id(1)));
    assert!(missed >= 1, "{:?}", test.lines());
}

#[tokio::test(start_paused = true)]
async fn triton_case_23_refusals_and_failures_prove_nothing() {
    for code in [401, 403, 500] {
        let test = Harness::new(3);
        let provider = test.provider();
        test.sim.destroy("k8s-1").unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let path = format!("/acme/machines/{}", id(1));
        test.world.faults.add(refuses(&path, code)).unwrap();
        unclear(lookup(&provider, &known(1)).await);
        // And nothing at all is answered.
        test.world.faults.add(refuses("*", code)).unwrap();
        unclear(presence(&provider, &[known(1)]).await.remove(0));
        assert!(provider.instances().unwrap().canary().await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn triton_case_24_many_that_vanish_at_once_are_not_believed_for_ten_minutes() {
    let test = Harness::new(5);
    let provider = test.provider();
    let nodes = test.lose_five(&provider).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    for answer in presence(&provider, &nodes).await {
        let words = unclear(answer);
        assert!(words.contains("MassDisappearance: 5 of 5"), "{words}");
    }
    tokio::time::sleep(Duration::from_secs(590)).await;
    let answers = presence(&provider, &nodes).await;
    assert!(answers.iter().all(|it| matches!(it, Lookup::CannotTell(_))));
    tokio::time::sleep(Duration::from_secs(20)).await;
    for answer in presence(&provider, &nodes).await {
        gone(answer);
    }
    provider.instances().unwrap().canary().await.unwrap();
}

/// Whether the account is the cluster's is decided for all clouds alike, and no business of the
/// check read.
#[tokio::test(start_paused = true)]
async fn the_last_machine_of_an_account_may_go_and_a_key_does_not_make_another_account() {
    let test = Harness::new(1);
    let provider = test.provider();
    found(lookup(&provider, &known(1)).await);
    test.sim.destroy("k8s-1").unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    provider.instances().unwrap().canary().await.unwrap();
    let identity = provider.account().unwrap();
    assert!(identity.reveal().contains("acme"), "{}", identity.reveal());
    assert_eq!(test.provider().account(), Some(identity));
}
