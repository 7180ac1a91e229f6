//! What load balancers cost, beside what is promised.
//!
//! The manager runs in this process under a paused clock, between a simulated API server and a
//! simulated cloud. So time is simulated, and the numbers are the same in every run and build.

use std::fmt::Display;

use anyhow::{Result, ensure};
use bowline_scenarios::measure::{
    Address, MOST_ROUNDS, MOST_TIME, Members, Replacement, first_address,
};
use bowline_scenarios::{is_real, run_scenario};

/// What the clouds of both are like.
const CLOUD: &str = "100 ms for each call, asynchronous states 1 s";

/// Measures and prints the updates of members; whether all bounds are kept.
pub(crate) fn members(asked: Members) -> Result<bool> {
    ensure!(
        asked.services > 0 && asked.replaced > 0,
        "nothing to measure"
    );
    ensure!(
        asked.replaced <= asked.nodes,
        "more nodes are replaced than there are"
    );
    let measured = simulated(async || asked.measure().await)?;
    Ok(report_members(&asked, &measured))
}

/// Measures and prints how a new Service gets its address; whether all bounds are kept.
pub(crate) fn service() -> Result<bool> {
    let measured = simulated(first_address)?;
    Ok(report_service(&measured))
}

/// Runs it under the paused clock.
pub(crate) fn simulated<T>(measure: impl AsyncFnOnce() -> T) -> Result<T> {
    ensure!(
        !is_real(),
        "it measures simulated time: unset BOWLINE_CONTROL_PLANE"
    );
    let mut measured = None;
    run_scenario!(async || measured = Some(measure().await));
    measured.ok_or_else(|| anyhow::anyhow!("nothing was measured"))
}

#[expect(clippy::cast_precision_loss, reason = "small whole numbers")]
fn report_members(asked: &Members, measured: &Replacement) -> bool {
    let Members {
        services,
        nodes,
        replaced,
    } = asked;
    let mean = measured.rounds.iter().sum::<usize>() as f64 / measured.rounds.len() as f64;
    println!("{services} Services, {nodes} nodes, {replaced} of them replaced; {CLOUD}");
    let rounds = measured.most_rounds();
    let few = bound(
        "rounds per load balancer, most",
        rounds,
        rounds <= MOST_ROUNDS,
        format_args!("at most {MOST_ROUNDS}"),
    );
    line("rounds per load balancer, mean", format_args!("{mean:.2}"));
    let least = asked.least_writes();
    let lean = bound(
        "writes",
        measured.writes,
        measured.writes <= least,
        format_args!("at most {least}: one for each member that comes or goes"),
    );
    line("reads of load balancers", measured.reads);
    line(
        "simulated seconds until all are right",
        format_args!("{:.1}", measured.time.as_secs_f64()),
    );
    few && lean
}

fn report_service(measured: &Address) -> bool {
    println!("a new Service with one port of TCP, 2 nodes; {CLOUD}");
    let seconds = measured.time.as_secs_f64();
    let soon = bound(
        "simulated seconds until its address",
        format_args!("{seconds:.2}"),
        measured.time < MOST_TIME,
        format_args!("under {}", MOST_TIME.as_secs()),
    );
    let done = bound(
        "writes after that",
        measured.later_writes,
        measured.later_writes == 0,
        "none",
    );
    line("calls to the cloud", measured.calls.len());
    for (at, call) in &measured.calls {
        let (method, path, status) = (&call.method, &call.path, call.status);
        println!("  {:>6} ms  {method:<6} {path} {status}", at.as_millis());
    }
    soon && done
}

pub(crate) fn line(what: &str, value: impl Display) {
    println!("  {what:<38} {:>8}", value.to_string());
}

/// A line with a bound; whether that is kept.
pub(crate) fn bound(what: &str, value: impl Display, kept: bool, bound: impl Display) -> bool {
    let broken = if kept { "" } else { "  BROKEN" };
    println!("  {what:<38} {:>8}  ({bound}){broken}", value.to_string());
    kept
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_broken_bound_is_noticed() {
        let asked = Members {
            services: 2,
            nodes: 3,
            replaced: 1,
        };
        for (rounds, writes, kept) in [(3, 4, true), (4, 4, false), (3, 5, false)] {
            let measured = Replacement {
                rounds: vec![1, rounds],
                writes,
                reads: 0,
                time: Duration::ZERO,
            };
            assert_eq!(report_members(&asked, &measured), kept);
        }
        for (seconds, later_writes, kept) in [(3, 0, true), (4, 0, false), (3, 1, false)] {
            let measured = Address {
                time: Duration::from_secs(seconds),
                calls: Vec::new(),
                later_writes,
                members: 2,
            };
            assert_eq!(report_service(&measured), kept);
        }
    }
}
