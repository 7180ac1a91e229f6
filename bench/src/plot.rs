//! A plot of what nodes cost, as SVG: legible on light and on dark pages, without a library.

use std::fmt::Write as _;

use crate::results::{Report, Row, Run, What};
use crate::table::{self, thousands};

/// Of the whole, and of one panel in it.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 330.0;
const PANEL: f64 = 300.0;
/// Where the lines of a panel are, from its corner.
const LEFT: f64 = 52.0;
const TOP: f64 = 74.0;
const PLOT_WIDTH: f64 = 228.0;
const PLOT_HEIGHT: f64 = 170.0;
/// Lines across a panel.
const STEPS: usize = 4;

const STYLE: &str = "
    text { font: 12px system-ui, sans-serif; fill: #1f2328 }
    .title { font-weight: 600; font-size: 14px }
    .small { fill: #59636e; font-size: 11px }
    .page { fill: #ffffff }
    .grid { stroke: #d1d9e0; stroke-width: 1 }
    .ours { stroke: #0969da; fill: none; stroke-width: 2 }
    .dot { fill: #0969da }
    .peer { stroke: #bc4c00; fill: none; stroke-width: 2; stroke-dasharray: 5 4 }
    .peer-dot { fill: #bc4c00 }
    .bound { stroke: #1a7f37; stroke-width: 2 }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .small { fill: #9198a1 }
      .page { fill: #0d1117 }
      .grid { stroke: #3d444d }
      .ours { stroke: #4493f8 }
      .dot { fill: #4493f8 }
      .peer { stroke: #f0883e }
      .peer-dot { fill: #f0883e }
      .bound { stroke: #3fb950 }
    }
";

/// A point: nodes and value.
type Point = (f64, f64);

/// One curve over the number of nodes.
struct Panel {
    title: &'static str,
    unit: &'static str,
    ours: Vec<Point>,
    peer: Vec<Point>,
    bounds: Vec<Point>,
}

/// The plot of the cloud with the most numbers of nodes; none if there are fewer than two.
pub(crate) fn svg(report: &Report) -> Option<String> {
    let joins = |cloud: &str| {
        let rows = report.rows.iter();
        let of = rows.filter(|row| row.what == What::Join && row.cloud == cloud);
        let mut rows: Vec<&Row> = of.collect();
        rows.sort_by_key(|row| row.count);
        rows
    };
    let clouds = report.rows.iter().map(|row| row.cloud.as_str());
    let rows = clouds.map(joins).max_by_key(Vec::len)?;
    let [_, .., last] = rows[..] else { return None };
    let panels = [
        panel(&rows, "CPU", "seconds", |_, run| run.cpu(), 1),
        panel(&rows, "Memory, peak", "MB", |_, run| run.peak_mb(), 2),
        panel(
            &rows,
            "Time",
            "times the floor",
            |row, run| run.seconds / row.floor,
            0,
        ),
    ];
    let mut text = String::new();
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"CPU, memory and time over the number of nodes\">\n<style>{STYLE}</style>"
    );
    let _ = writeln!(
        text,
        "<rect class=\"page\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"8\"/>"
    );
    let server = match report.place.as_str() {
        "real" => format!("kube-apiserver {}", report.kubernetes),
        _ => "simulated API server".to_owned(),
    };
    let flags = match report.flags.as_str() {
        "" => String::new(),
        flags => format!(" · {}", escape(flags)),
    };
    let _ = writeln!(
        text,
        "<text class=\"title\" x=\"24\" y=\"28\">Nodes that join at once: {}</text>\n\
         <text class=\"small\" x=\"24\" y=\"46\">{server} · {} cores · {} · {}{flags}</text>",
        escape(&last.cloud),
        report.cores,
        report.date,
        report.commit
    );
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    let most_nodes = last.count as f64;
    for (x, panel) in [10.0, 10.0 + PANEL, 10.0 + 2.0 * PANEL]
        .into_iter()
        .zip(&panels)
    {
        draw(&mut text, x, panel, most_nodes);
    }
    legend(&mut text, rows.iter().any(|row| row.peer.is_some()));
    text.push_str("</svg>\n");
    Some(text)
}

/// `cell` is the number of the bound among those of a row.
fn panel(
    rows: &[&Row],
    title: &'static str,
    unit: &'static str,
    value: impl Fn(&Row, &Run) -> f64,
    cell: usize,
) -> Panel {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let at = |row: &Row| row.count as f64;
    let peer = rows
        .iter()
        .filter_map(|row| Some((at(row), value(row, row.peer.as_ref()?))));
    let bounds = rows
        .iter()
        .filter_map(|row| Some((at(row), table::bounds(row)[cell]?)));
    Panel {
        title,
        unit,
        ours: rows
            .iter()
            .map(|row| (at(row), value(row, &row.run)))
            .collect(),
        peer: peer.collect(),
        bounds: bounds.collect(),
    }
}

fn draw(text: &mut String, x: f64, panel: &Panel, most_nodes: f64) {
    let all = panel.ours.iter().chain(&panel.peer).chain(&panel.bounds);
    let most = round_up(all.map(|point| point.1).fold(0.0, f64::max));
    let (left, bottom) = (x + LEFT, TOP + PLOT_HEIGHT);
    let place = |(nodes, value): Point| {
        (
            left + nodes / most_nodes * PLOT_WIDTH,
            bottom - value / most * PLOT_HEIGHT,
        )
    };
    let _ = writeln!(
        text,
        "<text x=\"{left}\" y=\"{}\">{} <tspan class=\"small\">({})</tspan></text>",
        TOP - 10.0,
        panel.title,
        panel.unit
    );
    for step in 0..=STEPS {
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let value = most * step as f64 / STEPS as f64;
        let (_, y) = place((0.0, value));
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{left}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>\
             <text class=\"small\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left + PLOT_WIDTH,
            left - 6.0,
            y + 4.0,
            short(value)
        );
    }
    // Labels that would touch the one before are left out.
    let mut free = f64::MIN;
    for point in &panel.ours {
        let (at, _) = place(*point);
        if at >= free {
            free = at + 44.0;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a count"
            )]
            let nodes = thousands(point.0 as usize);
            let _ = writeln!(
                text,
                "<text class=\"small\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{nodes}</text>",
                bottom + 16.0
            );
        }
    }
    let _ = writeln!(
        text,
        "<text class=\"small\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">nodes</text>",
        left + PLOT_WIDTH / 2.0,
        bottom + 32.0
    );
    for point in &panel.bounds {
        let (at, y) = place(*point);
        let _ = writeln!(
            text,
            "<line class=\"bound\" x1=\"{:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\"/>",
            at - 9.0,
            at + 9.0
        );
    }
    for (class, dot, points) in [
        ("peer", "peer-dot", &panel.peer),
        ("ours", "dot", &panel.ours),
    ] {
        let places: Vec<Point> = points.iter().map(|point| place(*point)).collect();
        let path: Vec<String> = places
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            text,
            "<polyline class=\"{class}\" points=\"{}\"/>",
            path.join(" ")
        );
        for (x, y) in places {
            let _ = writeln!(
                text,
                "<circle class=\"{dot}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>"
            );
        }
    }
}

fn legend(text: &mut String, peer: bool) {
    let y = HEIGHT - 18.0;
    let mut x = 24.0;
    let entries = [
        ("ours", "Bowline", true),
        ("peer", "peer", peer),
        ("bound", "bound", true),
    ];
    for (class, name, _) in entries.into_iter().filter(|(.., shown)| *shown) {
        let _ = writeln!(
            text,
            "<line class=\"{class}\" x1=\"{x}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\">{name}</text>",
            y - 4.0,
            x + 22.0,
            y - 4.0,
            x + 28.0
        );
        x += 110.0;
    }
}

/// The next number at or above it that divides well into steps.
fn round_up(value: f64) -> f64 {
    let size = 10f64.powf(value.max(1e-9).log10().floor());
    let round = [1.0, 1.2, 1.6, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0];
    let fitting = round
        .into_iter()
        .find(|factor| factor * size >= value * 1.0001);
    fitting.unwrap_or(10.0) * size
}

/// A number without digits that say nothing.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(counts: &[usize]) -> Report {
        let mut report = Report::new("real", "v1.36.3", "--v=<2>");
        report.rows = counts
            .iter()
            .map(|count| Row {
                what: What::Join,
                cloud: "exoscale".to_owned(),
                count: *count,
                floor: 2.0,
                floor_cpu: 0.0,
                run: Run {
                    seconds: 2.2,
                    cpu_join: 0.4,
                    peak_kb: 30_000,
                    ..Run::default()
                },
                peer: None,
            })
            .collect();
        report
    }

    #[test]
    fn each_number_of_nodes_is_a_point_in_three_panels() {
        let plot = svg(&report(&[15_000, 1_000, 5_000])).unwrap();
        assert_eq!(plot.matches("<circle").count(), 9);
        assert!(
            plot.contains("15,000") && plot.contains("--v=&lt;2&gt;"),
            "{plot}"
        );
        assert!(svg(&report(&[1_000])).is_none());
    }

    #[test]
    fn axes_end_at_round_numbers() {
        let ends = [0.63, 1.0, 1.1, 11.4, 108.0].map(|most| short(round_up(most)));
        assert_eq!(ends, ["0.8", "1.2", "1.2", "12", "120"]);
        assert_eq!(
            [short(0.25), short(2.0), short(120.0)],
            ["0.25", "2", "120"]
        );
    }
}
