//! Nothing happens but that one cloud fails: the others are not called more often for it, and all of it is the same in
//! every run.

use std::collections::BTreeMap;

use bowline_scenarios::{only_in_memory, run_scenario, scenario, status};
use bowline_simulator::faults::{Action, Rule};

use crate::many::harness::{BALANCING, CLOUDS, Harness, TRITON, Telling};

/// How long calls are counted, in seconds: three rounds of addresses.
const WINDOW: u64 = 900;
/// A round that begins or ends a moment sooner is in another window; where events are followed there is one in an hour.
const ROUND: usize = 6;
/// After that time whatever a failure caused is over.
const RECOVERY: u64 = 600;

/// Everybody's nodes and Services, long settled.
async fn settled() -> Harness {
    let mut test = Harness::idle(Telling::Selectors).await;
    test.put_foreign().await;
    let machines = test.populate().await;
    test.start().await;
    for machine in &machines {
        test.until_initialized(&machine.name).await;
    }
    for cloud in BALANCING {
        test.order(&format!("on-{cloud}"), cloud).await;
    }
    for cloud in BALANCING {
        test.served(&format!("on-{cloud}"), cloud, &machines).await;
    }
    test.seconds(RECOVERY).await;
    test
}

/// How often each cloud is called from now on.
async fn calls(test: &Harness) -> BTreeMap<&'static str, usize> {
    let mark = test.mark();
    test.seconds(WINDOW).await;
    let count = |cloud| (cloud, test.asked(cloud, mark).len());
    CLOUDS.into_iter().map(count).collect()
}

#[scenario(only_in_memory = "a quarter of an hour of quiet for each cloud")]
async fn while_one_cloud_fails_no_other_is_called_more_often() {
    let mut test = settled().await;
    let healthy = calls(&test).await;
    assert!(healthy.values().sum::<usize>() > 100, "{healthy:?}");
    let actions = [Action::Reset, status(403)].into_iter().cycle();
    for (failing, action) in CLOUDS.into_iter().zip(actions) {
        let rule = Rule::new(action).server(failing).named("failing");
        test.world.faults.add(rule).unwrap();
        let now = calls(&test).await;
        test.world.faults.clear();
        for cloud in CLOUDS.into_iter().filter(|it| *it != failing) {
            let most = healthy[cloud] + healthy[cloud] / 2 + ROUND;
            let count = now[cloud];
            assert!(
                count <= most,
                "{failing} fails, {cloud}: {count} calls of {most}"
            );
        }
        test.seconds(RECOVERY).await;
    }
    test.stop().await;
}

#[test]
fn the_same_seed_gives_the_same_calls() {
    if !only_in_memory("the real clock and the real server are never the same twice") {
        return;
    }
    let run_scenario = || {
        run_scenario!(async || {
            let mut test = settled().await;
            let rule = Rule::new(status(500)).server(TRITON).probability(0.5);
            test.world.faults.add(rule).unwrap();
            test.seconds(60).await;
            test.stop().await;
            test.world.journal.transcript()
        })
    };
    let (one, other) = (run_scenario(), run_scenario());
    assert!(one.lines().count() > 100, "much happens");
    for (one, other) in one.lines().zip(other.lines()) {
        assert_eq!(one, other);
    }
    assert_eq!(one, other);
}
