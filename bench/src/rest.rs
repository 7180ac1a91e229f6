//! What Xen Orchestra is asked while nothing happens, beside what is promised: in an hour under the paused
//! clock, between a simulated API server and a simulated Xen Orchestra.

use anyhow::{Result, ensure};
use bowline_scenarios::measure::{Asked, Resting, per_period};

use crate::balancers::{bound, line, simulated};

/// Requests in five minutes where events are followed: everything is listed again now and then.
const NEAR_ZERO: f64 = 1.0;

/// Measures and prints both ways; whether all bounds are kept.
pub(crate) fn rest(asked: Resting) -> Result<bool> {
    let Resting { vms, pools } = asked;
    ensure!(vms > 0 && pools > 0, "nothing to measure");
    println!("{vms} VMs in {pools} pools at rest: requests in 5 minutes, mean of an hour");
    let events = simulated(async || asked.measure(true).await)?;
    let polling = simulated(async || asked.measure(false).await)?;
    Ok(report(pools, &events, &polling))
}

fn report(pools: usize, events: &Asked, polling: &Asked) -> bool {
    let few = bound(
        "with events",
        format_args!("{:.2}", events.each_period()),
        events.each_period() <= NEAR_ZERO,
        format_args!("at most {NEAR_ZERO}"),
    );
    show(events);
    let most = f64::from(u32::try_from(pools).unwrap_or(u32::MAX));
    let lean = bound(
        "with polling, lists of VMs",
        format_args!("{:.2}", polling.lists_each_period()),
        polling.lists_each_period() <= most,
        format_args!("at most {pools}: a page for each pool"),
    );
    line(
        "with polling, all",
        format_args!("{:.2}", polling.each_period()),
    );
    show(polling);
    let quiet = bound(
        "writes to nodes",
        events.writes + polling.writes,
        events.writes + polling.writes == 0,
        "none",
    );
    few && lean && quiet
}

fn show(asked: &Asked) {
    for (what, count) in &asked.requests {
        line(
            &format!("  {what}"),
            format_args!("{:.2}", per_period(*count)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_bound_is_noticed() {
        let asked = |count, writes| Asked {
            requests: [("GET vms".to_owned(), count)].into(),
            writes,
        };
        for (events, polling, writes, kept) in [
            (12, 36, 0, true),
            (13, 36, 0, false),
            (12, 37, 0, false),
            (12, 36, 1, false),
        ] {
            let measured = (asked(events, 0), asked(polling, writes));
            assert_eq!(report(3, &measured.0, &measured.1), kept);
        }
    }
}
