//! `bowline sandbox`: no cluster, no account, no set-up.
//!
//! A cluster and a cloud come up on loopback, the real manager works on them, and a short story is
//! played. Afterwards the stage stays, so that people can look around with `kubectl`.

mod clouds;
mod display;
mod observer;
mod stage;
mod story;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_controllers::stop_signal;
use clap::builder::PossibleValuesParser;

use self::display::{Display, Mark};
use self::observer::Observer;
use self::stage::Stage;
use self::story::Story;
use crate::{logging, run, signals};

/// The exit status of a story that was not played to its end: 128 + SIGINT, as shells report it.
const INTERRUPTED: u8 = 130;

/// A cluster and a cloud on loopback, and Bowline at work on them.
///
/// Everything is simulated and in memory: no cluster, no account and no set-up is needed, and
/// nothing outside this machine is touched. A short story is played (nodes join, a Service gets its
/// address, a machine stops, a node is replaced, a machine is destroyed, the Service is deleted, a
/// foreign node is left alone; where there are pools of hosts, a machine migrates, and a pool is
/// disconnected), every step is shown as it happens, and then the sandbox stays up for kubectl until
/// Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Play the story, print a summary and exit; non-zero if an expectation was not met
    #[arg(long)]
    once: bool,
    /// How many machines join, from 2 to 2000; above 12 only numbers are shown
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=2000))]
    nodes: u32,
    /// Draw names and addresses from this seed, so that they are the same in every run
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Which cloud to simulate
    #[arg(
        long,
        value_name = "NAME",
        default_value = clouds::DEFAULT,
        value_parser = PossibleValuesParser::new(clouds::names())
    )]
    cloud: String,
    /// The port of the Kubernetes API on 127.0.0.1; 0 picks a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Where to put kubeconfig, token and log; a temporary folder unless given
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

/// Runs the sandbox.
pub(crate) fn main(arguments: &Arguments) -> Result<ExitCode> {
    let folder = Folder::make(arguments.folder.clone())?;
    logging::start_to_file(&folder.path.join("bowline.log"))?;
    run::block_on(play(arguments, &folder))
}

async fn play(arguments: &Arguments, folder: &Folder) -> Result<ExitCode> {
    let display = Arc::new(Display::stdout());
    let (handle, stop) = stop_signal();
    signals::listen(handle).context("listening for signals")?;
    display.say("Bowline sandbox: a simulated cluster and cloud, and the real controller manager");
    let entry = clouds::named(&arguments.cloud)?;
    let stage = Stage::set_up(entry, &folder.path, arguments.seed, arguments.port).await?;
    for line in stage.addresses() {
        display.say(&format!("  {line}"));
    }
    let kubectl = stage.kubectl();
    if !arguments.once {
        display.say(&format!("  look around      {kubectl} get nodes --watch"));
    }
    let nodes = usize::try_from(arguments.nodes).unwrap_or(usize::MAX);
    let cloud = (entry, stage.cloud());
    let observer = Observer::start(&stage.admin()?, cloud, display.clone(), nodes, &stop);
    let mut story = Story::new(stage, observer, display.clone(), nodes);
    let played = stop.unless_given(story.play()).await;
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
        for example in examples(&stage) {
            display.say(&format!("  {kubectl} {example}"));
        }
        if let Some(error) = stop.unless_given(stage.manager_ended()).await {
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

/// What people may like to try.
fn examples(stage: &Stage) -> Vec<String> {
    let mut examples = vec!["get nodes -o wide".to_owned()];
    examples.extend(
        stage
            .machines()
            .first()
            .map(|name| format!("describe node {name}")),
    );
    if stage.entry().balancer.is_some() {
        examples.push("create service loadbalancer shop --tcp=80:8080".to_owned());
        examples.push("get services --watch".to_owned());
    }
    examples.push("get events".to_owned());
    examples
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
