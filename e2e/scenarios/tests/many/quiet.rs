//! Nothing happens but that one cloud fails: the others are not called more often for it, and all of it is the same in
//! every run.

use std::collections::BTreeMap;

use bowline_scenarios::{only_in_memory, play, scenario, status};
use bowline_simulator::faults::{Action, Rule};

use crate::stage::{BALANCING, CLOUDS, Stage, TRITON, Telling};

/// How long calls are counted, in seconds: three rounds of addresses.
const WINDOW: u64 = 900;
/// A round that begins or ends a moment sooner is in another window; where events are followed there is one in an hour.
const ROUND: usize = 6;
/// After that time whatever a failure caused is over.
const RECOVERY: u64 = 600;

/// Everybody's nodes and Services, long settled.
async fn settled() -> Stage {
    let mut stage = Stage::idle(Telling::Selectors).await;
    stage.put_foreign().await;
    let machines = stage.populate().await;
    stage.start().await;
    for machine in &machines {
        stage.until_initialized(&machine.name).await;
    }
    for cloud in BALANCING {
        stage.order(&format!("on-{cloud}"), cloud).await;
    }
    for cloud in BALANCING {
        stage.served(&format!("on-{cloud}"), cloud, &machines).await;
    }
    stage.seconds(RECOVERY).await;
    stage
}

/// How often each cloud is called from now on.
async fn calls(stage: &Stage) -> BTreeMap<&'static str, usize> {
    let mark = stage.mark();
    stage.seconds(WINDOW).await;
    let count = |cloud| (cloud, stage.asked(cloud, mark).len());
    CLOUDS.into_iter().map(count).collect()
}

#[scenario(only_in_memory = "a quarter of an hour of quiet for each cloud")]
async fn while_one_cloud_fails_no_other_is_called_more_often() {
    let mut stage = settled().await;
    let healthy = calls(&stage).await;
    assert!(healthy.values().sum::<usize>() > 100, "{healthy:?}");
    let actions = [Action::Reset, status(403)].into_iter().cycle();
    for (failing, action) in CLOUDS.into_iter().zip(actions) {
        let rule = Rule::new(action).server(failing).named("failing");
        stage.world.faults.add(rule).unwrap();
        let now = calls(&stage).await;
        stage.world.faults.clear();
        for cloud in CLOUDS.into_iter().filter(|it| *it != failing) {
            let most = healthy[cloud] + healthy[cloud] / 2 + ROUND;
            let count = now[cloud];
            assert!(
                count <= most,
                "{failing} fails, {cloud}: {count} calls of {most}"
            );
        }
        stage.seconds(RECOVERY).await;
    }
    stage.stop().await;
}

#[test]
fn the_same_seed_gives_the_same_calls() {
    if !only_in_memory("the real clock and the real server are never the same twice") {
        return;
    }
    let play = || {
        play!(async || {
            let mut stage = settled().await;
            let rule = Rule::new(status(500)).server(TRITON).probability(0.5);
            stage.world.faults.add(rule).unwrap();
            stage.seconds(60).await;
            stage.stop().await;
            stage.world.journal.transcript()
        })
    };
    let (one, other) = (play(), play());
    assert!(one.lines().count() > 100, "much happens");
    for (one, other) in one.lines().zip(other.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(one, other);
}
