//! The names of instance types, learned once: what an id means never changes.

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::lookup;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::permission::Permission;
use crate::api::{Api, InstanceType};

/// Types that are remembered; there are some dozens. Beyond, the memory begins anew.
const REMEMBERED: usize = 1024;

/// Single reads at the same time.
const READS_AT_ONCE: usize = 4;

/// The types of a look-up: their names, or why they are not known.
pub(super) type Names = BTreeMap<Uuid, Result<String, CloudError>>;

#[derive(Debug)]
pub(super) struct Types {
    may_list: Permission,
    /// Held while something is learned: whoever comes meanwhile finds it known.
    known: Mutex<Known>,
}

impl Default for Types {
    fn default() -> Self {
        let instead = "instance types are read one by one";
        Self {
            may_list: Permission::new("list-instance-types", instead),
            known: Mutex::default(),
        }
    }
}

impl Types {
    /// Types stay what they are; what the role allows may differ.
    pub(super) fn credentials_changed(&self) {
        self.may_list.ask_again();
    }

    /// The names of these types. One that is not known yet is read, several are listed.
    pub(super) async fn learn(&self, api: &Api, wanted: &BTreeSet<Uuid>) -> Names {
        let mut known = self.known.lock().await;
        if unknown(&known, wanted).len() > 1 && self.may_list.is_given() {
            match api.instance_types().await {
                Ok(list) => list
                    .items
                    .iter()
                    .for_each(|kind| remember(&mut known, kind)),
                Err(error) if self.may_list.was_refused(&error) => {}
                Err(error) => return names(&known, wanted, |_| error.copy()),
            }
        }
        let read = |id| api.instance_type(id);
        let read = lookup::read_each(unknown(&known, wanted), READS_AT_ONCE, read).await;
        let mut failed = BTreeMap::new();
        for (id, read) in read {
            match read {
                Ok(kind) => remember(&mut known, &kind),
                Err(error) => {
                    failed.insert(id, error);
                }
            }
        }
        names(&known, wanted, |id| {
            failed.get(id).map_or_else(not_read, about)
        })
    }
}

type Known = BTreeMap<Uuid, String>;

fn unknown(known: &Known, wanted: &BTreeSet<Uuid>) -> Vec<Uuid> {
    let unknown = wanted.iter().filter(|id| !known.contains_key(id));
    unknown.copied().collect()
}

fn remember(known: &mut Known, kind: &InstanceType) {
    if known.len() >= REMEMBERED {
        known.clear();
    }
    let name = label_value(&format!("{}.{}", kind.family, kind.size));
    known.insert(kind.id, name);
}

fn names(known: &Known, wanted: &BTreeSet<Uuid>, missing: impl Fn(&Uuid) -> CloudError) -> Names {
    let name = |id: &Uuid| known.get(id).cloned().ok_or_else(|| missing(id));
    wanted.iter().map(|id| (*id, name(id))).collect()
}

/// The error about a type, for a node: a type that does not exist says nothing about its instance.
fn about(error: &CloudError) -> CloudError {
    if error.kind() == CloudErrorKind::NotFound {
        CloudError::new(CloudErrorKind::Unknown, error.chain())
    } else {
        error.copy()
    }
}

fn not_read() -> CloudError {
    let text = "the answer about the instance type was about another one";
    CloudError::new(CloudErrorKind::Unknown, text)
}

/// A name as labels take it: without a first and a last character that are no letters or digits, and
/// without all others that labels do not allow, in one pass, as the original does it.
fn label_value(name: &str) -> String {
    let last = name.chars().count().saturating_sub(1);
    let allowed = |(at, c): (usize, char)| {
        let edge = at == 0 || at == last;
        let fits = c.is_ascii_alphanumeric() || (!edge && "-_.".contains(c));
        fits.then_some(c)
    };
    name.chars().enumerate().filter_map(allowed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_become_label_values() {
        for (name, value) in [
            ("standard.medium", "standard.medium"),
            ("cpu.extra-large", "cpu.extra-large"),
            (".medium", "medium"),
            ("standard.", "standard"),
            ("gpu 3.x/large", "gpu3.xlarge"),
            (".", ""),
            ("", ""),
            ("..a..", ".a."),
            ("_gpü_", "gp"),
        ] {
            assert_eq!(label_value(name), value, "{name:?}");
        }
    }
}
