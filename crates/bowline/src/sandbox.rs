//! `bowline sandbox`: no cluster, no account, no set-up.
//!
//! A cluster and all clouds, or one, come up on loopback, the real manager works on them, and a short
//! story is played. Afterwards the stage stays, so that people can look around with `kubectl`.

mod cast;
mod display;
mod observer;
mod stage;
mod story;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use tokio_util::sync::CancellationToken;

use self::cast::Cast;
use self::display::{Display, Mark};
use self::observer::Observer;
use self::stage::Stage;
use self::story::Story;
use crate::{logging, run, signals, simulators};

/// The exit status of a story that was not played to its end: 128 + SIGINT, as shells report it.
const INTERRUPTED: u8 = 130;

/// The log in the sandbox's folder.
const LOG: &str = "bowline.log";
/// Machines of one cloud, unless said otherwise.
const NODES: u32 = 3;
/// Machines of each of several clouds, unless said otherwise; and the most: what is too many for a
/// screen is one cloud's story.
const NODES_OF_EACH: u32 = 2;
const MOST_OF_EACH: u32 = 300;

/// A cluster and clouds on loopback, and Bowline at work on them.
///
/// Everything is simulated and in memory: no cluster, no account and no set-up is needed, and
/// nothing outside this machine is touched. A short story is played, every step is shown as it
/// happens, and then the sandbox stays up for kubectl until Ctrl-C.
///
/// Without --cloud, all clouds are in one cluster, one of them with two accounts, and one manager
/// looks after all by one configuration: each node is initialised by its own cloud and foreign ones
/// are left alone, each cloud serves its Services with its own nodes, and one cloud fails while
/// the others go on.
///
/// With --cloud, the manager is told as that cloud's original is: nodes join, a Service gets its
/// address, a machine stops, a node is replaced, a machine is destroyed, the Service is deleted, a
/// foreign node is left alone; where there are pools of hosts, a machine migrates, and a pool is
/// disconnected.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Play the story, print a summary and exit; non-zero if an expectation was not met
    #[arg(long)]
    once: bool,
    /// How many machines join, from 2 to 2000 (3 unless given), or each of several clouds, from 2 to
    /// 300 (2 unless given); above 12 only numbers are shown
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=2000))]
    nodes: Option<u32>,
    /// Draw names and addresses from this seed, so that they are the same in every run
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Which cloud to simulate; all of them unless given
    #[arg(
        long,
        value_name = "NAME",
        value_parser = PossibleValuesParser::new(simulators::names())
    )]
    cloud: Option<String>,
    /// The port of the Kubernetes API on 127.0.0.1; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Where to put kubeconfig, configuration, secrets and log; a temporary folder unless given
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
    run::block_on(play(arguments, &folder))
}

async fn play(arguments: &Arguments, folder: &Folder) -> Result<ExitCode> {
    let display = Arc::new(Display::stdout());
    let stop = CancellationToken::new();
    signals::listen(stop.clone()).context("listening for signals")?;
    let cast = Cast::of(arguments.cloud.as_deref())?;
    let (clouds, nodes) = match cast {
        Cast::One(_) => ("cloud", NODES),
        Cast::Several => ("clouds", NODES_OF_EACH),
    };
    display.say(&format!(
        "Bowline sandbox: a simulated cluster and {clouds}, and the real controller manager"
    ));
    let stage = Stage::set_up(cast, &folder.path, arguments.seed, arguments.port).await?;
    for line in stage.addresses() {
        display.say(&format!("  {line}"));
    }
    let kubectl = stage.kubectl();
    if !arguments.once {
        display.say(&format!("  look around      {kubectl} get nodes --watch"));
    }
    let nodes = arguments.nodes.unwrap_or(nodes);
    let nodes = usize::try_from(nodes).unwrap_or(usize::MAX);
    let observer = Observer::start(
        &stage.admin()?,
        stage.sites(),
        display.clone(),
        nodes,
        &stop,
    );
    let mut story = Story::new(stage, observer, display.clone(), nodes);
    let played = stop.run_until_cancelled(story.play()).await;
    let stage = story.into_stage();
    let failures = match played {
        Some(Ok(failures)) => failures,
        Some(Err(error)) => {
            // What went wrong matters more than how the rest goes down.
            let _ = stage.tear_down().await;
            return Err(error);
        }
        None => {
            display.chapter("Interrupted before the story was over");
            tear_down(stage, &display).await?;
            return Ok(ExitCode::from(INTERRUPTED));
        }
    };
    if !arguments.once {
        display.chapter("The sandbox stays up until Ctrl-C");
        for example in examples(&stage)? {
            display.say(&format!("  {example}"));
        }
        if let Some(error) = stop.run_until_cancelled(stage.manager_ended()).await {
            return Err(error);
        }
    }
    tear_down(stage, &display).await?;
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What people may like to try: command lines.
fn examples(stage: &Stage) -> Result<Vec<String>> {
    let kubectl = stage.kubectl();
    let mut examples = match stage.cast() {
        Cast::One(_) => vec![format!("{kubectl} get nodes -o wide")],
        Cast::Several => vec![format!("{kubectl} get nodes --label-columns site")],
    };
    let node = stage.machines().first();
    examples.extend(node.map(|name| format!("{kubectl} describe node {name}")));
    if stage.kind().balancer.is_some() {
        examples.push(format!(
            "{kubectl} create service loadbalancer shop --tcp=80:8080"
        ));
        examples.push(format!("{kubectl} get services --watch"));
    }
    examples.push(format!("{kubectl} get events"));
    if matches!(stage.cast(), Cast::Several) {
        let program = std::env::current_exe().context("finding the program itself")?;
        let (program, config) = (program.display(), stage.configuration());
        let config = config.display();
        examples.push(format!(
            "{program} explain node under-the-desk --config {config}"
        ));
        examples.push(format!("{program} plan --all --config {config}"));
        examples.push(format!("curl --insecure {}", stage.readiness_url()));
        examples.push(format!(
            "edit {config}: take a cloud out, change defaultCloud, or break it; within seconds it is in use, or \
             refused with the reason in {log}",
            log = stage.log().display(),
        ));
    }
    Ok(examples)
}

async fn tear_down(stage: Stage, display: &Display) -> Result<()> {
    stage.tear_down().await.context("stopping")?;
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
