//! Writes the metadata of a node (labels, annotations, taints): before its taint goes, and again in
//! every slow round. Without a difference there is no request.

use std::sync::{Arc, PoisonError};

use bowline_core::metadata::{Applied, additions, enforcement};
use bowline_core::{MetadataPolicy, Node, NodeMetadata, error_chain};
use tracing::{debug, info, warn};

use super::NodeController;
use crate::kube::nodes::latest;
use crate::kube::write::WriteError;

impl NodeController {
    /// Writes the metadata that a node lacks, taints last; gives the node as it is then.
    pub(super) async fn write_metadata(
        &self,
        node: Arc<Node>,
        metadata: &NodeMetadata,
    ) -> Result<Arc<Node>, WriteError> {
        // What a write gives back may be newer than what the decision was made of.
        let (node, taints) = match metadata.keeping {
            MetadataPolicy::Add => {
                let node = self.add_metadata(node, metadata).await?;
                let taints = additions(&node, metadata).taints;
                (node, taints)
            }
            MetadataPolicy::Own => {
                let node = self.apply_metadata(node, metadata).await?;
                let taints = enforcement(&node, metadata).taints;
                (node, taints)
            }
        };
        match taints {
            Some(taints) => {
                let written = self.writer.set_taints(&node, &taints).await?;
                self.log_write(&node, "taints written");
                Ok(written)
            }
            None => Ok(node),
        }
    }

    async fn add_metadata(
        &self,
        node: Arc<Node>,
        metadata: &NodeMetadata,
    ) -> Result<Arc<Node>, WriteError> {
        let added = additions(&node, metadata);
        if added.labels.is_empty() && added.annotations.is_empty() {
            return Ok(node);
        }
        let written = self
            .writer
            .add_metadata(&node, &added.labels, &added.annotations)
            .await?;
        self.log_write(&node, "labels and annotations added");
        Ok(written)
    }

    async fn apply_metadata(
        &self,
        node: Arc<Node>,
        metadata: &NodeMetadata,
    ) -> Result<Arc<Node>, WriteError> {
        let applied = enforcement(&node, metadata).applied;
        if !self.needs_apply(&node, &applied) {
            return Ok(node);
        }
        let written = self.writer.apply_metadata(&node, &applied).await?;
        if !self.writer.is_observing() {
            let mut all = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(node.uid.clone(), applied);
        }
        if written.resource_version != node.resource_version {
            self.log_write(&node, "labels and annotations applied");
        }
        Ok(written)
    }

    fn needs_apply(&self, node: &Node, applied: &Applied) -> bool {
        let mut all = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.is_needed(node, all.get_mut(&node.uid).map(|it| &*it))
    }

    fn log_write(&self, node: &Node, what: &str) {
        if !self.writer.is_observing() {
            info!(node = node.name, "{what}");
        }
    }

    /// Writes the metadata of an initialised node again; what fails waits for the next round.
    pub(super) async fn refresh_metadata(&self, node: Arc<Node>, metadata: &NodeMetadata) {
        if metadata.is_nothing() {
            return;
        }
        let node = latest(&self.nodes, node);
        let name = node.name.clone();
        let written = self
            .writer
            .retry_conflicts(node, WriteError::is_conflict, |node| async move {
                self.write_metadata(node, metadata).await.map(Some)
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
                    "metadata not written"
                );
            }
        }
    }
}
