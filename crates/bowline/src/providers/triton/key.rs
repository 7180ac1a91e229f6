//! Which private key is meant: the one of a file, or the one of `~/.ssh` with that fingerprint.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use bowline_core::Secret;
use bowline_http::SmallFile;
use bowline_triton::keys::{KeyError, KeyId, LARGEST_KEY, PrivateKey};

use super::credentials::Failure;

/// Files of `~/.ssh` that are looked at.
const MOST_FILES: usize = 256;

/// A key as its file holds it.
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) text: Secret,
}

fn read(path: &Path) -> Result<Secret, Failure> {
    let unreadable = |reason: String| Failure::Key(format!("{}: {reason}", path.display()));
    let bytes = SmallFile::new(path, LARGEST_KEY).read_now();
    let bytes = bytes.map_err(|error| unreadable(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| unreadable("it is no text".to_owned()))?;
    Ok(Secret::new(text))
}

/// The key of that file; else `~/.ssh/id_rsa` if it fits; else the one of `~/.ssh` that does.
pub(super) fn find(
    file: Option<&Path>,
    id: Option<&KeyId>,
    home: Option<&Path>,
) -> Result<Found, Failure> {
    if let Some(path) = file {
        let (path, text) = (path.to_owned(), read(path)?);
        return Ok(Found { path, text });
    }
    let folder = home.map(|home| home.join(".ssh"));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        let text = "there is no ~/.ssh: give --key-file".to_owned();
        return Err(match id {
            Some(_) => Failure::Key(text),
            None => Failure::Usage(text),
        });
    };
    let first = folder.join("id_rsa");
    let Some(id) = id else {
        let text = read(&first).map_err(|_| {
            Failure::Usage("give --key-id or --key-file: there is no ~/.ssh/id_rsa".to_owned())
        })?;
        return Ok(Found { path: first, text });
    };
    let listed = std::fs::read_dir(&folder);
    let listed = listed.map_err(|error| Failure::Key(format!("~/.ssh: {error}")))?;
    let mut others: Vec<PathBuf> = listed
        .filter_map(|entry| Some(entry.ok()?.path()))
        .take(MOST_FILES)
        .collect();
    others.sort();
    let candidates = std::iter::once(first).chain(others);
    for path in candidates.filter(|path| path.is_file()) {
        if let Ok(text) = read(&path)
            && fits(&path, &text, id)
        {
            return Ok(Found { path, text });
        }
    }
    Err(Failure::Key(format!(
        "no private key in ~/.ssh has the fingerprint {id}; give --key-file"
    )))
}

/// Whether a file is the private key of that fingerprint. An encrypted one is known by the public half
/// beside it.
fn fits(path: &Path, text: &Secret, id: &KeyId) -> bool {
    match PrivateKey::parse(text.reveal(), None) {
        Ok(key) => id.is_of(key.fingerprint()),
        Err(KeyError::NoPassphrase) => {
            let mut name = path.as_os_str().to_owned();
            name.push(".pub");
            let public = read(Path::new(&name)).ok();
            public.is_some_and(|line| {
                let fingerprint = bowline_triton::keys::Fingerprint::of_line(line.reveal());
                fingerprint.is_some_and(|fingerprint| id.is_of(&fingerprint))
            })
        }
        Err(_) => false,
    }
}

/// What opens an encrypted key: the first line of a file, or what somebody types.
pub(super) fn passphrase(file: Option<&Path>) -> Result<Secret, Failure> {
    if let Some(path) = file {
        let text = read(path)?;
        let line = text.reveal().lines().next().unwrap_or_default();
        return Ok(Secret::new(line));
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Key(KeyError::NoPassphrase.to_string()));
    }
    let _ = write!(std::io::stderr(), "Passphrase of the key: ");
    echo(false);
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    echo(true);
    let _ = writeln!(std::io::stderr());
    read.map_err(|error| Failure::Key(error.to_string()))?;
    Ok(Secret::new(line.trim_end_matches(['\r', '\n'])))
}

/// Whether the terminal shows what is typed. Where that cannot be said, it does.
fn echo(on: bool) {
    let word = if on { "echo" } else { "-echo" };
    let _ = Command::new("stty").arg(word).status();
}
