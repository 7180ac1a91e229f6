//! Machines from a file: for racks and workstations that have no API.
//!
//! ```text
//!  machines.yaml ─▶ file (checked, followed) ─▶ look-up by provider ID, else by name ─▶ found, gone, cannot tell
//! ```
//!
//! The file is the account. Quirks:
//!
//! - A machine is gone only if its entry says `gone: true`. An entry that vanished proves nothing: *cannot tell*.
//! - Without an ID of its own a machine has `static://<name>`.
//! - A file that changes is read again within seconds. One that is wrong is reported, and the last good one stays.

mod file;
mod kind;

use std::sync::Arc;

use bowline_core::{
    BoxFuture, Claim, Cloud, CloudError, CloudErrorKind, CloudName, Evidence, Instances, Lookup,
    Node,
};
use bowline_http::Clock;

pub use file::{FileError, Machine, Machines, State};
pub use kind::KIND;

/// The provider's name, and the scheme of its provider IDs.
pub const PROVIDER: &str = "static";

/// The machines of one file.
pub struct Static {
    name: CloudName,
    machines: file::Followed,
    clock: Clock,
}

impl Cloud for Static {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        PROVIDER
    }

    /// By the scheme, or by an ID that an entry gives.
    fn claim(&self, node: &Node) -> Claim {
        let scheme = bowline_provider::NodeMatch::by_scheme(PROVIDER, node).claim;
        let machines = self.machines.now();
        let is_listed = node
            .provider_id
            .as_deref()
            .is_some_and(|id| machines.by_id(id).is_some());
        if is_listed { Claim::Mine } else { scheme }
    }

    fn ready(&self) -> Result<(), String> {
        self.machines.complaint().map_or(Ok(()), Err)
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(self)
    }
}

impl Instances for Static {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        let machines = self.machines.now();
        Box::pin(async move {
            nodes
                .iter()
                .map(|node| self.answer(&machines, node))
                .collect()
        })
    }

    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        let readable = self.machines.complaint().map_or(Ok(()), Err);
        let unavailable = |why| CloudError::new(CloudErrorKind::Unavailable, why);
        Box::pin(async move { readable.map_err(unavailable) })
    }
}

impl Static {
    fn answer(&self, machines: &Machines, node: &Node) -> Lookup {
        let found = match node.provider_id.as_deref() {
            Some(id) => machines.by_id(id),
            None => machines.by_name(&node.name),
        };
        match (found, node.provider_id.as_deref()) {
            (Some(machine), Some(id)) if machine.gone => Lookup::Gone(Evidence {
                text: format!("{} says gone: true about {id}", machines.path()),
                at: self.clock.now(),
            }),
            (Some(machine), _) if machine.gone => Lookup::NotMine,
            (Some(machine), _) => match machine.instance() {
                Ok(instance) => Lookup::Found(Box::new(instance)),
                Err(why) => Lookup::CannotTell(CloudError::new(CloudErrorKind::Invalid, why)),
            },
            // An entry that is missing may have been lost.
            (None, Some(id)) => {
                let text = format!("{} has no entry with ID {id}", machines.path());
                Lookup::CannotTell(CloudError::new(CloudErrorKind::Invalid, text))
            }
            (None, None) => Lookup::NotMine,
        }
    }
}
