//! Mode `clb`: load balancer machines, some for each Service, or one that somebody else looks after and
//! several Services share.
//!
//! ```text
//!  the API ─▶ observe ─┬─▶ place, backend, machines ─┐
//!  Service ─▶ settings ┴─▶ port map, metadata ───────┼─▶ plan ─▶ execute ─▶ publish
//!  members ─▶ labels of nodes, firewall ─────────────┘  (pure)   (writes)   (annotations, ingress)
//! ```
//!
//! An appliance reads its metadata once a minute and tells nobody what it makes of it. It finds the nodes by
//! a DNS name, so that nodes that come and go change nothing at the machines; it checks them itself.
//!
//! A machine is deleted only if its tags, read right before, say that it is this cluster's and this
//! Service's.

mod backend;
mod behind;
mod draft;
#[cfg(test)]
pub(crate) mod examples;
mod execute;
mod limits;
mod machines;
pub(crate) mod memory;
mod metadata;
mod observe;
mod orphans;
mod own;
mod place;
mod plan;
mod portmap;
mod publish;
mod share;
mod shared;

use super::scene::DraftContext;
use machines::is_ours;

pub(crate) use draft::{draft, removal};
pub(crate) use orphans::{marked, remove_orphan};

/// Whether the Service has something of this mode.
pub(crate) fn is_involved(scene: &DraftContext<'_>) -> bool {
    let uid = &scene.request.service.uid;
    let mut machines = scene.listing.machines.values();
    machines.any(|it| is_ours(it, scene.cluster, uid)) || share::has_left_something(scene)
}
