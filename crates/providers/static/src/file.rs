//! The file of machines: what may stand in it, and how it is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::{AddressKind, Instance, NodeAddress, NodeMetadata, Power, ProviderId, quote};
use serde::Deserialize;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::PROVIDER;

/// How often the file is looked at.
const POLL: Duration = Duration::from_secs(5);
/// Bytes of a file: 10,000 machines with ten labels each.
const LARGEST: usize = 4 * 1024 * 1024;

/// All machines of a file.
#[derive(Debug, Default)]
pub struct Machines {
    path: String,
    all: Vec<Machine>,
    by_id: BTreeMap<String, usize>,
}

/// One machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Machine {
    /// The name of its Node.
    pub name: String,
    /// Its provider ID; `static://<name>` without one.
    #[serde(default, rename = "providerID")]
    pub provider_id: Option<String>,
    /// Its addresses, by kind: `InternalIP: [10.0.0.5]`.
    #[serde(default)]
    pub addresses: BTreeMap<String, Vec<String>>,
    /// Its instance type.
    #[serde(default)]
    pub r#type: String,
    /// Its zone.
    #[serde(default)]
    pub zone: String,
    /// Its region.
    #[serde(default)]
    pub region: String,
    /// Further labels of its Node.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Whether it runs.
    #[serde(default)]
    pub state: State,
    /// Whether it is gone for good: the only proof of that.
    #[serde(default)]
    pub gone: bool,
}

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It runs.
    #[default]
    Running,
    /// It is off.
    Stopped,
}

/// Why a file is not used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{path}: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// It says something that cannot be used.
    #[error("{path}: machines[{number}].{field}: {why}")]
    Wrong {
        /// The file.
        path: String,
        /// Which entry.
        number: usize,
        /// Which key of it.
        field: &'static str,
        /// What is wrong, and what is allowed.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    machines: Vec<Machine>,
}

impl Machines {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let shown = path.display().to_string();
        let unreadable = |why: String| FileError::Unreadable {
            path: shown.clone(),
            why,
        };
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        if text.len() > LARGEST {
            return Err(unreadable(format!("it is larger than {LARGEST} bytes")));
        }
        let document: Document =
            serde_saphyr::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        Self::of(shown, document.machines)
    }

    fn of(path: String, all: Vec<Machine>) -> Result<Self, FileError> {
        let (mut by_id, mut names) = (BTreeMap::new(), BTreeSet::new());
        for (number, machine) in all.iter().enumerate() {
            let wrong = |field, why: String| FileError::Wrong {
                path: path.clone(),
                number,
                field,
                why,
            };
            if machine.name.is_empty() || !names.insert(&machine.name) {
                let why = format!(
                    "{}: each machine has a name of its own",
                    quote(&machine.name)
                );
                return Err(wrong("name", why));
            }
            if let Err(why) = machine.instance() {
                return Err(wrong("addresses", why));
            }
            let id = machine.id();
            if ProviderId::parse(&id).is_err() {
                let why = format!("{}: allowed is scheme://id", quote(&id));
                return Err(wrong("providerID", why));
            }
            if by_id.insert(id, number).is_some() {
                return Err(wrong("providerID", "another machine has it too".to_owned()));
            }
        }
        Ok(Self { path, all, by_id })
    }

    /// The file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The machine with that provider ID.
    pub fn by_id(&self, id: &str) -> Option<&Machine> {
        self.by_id.get(id).map(|number| &self.all[*number])
    }

    /// The machine of the Node of that name.
    pub fn by_name(&self, name: &str) -> Option<&Machine> {
        self.all.iter().find(|machine| machine.name == name)
    }
}

impl Machine {
    /// Its provider ID.
    pub fn id(&self) -> String {
        let own = || format!("{PROVIDER}://{}", self.name);
        self.provider_id.clone().unwrap_or_else(own)
    }

    /// What its Node is told.
    pub fn instance(&self) -> Result<Instance, String> {
        let mut addresses = Vec::new();
        for (kind, values) in &self.addresses {
            let known = AddressKind::from(kind.as_str());
            if matches!(known, AddressKind::Other(_)) {
                return Err(format!(
                    "{} is no kind of address; allowed are Hostname, InternalIP, ExternalIP, InternalDNS, ExternalDNS",
                    quote(kind)
                ));
            }
            let of_kind = |value: &String| NodeAddress::new(known.clone(), value);
            addresses.extend(values.iter().map(of_kind));
        }
        Ok(Instance {
            provider_id: ProviderId::parse(&self.id()).ok(),
            instance_type: self.r#type.clone(),
            zone: self.zone.clone(),
            region: self.region.clone(),
            addresses,
            power: match self.state {
                State::Running => Power::On,
                State::Stopped => Power::Off,
            },
            extra_labels: self.labels.clone(),
            marks: NodeMetadata::default(),
        })
    }
}

/// A file that is read again when it changes.
#[derive(Clone, Debug)]
pub(crate) struct Followed(Arc<Mutex<(Arc<Machines>, Option<String>)>>);

impl Followed {
    /// Reads it, and follows it for as long as somebody has it. Needs a tokio runtime.
    pub(crate) fn begin(path: PathBuf) -> Result<Self, FileError> {
        let first = Arc::new(Machines::read(&path)?);
        let shared = Arc::new(Mutex::new((first, None)));
        let (weak, mut last) = (Arc::downgrade(&shared), modified(&path));
        tokio::spawn(async move {
            loop {
                sleep(POLL).await;
                let Some(shared) = weak.upgrade() else { return };
                let now = modified(&path);
                if now == last {
                    continue;
                }
                last = now;
                let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
                match Machines::read(&path) {
                    Ok(machines) => {
                        info!(path = %path.display(), machines = machines.all.len(), "machines read again");
                        *shared = (Arc::new(machines), None);
                    }
                    Err(error) => {
                        warn!("machines not read again, keeping the last good ones: {error}");
                        shared.1 = Some(error.to_string());
                    }
                }
            }
        });
        Ok(Self(shared))
    }

    /// The last good ones.
    pub(crate) fn now(&self) -> Arc<Machines> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .clone()
    }

    /// What is wrong with the file now.
    pub(crate) fn complaint(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1
            .clone()
    }
}

/// What tells one state of a file from another.
fn modified(path: &Path) -> Option<(std::time::SystemTime, u64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
