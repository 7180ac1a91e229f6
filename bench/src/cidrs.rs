//! What it costs to find pod ranges for a node, beside what is promised.

use std::time::Duration;

use anyhow::{Result, ensure};
use bowline_scenarios::measure::Cidrs;

/// How much longer a search may take when all but a few blocks are used, or when many nodes have
/// some: a look through all of them would take thousands of times as long.
const MOST_GROWTH: f64 = 5.0;

/// How many, unless told otherwise.
pub(crate) const NODES: usize = 5000;

/// Measures and prints allocations for so many nodes; whether all bounds are kept.
pub(crate) fn cidrs(nodes: usize) -> Result<bool> {
    ensure!((10..=32_768).contains(&nodes), "between 10 and 32768 nodes");
    let measured = Cidrs::measure(nodes);
    let floor = measured.floor;
    println!(
        "{nodes} allocations of pod ranges, two families each, from 65536 blocks of each family"
    );
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let line = |what: &str, time: Duration| {
        let ratio = micros(time) / micros(floor);
        println!(
            "  {what:<40} {:>8.2} µs  ({ratio:.1} times the floor)",
            micros(time)
        );
    };
    line("floor: count up, note by name", floor);
    line("one allocation, mean", measured.fresh);
    line("one allocation, first tenth", measured.first);
    line("one allocation, last tenth", measured.last);
    line("one allocation, almost all blocks used", measured.crowded);
    line("one node at a restart", measured.restart);
    let grown = micros(measured.last) / micros(measured.first);
    let crowded = micros(measured.crowded) / micros(measured.first);
    let mut kept = true;
    for (what, ratio) in [
        ("last to first tenth", grown),
        ("almost full to first tenth", crowded),
    ] {
        let good = ratio <= MOST_GROWTH;
        let mark = if good { "" } else { "  BROKEN" };
        println!("  {what:<40} {ratio:>8.2}     (at most {MOST_GROWTH}){mark}");
        kept &= good;
    }
    Ok(kept)
}
