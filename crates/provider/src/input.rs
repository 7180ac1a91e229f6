//! What a provider is given: the file, the environment and the flags of its original.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bowline_core::Secret;
use bowline_http::SmallFile;

/// Reads a variable.
pub type Reader = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a provider is given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderInput {
    /// The original's file.
    pub file: Option<ConfigFile>,
    /// The original's environment.
    pub environment: Environment,
    /// What was given of the flags that it alone has, by name.
    pub flags: BTreeMap<String, String>,
}

impl ProviderInput {
    /// A file with that text and nothing else.
    pub fn file(text: impl Into<String>) -> Self {
        Self {
            file: Some(ConfigFile::Text(Secret::new(text.into()))),
            ..Self::default()
        }
    }
}

/// Bytes of a cloud config file. The largest there are list a few hundred nodes.
const LARGEST_CONFIG: usize = 1024 * 1024;

impl ProviderInput {
    /// What the original's file says, if there is one.
    pub fn text(&self) -> Result<Option<String>, ReadError> {
        match &self.file {
            None => Ok(None),
            Some(ConfigFile::Text(text)) => Ok(Some(text.reveal().to_owned())),
            Some(ConfigFile::Path(path)) => {
                let read = read(path);
                let why = |error: io::Error| ReadError {
                    path: path.clone(),
                    why: error.to_string(),
                };
                read.map(Some).map_err(why)
            }
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    let bytes = SmallFile::new(path, LARGEST_CONFIG).read_now();
    let bytes = bytes.map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            io::Error::other(format!("it is larger than {LARGEST_CONFIG} bytes"))
        }
        _ => error,
    })?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not text"))
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("reading {} (--cloud-config): {why}", path.display())]
pub struct ReadError {
    path: PathBuf,
    why: String,
}

/// The file of an original.
#[derive(Clone, Debug)]
pub enum ConfigFile {
    /// `--cloud-config`: it can be read again.
    Path(PathBuf),
    /// What Bowline's own configuration says in its place. It may hold secrets.
    Text(Secret),
}

/// Variables that are set, and where others are looked up.
#[derive(Clone, Default)]
pub struct Environment {
    set: BTreeMap<String, Secret>,
    others: Option<Reader>,
}

impl Environment {
    /// That of a process.
    pub fn of(reader: Reader) -> Self {
        Self {
            set: BTreeMap::new(),
            others: Some(reader),
        }
    }

    /// The same, looking up there what is not set.
    #[must_use]
    pub fn or(mut self, reader: Reader) -> Self {
        self.others = Some(reader);
        self
    }

    /// Sets a variable, if there is a value.
    pub fn set(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            self.set.insert(name.to_owned(), Secret::new(value));
        }
    }

    /// Takes a variable away.
    pub fn remove(&mut self, name: &str) {
        self.set.remove(name);
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<String> {
        match self.set.get(name) {
            Some(value) => Some(value.reveal().to_owned()),
            None => self.others.as_ref()?(name),
        }
    }

    /// What is set.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &Secret)> {
        self.set.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// By what is set: where others are looked up is the same for all clouds of a process.
impl PartialEq for Environment {
    fn eq(&self, other: &Self) -> bool {
        let all = |it: &Self| -> Vec<(String, String)> {
            let set = it.set.iter();
            set.map(|(name, value)| (name.clone(), value.reveal().to_owned()))
                .collect()
        };
        all(self) == all(other)
    }
}

impl PartialEq for ConfigFile {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Path(one), Self::Path(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => one.reveal() == other.reveal(),
            (Self::Path(_), Self::Text(_)) | (Self::Text(_), Self::Path(_)) => false,
        }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.set.keys())
            .finish_non_exhaustive()
    }
}
