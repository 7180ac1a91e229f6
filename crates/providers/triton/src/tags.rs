//! Tags of machines, which the name service and the metrics service are driven by, and which other
//! people's tools write too.
//!
//! ```text
//!  Services ─ tell: this label, these ports ─┐
//!  metrics ── tell: these groups ────────────┼─▶ keeper: per machine, what is wanted by then
//!  left the cluster ─ release ───────────────┘       │
//!                                    settle ─ GET ─▶ arithmetic (pure): theirs ++ ours ─▶ one POST
//!                                      └─ look again until it shows, or 60 s ◀───────────────┘
//! ```
//!
//! Changes are done some time later, reads show the old value until then, and whoever writes last wins:
//! so there is one write to a machine at a time, each begins with a look, and what is wanted is never
//! "what is there and a little more".
//!
//! What is promised about other people's tags:
//!
//! - A tag with another key than our five is never written and never deleted.
//! - Of the two lists that we share with others, every entry that is not ours and that the last look
//!   before a write showed is written back, letter for letter.
//! - An entry that somebody adds or removes while a write of ours is on its way is overwritten by it. If
//!   a look in between has shown it, their change is made good with the next write.
//!   (Until then, for some seconds, it is as we wrote it: who takes back just then what he has just put
//!   there, and finds that it is not there, will find it there again.)
//! - If no look has shown it, nobody can know: the API has no conditional write. A tool that looks whether
//!   its change has come about, as ours does, makes it again, and then it stays.

mod arithmetic;
mod flight;
mod grammar;
mod keeper;
mod machine;
mod settle;
mod sweep;
#[cfg(test)]
mod tests;

pub use arithmetic::{Change, OtherCluster, Role, Wanted, change, holds, holds_groups};
pub use flight::{POLL_LIMIT, polling_interval};
pub use grammar::{Bad, Item, groups, is_label, services};
pub use keeper::{About, Settled, TagReconciler};
pub use sweep::SWEEP;
pub(crate) use sweep::sweep;

use std::collections::{BTreeMap, BTreeSet};

use crate::api::TagValue;

/// What the name service is driven by: a list that others write too.
pub const SERVICES: &str = "triton.cns.services";
/// Which labels in it are ours.
pub const SERVICES_RECORD: &str = "bowline.cns";
/// What the metrics service groups machines by: a list that others write too.
pub const GROUPS: &str = "triton.cmon.groups";
/// Which groups in it are ours.
pub const GROUPS_RECORD: &str = "bowline.cmon";
/// Whose node a machine is: the uid of the cluster.
pub const NODE: &str = "bowline.node";
/// Whose load balancer a machine is: the uid of the cluster.
pub const BALANCER: &str = "bowline.clb";

pub type Tags = BTreeMap<String, TagValue>;
/// The ports of one label; none is the label without a port.
pub type Ports = BTreeSet<Option<u16>>;
