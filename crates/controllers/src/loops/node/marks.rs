//! The marks of a node: written before its taint goes, and again in every slow round. Nothing differs: no
//! request.

use std::sync::{Arc, PoisonError};

use bowline_core::metadata::{Applied, additions, enforcement};
use bowline_core::{MetadataPolicy, Node, NodeMetadata, error_chain};
use tracing::{debug, info, warn};

use super::NodeController;
use crate::kube::nodes::latest;
use crate::kube::write::WriteError;

impl NodeController {
    /// Writes what a node's marks ask for and it does not have, taints last; gives the node as it is then.
    pub(super) async fn write_marks(
        &self,
        node: Arc<Node>,
        marks: &NodeMetadata,
    ) -> Result<Arc<Node>, WriteError> {
        // What a write gives back may be newer than what the decision was made of.
        let (node, taints) = match marks.keeping {
            MetadataPolicy::Add => {
                let node = self.add_marks(node, marks).await?;
                let taints = additions(&node, marks).taints;
                (node, taints)
            }
            MetadataPolicy::Own => {
                let node = self.apply_marks(node, marks).await?;
                let taints = enforcement(&node, marks).taints;
                (node, taints)
            }
        };
        match taints {
            Some(taints) => {
                let written = self.writer.set_taints(&node, &taints).await?;
                self.told_writing(&node, "taints written");
                Ok(written)
            }
            None => Ok(node),
        }
    }

    async fn add_marks(
        &self,
        node: Arc<Node>,
        marks: &NodeMetadata,
    ) -> Result<Arc<Node>, WriteError> {
        let added = additions(&node, marks);
        if added.labels.is_empty() && added.annotations.is_empty() {
            return Ok(node);
        }
        let written = self
            .writer
            .add_marks(&node, &added.labels, &added.annotations)
            .await?;
        self.told_writing(&node, "labels and annotations added");
        Ok(written)
    }

    async fn apply_marks(
        &self,
        node: Arc<Node>,
        marks: &NodeMetadata,
    ) -> Result<Arc<Node>, WriteError> {
        let applied = enforcement(&node, marks).applied;
        if !self.needs_apply(&node, &applied) {
            return Ok(node);
        }
        let written = self.writer.apply_marks(&node, &applied).await?;
        if !self.writer.is_observing() {
            let mut all = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(node.uid.clone(), applied);
        }
        if written.resource_version != node.resource_version {
            self.told_writing(&node, "labels and annotations applied");
        }
        Ok(written)
    }

    fn needs_apply(&self, node: &Node, applied: &Applied) -> bool {
        let mut all = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.is_needed(node, all.get_mut(&node.uid).map(|it| &*it))
    }

    fn told_writing(&self, node: &Node, what: &str) {
        if !self.writer.is_observing() {
            info!(node = node.name, "{what}");
        }
    }

    /// Writes the marks of an initialised node again; what fails waits for the next round.
    pub(super) async fn refresh_marks(&self, node: Arc<Node>, marks: &NodeMetadata) {
        if marks.is_nothing() {
            return;
        }
        let node = latest(&self.nodes, node);
        let name = node.name.clone();
        let written = self
            .writer
            .retry_conflicts(node, WriteError::is_conflict, |node| async move {
                self.write_marks(node, marks).await.map(Some)
            })
            .await;
        match written {
            Ok(_) => {}
            Err(error) if error.is_not_found() || error.is_another() => {
                debug!(node = name, "the node is another one by now");
            }
            Err(error) => {
                warn!(
                    node = name,
                    error = error_chain(&error),
                    "marks not written"
                );
            }
        }
    }
}
