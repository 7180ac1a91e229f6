//! Machines from a file: for racks and workstations that have no API.
//!
//! ```text
//!  machines.yaml ─▶ file (checked, followed) ─▶ by provider ID, else by name ─▶ found, gone, cannot tell
//! ```
//!
//! The file is the account. Quirks:
//!
//! - A machine is gone only if its entry says `gone: true`. A missing entry proves nothing: *cannot tell*.
//! - A machine without an ID of its own has `static://<name>`.
//! - A changed file is read within seconds. If it is wrong, the last good one stays, and no Node is deleted.

mod file;
mod kind;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bowline_core::{BoxFuture, Claim, Cloud, CloudError, CloudErrorKind, CloudName};
use bowline_core::{Evidence, Instances, Lookup, Node, NodeMatch};
use bowline_http::{Background, Clock, Reloaded};

pub use kind::KIND;

/// The provider's name, and the scheme of its provider IDs.
const PROVIDER: &str = "static";

struct Static {
    name: CloudName,
    path: String,
    file: Arc<Reloaded<file::MachinesFile>>,
    _following: Background,
    clock: Clock,
}

impl Cloud for Static {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        PROVIDER
    }

    /// By the scheme, or by an ID that the file gives.
    fn match_node(&self, node: &Node) -> NodeMatch {
        let machines = self.file.now().unwrap_or_default();
        let id = node.provider_id.as_deref();
        match id.and_then(|id| machines.by_id(id)) {
            Some(_) => Claim::Mine.into(),
            None => (KIND.match_node)(node),
        }
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(self)
    }
}

impl Instances for Static {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(async move { nodes.iter().map(|node| self.answer(node)).collect() })
    }

    /// Fails while the file is wrong, so that nothing is concluded from the last good one.
    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        let wrong = |why: Arc<String>| CloudError::new(CloudErrorKind::Unavailable, &**why);
        let answer = self.file.wrong().map_or(Ok(()), |why| Err(wrong(why)));
        Box::pin(async move { answer })
    }
}

impl Static {
    fn answer(&self, node: &Node) -> Lookup {
        let machines = self.file.now().unwrap_or_default();
        let Some(id) = node.provider_id.as_deref() else {
            let machine = machines.by_name(&node.name).filter(|machine| !machine.gone);
            return machine.map_or(Lookup::NotMine, |machine| {
                Lookup::Found(Box::new(machine.instance()))
            });
        };
        match machines.by_id(id) {
            Some(machine) if machine.gone => Lookup::Gone(Evidence {
                text: format!("{} says gone: true about {id}", self.path),
                at: self.clock.now(),
            }),
            Some(machine) => Lookup::Found(Box::new(machine.instance())),
            None => {
                let why = format!("{} has no entry with the provider ID {id}", self.path);
                Lookup::CannotTell(CloudError::new(CloudErrorKind::Invalid, why))
            }
        }
    }
}
