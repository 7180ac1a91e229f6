//! `bowline sandbox`: no cluster, no account, no set-up.
//!
//! A cluster and all clouds, or one, come up on loopback, and the real manager works on them through a
//! scripted story. Afterwards everything stays up, so that people can look around with `kubectl`.
//!
//! ```text
//!  selection: which clouds ─▶ harness: cluster, clouds, kubelets, manager ─▶ story: acts, expects
//!                                      └─▶ observer: watches, prints (display) ─────────┘
//! ```

mod display;
mod harness;
mod observer;
mod selection;
mod story;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use tokio_util::sync::CancellationToken;

use self::display::{Display, Mark};
use self::harness::Harness;
use self::observer::Observer;
use self::selection::Selection;
use self::story::Story;
use crate::{logging, run, signals, simulators};

/// The exit status of a story that did not come to its end: 128 + SIGINT, as shells report it.
const INTERRUPTED: u8 = 130;

/// The log in the sandbox's folder.
const LOG: &str = "bowline.log";
/// Machines of one cloud, unless said otherwise.
const NODES: u32 = 3;
/// Machines of each of several clouds, unless said otherwise; and the most: what is too many for a
/// screen is one cloud's story.
const NODES_OF_EACH: u32 = 2;
const MOST_OF_EACH: u32 = 300;

/// Run Bowline against a simulated cluster and simulated clouds
///
/// Cluster and clouds run in memory on 127.0.0.1; no cluster, account or set-up is needed, and
/// nothing outside this machine is changed. The sandbox runs a scripted demo, prints each step as it
/// happens, and then stays up for kubectl until Ctrl-C.
///
/// Without --cloud, nodes of all clouds are in one cluster (one cloud has two accounts), and one
/// manager with one configuration file manages them. Each node is initialised by its own cloud, and
/// foreign nodes are left alone. Each cloud serves its Services with its own nodes. One cloud fails
/// while the others go on.
///
/// With --cloud, the manager runs with the flags and files of that cloud's original controller
/// manager. Nodes join, a Service gets its address, a machine stops, a node is replaced, a machine is
/// destroyed, and the Service is deleted. A cloud with pools of hosts also migrates a machine and
/// disconnects a pool.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run the demo, print a summary and exit; the exit code is not 0 if an expectation was not met
    #[arg(long)]
    once: bool,
    /// The number of machines: with --cloud 2 to 2000 (default 3), otherwise 2 to 300 in each cloud
    /// (default 2); above 12, changes of single nodes are not printed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=2000))]
    nodes: Option<u32>,
    /// The seed of IDs and addresses: the same seed gives the same ones in every run
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// The cloud to simulate; default: all
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(simulators::names())
    )]
    cloud: Option<String>,
    /// The port of the Kubernetes API on 127.0.0.1; 0: any free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// The folder for kubeconfig, configuration, secrets and log; default: a temporary folder
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Runs the sandbox.
pub(crate) fn main(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.cloud.is_none() && arguments.nodes.is_some_and(|it| it > MOST_OF_EACH) {
        bail!(
            "--nodes: each of several clouds has at most {MOST_OF_EACH} machines; name one with --cloud"
        );
    }
    let folder = Folder::make(arguments.folder.clone())?;
    logging::start_to_file(&folder.path.join(LOG))?;
    run::block_on(run_demo(arguments, &folder))
}

async fn run_demo(arguments: &Arguments, folder: &Folder) -> Result<ExitCode> {
    let display = Arc::new(Display::stdout());
    let stop = CancellationToken::new();
    signals::listen(stop.clone()).context("listening for signals")?;
    let selection = Selection::of(arguments.cloud.as_deref())?;
    let (clouds, nodes) = match selection {
        Selection::One(_) => ("cloud", NODES),
        Selection::Several => ("clouds", NODES_OF_EACH),
    };
    display.say(&format!(
        "Bowline sandbox: a simulated cluster and {clouds}, and the real controller manager"
    ));
    let harness = Harness::set_up(selection, &folder.path, arguments.seed, arguments.port).await?;
    for line in harness.addresses() {
        display.say(&format!("  {line}"));
    }
    let kubectl = harness.kubectl();
    if !arguments.once {
        display.say(&format!("  look around      {kubectl} get nodes --watch"));
    }
    let nodes = arguments.nodes.unwrap_or(nodes);
    let nodes = usize::try_from(nodes).unwrap_or(usize::MAX);
    let observer = Observer::start(
        &harness.admin()?,
        harness.clouds(),
        display.clone(),
        nodes,
        &stop,
    );
    let mut story = Story::new(harness, observer, display.clone(), nodes);
    let ended = stop.run_until_cancelled(story.run()).await;
    let harness = story.into_harness();
    let failures = match ended {
        Some(Ok(failures)) => failures,
        Some(Err(error)) => {
            // What went wrong matters more than how the rest goes down.
            let _ = harness.tear_down().await;
            return Err(error);
        }
        None => {
            display.chapter("Interrupted before the end");
            tear_down(harness, &display).await?;
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    if !arguments.once {
        display.chapter("The sandbox stays up until Ctrl-C");
        for example in examples(&harness)? {
            display.say(&format!("  {example}"));
        }
        if let Some(error) = stop.run_until_cancelled(harness.manager_ended()).await {
            return Err(error);
        }
    }
    tear_down(harness, &display).await?;
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What people may like to try: command lines.
fn examples(harness: &Harness) -> Result<Vec<String>> {
    let kubectl = harness.kubectl();
    let mut examples = match harness.selection() {
        Selection::One(_) => vec![format!("{kubectl} get nodes -o wide")],
        Selection::Several => vec![format!("{kubectl} get nodes --label-columns site")],
    };
    let node = harness.machines().first();
    examples.extend(node.map(|name| format!("{kubectl} describe node {name}")));
    if harness.kind().balancer.is_some() {
        examples.push(format!(
            "{kubectl} create service loadbalancer shop --tcp=80:8080"
        ));
        examples.push(format!("{kubectl} get services --watch"));
    }
    examples.push(format!("{kubectl} get events"));
    if matches!(harness.selection(), Selection::Several) {
        let program = std::env::current_exe().context("finding the program itself")?;
        let (program, config) = (program.display(), harness.configuration());
        let config = config.display();
        examples.push(format!(
            "{program} explain node under-the-desk --config {config}"
        ));
        examples.push(format!("{program} plan --all --config {config}"));
        examples.push(format!("curl --insecure {}", harness.readiness_url()));
        examples.push(format!(
            "edit {config}: remove a cloud, change defaultCloud, or make an error; within seconds it is in use, or \
             refused with the reason in {log}",
            log = harness.log().display(),
        ));
    }
    Ok(examples)
}

async fn tear_down(harness: Harness, display: &Display) -> Result<()> {
    harness.tear_down().await.context("stopping")?;
    display.line(Mark::Good, "stopped cleanly: work finished, lease released");
    Ok(())
}

/// The folder of a sandbox; a temporary one goes with it.
struct Folder {
    path: PathBuf,
    temporary: bool,
}

impl Folder {
    fn make(given: Option<PathBuf>) -> Result<Self> {
        let temporary = given.is_none();
        let path = given.unwrap_or_else(|| {
            std::env::temp_dir().join(format!("bowline-sandbox-{}", std::process::id()))
        });
        let mut builder = std::fs::DirBuilder::new();
        // It holds credentials, if only simulated ones. A temporary one must be ours alone.
        builder.recursive(!temporary).mode(0o700);
        builder
            .create(&path)
            .with_context(|| format!("making the sandbox's folder {}", path.display()))?;
        // What stands in files has to be found from everywhere.
        let path = path
            .canonicalize()
            .with_context(|| format!("finding the sandbox's folder {}", path.display()))?;
        Ok(Self { path, temporary })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed is left to the system's own clean-up.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
