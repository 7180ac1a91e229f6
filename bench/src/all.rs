//! Everything, on one API server: the table, its file, its plot.

use std::path::Path;

use anyhow::{Context, Result};
use bowline_scenarios::measure::{Members, Resting};

use crate::heartbeats::Heartbeats;
use crate::join::Join;
use crate::plane::Where;
use crate::process::Program;
use crate::progress::say;
use crate::results::{Report, Row};
use crate::services::Services;
use crate::{balancers, cidrs, clouds, plot, rest, runtime, table};

/// Clouds and numbers of nodes, small ones first.
const REAL: &[(&str, usize)] = &[
    ("talos", 300),
    ("xenorchestra", 1_000),
    ("cloudscale", 1_000),
    ("exoscale", 300),
    ("exoscale", 1_000),
    (AT_REST, 5_000),
    ("exoscale", 15_000),
];
const MEMORY: &[(&str, usize)] = &[
    ("exoscale", 1_000),
    ("exoscale", 5_000),
    ("exoscale", 50_000),
];
/// The cloud whose nodes are also measured at rest, and how many of them.
const AT_REST: &str = "exoscale";
const NODES_AT_REST: usize = 5_000;
const SERVICES: usize = 2_000;
/// More nodes are measured once: that takes long.
const MOST_REPEATED: usize = 15_000;

pub(crate) struct All<'a> {
    pub(crate) place: Where,
    pub(crate) program: &'a Program,
    pub(crate) peer: Option<&'a Program>,
    pub(crate) rounds: usize,
    pub(crate) most_nodes: usize,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) flags: &'a str,
}

impl All<'_> {
    /// Measures everything, prints it, keeps it in that folder; whether all bounds are kept.
    pub(crate) fn measure(&self, folder: &Path) -> Result<bool> {
        let mut report = Report::new(self.place.name(), "", self.flags);
        let rows = match self.place {
            Where::Real => REAL,
            Where::Memory => MEMORY,
        };
        for (cloud, nodes) in rows.iter().filter(|(_, nodes)| *nodes <= self.most_nodes) {
            say(&format!("{cloud}, {} nodes", table::thousands(*nodes)));
            let rests = *nodes == NODES_AT_REST && *cloud == AT_REST && self.place == Where::Real;
            let join = Join {
                kind: clouds::named(cloud)?,
                nodes: *nodes,
                rounds: if *nodes <= MOST_REPEATED {
                    self.rounds
                } else {
                    1
                },
                program: self.program,
                peer: self.peer,
                rest: rests.then_some(&self.heartbeats),
            };
            let measured = runtime()?.block_on(join.measure(self.place));
            self.add(&mut report, &format!("{cloud}, {nodes} nodes"), measured);
            // What is interrupted later keeps what it has.
            report.save(folder)?;
        }
        if self.most_nodes >= SERVICES {
            say(&format!("{} Services", table::thousands(SERVICES)));
            let services = Services {
                kind: clouds::named(AT_REST)?,
                count: SERVICES,
                program: self.program,
                peer: self.peer,
            };
            let measured = runtime()?.block_on(services.measure(self.place));
            let measured = measured.map(|(version, row)| (version, vec![row]));
            self.add(&mut report, "Services", measured);
        }
        report.missed.extend(table::flatness(&report.rows));
        if self.place == Where::Memory {
            report.missed.extend(simulated()?);
        }
        let path = report.save(folder)?;
        println!("\n{} written", path.display());
        draw(&report, folder)?;
        for missed in &report.missed {
            println!("MISSED: {missed}");
        }
        Ok(report.missed.is_empty())
    }

    /// Prints and keeps rows. One that could not be measured is missed; the others still are.
    fn add(&self, report: &mut Report, name: &str, measured: Result<(String, Vec<Row>)>) {
        let (version, rows) = match measured {
            Ok(measured) => measured,
            Err(error) => {
                println!("{name}: not measured: {error:#}");
                report
                    .missed
                    .push(format!("{name}: not measured: {error:#}"));
                return;
            }
        };
        if report.rows.is_empty() {
            table::head(self.place, &version, self.flags);
            report.kubernetes = version;
        }
        for row in rows {
            report.missed.extend(table::print(&row, self.place));
            report.rows.push(row);
        }
    }
}

/// What runs under the paused clock; what is missed.
fn simulated() -> Result<Vec<String>> {
    println!();
    let kept = [
        ("members", balancers::members(Members::default())?),
        ("service", balancers::service()?),
        ("rest", rest::rest(Resting::default())?),
        ("cidrs", cidrs::cidrs(cidrs::NODES)?),
    ];
    let missed = kept.into_iter().filter(|(_, kept)| !kept);
    Ok(missed
        .map(|(name, _)| format!("a bound of {name}"))
        .collect())
}

/// Prints a report that exists beside the bounds as they are now, and draws it. Its file stays as it was measured.
pub(crate) fn show_again(report: &Report, place: Where, folder: &Path) -> Result<()> {
    println!("{} at commit {}", report.date, report.commit);
    table::head(place, &report.kubernetes, &report.flags);
    let missed = report.rows.iter().flat_map(|row| table::print(row, place));
    let mut missed: Vec<String> = missed.collect();
    missed.extend(table::flatness(&report.rows));
    for missed in &missed {
        println!("MISSED: {missed}");
    }
    draw(report, folder)
}

/// Draws the plot of a report beside it, if there is something to draw.
pub(crate) fn draw(report: &Report, folder: &Path) -> Result<()> {
    if let Some(drawn) = plot::svg(report) {
        let path = folder.join(format!("{}.svg", report.place));
        std::fs::write(&path, drawn).with_context(|| format!("writing {}", path.display()))?;
        println!("{} written", path.display());
    }
    Ok(())
}
