//! `bowline sandbox`: no cluster, no account, no set-up.
//!
//! A cluster and a cloud come up on loopback, the real manager works on them, and a short story is
//! played. Afterwards the stage stays, so that people can look around with `kubectl`.

mod display;
mod observer;
mod stage;
mod story;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use bowline_controllers::stop_signal;

use self::display::{Display, Mark};
use self::observer::Observer;
use self::stage::Stage;
use self::story::Story;
use crate::{logging, run, signals};

/// A cluster and a cloud on loopback, and Bowline at work on them.
///
/// Everything is simulated and in memory: no cluster, no account and no set-up is needed, and
/// nothing outside this machine is touched. A short story is played (nodes join, a machine stops,
/// a machine is destroyed, a foreign node is left alone), every step is shown as it happens, and
/// then the sandbox stays up for kubectl until Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Play the story, print a summary and exit; non-zero if an expectation was not met
    #[arg(long)]
    once: bool,
    /// How many machines join
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=2000))]
    nodes: u32,
    /// Draw names and addresses from this seed, so that they are the same in every run
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Which cloud to simulate
    #[arg(long, value_name = "NAME", default_value = "cloudscale", value_parser = ["cloudscale"])]
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
    let stage = Stage::set_up(&folder.path, arguments.seed, arguments.port).await?;
    for line in stage.addresses() {
        display.say(&format!("  {line}"));
    }
    let kubectl = stage.kubectl();
    if !arguments.once {
        display.say(&format!("  look around      {kubectl} get nodes --watch"));
    }
    let nodes = usize::try_from(arguments.nodes).unwrap_or(usize::MAX);
    let observer = Observer::start(stage.admin()?, display.clone(), nodes, stop.clone());
    let story = Story::new(stage, observer, display.clone(), nodes);
    let Some(played) = stop.unless_given(story.play()).await else {
        display.say("\ninterrupted");
        return Ok(ExitCode::FAILURE);
    };
    let (mut stage, failures) = played?;
    if !arguments.once {
        display.chapter("The sandbox stays up until Ctrl-C");
        for example in ["get nodes -o wide", "describe node worker-1", "get events"] {
            display.say(&format!("  {kubectl} {example}"));
        }
        if let Some(ended) = stop.unless_given(stage.manager_ended()).await {
            return ended.map(|()| ExitCode::FAILURE);
        }
    }
    stage.tear_down().await.context("stopping")?;
    display.line(Mark::Good, "stopped cleanly: work finished, lease released");
    Ok(if failures == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
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
        std::fs::create_dir_all(&path)
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
