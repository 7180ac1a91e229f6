//! How many calls the answers cost, and what is believed of them.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_core::{Lookup, Node};
use bowline_exoscale::{CONFIRMATIONS, FEW, LIST_AGE};
use bowline_test_kit::{all_found, delay, same_transcript};
use serde_json::json;

use crate::harness::{Harness, I1, NOBODY, answer, cannot_tell, found, fresh, gone, known, status};

const LIST: &str = "GET /v2/instance 200";
const TYPES: &str = "GET /v2/instance-type 200";

#[tokio::test(start_paused = true)]
async fn a_thousand_nodes_of_three_types_cost_one_list_and_one_of_types() {
    let test = Harness::new().await;
    let mut fleet = test.fleet("a", 400, "standard.small");
    fleet.extend(test.fleet("b", 400, "standard.medium"));
    fleet.extend(test.fleet("c", 200, "cpu.extra-large"));
    // Fresh ones cost the same as those that are known.
    let mut waiting: Vec<Node> = fleet
        .iter()
        .map(|node| fresh(&node.name, &node.provider_id.as_ref().unwrap()[11..]))
        .collect();
    waiting.truncate(500);
    waiting.extend_from_slice(&fleet[500..]);
    let answers = test.ask(&waiting).await;
    assert!(all_found(&answers));
    let types: BTreeSet<String> = answers
        .into_iter()
        .map(|answer| found(answer).instance_type)
        .collect();
    let wanted = ["cpu.extra-large", "standard.medium", "standard.small"];
    assert_eq!(types, wanted.map(str::to_owned).into());
    assert_eq!(test.calls(), [LIST, TYPES]);
    // Types are known for ever, and lists for some seconds.
    test.wait(Duration::from_secs(3600)).await;
    assert!(all_found(&test.ask(&fleet).await));
    assert_eq!(test.calls(), [LIST]);
    test.wait(LIST_AGE).await;
    assert!(all_found(&test.ask(&fleet).await));
    assert!(all_found(&test.ask(&fleet[..1]).await));
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_type_for_all_is_read_by_itself() {
    let test = Harness::new().await;
    let fleet = test.fleet("w", 50, "standard.small");
    assert!(all_found(&test.ask(&fleet).await));
    let calls = test.calls();
    assert_eq!(calls[0], LIST);
    assert!(calls[1].starts_with("GET /v2/instance-type/"), "{calls:?}");
    assert_eq!(calls.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn up_to_three_nodes_are_read_one_by_one_and_together() {
    let test = Harness::new().await;
    let fleet = test.fleet("w", 10, "standard.small");
    test.ask(&fleet[..1]).await;
    test.calls();
    let second = Duration::from_secs(1);
    test.fault("*", delay(second));
    let before = tokio::time::Instant::now();
    assert!(all_found(&test.ask(&fleet[..FEW]).await));
    assert_eq!(before.elapsed(), second);
    assert_eq!(test.calls().len(), FEW);
    let (first, second) = tokio::join!(test.ask(&fleet), test.ask(&fleet));
    assert!(all_found(&first) && all_found(&second));
    assert_eq!(test.calls(), [LIST], "both share it");
}

#[tokio::test(start_paused = true)]
async fn what_the_list_does_not_show_is_gone_only_on_its_own_word() {
    let test = Harness::new().await;
    let fleet = test.fleet("w", 50, "standard.small");
    test.fault("/v2/instance", answer(200, json!({ "instances": [] })));
    assert!(all_found(&test.ask(&fleet).await), "each was read by id");
    assert_eq!(test.calls().len(), 52, "the list, each, and the type");
    test.world.faults.clear();
    let mut nodes = fleet;
    nodes.push(known("x", &format!("exoscale://{NOBODY}")));
    test.wait(LIST_AGE * 2).await;
    let mut answers = test.ask(&nodes).await;
    gone(answers.pop().unwrap());
    assert!(all_found(&answers));
    assert_eq!(
        test.calls(),
        [LIST, &format!("GET /v2/instance/{NOBODY} 404")]
    );
}

#[tokio::test(start_paused = true)]
async fn what_the_list_shows_as_destroyed_or_without_its_fields_is_read() {
    let test = Harness::new().await;
    let fleet = test.fleet("w", 5, "standard.small");
    let ids = fleet
        .iter()
        .map(|it| &it.provider_id.as_ref().unwrap()[11..]);
    let kind = json!({ "id": "21624abb-764e-4def-81d7-9fc54b5957fb" });
    let shown: Vec<_> = ids
        .enumerate()
        .map(|(at, id)| match at {
            0 => json!({ "id": id, "name": "a", "state": "expunging", "instance-type": kind }),
            1 => json!({ "id": id, "state": "running", "instance-type": kind }),
            2 => json!({ "id": id, "name": "a", "state": "running" }),
            _ => json!({ "id": id, "name": "a", "state": "running", "instance-type": kind }),
        })
        .collect();
    test.fault("/v2/instance", answer(200, json!({ "instances": shown })));
    let answers = test.ask(&fleet).await;
    assert!(all_found(&answers), "{answers:?}");
    assert_eq!(
        test.calls().len(),
        1 + 3 + 1,
        "the list, three, and the type"
    );
}

#[tokio::test(start_paused = true)]
async fn of_a_thousand_gone_at_once_the_same_few_are_confirmed_each_time() {
    let test = Harness::new().await;
    let fleet = test.fleet("w", 1000, "standard.small");
    for node in &fleet {
        let id = &node.provider_id.as_ref().unwrap()[11..];
        test.sim.destroy(id).unwrap();
    }
    let confirmed = async || test.confirmed(&fleet, "too many are missing").await;
    let first = confirmed().await;
    assert_eq!(first.len(), CONFIRMATIONS);
    assert_eq!(test.calls().len(), 1 + CONFIRMATIONS);
    test.wait(Duration::from_secs(10)).await;
    assert_eq!(confirmed().await, first);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_101_a_role_without_lists_is_enough() {
    let test = Harness::new().await;
    test.sim.deny(&["list-instances", "list-instance-types"]);
    found(test.ask_one(&fresh("pool-a1b2c-xyz", I1)).await);
    let calls = test.calls();
    assert_eq!(calls.len(), 2, "nothing was refused: {calls:?}");
    let mut fleet = test.fleet("a", 20, "standard.small");
    fleet.extend(test.fleet("b", 20, "cpu.extra-large"));
    assert!(all_found(&test.ask(&fleet).await));
    let calls = test.calls();
    let refused = calls.iter().filter(|call| call.ends_with(" 403")).count();
    assert_eq!((calls.len(), refused), (2 + 40 + 2, 2), "{calls:?}");
    // It is not tried again each time, and what is gone is seen all the same.
    let gone_one = known("x", &format!("exoscale://{NOBODY}"));
    fleet.push(gone_one);
    let mut answers = test.ask(&fleet).await;
    gone(answers.pop().unwrap());
    assert!(all_found(&answers));
    assert_eq!(test.calls().len(), 41);
    test.canary().await.unwrap();
    assert_eq!(test.calls().len(), 1);
    // The role is extended.
    test.sim.permit_all();
    test.wait(Duration::from_secs(600)).await;
    test.ask(&fleet).await;
    assert_eq!(test.calls()[0], LIST);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_may_nothing_is_not_tried_on_every_instance() {
    let test = Harness::new().await;
    let fleet = test.fleet("w", 100, "standard.small");
    test.sim.deny(&["list-instances", "get-instance"]);
    for _ in 0..2 {
        for answer in test.ask(&fleet).await {
            let text = cannot_tell(answer);
            assert!(text.contains("answered 403"), "{text}");
        }
        let calls = test.calls();
        assert_eq!(calls.len(), 2, "the list and one instance: {calls:?}");
    }
    // It was not the list alone that was denied: it is tried again at once.
    test.sim.permit_all();
    assert!(all_found(&test.ask(&fleet).await));
    assert_eq!(test.calls()[0], LIST);
}

#[tokio::test(start_paused = true)]
async fn where_each_has_to_be_read_a_look_up_ends_in_time() {
    let test = Harness::new().await;
    test.sim.deny(&["list-instances"]);
    let fleet = test.fleet("w", 100, "standard.small");
    let time = Duration::from_secs(10);
    test.fault("/v2/instance/*", delay(time));
    let before = tokio::time::Instant::now();
    let answers = test.ask(&fleet).await;
    let taken = before.elapsed().as_secs();
    assert!((60..=80).contains(&taken), "{taken} s");
    let late = answers
        .into_iter()
        .filter(|answer| !matches!(answer, Lookup::Found(_)));
    let late: Vec<String> = late.map(cannot_tell).collect();
    assert!((40..60).contains(&late.len()), "{}", late.len());
    assert!(late.iter().all(|text| text.contains("too many instances")));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_is_an_error_of_all_and_reads_nothing_one_by_one() {
    let test = Harness::new().await;
    let fleet = test.fleet("w", 20, "standard.small");
    test.fault("/v2/instance", status(500));
    for answer in test.ask(&fleet).await {
        let text = cannot_tell(answer);
        assert!(text.contains("GET instance answered 500"), "{text}");
    }
    assert_eq!(test.calls().len(), 5, "five attempts");
}

async fn run() -> String {
    let test = Harness::new().await;
    let mut fleet = test.fleet("a", 20, "standard.small");
    fleet.extend(test.fleet("b", 20, "cpu.extra-large"));
    let id = |node: &Node| node.provider_id.as_ref().unwrap()[11..].to_owned();
    let destroy = |node: &Node| test.sim.destroy(&id(node)).unwrap();
    test.shrink(&fleet, destroy).await
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    same_transcript(run);
}
