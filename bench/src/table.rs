//! Bounds, and rows beside them.

use crate::plane::Where;
use crate::results::{Row, Run, What};

/// What a row must keep.
struct Bound {
    what: What,
    place: Option<Where>,
    /// Any cloud, unless it names one.
    cloud: &'static str,
    count: usize,
    /// Times the floor.
    ratio: Option<f64>,
    /// CPU seconds of the whole process; at rest, the share of a core.
    cpu: Option<f64>,
    /// Peak memory in MB.
    memory: Option<f64>,
}

/// All of them. A row that is not here is measured without bounds.
const BOUNDS: &[Bound] = &[
    join(300, Some(1.15), 0.3, 30.0).of("talos"),
    join(1_000, Some(1.15), 0.5, 30.0),
    join(5_000, Some(1.15), 2.5, 45.0),
    join(15_000, Some(1.1), 7.0, 80.0),
    Bound {
        what: What::Rest,
        cpu: Some(0.02),
        ..join(5_000, None, 0.0, 45.0)
    },
];

/// How much more a node may cost where there are many.
const MOST_GROWTH: f64 = 1.1;
/// Fewer nodes cost so little that a timer of 10 ms says nothing about one.
const FEWEST_COMPARED: usize = 1_000;

const fn join(count: usize, ratio: Option<f64>, cpu: f64, memory: f64) -> Bound {
    Bound {
        what: What::Join,
        place: Some(Where::Real),
        cloud: "",
        count,
        ratio,
        cpu: Some(cpu),
        memory: Some(memory),
    }
}

impl Bound {
    const fn of(self, cloud: &'static str) -> Self {
        Self { cloud, ..self }
    }

    /// The one of a row; one that names its cloud goes before.
    fn for_row(row: &Row, place: Where) -> Option<&'static Self> {
        let fits = |bound: &&Self| {
            bound.what == row.what
                && bound.count == row.count
                && (bound.cloud.is_empty() || bound.cloud == row.cloud)
                && bound.place.is_none_or(|of| of == place)
        };
        BOUNDS.iter().find(fits)
    }
}

/// A number of a row, and its bound.
struct Cell {
    name: &'static str,
    value: f64,
    most: Option<f64>,
}

impl Cell {
    fn is_kept(&self) -> bool {
        self.most.is_none_or(|most| self.value <= most)
    }

    fn bound(&self, digits: usize) -> String {
        match self.most {
            None => String::new(),
            Some(most) if self.is_kept() => format!("≤ {most:.digits$} kept"),
            Some(most) => format!("≤ {most:.digits$} MISSED"),
        }
    }
}

/// Ratio, CPU, memory.
fn cells(row: &Row, run: &Run, place: Where) -> [Cell; 3] {
    let bound = Bound::for_row(row, place);
    let cpu = match row.what {
        What::Rest => run.cpu() / run.seconds,
        What::Join | What::Services => run.cpu(),
    };
    // Without a floor it is infinite, and nobody asks for it.
    let ratio = run.seconds / row.floor;
    let cell = |name, value, most: Option<f64>| Cell { name, value, most };
    [
        cell(
            "ratio to the floor",
            ratio,
            bound.and_then(|bound| bound.ratio),
        ),
        cell("CPU", cpu, bound.and_then(|bound| bound.cpu)),
        cell(
            "memory",
            run.peak_mb(),
            bound.and_then(|bound| bound.memory),
        ),
    ]
}

/// The bounds of a row on the real API server: ratio, CPU, memory.
pub(crate) fn bounds(row: &Row) -> [Option<f64>; 3] {
    cells(row, &row.run, Where::Real).map(|cell| cell.most)
}

/// The head of the table.
pub(crate) fn head(place: Where, kubernetes: &str, flags: &str) {
    let flags = if flags.is_empty() { "none" } else { flags };
    println!(
        "API server: {} ({kubernetes}); further flags: {flags}",
        place.name()
    );
    println!(
        "{:<27} {:>8} {:>9} {:>6} {:<14} {:>7} {:<14} {:>7} {:<14} {:>7} {:>7} {:>7} {:>9}",
        "",
        "floor s",
        "seconds",
        "ratio",
        "",
        "CPU s",
        "",
        "MB",
        "",
        "calls",
        "writes",
        "events",
        "conflicts"
    );
}

/// Prints a row, and the peer's below it; what is missed, in words.
pub(crate) fn print(row: &Row, place: Where) -> Vec<String> {
    let name = name(row);
    line(&name, row, &row.run, &cells(row, &row.run, place));
    if row.what == What::Join && place == Where::Real {
        println!(
            "{:27} CPU of the bare client, with its watch and events: {:.2} s; ours {:.2} times that",
            "",
            row.floor_cpu,
            row.run.cpu() / row.floor_cpu
        );
    }
    if let Some(peer) = &row.peer {
        let cells = cells(row, peer, place).map(|cell| Cell { most: None, ..cell });
        line("  peer", row, peer, &cells);
    }
    let mut missed: Vec<String> = cells(row, &row.run, place)
        .iter()
        .filter(|cell| !cell.is_kept())
        .map(|cell| {
            format!(
                "{name}: {} {:.2}, at most {:.2}",
                cell.name,
                cell.value,
                cell.most.unwrap_or(0.0)
            )
        })
        .collect();
    let writes = row.run.node_writes + row.run.events + row.run.service_writes;
    if row.what == What::Rest && writes > 0 {
        println!(
            "{:27} {writes} writes besides the lease: MISSED, none is allowed",
            ""
        );
        missed.push(format!("{name}: {writes} writes besides the lease"));
    }
    missed
}

fn name(row: &Row) -> String {
    let count = thousands(row.count);
    match row.what {
        What::Join => format!("{}, {count} nodes", row.cloud),
        What::Rest => format!("{}, {count} at rest", row.cloud),
        What::Services => format!("{}, {count} Services", row.cloud),
    }
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn line(name: &str, row: &Row, run: &Run, [ratio, cpu, memory]: &[Cell; 3]) {
    let each = |count: u64| count as f64 / row.count as f64;
    let writes = match row.what {
        What::Services => run.service_writes,
        What::Join | What::Rest => run.node_writes,
    };
    let beside = |value: f64| match row.floor {
        0.0 => "–".to_owned(),
        _ => format!("{value:.2}"),
    };
    println!(
        "{name:<27} {:>8} {:>9.2} {:>6} {:<14} {:>7.3} {:<14} {:>7.1} {:<14} {:>7} {:>7.3} {:>7.3} {:>9}",
        beside(row.floor),
        run.seconds,
        beside(ratio.value),
        ratio.bound(2),
        cpu.value,
        cpu.bound(2),
        memory.value,
        memory.bound(0),
        run.cloud_calls,
        each(writes),
        each(run.events),
        run.conflicts
    );
    if row.what == What::Join {
        println!(
            "{:27} lease after {:.2} s; CPU: start-up {:.2}, until the last taint {:.2}, events after it {:.2}; \
             resident {:.1} MB with the lease, {:.1} MB at the end",
            "",
            run.start_seconds,
            run.cpu_start,
            run.cpu_join,
            run.cpu_events,
            run.start_kb as f64 / 1000.0,
            run.resident_kb as f64 / 1000.0
        );
    }
}

/// Prints what one node costs for each number of nodes; what grows, in words.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
pub(crate) fn flatness(rows: &[Row]) -> Vec<String> {
    let mut missed = Vec::new();
    let mut clouds: Vec<&str> = rows.iter().map(|row| row.cloud.as_str()).collect();
    clouds.sort_unstable();
    clouds.dedup();
    for cloud in clouds {
        let compared = |row: &&Row| {
            row.what == What::Join && row.cloud == cloud && row.count >= FEWEST_COMPARED
        };
        let all: Vec<&Row> = rows.iter().filter(compared).collect();
        let [first, _, ..] = all[..] else { continue };
        println!(
            "\n{cloud}: what a node costs, and how much more than with {} nodes",
            thousands(first.count)
        );
        let costs = |row: &Row| {
            let (run, nodes) = (&row.run, row.count as f64);
            [
                ("µs of CPU", (run.cpu_join + run.cpu_events) / nodes * 1e6),
                (
                    "kB of memory",
                    run.peak_kb.saturating_sub(run.start_kb) as f64 / nodes,
                ),
                ("times the floor", run.seconds / row.floor),
            ]
        };
        let least = costs(first);
        for row in &all {
            print!("  {:>6} nodes", thousands(row.count));
            for ((what, cost), (_, base)) in costs(row).into_iter().zip(least) {
                let growth = cost / base;
                let mark = if growth <= MOST_GROWTH { "" } else { " MISSED" };
                print!("   {cost:>7.2} {what} ({growth:.2}{mark})");
                if growth > MOST_GROWTH {
                    let count = thousands(row.count);
                    missed.push(format!(
                        "{cloud}: {what} of a node {growth:.2} times as much with {count} nodes"
                    ));
                }
            }
            println!();
        }
    }
    missed
}

/// A number with separators.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: What, cloud: &str, count: usize, run: Run) -> Row {
        Row {
            what,
            cloud: cloud.to_owned(),
            count,
            floor: 1.0,
            floor_cpu: 0.0,
            run,
            peer: None,
        }
    }

    fn run(seconds: f64, cpu_join: f64, peak_kb: u64) -> Run {
        Run {
            seconds,
            cpu_join,
            peak_kb,
            ..Run::default()
        }
    }

    #[test]
    fn a_missed_bound_is_noticed() {
        for (measured, missed) in [
            (run(1.15, 0.5, 30_000), 0),
            (run(1.16, 0.5, 30_000), 1),
            (run(1.16, 0.51, 30_001), 3),
        ] {
            let row = row(What::Join, "exoscale", 1_000, measured);
            assert_eq!(print(&row, Where::Real).len(), missed);
        }
        let talos = row(What::Join, "talos", 300, run(1.1, 0.2, 1));
        assert!(print(&talos, Where::Real).is_empty());
        let unknown = row(What::Join, "talos", 299, run(300.0, 20.0, 1));
        assert!(print(&unknown, Where::Real).is_empty());
    }

    #[test]
    fn at_rest_nothing_is_written_and_the_share_counts() {
        let rest = |cpu: f64, node_writes| {
            let run = Run {
                node_writes,
                ..run(100.0, cpu, 1)
            };
            print(&row(What::Rest, "exoscale", 5_000, run), Where::Real).len()
        };
        assert_eq!((rest(2.0, 0), rest(2.1, 0), rest(2.0, 1)), (0, 1, 1));
    }

    #[test]
    fn growth_is_noticed() {
        let rows = |last: f64| {
            [
                row(What::Join, "exoscale", 1_000, run(1.0, 0.5, 10_000)),
                row(What::Join, "exoscale", 5_000, run(1.0, last, 40_000)),
            ]
        };
        assert!(flatness(&rows(2.5)).is_empty());
        assert_eq!(flatness(&rows(2.8)).len(), 1);
    }

    #[test]
    fn numbers_have_separators() {
        let written = [7, 300, 1_000, 15_000, 1_234_567].map(thousands);
        assert_eq!(written, ["7", "300", "1,000", "15,000", "1,234,567"]);
    }
}
