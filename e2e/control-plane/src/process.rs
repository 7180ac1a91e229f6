//! The servers as processes: started so that they die with us, watched, stopped.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::sync::{OnceCell, mpsc, oneshot, watch};

use crate::server::Server;

/// A server that was asked to stop and does not is killed after this. An API server closes its watches
/// at once and is gone in about a second.
const PATIENCE: Duration = Duration::from_secs(20);
/// How much of a log is shown when a server fails: enough for a flag error with its reason.
const TAIL_LENGTH: u64 = 2000;
/// What of our environment the servers get. They would take other variables for configuration, or for
/// a proxy.
const PASSED_ON: [&str; 7] = [
    "HOME",
    "PATH",
    "TMPDIR",
    "GOMAXPROCS",
    "GOMEMLIMIT",
    "GOGC",
    "GODEBUG",
];

/// How a server is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// Starts processes, on a thread of its own.
///
/// The kernel sends a child's death signal when the *thread* that started it ends. This one ends with
/// this value or with our process, whichever is first, and in both cases the servers should go. (Within
/// the first milliseconds, before `setpriv` has said so to the kernel, a child does not.)
pub(crate) struct Starter {
    jobs: std::sync::mpsc::Sender<Job>,
    /// Whether `setpriv` can tie the children's lives to ours.
    tied: bool,
}

struct Job {
    command: Command,
    started: oneshot::Sender<io::Result<Child>>,
}

impl Starter {
    pub(crate) async fn new() -> io::Result<Self> {
        let tied = *SETPRIV_WORKS.get_or_init(setpriv_works).await;
        let (jobs, received) = std::sync::mpsc::channel::<Job>();
        let runtime = tokio::runtime::Handle::current();
        std::thread::Builder::new()
            .name("starter".to_owned())
            .spawn(move || {
                let _context = runtime.enter();
                for mut job in received {
                    // Nobody waits any more: then the child is dropped, and killed.
                    let _ = job.started.send(job.command.spawn());
                }
            })?;
        Ok(Self { jobs, tied })
    }

    /// Starts a server. Its output is appended to `FOLDER/NAME.log`.
    pub(crate) async fn start(
        &self,
        server: Server,
        program: &Path,
        arguments: &[String],
        folder: &Path,
    ) -> io::Result<Process> {
        let log = folder.join(format!("{server}.log"));
        let output = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&log)?;
        let mut command = self.command(program);
        command
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .envs(
                PASSED_ON
                    .iter()
                    .filter_map(|name| std::env::var_os(name).map(|value| (*name, value))),
            )
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true);
        // A group of its own: Ctrl-C reaches only us, and we stop everything in order.
        command.as_std_mut().process_group(0);
        let (started, child) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes is gone");
        self.jobs
            .send(Job { command, started })
            .map_err(|_| gone())?;
        let child = child.await.map_err(|_| gone())??;
        Ok(Process::attend(server, child, log))
    }

    fn command(&self, program: &Path) -> Command {
        if !self.tied {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    }
}

/// Whether there is a `setpriv` that knows death signals: looked for, and complained about, once.
static SETPRIV_WORKS: OnceCell<bool> = OnceCell::const_new();

/// That of busybox knows none.
async fn setpriv_works() -> bool {
    let tried = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--", "true"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
    let works = tried.is_ok_and(|status| status.success());
    if !works {
        tracing::warn!(
            "no setpriv of util-linux here: the servers will outlive a SIGKILL of their launcher"
        );
    }
    works
}

/// One running server. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) server: Server,
    log: PathBuf,
    signals: mpsc::Sender<Signal>,
    end: End,
    /// Whether its end would be no surprise: before it serves, and after it was told to stop.
    expected: Arc<AtomicBool>,
    surprise: Option<oneshot::Receiver<ExitStatus>>,
}

impl Process {
    fn attend(server: Server, child: Child, log: PathBuf) -> Self {
        // A SIGTERM and the SIGKILL after it.
        let (signals, received) = mpsc::channel(2);
        let (ending, end) = watch::channel(None);
        let (surprised, surprise) = oneshot::channel();
        let expected = Arc::new(AtomicBool::new(true));
        tokio::spawn({
            let expected = expected.clone();
            async move {
                let status = wait(child, received).await;
                // In this order: see `is_serving`.
                ending.send_replace(Some(status));
                if !expected.load(Ordering::SeqCst) {
                    let _ = surprised.send(status);
                }
            }
        });
        Self {
            server,
            log,
            signals,
            end: End(end),
            expected,
            surprise: Some(surprise),
        }
    }

    /// Whether the process is gone.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.0.borrow().is_some()
    }

    /// Its end, which can be waited for also when nobody holds the process any more.
    pub(crate) fn end(&self) -> End {
        self.end.clone()
    }

    /// Notes that from now on it must not end by itself, and gives what tells when it does. Nothing if
    /// it has ended already.
    pub(crate) fn is_serving(&mut self) -> Option<oneshot::Receiver<ExitStatus>> {
        // Whoever comes second sees what the other did: we the end, or the task that it is a surprise.
        self.expected.store(false, Ordering::SeqCst);
        if self.has_ended() {
            return None;
        }
        self.surprise.take()
    }

    /// Asks the process to end, and insists.
    pub(crate) async fn stop(self, signal: Signal) {
        self.expected.store(true, Ordering::SeqCst);
        // An error means that it is gone.
        let _ = self.signals.send(signal).await;
        if tokio::time::timeout(PATIENCE, self.end().await_it())
            .await
            .is_err()
        {
            let _ = self.signals.send(Signal::Kill).await;
            self.end().await_it().await;
        }
    }

    /// The end of its log.
    pub(crate) fn tail(&self) -> String {
        tail(&self.log)
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }
}

#[derive(Clone, Debug)]
pub(crate) struct End(watch::Receiver<Option<ExitStatus>>);

impl End {
    /// Waits until the process is gone.
    pub(crate) async fn await_it(mut self) {
        // An error means that the task that attends it is gone, and the process with it.
        let _ = self.0.wait_for(Option::is_some).await;
    }
}

/// Waits for the child's end, and passes signals on.
async fn wait(mut child: Child, mut signals: mpsc::Receiver<Signal>) -> ExitStatus {
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return status.unwrap_or_default(),
            signal = signals.recv() => match signal {
                Some(Signal::Terminate) => terminate(&child).await,
                // Nobody holds it any more, or it is to go at once. An error means that it is gone.
                Some(Signal::Kill) | None => {
                    let _ = child.start_kill();
                    return child.wait().await.unwrap_or_default();
                }
            }
        }
    }
}

/// Sends SIGTERM, by the `kill` that every shell has: the standard library knows SIGKILL only. The
/// child cannot be another one by now, since nobody but us reaps it.
async fn terminate(child: &Child) {
    let Some(id) = child.id() else {
        return;
    };
    let _ = Command::new("sh")
        .args(["-c", "kill -s TERM \"$0\"", &id.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await;
}

/// The end of a file, for people.
pub(crate) fn tail(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_LENGTH)))?;
        let mut end = Vec::new();
        file.take(TAIL_LENGTH).read_to_end(&mut end)?;
        Ok::<_, io::Error>(String::from_utf8_lossy(&end).trim().to_owned())
    };
    read().unwrap_or_else(|error| format!("({}: {error})", path.display()))
}

#[cfg(test)]
mod tests;
