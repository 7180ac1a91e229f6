//! The program under test, in a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::{Child, Command};

use crate::clouds::Cloud;

/// The unit of times in `/proc`: the same on all architectures that Rust's Linux targets are for.
const TICKS_PER_SECOND: u64 = 100;
/// So much of its log is shown if it ends.
const SHOWN: usize = 2000;

/// A program that is measured.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// Further flags.
    pub(crate) flags: Vec<String>,
}

impl Program {
    /// The program at that path with those flags, separated by spaces.
    pub(crate) fn new(path: &Path, flags: &str) -> Result<Self> {
        let path = path.canonicalize().with_context(|| {
            format!(
                "{} is missing: build it with `cargo build --release --no-default-features \
                 --features clouds -p bowline`",
                path.display()
            )
        })?;
        let flags = flags.split_whitespace().map(str::to_owned).collect();
        Ok(Self { path, flags })
    }
}

pub(crate) struct Process {
    child: Child,
    log: PathBuf,
    /// Settings, kubeconfig and log.
    _folder: tempfile::TempDir,
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// Of user and system together.
    pub(crate) cpu: Duration,
    /// Most memory that was ever resident, in kB.
    pub(crate) peak_kb: u64,
    pub(crate) resident_kb: u64,
}

impl Process {
    /// Starts it for that cloud, as the original is started: its flags, environment and files.
    pub(crate) fn start(program: &Program, cloud: &Cloud, kubeconfig: &Path) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let settings = cloud.settings(folder.path())?;
        let log = folder.path().join("log");
        let output = std::fs::File::create(&log)?;
        let child = Command::new(&program.path)
            .arg(format!("--cloud-provider={}", cloud.kind.server.name))
            .args(["--allow-untagged-cloud", "--secure-port=0"])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(&settings.arguments)
            .args(&program.flags)
            .envs(&settings.environment)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {}", program.path.display()))?;
        Ok(Self {
            child,
            log,
            _folder: folder,
        })
    }

    /// Waits until it ends, which it should not.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        let status = self.child.wait().await;
        let log = std::fs::read(&self.log).unwrap_or_default();
        let end = log.len().saturating_sub(SHOWN);
        let log = String::from_utf8_lossy(&log[end..]).into_owned();
        match status {
            Ok(status) => {
                anyhow::anyhow!("the program ended ({status}); the end of its log:\n{log}")
            }
            Err(error) => error.into(),
        }
    }

    pub(crate) fn id(&self) -> Result<u32> {
        self.child.id().context("the program has ended")
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        Usage::of(self.id()?)
    }

    pub(crate) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}

impl Usage {
    /// Of that process until now.
    pub(crate) fn of(process: u32) -> Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
        let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
        Ok(Usage {
            cpu: cpu(&stat)?,
            peak_kb: memory(&status, "VmHWM:")?,
            resident_kb: memory(&status, "VmRSS:")?,
        })
    }
}

/// User and system time in `/proc/<pid>/stat`.
fn cpu(stat: &str) -> Result<Duration> {
    // The name before may have anything in it; after it, user time is the twelfth.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields);
    let mut fields = fields
        .context("no name in stat")?
        .split_whitespace()
        .skip(11);
    let (Some(user), Some(system)) = (fields.next(), fields.next()) else {
        bail!("no times in stat");
    };
    let ticks = user.parse::<u64>()? + system.parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// A number of `/proc/<pid>/status`, in kB.
fn memory(status: &str, name: &str) -> Result<u64> {
    let number = status.lines().find_map(|line| line.strip_prefix(name));
    let number = number.and_then(|rest| rest.split_whitespace().next());
    Ok(number
        .with_context(|| format!("no {name} in status"))?
        .parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read() {
        let stat = "42 (a) b) S 1 42 42 0 -1 4194560 12 0 3 0 150 25 0 0 20 0 3 0 9 1 2";
        assert_eq!(cpu(stat).unwrap(), Duration::from_millis(1750));
        let status = "Name:\tbowline\nVmHWM:\t   30020 kB\nVmRSS:\t   1234 kB\n";
        assert_eq!(memory(status, "VmHWM:").unwrap(), 30_020);
        assert!(memory(status, "VmSwap:").is_err());
        assert!(cpu("42").is_err());
    }
}
