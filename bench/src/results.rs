//! What was measured, and the file that keeps it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline_http::Clock;
use serde::{Deserialize, Serialize};

use crate::counts::Counts;
use crate::process::Usage;

/// Where results are kept, from the root of the repository.
pub(crate) const FOLDER: &str = "bench/results";

/// All rows of one run of the benchmarks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Report {
    pub(crate) date: String,
    /// The commit; with a `+` if there were changes on top of it.
    pub(crate) commit: String,
    /// On which API server: `real` or `memory`.
    pub(crate) place: String,
    /// Its version.
    pub(crate) kubernetes: String,
    pub(crate) cores: usize,
    /// Further flags of the program.
    pub(crate) flags: String,
    pub(crate) rows: Vec<Row>,
    /// What was missed, in words.
    pub(crate) missed: Vec<String>,
}

/// What was measured of one program, beside the floor and perhaps a peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) what: What,
    pub(crate) cloud: String,
    /// Nodes, or Services.
    pub(crate) count: usize,
    /// Seconds of the bare client; 0 where there is none.
    pub(crate) floor: f64,
    /// Its CPU seconds.
    #[serde(default)]
    pub(crate) floor_cpu: f64,
    pub(crate) run: Run,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<Run>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum What {
    /// Nodes are initialised.
    Join,
    /// Nodes at which nothing happens but heartbeats.
    Rest,
    /// Services get load balancers.
    Services,
}

/// What one program needed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Run {
    /// From the start of the process until it has the lease.
    pub(crate) start_seconds: f64,
    /// From the lease until the last node has lost its taint; the window at rest.
    pub(crate) seconds: f64,
    /// CPU seconds before the lease, until the last taint, and for what is written later.
    pub(crate) cpu_start: f64,
    pub(crate) cpu_join: f64,
    pub(crate) cpu_events: f64,
    /// Resident when it has the lease.
    pub(crate) start_kb: u64,
    pub(crate) peak_kb: u64,
    pub(crate) resident_kb: u64,
    pub(crate) cloud_calls: u64,
    pub(crate) node_writes: u64,
    pub(crate) conflicts: u64,
    pub(crate) events: u64,
    pub(crate) service_writes: u64,
}

impl Run {
    /// Of a program that was started and began after so many seconds, and ended after so many: what it used when it
    /// began, its CPU time at the end, and what it used when it was quiet.
    pub(crate) fn of(
        (start_seconds, seconds): (f64, f64),
        begun: &Usage,
        ended: Duration,
        quiet: &Usage,
        counts: Counts,
    ) -> Self {
        Self {
            start_seconds,
            seconds,
            cpu_start: begun.cpu.as_secs_f64(),
            cpu_join: ended.saturating_sub(begun.cpu).as_secs_f64(),
            cpu_events: quiet.cpu.saturating_sub(ended).as_secs_f64(),
            start_kb: begun.resident_kb,
            peak_kb: quiet.peak_kb,
            resident_kb: quiet.resident_kb,
            cloud_calls: counts.cloud_calls,
            node_writes: counts.nodes,
            conflicts: counts.conflicts,
            events: counts.events,
            service_writes: counts.services,
        }
    }

    pub(crate) fn cpu(&self) -> f64 {
        self.cpu_start + self.cpu_join + self.cpu_events
    }

    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub(crate) fn peak_mb(&self) -> f64 {
        self.peak_kb as f64 / 1000.0
    }
}

impl Report {
    /// An empty one: of today, and of what is checked out.
    pub(crate) fn new(place: &str, kubernetes: &str, flags: &str) -> Self {
        let date = Clock::system().now().to_string();
        let cores = std::thread::available_parallelism();
        Self {
            date: date.chars().take(10).collect(),
            commit: commit().unwrap_or_else(|| "unknown".to_owned()),
            place: place.to_owned(),
            kubernetes: kubernetes.to_owned(),
            cores: cores.map_or(0, std::num::NonZero::get),
            flags: flags.to_owned(),
            rows: Vec::new(),
            missed: Vec::new(),
        }
    }

    /// Writes it into the folder of results.
    pub(crate) fn save(&self, folder: &Path) -> Result<PathBuf> {
        let made = std::fs::create_dir_all(folder);
        made.with_context(|| format!("making {}", folder.display()))?;
        let commit = self.commit.trim_end_matches('+');
        let path = folder.join(format!("{}-{commit}-{}.json", self.date, self.place));
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(&path, text + "\n")
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("reading {}", path.display()))
    }

    /// The latest of each API server in a folder: file names begin with the date, and of one day the file
    /// that was written last counts.
    pub(crate) fn latest(folder: &Path, place: &str) -> Option<Self> {
        let files = std::fs::read_dir(folder)
            .ok()?
            .flatten()
            .map(|file| file.path());
        let end = format!("-{place}.json");
        let ours = files.filter(|path| path.to_string_lossy().ends_with(&end));
        let written = |path: &PathBuf| {
            std::fs::metadata(path)
                .and_then(|file| file.modified())
                .ok()
        };
        let day = |path: &PathBuf| {
            path.file_name()
                .map(|name| name.to_string_lossy()[..10].to_owned())
        };
        let latest = ours.max_by_key(|path| (day(path), written(path)))?;
        Self::read(&latest).ok()
    }
}

fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=8", "HEAD"])?;
    let changed = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "crates",
        "Cargo.toml",
        "Cargo.lock",
    ])?;
    Some(if changed.is_empty() {
        commit
    } else {
        commit + "+"
    })
}
