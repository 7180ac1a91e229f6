//! The other side of the control socket, for shells.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Sends one command and prints its answer; an answer that is an error is one.
pub(crate) fn send(socket: &Path, words: &[String]) -> anyhow::Result<()> {
    let mut connection = UnixStream::connect(socket)
        .with_context(|| format!("connecting to {}", socket.display()))?;
    let line = line(words)?;
    writeln!(connection, "{line}").context("sending the command")?;
    let mut answer = String::new();
    BufReader::new(connection)
        .read_line(&mut answer)
        .context("reading the answer")?;
    if answer.is_empty() && line != "shutdown" {
        bail!("the control plane went away without an answer");
    }
    let parsed: Value = serde_json::from_str(&answer).unwrap_or_default();
    if let Some(error) = parsed["error"].as_str() {
        bail!("{error}");
    }
    // A reader that has gone away is no error.
    let _ = write!(std::io::stdout(), "{answer}");
    Ok(())
}

/// The line of a command. The control plane runs in another folder: it needs the whole path of a file.
fn line(words: &[String]) -> anyhow::Result<String> {
    let mut words = words.to_vec();
    if let [command, _, file] = &mut words[..]
        && command == "store"
    {
        let path = std::path::absolute(&*file).with_context(|| format!("finding {file}"))?;
        *file = path.display().to_string();
    }
    Ok(words.join(" "))
}
