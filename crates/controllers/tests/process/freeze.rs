//! A leader that was frozen and wakes up: it does nothing.
//!
//! A jump of the paused clock is what a frozen process sees: all its timers are overdue at once, and
//! whatever happened meanwhile has happened.

use std::time::Duration;

use bowline_controllers::manager::ManagerError;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;

use crate::cloud::Answer;
use crate::stage::{LEASE, Stage, pass, set_ready};

const BUSY: &[&str] = &[
    "--secure-port=0",
    "--node-monitor-period=5s",
    "--node-status-update-frequency=10s",
];

/// A cluster with plenty to do in every round: nodes to initialise again and again, addresses that
/// change, a suspect whose cloud is checked between looks.
async fn busy_stage(seed: u64) -> Stage {
    let stage = Stage::on_pipe(seed);
    for name in ["runs", "off", "gone"] {
        stage.cloud.say(name, Answer::Runs("10.0.0.1"));
        stage.join(name);
    }
    stage.cloud.say("fails", Answer::Fails);
    stage.join("fails");
    stage
}

async fn until_busy(stage: &Stage) {
    for name in ["runs", "off", "gone"] {
        stage.until_initialized(name).await;
    }
    pass(7).await;
    for (name, answer) in [
        ("runs", Answer::Runs("10.0.0.2")),
        ("off", Answer::IsOff("10.0.0.1")),
        ("gone", Answer::Gone),
    ] {
        stage.cloud.say(name, answer);
    }
    // Long enough that a freeze often finds one under way; its answer is there on waking.
    stage.cloud.take(Duration::from_millis(1500));
    for name in ["off", "gone"] {
        stage.change_node(name, |node| set_ready(node, "Unknown"));
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_149_a_leader_that_wakes_after_another_took_over_does_nothing() {
    // The seeds and the fractions of a second put the freeze into different moments of a round.
    for seed in 0..40 {
        let stage = busy_stage(seed).await;
        let leader = stage.start("frozen", BUSY);
        until_busy(&stage).await;
        tokio::time::sleep(Duration::from_millis(seed * 263)).await;
        tokio::time::advance(Duration::from_secs(27)).await;
        stage.give_lease(LEASE, "another");
        let (mark, woken) = (stage.mark(), stage.world.clock.now());
        let ended = leader.ended().await;
        assert!(
            matches!(ended, Err(ManagerError::Lost(_))),
            "seed {seed}: {ended:?}"
        );
        pass(300).await;
        let written: Vec<_> = stage
            .calls_of("frozen", mark)
            .into_iter()
            // What arrived before the freeze is only answered after it.
            .filter(|call| call.arrived >= woken && call.is_mutating())
            .collect();
        assert!(
            written.is_empty(),
            "seed {seed}: {}",
            stage.transcript_from(mark)
        );
        let late = stage
            .cloud
            .calls()
            .into_iter()
            .filter(|at| *at >= woken)
            .count();
        assert_eq!(late, 0, "seed {seed}: cloud calls after waking");
        assert_eq!(stage.holder(LEASE), "another");
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_149_events_that_waited_are_not_written_without_the_lease() {
    let stage = Stage::on_pipe(1);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    // Events cannot be delivered, so their writer tries again and again.
    let away = Rule::new(Action::Reset)
        .named("away")
        .on("POST", "*/events");
    stage.world.faults.add(away).unwrap();
    let leader = stage.start("frozen", BUSY);
    stage.until_initialized("n1").await;
    let tried = Filter::any()
        .method("POST")
        .path("*/namespaces/default/events");
    stage.until_called("a try to write the event", &tried).await;
    stage.give_lease(LEASE, "another");
    let ended = leader.ended().await;
    assert!(matches!(ended, Err(ManagerError::Lost(_))), "{ended:?}");
    stage.world.faults.clear();
    let mark = stage.mark();
    pass(600).await;
    assert_eq!(stage.transcript_from(mark), "");
    for reason in ["Synced", "LeaderElection"] {
        assert!(stage.events(reason).is_empty(), "{reason}");
    }
}
