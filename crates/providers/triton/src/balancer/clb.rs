//! Mode `clb`: load balancer machines. A Service has machines of its own (`dedicated`), or several
//! share one that somebody else manages (`shared_appliance`).
//!
//! ```text
//!  the API ─▶ observe ─┬─▶ networks, backend, machines ┐
//!  Service ─▶ settings ┴─▶ port map, metadata ─────────┼─▶ plan ─▶ execute ─▶ publish
//!  targets ─▶ backend_labels, firewall ────────────────┘  (pure)   (writes)   (annotations, ingress)
//! ```
//!
//! An appliance reads its metadata once a minute and reports nothing back. It finds the nodes by a
//! DNS name, so that nodes come and go without a change of the machines; it checks their health
//! itself.
//!
//! A machine is deleted only if its tags, read right before, name this cluster and this Service.

mod backend;
mod backend_labels;
mod dedicated;
mod draft;
#[cfg(test)]
pub(crate) mod examples;
mod execute;
mod limits;
mod machines;
mod metadata;
mod networks;
mod observe;
mod orphans;
mod plan;
mod portmap;
mod publish;
mod shared_appliance;
mod shared_map;
pub(crate) mod state;

use super::draft_context::DraftContext;
use machines::is_ours;

pub(crate) use draft::{draft, removal};
pub(crate) use orphans::{marked, remove_orphan};

/// Whether the Service has machines or port map entries.
pub(crate) fn is_involved(context: &DraftContext<'_>) -> bool {
    let uid = &context.request.service.uid;
    let mut machines = context.listing.machines.values();
    machines.any(|it| is_ours(it, context.cluster, uid))
        || shared_appliance::has_left_something(context)
}
