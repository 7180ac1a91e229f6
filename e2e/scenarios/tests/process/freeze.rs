//! A leader that was frozen and wakes up: it does nothing.
//!
//! A jump of the paused clock is what a frozen process sees: all its timers are overdue at once, and
//! whatever happened meanwhile has happened.

use std::time::Duration;

use bowline_controllers::manager::ManagerError;
use bowline_scenarios::cloud::{Script, runs, stopped};
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{LEASE, TestCluster, scenario};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;

use crate::process::join;

const BUSY: &[&str] = &[
    "--node-monitor-period=5s",
    "--node-status-update-frequency=10s",
];

/// A cluster with plenty to do in every round: nodes to initialise again and again, addresses that
/// change, a suspect whose cloud is checked between looks.
async fn busy_bench(seed: u64) -> TestCluster {
    let bench = TestCluster::for_replicas(seed).await;
    for name in ["runs", "off", "gone"] {
        join(&bench, name).await;
    }
    bench.cloud().say("fails", Script::Error("no answer"));
    bench.put(fresh("fails")).await;
    bench
}

async fn until_busy(bench: &TestCluster) {
    for name in ["runs", "off", "gone"] {
        bench.until_initialized(name).await;
    }
    bench.seconds(7).await;
    for (name, answer) in [
        ("runs", runs("runs", "10.0.0.2")),
        ("off", Script::Machine(stopped("demo://off"))),
        ("gone", Script::Gone),
    ] {
        bench.cloud().say(name, answer);
    }
    // Long enough that a freeze often finds one under way; its answer is there on waking.
    bench.cloud().take(Duration::from_millis(1500));
    for name in ["off", "gone"] {
        bench.set_ready(name, "Unknown").await;
    }
}

#[scenario(only_in_memory = "a jump of the paused clock is what a frozen process sees")]
async fn framework_case_149_a_leader_that_wakes_after_another_took_over_does_nothing() {
    // The seeds and the fractions of a second put the freeze into different moments of a round.
    for seed in 0..40 {
        let bench = busy_bench(seed).await;
        let leader = bench.replica("frozen", BUSY).await;
        until_busy(&bench).await;
        tokio::time::sleep(Duration::from_millis(seed * 263)).await;
        tokio::time::advance(Duration::from_secs(27)).await;
        bench.give_lease(LEASE, "another").await;
        let (mark, woken) = (bench.mark(), bench.world.clock.now());
        let ended = leader.ended().await;
        assert!(
            matches!(ended, Err(ManagerError::Lost(_))),
            "seed {seed}: {ended:?}"
        );
        bench.seconds(300).await;
        let written: Vec<_> = bench
            .calls_of("frozen", mark)
            .into_iter()
            // What arrived before the freeze is only answered after it.
            .filter(|call| call.arrived >= woken && call.is_mutating())
            .collect();
        assert!(
            written.is_empty(),
            "seed {seed}: {}",
            bench.transcript_from(mark)
        );
        let last = bench.cloud().last_call().unwrap();
        assert!(last < woken, "seed {seed}: a cloud call after waking");
        assert_eq!(bench.holder(LEASE), "another");
    }
}

#[scenario]
async fn framework_case_149_events_that_waited_are_not_written_without_the_lease() {
    let bench = TestCluster::for_replicas(1).await;
    join(&bench, "n1").await;
    // Events cannot be delivered, so their writer tries again and again.
    let away = Rule::new(Action::Reset)
        .named("away")
        .on("POST", "*/events");
    bench.fault(away);
    let leader = bench.replica("frozen", BUSY).await;
    bench
        .until("it is initialised", |it| it.is_initialized("n1"))
        .await;
    let tried = Filter::any()
        .method("POST")
        .path("*/namespaces/default/events");
    bench.until_called("a try to write the event", &tried).await;
    bench.give_lease(LEASE, "another").await;
    let ended = leader.ended().await;
    assert!(matches!(ended, Err(ManagerError::Lost(_))), "{ended:?}");
    bench.world.faults.clear();
    let mark = bench.mark();
    bench.long(600).await;
    assert_eq!(bench.transcript_from(mark), "");
    for reason in ["Synced", "LeaderElection"] {
        assert!(bench.events_of(reason).is_empty(), "{reason}");
    }
}
