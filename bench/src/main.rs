//! `cargo run --release -p bowline-bench -- join`: many nodes join at once. `members`: nodes are
//! replaced under Services. `service`: a new Service gets its address. `rest`: VMs at which nothing happens.
//! `cidrs`: many nodes get pod ranges.
//!
//! For `members` and `service` see [`balancers`]. For `join` the simulated cluster and cloud run in this process, over TLS and HTTP on loopback; the manager
//! is the program as it is released, in a process of its own, so that its memory is its own. Times
//! on a shared machine mean little, so they are given as ratios to a floor measured in the same
//! run: the same kubelets register, and a bare client that decides nothing makes the same writes.

#![expect(clippy::print_stdout, reason = "printing numbers is what it is for")]

mod balancers;
mod cidrs;
mod floor;
mod harness;
mod rest;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bowline_scenarios::measure::{Members, Resting};
use clap::Parser;

use self::harness::{Harness, Measured};

/// What Bowline is measured by.
#[derive(Parser)]
enum Benchmark {
    /// Nodes that all join at once: calls, writes, memory, time.
    Join {
        /// How many
        #[arg(long, default_value_t = 2000)]
        nodes: usize,
        /// The program under test
        #[arg(long, default_value = "target/release/bowline")]
        program: PathBuf,
    },
    /// Nodes that are replaced under Services: updates of each load balancer's members.
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
    /// A new Service on an idle cloud: simulated time until its address is published, calls.
    Service,
    /// VMs of Xen Orchestra while nothing happens: requests in five minutes.
    Rest {
        /// VMs, each with a node
        #[arg(long, default_value_t = 1000)]
        vms: usize,
        /// Pools that they are spread over
        #[arg(long, default_value_t = 3)]
        pools: usize,
    },
    /// Pod ranges for many nodes: time for each allocation.
    Cidrs {
        /// How many nodes
        #[arg(long, default_value_t = 5000)]
        nodes: usize,
    },
}

fn main() -> Result<ExitCode> {
    let kept = match Benchmark::parse() {
        Benchmark::Join { nodes, program } => run_join(nodes, program).map(|()| true),
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
    }?;
    Ok(if kept {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_join(nodes: usize, program: PathBuf) -> Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?
        .block_on(join(nodes, program))
}

async fn join(nodes: usize, program: PathBuf) -> Result<()> {
    let program = program.canonicalize().with_context(|| {
        format!(
            "{} is missing: build it with `cargo build --release`",
            program.display()
        )
    })?;
    let floor = floor::measure(nodes).await?;
    let test = Harness::set_up(&program).await?;
    let measured = test.join_all(nodes).await?;
    report(nodes, &measured, floor.as_secs_f64());
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "small whole numbers")]
fn report(nodes: usize, measured: &Measured, floor: f64) {
    let each = |count: usize| count as f64 / nodes as f64;
    let seconds = measured.time.as_secs_f64();
    println!("{nodes} nodes join at once");
    println!(
        "  cloud calls              {:>8}  (one list is one page)",
        measured.cloud_calls
    );
    println!(
        "  Node writes per node     {:>8.3}",
        each(measured.node_writes)
    );
    println!("  refused by a conflict    {:>8}", measured.conflicts);
    println!(
        "  events per node          {:>8.3}",
        each(measured.event_writes)
    );
    println!("  other calls to the API   {:>8}", measured.other_calls);
    println!("  time to initialise all   {seconds:>8.1} s");
    println!(
        "  ratio to the floor       {:>8.2}  (floor {floor:.1} s)",
        seconds / floor
    );
    println!("  peak memory of manager   {:>8} kB", measured.peak_kb);
    println!("  memory afterwards        {:>8} kB", measured.resident_kb);
}
