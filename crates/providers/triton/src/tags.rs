//! Tags of machines. The name service and the metrics service read them, and other people's tools
//! write them too.
//!
//! ```text
//!  Services ─ want: this label, these ports ─┐
//!  metrics ── want_groups: these groups ─────┼─▶ reconciler: what is wanted, per machine
//!  left the cluster ─ release ───────────────┘       │
//!                                 reconcile ─ GET ─▶ arithmetic (pure): theirs ++ ours ─▶ one POST
//!                                      └─ look again until it shows, or 60 s ◀───────────────┘
//! ```
//!
//! The cloud applies a change some time later, reads show the old value until then, and the last
//! writer wins. Hence one write to a machine at a time, each after a fresh read; and what is wanted
//! is stated in full, never as an addition to what is there.
//!
//! Promises about other people's tags:
//!
//! - A tag with another key than our five is never written and never deleted.
//! - Of the two lists that we share with others, every entry that is not ours and that the last look
//!   before a write showed is written back, letter for letter.
//! - An entry that somebody adds or removes while a write of ours is in flight is overwritten by it. If a
//!   read in between has shown their change, our next write restores it.
//!   (Until then, for some seconds, the tag is as we wrote it. Somebody who just then takes back a fresh
//!   entry of theirs does not find it, and will see it restored.)
//! - If no read has shown it, their change is lost: the API has no conditional write. A tool that checks
//!   its own writes, as ours does, repeats it, and then it stays.

mod arithmetic;
mod grammar;
mod in_flight;
mod machine;
mod reconcile;
mod reconciler;
mod sweep;
#[cfg(test)]
mod tests;

pub use arithmetic::{Change, OtherCluster, Role, Wanted, change, holds, holds_groups};
pub use grammar::{Bad, Item, groups, is_label, services};
pub use in_flight::{POLL_LIMIT, polling_interval};
pub use reconciler::{About, TagOutcome, TagReconciler};
pub use sweep::SWEEP;
pub(crate) use sweep::sweep;

use std::collections::{BTreeMap, BTreeSet};

use crate::api::TagValue;

/// The list that the name service reads; others write it too.
pub const SERVICES: &str = "triton.cns.services";
/// Which labels in it are ours.
pub const SERVICES_RECORD: &str = "bowline.cns";
/// The list of groups that the metrics service reads; others write it too.
pub const GROUPS: &str = "triton.cmon.groups";
/// Which groups in it are ours.
pub const GROUPS_RECORD: &str = "bowline.cmon";
/// The uid of the cluster that the machine is a node of.
pub const NODE: &str = "bowline.node";
/// The uid of the cluster that the machine is a load balancer of.
pub const BALANCER: &str = "bowline.clb";

pub type Tags = BTreeMap<String, TagValue>;
/// The ports of one label; none is the label without a port.
pub type Ports = BTreeSet<Option<u16>>;
