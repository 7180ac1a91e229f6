//! Commands to a running control plane: one a line, each answered with one JSON object in one line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use bowline_control_plane::{ControlPlane, Server};
use bowline_core::error_chain;

/// The longest line: a name and a handful of flags.
const LONGEST_LINE: u64 = 64 << 10;
/// Lines that wait for their turn. Who sends more waits.
const LINES: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    User { name: String, groups: Vec<String> },
    Account { namespace: String, name: String },
    Start { server: Server, flags: Vec<String> },
    Stop { server: Server },
    Kill { server: Server },
    Restart { server: Server, flags: Vec<String> },
    Compact,
    Store { key: String, file: PathBuf },
    Shutdown,
}

/// That is no command.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown command; there are:
  user NAME [GROUP…]             a kubeconfig for a user with a certificate
  account NAMESPACE NAME         a kubeconfig for a service account, which is made if missing
  start SERVER [FLAG…]           start etcd, kube-apiserver or kube-controller-manager
  stop SERVER                    stop it with SIGTERM
  kill SERVER                    stop it with SIGKILL
  restart SERVER [FLAG…]         stop it with SIGTERM, start it again
  compact                        compact etcd up to now: older resource versions are gone
  store KEY FILE                 write a file with a JSON object straight into etcd
  shutdown                       stop everything"
)]
pub(crate) struct UnknownCommand;

impl Command {
    /// The command of these words.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, UnknownCommand> {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let server = |name: &str| name.parse::<Server>().map_err(|_| UnknownCommand);
        Ok(match *words {
            ["user", name, ref groups @ ..] => Self::User {
                name: name.to_owned(),
                groups: owned(groups),
            },
            ["account", namespace, name] => Self::Account {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            ["start", name, ref flags @ ..] => Self::Start {
                server: server(name)?,
                flags: owned(flags),
            },
            ["restart", name, ref flags @ ..] => Self::Restart {
                server: server(name)?,
                flags: owned(flags),
            },
            ["stop", name] => Self::Stop {
                server: server(name)?,
            },
            ["kill", name] => Self::Kill {
                server: server(name)?,
            },
            ["compact"] => Self::Compact,
            ["store", key, file] => Self::Store {
                key: key.to_owned(),
                file: file.into(),
            },
            ["shutdown"] => Self::Shutdown,
            _ => return Err(UnknownCommand),
        })
    }
}

/// The lines of an input. `ended` is reported when there are no more, which may be long before the last one
/// is received here.
pub(crate) fn read_lines(
    input: impl AsyncRead + Send + Unpin + 'static,
    ended: Option<Arc<Notify>>,
) -> mpsc::Receiver<String> {
    let (lines, received) = mpsc::channel(LINES);
    tokio::spawn(async move {
        let mut input = BufReader::new(input);
        loop {
            let mut line = String::new();
            match (&mut input).take(LONGEST_LINE).read_line(&mut line).await {
                Ok(1..) if lines.send(line).await.is_ok() => {}
                _ => break,
            }
        }
        if let Some(ended) = ended {
            ended.notify_one();
        }
    });
    received
}

/// Answers commands until there are no more, or the reader of the answers is gone.
pub(crate) async fn serve(
    plane: Arc<ControlPlane>,
    mut lines: mpsc::Receiver<String>,
    mut output: impl AsyncWrite + Unpin,
    shutdown: Arc<Notify>,
) {
    while let Some(line) = lines.recv().await {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let begun = Instant::now();
        let mut answer = match Command::parse(&words) {
            Ok(Command::Shutdown) => {
                shutdown.notify_one();
                return;
            }
            Ok(command) => execute(&plane, command)
                .await
                .unwrap_or_else(|error| json!({ "error": error_chain(error.as_ref()) })),
            Err(error) => json!({ "error": error.to_string() }),
        };
        if answer.get("error").is_none() {
            answer["seconds"] = json!(begun.elapsed().as_secs_f64());
        }
        let text = format!("{answer}\n");
        if output.write_all(text.as_bytes()).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

async fn execute(plane: &ControlPlane, command: Command) -> anyhow::Result<Value> {
    match command {
        Command::User { name, groups } => {
            let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
            Ok(json!({ "kubeconfig": plane.user(&name, &groups).await? }))
        }
        Command::Account { namespace, name } => {
            Ok(json!({ "kubeconfig": plane.account(&namespace, &name).await? }))
        }
        Command::Start { server, flags } => Ok(empty(plane.start_server(server, &flags).await?)),
        Command::Stop { server } => Ok(empty(plane.stop(server).await?)),
        Command::Kill { server } => Ok(empty(plane.kill(server).await?)),
        Command::Restart { server, flags } => Ok(empty(plane.restart(server, &flags).await?)),
        Command::Compact => Ok(json!({ "revision": plane.compact().await? })),
        Command::Store { key, file } => {
            let object = read_object(&file)?;
            Ok(json!({ "revision": plane.store(&key, &object).await? }))
        }
        Command::Shutdown => Ok(empty(())),
    }
}

fn empty((): ()) -> Value {
    json!({})
}

fn read_object(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_words() {
        let server = Server::ApiServer;
        let rows: [(&str, Result<Command, UnknownCommand>); 12] = [
            (
                "user jane a b",
                Ok(Command::User {
                    name: "jane".into(),
                    groups: vec!["a".into(), "b".into()],
                }),
            ),
            (
                "account shop robot",
                Ok(Command::Account {
                    namespace: "shop".into(),
                    name: "robot".into(),
                }),
            ),
            (
                "start kube-apiserver",
                Ok(Command::Start {
                    server,
                    flags: vec![],
                }),
            ),
            (
                "restart kube-apiserver --v=4",
                Ok(Command::Restart {
                    server,
                    flags: vec!["--v=4".into()],
                }),
            ),
            ("stop kube-apiserver", Ok(Command::Stop { server })),
            ("kill kube-apiserver", Ok(Command::Kill { server })),
            ("compact", Ok(Command::Compact)),
            (
                "store /registry/minions/n1 n1.json",
                Ok(Command::Store {
                    key: "/registry/minions/n1".into(),
                    file: "n1.json".into(),
                }),
            ),
            ("shutdown", Ok(Command::Shutdown)),
            ("user", Err(UnknownCommand)),
            ("start kubelet", Err(UnknownCommand)),
            ("stop kube-apiserver now", Err(UnknownCommand)),
        ];
        for (line, expected) in rows {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(Command::parse(&words), expected, "{line}");
        }
    }
}
