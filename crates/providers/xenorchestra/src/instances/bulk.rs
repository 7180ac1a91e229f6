//! What servers show of many machines at once. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{CloudError, Node};
use uuid::Uuid;

use super::describe::Around;
use super::question::Question;
use crate::api::Vm;
use crate::labels;
use crate::server::Wanted;

/// The VMs that are asked about, with the pools they are probably in.
pub(super) fn wanted(nodes: &[Arc<Node>], questions: &[Question]) -> Wanted {
    let mut wanted = Wanted::new();
    for (node, question) in nodes.iter().zip(questions) {
        let seen = node.labels.get(labels::POOL_ID);
        let seen = seen.and_then(crate::id::uuid);
        let pool = match question {
            Question::ById { pool, .. } => seen.or(*pool),
            _ => seen,
        };
        wanted.extend(question.ids().into_iter().map(|id| (id, pool)));
    }
    wanted
}

pub(super) struct Bulk {
    pub(super) servers: Vec<Seen>,
    /// Whether all of them show all that is asked for.
    pub(super) complete: bool,
    pub(super) few: bool,
}

pub(super) enum Seen {
    NotAsked,
    Shown(BTreeMap<Uuid, Vm>),
    Failed(CloudError),
}

impl Bulk {
    /// The machine that is asked for, and at which server it is. If several have it, in the pool
    /// that the node's provider id names.
    pub(super) fn find(&self, question: &Question) -> Option<(usize, &Vm)> {
        let shown = self.servers.iter().enumerate();
        let shown = shown.filter_map(|(number, seen)| match seen {
            Seen::Shown(vms) => Some((number, vms)),
            Seen::NotAsked | Seen::Failed(_) => None,
        });
        let found: Vec<(usize, &Vm)> = shown
            .filter_map(|(number, vms)| {
                let vm = question.ids().iter().find_map(|id| vms.get(id))?;
                Some((number, vm))
            })
            .collect();
        let recorded = found.iter().find(|(_, vm)| question.is_in(vm.pool()));
        recorded.or(found.first()).copied()
    }
}

pub(super) struct Names {
    pub(super) hosts: BTreeMap<Uuid, String>,
    pub(super) pools: BTreeMap<Uuid, String>,
}

impl Names {
    pub(super) fn around(&self, vm: &Vm) -> Around<'_> {
        Around {
            host: vm
                .container
                .and_then(|id| self.hosts.get(&id))
                .map(String::as_str),
            pool: vm
                .pool()
                .and_then(|id| self.pools.get(&id))
                .map(String::as_str),
        }
    }
}
