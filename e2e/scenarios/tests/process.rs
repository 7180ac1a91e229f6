//! The manager as a process among others: it competes for a lease, stops when it is asked to, tells
//! people, and lives with an API server that restarts, forgets and refuses.

mod accounts;
mod election;
mod freeze;
mod holding;
mod migration;
mod starting;
mod stopping;
mod telling;
mod watching;

use std::time::Duration;

use bowline_scenarios::cloud::runs;
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{Replica, TestCluster, is_real};

/// As most managers run: with a lease.
const PLAIN: &[&str] = &[];
/// Without a lease.
const ALONE: &[&str] = &["--leader-elect=false"];

/// A node that the cloud knows joins.
async fn join(bench: &TestCluster, name: &str) {
    bench.cloud().say(name, runs(name, "10.0.0.1"));
    bench.put(fresh(name)).await;
}

/// So many seeds of a simulated run; on the real clock once is enough, since no two runs are alike.
fn seeds(count: u64) -> std::ops::Range<u64> {
    if is_real() { 0..1 } else { 0..count }
}

/// Asks a manager to stop, which must end well; how long it took.
async fn stop(bench: &TestCluster, manager: Replica) -> Duration {
    let (ended, took) = manager.stop().await;
    ended.unwrap();
    bench.catch_up().await;
    took
}

/// Whether something took as long as it should, or on the real clock a bit longer.
#[track_caller]
fn check(bench: &TestCluster, took: Duration, seconds: std::ops::RangeInclusive<u64>) {
    let (least, most) = seconds.into_inner();
    let range = Duration::from_secs(least)..=Duration::from_secs(most) + bench.slack();
    assert!(range.contains(&took), "it took {took:?}, not {range:?}");
}
