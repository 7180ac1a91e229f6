//! Shows the owners of nodes in an annotation (`--show-owners`), and removes it where that is off.
//!
//! ```text
//!  a node changed, or a minute has passed ─▶ resolver: its owner ─▶ core::owner_annotation ─▶ one apply
//! ```
//!
//! It asks no cloud, and writes nothing that a node already shows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::metadata::Applied;
use bowline_core::owner_annotation::{Showing, is_needed, wanted};
use bowline_core::{Node, error_chain};
use futures::{StreamExt as _, stream};
use tokio::sync::{Notify, watch};
use tracing::{info, warn};

use crate::clouds::owners::OwnerDiscovery;
use crate::kube::nodes::{Nodes, REMEMBERED_NODES};
use crate::kube::write::NodeWriter;
use crate::lru::Lru;
use tokio_util::sync::CancellationToken;

/// How often all nodes are looked at: their owners also changes without them, when a cloud was asked. As often as
/// that is done.
const PERIOD: Duration = Duration::from_secs(60);
/// How long changes are gathered, so that the writes of an initialisation are one look.
const GATHERING: Duration = Duration::from_secs(1);

/// Shows the owners of nodes.
pub(crate) struct Shown {
    nodes: Nodes,
    owners: OwnerDiscovery,
    writer: NodeWriter,
    showing: Showing,
    /// Nodes that are written to at the same time.
    concurrent: usize,
    /// Names of nodes that changed. Each is there once, so that there are never more than nodes.
    changed: Arc<Changed>,
    /// What was applied last, by uid.
    applied: Mutex<Lru<String, Applied>>,
}

#[derive(Default)]
struct Changed {
    names: Mutex<BTreeSet<String>>,
    notify: Notify,
}

impl Changed {
    fn add(&self, name: &str) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.insert(name.to_owned());
        self.notify.notify_one();
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Shown {
    /// One that has not started.
    pub(crate) fn new(
        nodes: Nodes,
        owners: OwnerDiscovery,
        writer: NodeWriter,
        showing: Showing,
        concurrent: usize,
    ) -> Self {
        Self {
            nodes,
            owners,
            writer,
            showing,
            concurrent,
            changed: Arc::default(),
            applied: Mutex::new(Lru::new(REMEMBERED_NODES)),
        }
    }

    /// Works until `stop`.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let changed = Arc::clone(&self.changed);
        self.nodes.on_change(move |change| {
            if change.after.is_some() && change.differs(may_show_another) {
                changed.add(&change.key);
            }
        });
        let Some(()) = stop.run_until_cancelled(self.nodes.synced()).await else {
            return;
        };
        let mut changes = self.owners.changes();
        while stop
            .run_until_cancelled(self.round(&mut changes))
            .await
            .is_some()
        {}
    }

    /// Looks at all nodes, then at each that changes, for one period, or until owners are found out.
    async fn round(&self, changes: &mut watch::Receiver<u64>) {
        self.changed.take();
        self.look_at(self.nodes.all()).await;
        let end = tokio::time::Instant::now() + PERIOD;
        loop {
            tokio::select! {
                biased;
                () = self.changed.notify.notified() => {}
                Ok(()) = changes.changed() => return,
                () = tokio::time::sleep_until(end) => return,
            }
            tokio::time::sleep(GATHERING).await;
            let names = self.changed.take();
            let nodes = names.iter().filter_map(|name| self.nodes.get(name));
            self.look_at(nodes.collect()).await;
        }
    }

    async fn look_at(&self, nodes: Vec<Arc<Node>>) {
        stream::iter(nodes)
            .filter_map(|node| async { Some((self.decide(&node)?, node)) })
            .for_each_concurrent(self.concurrent, |(applied, node)| self.apply(node, applied))
            .await;
    }

    /// What to apply to a node; none if it shows what it should.
    fn decide(&self, node: &Node) -> Option<Applied> {
        // Whoever initialises it may still find out who owns it.
        if node.is_uninitialized() && self.showing != Showing::Nothing {
            return None;
        }
        let owner = self.owners.ownership(node);
        let describer = self.owners.description(node);
        let wanted = wanted(node, owner.as_ref(), describer.as_ref(), self.showing)?;
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        let last = applied.get_mut(&node.uid);
        is_needed(node, &wanted, last.as_deref()).then_some(wanted)
    }

    async fn apply(&self, node: Arc<Node>, applied: Applied) {
        match self.writer.show_owner(&node, &applied).await {
            Ok(_) if self.writer.is_observing() => {}
            Ok(written) => {
                info!(node = node.name, shown = ?applied, "owner shown");
                self.nodes.note(written);
                let mut all = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
                all.insert(node.uid.clone(), applied);
            }
            Err(error) if error.is_not_found() || error.is_another() => {}
            // The next round tries again.
            Err(error) => warn!(
                node = node.name,
                error = error_chain(&error),
                "owner not shown"
            ),
        }
    }
}

/// Whether what a node shows, or its owner, may have changed.
fn may_show_another(before: &Node, after: &Node) -> bool {
    before.uid != after.uid
        || before.provider_id != after.provider_id
        || before.labels != after.labels
        || before.annotations != after.annotations
        || before.is_uninitialized() != after.is_uninitialized()
}
