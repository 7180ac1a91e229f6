//! Starting the program, reading what it says, and telling it to stop.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// No test waits longer for a single line or for an end. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a finished process left.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    /// What it wrote to standard output and was not read before.
    pub(crate) stdout: String,
    /// The same for standard error.
    pub(crate) stderr: String,
}

impl Ended {
    /// Checks that it failed the way users expect: exit code 1, an error of one piece at the end
    /// of standard error, nothing on standard output, no panic.
    #[track_caller]
    pub(crate) fn failed_with(&self, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        let error = self.error();
        for word in words {
            assert!(error.contains(word), "{word:?} is not in: {error}");
        }
        assert!(!self.stderr.contains("panicked"), "{self:?}");
    }

    /// What stands after `Error: `.
    #[track_caller]
    pub(crate) fn error(&self) -> &str {
        if self.stderr.starts_with("Error: ") {
            return &self.stderr;
        }
        let at = self.stderr.rfind("\nError: ");
        let at = at.unwrap_or_else(|| panic!("no error in {self:?}"));
        &self.stderr[at + 1..]
    }
}

/// The program with an empty environment.
pub(crate) fn bowline(arguments: &[&str]) -> Command {
    program(Path::new(env!("CARGO_BIN_EXE_bowline")), arguments)
}

/// The same under another name.
pub(crate) fn program(path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(arguments).env_clear();
    command
}

/// Runs it to its end.
pub(crate) fn run(command: Command) -> Ended {
    Running::start(command).end()
}

/// A process; dropping it kills it.
pub(crate) struct Running {
    child: Child,
    stdout: Lines,
    stderr: Lines,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Waits for a line of standard output with that text, and returns it.
    #[cfg(feature = "sandbox")]
    pub(crate) fn says(&mut self, text: &str) -> String {
        self.stdout.until(text)
    }

    /// The same on standard error, where the log is.
    pub(crate) fn logs(&mut self, text: &str) -> String {
        self.stderr.until(text)
    }

    /// Sends a signal: `TERM` or `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("sh")
            .args([
                "-c",
                "kill -s \"$0\" \"$1\"",
                name,
                &self.child.id().to_string(),
            ])
            .status()
            .unwrap();
        assert!(sent.success());
    }

    /// The most memory that it ever had, in MB.
    pub(crate) fn peak_memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let peak = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
        let kilobytes = peak.unwrap().trim().trim_end_matches(" kB");
        kilobytes.parse::<u64>().unwrap() / 1000
    }

    /// Waits until it ends, and gives what it wrote.
    pub(crate) fn end(mut self) -> Ended {
        let stdout = self.stdout.rest();
        let stderr = self.stderr.rest();
        let code = self.child.wait().unwrap().code();
        Ended {
            code,
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a pipe, read by a thread, so that the process never waits for us.
struct Lines {
    lines: Receiver<String>,
    seen: String,
}

impl Lines {
    fn of(pipe: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = String::new();
            while pipe.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                if sender.send(std::mem::take(&mut line)).is_err() {
                    return;
                }
            }
        });
        let seen = String::new();
        Self { lines, seen }
    }

    fn until(&mut self, text: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.seen.push_str(&line);
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(error) => panic!("no line with {text:?} ({error}) in:\n{}", self.seen),
            }
        }
    }

    fn rest(&mut self) -> String {
        let mut rest = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => rest.push_str(&line),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end:\n{}{rest}", self.seen),
            }
        }
    }
}
