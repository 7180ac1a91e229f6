//! `bowline-bench join`: nodes join at once. `heartbeats`: nodes at rest. `services`: Services get load balancers.
//! These measure a program in a process of its own, on a real API server or the simulated one. `members`,
//! `service`, `rest`: the manager in this process, under a paused clock. `cidrs`: pod ranges. `all`: everything.
//!
//! ```text
//!  main ─▶ all ─┬▶ join, heartbeats, services ─▶ Site: plane (API server), clouds (simulators), process (program)
//!               │                                floor (bare client), nodes (register, follow), counts (requests)
//!               ├▶ balancers, rest, cidrs ─▶ e2e/scenarios measure
//!               └▶ table (bounds), results (JSON), plot (SVG)
//! ```
//!
//! Seconds on a shared machine mean little, so they are also given as ratios to a floor from the same run.

#![expect(clippy::print_stdout, reason = "printing numbers is what it is for")]

mod all;
mod balancers;
mod changes;
mod cidrs;
mod clouds;
mod counts;
mod floor;
mod heartbeats;
mod join;
mod nodes;
mod plane;
mod plot;
mod process;
mod progress;
mod requests;
mod rest;
mod results;
mod services;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_scenarios::measure::{Members, Resting};
use clap::{Args, Parser};

use self::all::All;
use self::heartbeats::Heartbeats;
use self::join::Join;
use self::plane::Where;
use self::process::Program;
use self::results::{Report, Row};
use self::services::Services;

/// How long nothing may happen before a run is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Measures what Bowline costs, beside a floor from the same run and, if one is given, a peer.
///
/// Build the program first: cargo build --release --no-default-features --features clouds -p bowline.
/// bench/run does it, builds the servers of --real, and passes its arguments on. A missed bound is marked,
/// and ends with exit code 1.
#[derive(Parser)]
#[command(name = "bowline-bench")]
enum Benchmark {
    /// Everything on one API server; writes JSON and a plot
    All {
        #[command(flatten)]
        measured: Measured,
        /// Floor and program so many times where there are few nodes: the median counts
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Leave out rows with more nodes
        #[arg(long, value_name = "N", default_value_t = usize::MAX, hide_default_value = true)]
        most_nodes: usize,
        #[command(flatten)]
        heartbeats: Heartbeats,
        /// Where results are written
        #[arg(long, value_name = "DIR", default_value = results::FOLDER)]
        results: PathBuf,
    },
    /// Nodes that all join at once: time, CPU, memory, calls, writes
    Join {
        /// Whose nodes: cloudscale, exoscale, talos, triton or xenorchestra
        #[arg(long, default_value = "exoscale")]
        cloud: String,
        /// How many
        #[arg(long, default_value_t = 1000)]
        nodes: usize,
        /// Floor and program, one after the other, so many times: the median counts
        #[arg(long, default_value_t = 1)]
        rounds: usize,
        #[command(flatten)]
        measured: Measured,
    },
    /// Nodes that have joined, and then only heartbeats: share of a core, writes
    Heartbeats {
        /// Whose nodes: cloudscale, exoscale, talos, triton or xenorchestra
        #[arg(long, default_value = "exoscale")]
        cloud: String,
        /// How many
        #[arg(long, default_value_t = 5000)]
        nodes: usize,
        #[command(flatten)]
        heartbeats: Heartbeats,
        #[command(flatten)]
        measured: Measured,
    },
    /// Services that all get a load balancer: time, CPU, memory, calls, writes
    Services {
        /// Whose load balancers: cloudscale, exoscale or triton
        #[arg(long, default_value = "exoscale")]
        cloud: String,
        /// How many
        #[arg(long, default_value_t = 2000)]
        services: usize,
        #[command(flatten)]
        measured: Measured,
    },
    /// Nodes that are replaced under Services: updates of each load balancer's members (simulated time)
    Members {
        /// Services, each with a load balancer
        #[arg(long, default_value_t = 50)]
        services: usize,
        /// Nodes, each a member of every load balancer
        #[arg(long, default_value_t = 200)]
        nodes: usize,
        /// How many of them are replaced
        #[arg(long, default_value_t = 20)]
        replaced: usize,
    },
    /// A new Service on an idle cloud: time until its address is published, calls (simulated time)
    Service,
    /// VMs of Xen Orchestra while nothing happens: requests in five minutes (simulated time)
    Rest {
        /// VMs, each with a node
        #[arg(long, default_value_t = 1000)]
        vms: usize,
        /// Pools that they are spread over
        #[arg(long, default_value_t = 3)]
        pools: usize,
    },
    /// Pod ranges for many nodes: time for each allocation
    Cidrs {
        /// How many nodes
        #[arg(long, default_value_t = cidrs::NODES)]
        nodes: usize,
    },
    /// Print the latest results beside the bounds as they are now, and draw their plots again
    Plot {
        /// Where results are
        #[arg(long, value_name = "DIR", default_value = results::FOLDER)]
        results: PathBuf,
    },
}

/// Which API server, and which programs.
#[derive(Args)]
struct Measured {
    /// On a real kube-apiserver and etcd, from the folder that $KUBEBUILDER_ASSETS names
    #[arg(long, conflicts_with = "memory")]
    real: bool,
    /// On the simulated API server in this process [default]
    #[arg(long)]
    memory: bool,
    /// The program under test
    #[arg(long, value_name = "PATH", default_value = "target/release/bowline")]
    program: PathBuf,
    /// Further flags of the program, separated by spaces
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    flags: String,
    /// Another program, measured with the same settings on the same servers
    #[arg(long, value_name = "PATH")]
    peer: Option<PathBuf>,
    /// Further flags of the peer, separated by spaces
    #[arg(
        long,
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    peer_flags: String,
}

impl Measured {
    fn place(&self) -> Where {
        if self.real {
            Where::Real
        } else {
            Where::Memory
        }
    }

    /// Ours, and the peer.
    fn programs(&self) -> Result<(Program, Option<Program>)> {
        let program = Program::new(&self.program, &self.flags)?;
        let peer = self.peer.as_ref();
        let peer = peer.map(|path| Program::new(path, &self.peer_flags));
        Ok((program, peer.transpose()?))
    }

    /// Prints rows; whether all bounds are kept.
    fn report(&self, version: &str, rows: &[Row]) -> bool {
        table::head(self.place(), version, &self.flags);
        let missed = rows.iter().map(|row| table::print(row, self.place()).len());
        missed.sum::<usize>() == 0
    }
}

fn main() -> Result<ExitCode> {
    let kept = match Benchmark::parse() {
        Benchmark::All {
            measured,
            rounds,
            most_nodes,
            heartbeats,
            results,
        } => {
            let (program, peer) = measured.programs()?;
            let all = All {
                place: measured.place(),
                program: &program,
                peer: peer.as_ref(),
                rounds,
                most_nodes,
                heartbeats,
                flags: &measured.flags,
            };
            all.measure(&results)
        }
        Benchmark::Join {
            cloud,
            nodes,
            rounds,
            measured,
        } => join((&cloud, nodes), rounds, None, &measured),
        Benchmark::Heartbeats {
            cloud,
            nodes,
            heartbeats,
            measured,
        } => join((&cloud, nodes), 1, Some(&heartbeats), &measured),
        Benchmark::Services {
            cloud,
            services,
            measured,
        } => many_services(&cloud, services, &measured),
        Benchmark::Members {
            services,
            nodes,
            replaced,
        } => balancers::members(Members {
            services,
            nodes,
            replaced,
        }),
        Benchmark::Service => balancers::service(),
        Benchmark::Rest { vms, pools } => rest::rest(Resting { vms, pools }),
        Benchmark::Cidrs { nodes } => cidrs::cidrs(nodes),
        Benchmark::Plot { results } => plot_again(&results),
    }?;
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn join(
    (cloud, nodes): (&str, usize),
    rounds: usize,
    rest: Option<&Heartbeats>,
    measured: &Measured,
) -> Result<bool> {
    let (program, peer) = measured.programs()?;
    let join = Join {
        kind: clouds::named(cloud)?,
        nodes,
        rounds,
        program: &program,
        peer: peer.as_ref(),
        rest,
    };
    let (version, rows) = runtime()?.block_on(join.measure(measured.place()))?;
    Ok(measured.report(&version, &rows))
}

fn many_services(cloud: &str, count: usize, measured: &Measured) -> Result<bool> {
    let (program, peer) = measured.programs()?;
    let services = Services {
        kind: clouds::named(cloud)?,
        count,
        program: &program,
        peer: peer.as_ref(),
    };
    let (version, row) = runtime()?.block_on(services.measure(measured.place()))?;
    Ok(measured.report(&version, &[row]))
}

fn plot_again(results: &Path) -> Result<bool> {
    for place in [Where::Real, Where::Memory] {
        match Report::latest(results, place.name()) {
            Some(report) => all::show_again(&report, place, results)?,
            None => progress::say(&format!("no results of the {} API server", place.name())),
        }
    }
    Ok(true)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all();
    builder.build().context("starting the runtime")
}
