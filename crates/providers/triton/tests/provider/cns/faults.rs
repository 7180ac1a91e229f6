//! What goes wrong, and what does not because of it.

use std::time::Duration;

use bowline_core::{Cloud as _, Goal, StepOutcome, Verb};
use bowline_test_kit::PlanRun;
use serde_json::json;

use super::harness::{Harness, id, outside};
use crate::cluster::FakeCluster;
use crate::common::marked;

#[tokio::test(start_paused = true)]
async fn a_machine_that_cannot_be_written_is_not_waited_for() {
    let mut test = Harness::new();
    let compute_node = test.machine(2).compute_node.unwrap();
    for number in [1, 3] {
        let other = "c0000000-0000-4000-8000-00000000000f";
        test.sim.migrate(&id(number), other).unwrap();
    }
    test.sim.kill_compute_node(&compute_node);
    test.add("web");
    let outcome = test.ensure("web").await;
    outcome.good();
    assert!(outcome.events().contains("CNSTagPending"), "{outcome:?}");
    let events = test.events().await;
    assert_eq!(events, Some(("k8s-2".to_owned(), "CNSTagPending")));
    test.wait(60).await;
    test.ensure("web").await.good();
    assert_eq!(test.events().await, None, "it was reported");
    assert_eq!(test.tags(), ["web.prod:30080", "", "web.prod:30080"]);
    assert_eq!(test.status("web"), [outside("web.prod")]);
    test.delete("web").await.good();
    assert_eq!(test.tags(), [""; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_understands_is_left_alone() {
    let mut test = Harness::new();
    let list = Some(json!(7));
    test.sim
        .set_tag(&id(1), "triton.cns.services", list)
        .unwrap();
    test.add("web");
    let outcome = test.ensure("web").await;
    assert!(outcome.good().events().contains("BadCNSTag"));
    assert_eq!(test.events().await, Some(("k8s-1".to_owned(), "BadCNSTag")));
    test.ensure("web").await.good();
    assert_eq!(test.events().await, None, "it was reported");
    assert_eq!(test.machine(1).tags["triton.cns.services"], json!(7));
    assert_eq!(test.tag(2), "web.prod:30080");
    test.delete("web").await.good();
    assert_eq!(test.tag(2), "");
}

#[tokio::test(start_paused = true)]
async fn while_the_name_service_is_down_nothing_is_begun_and_removals_wait() {
    let mut test = Harness::new();
    test.add("old");
    test.ensure("old").await.good();
    test.sim.set_quirks(|it| it.names_down = true);
    test.restart();
    test.changes();
    test.add("web");
    let outcome = test.ensure("web").await;
    assert!(outcome.error.is_some());
    assert_eq!(test.status("web"), [""; 0]);
    assert!(test.delete("old").await.error.is_some());
    test.sim.set_quirks(|it| it.names_down = false);
    test.wait(60).await;
    test.ensure("web").await.good();
    assert_eq!(test.status("web"), [outside("web.prod")]);
    test.delete("old").await.good();
    assert_eq!(test.tags(), ["web.prod:30080"; 3]);
}

#[tokio::test(start_paused = true)]
async fn proof_case_45_a_step_writes_one_machine_and_a_wait_writes_none() {
    let mut test = Harness::new();
    test.add("web");
    let mut run = PlanRun::new(test.draft("web", Goal::Present).await.unwrap());
    let plan = run.plan().clone();
    test.changes();
    let mut written = 0;
    while let Some(step) = run.next_step() {
        let progress = run.carry_out(step).await.unwrap();
        let changes = test.changes().len();
        let most = usize::from(plan.steps[step].verb != Verb::Wait);
        assert!(changes <= most, "{:?}: {changes}", plan.steps[step]);
        written += changes;
        match progress {
            StepOutcome::Done => {}
            StepOutcome::Wait { after, .. } => tokio::time::sleep(after).await,
            StepOutcome::Skipped(notice) => panic!("{notice:?}"),
        }
    }
    assert_eq!(test.tags(), ["web.prod:30080"; 3]);
    assert!(written >= 3, "{written}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_goes_while_its_tags_are_on_their_way_leaves_nothing() {
    let mut test = Harness::new();
    test.sim.set_timings(|it| it.job = Duration::from_secs(5));
    test.add("web");
    let mut run = PlanRun::new(test.draft("web", Goal::Present).await.unwrap());
    for step in 0..3 {
        run.carry_out(step).await.unwrap();
        assert_eq!(test.changes().len(), 1, "one step, one machine");
    }
    assert_eq!(test.tags(), [""; 3]);
    test.delete("web").await.good();
    test.wait(60).await;
    assert_eq!(test.tags(), [""; 3]);
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_when_its_service_went_is_made_up_for() {
    let mut test = Harness::new();
    test.add("web");
    test.ensure("web").await.good();
    let compute_node = test.machine(2).compute_node.unwrap();
    test.sim.kill_compute_node(&compute_node);
    test.delete("web").await.good();
    assert_eq!(test.tag(2), "web.prod:30080");
    let chores = test.cloud.chores().unwrap();
    let (cluster, five) = (FakeCluster::default(), Duration::from_secs(300));
    let done = tokio::time::timeout(five, chores.run(&cluster)).await;
    assert!(done.is_err(), "it goes on");
    assert_eq!(test.tag(2), "web.prod:30080");
    test.sim.revive_compute_node(&compute_node);
    let _ = tokio::time::timeout(five, chores.run(&cluster)).await;
    assert_eq!(test.tags(), [""; 3]);
    assert_eq!(test.machine(2).tag("bowline.cns"), None);
}

#[tokio::test(start_paused = true)]
async fn labels_without_a_service_are_reported_and_removed_if_that_is_wanted() {
    let mut test = Harness::new();
    test.add("web");
    test.ensure("web").await.good();
    assert_eq!(marked(&test.cloud).await, []);
    test.delete("web").await.good();
    // As if somebody had restored an older state of the machine.
    for (key, value) in [
        ("triton.cns.services", "mine,web.prod:30080"),
        ("bowline.cns", "web.prod"),
    ] {
        test.sim.set_tag(&id(2), key, Some(json!(value))).unwrap();
    }
    test.wait(60).await;
    let marked = marked(&test.cloud).await;
    let [orphan] = marked.as_slice() else {
        panic!("{marked:?}");
    };
    assert_eq!(orphan.name, "DNS service web.prod on 1 machines");
    test.balancers().remove_orphan(orphan).await.unwrap();
    assert_eq!(test.tags(), ["", "mine", ""]);
}
