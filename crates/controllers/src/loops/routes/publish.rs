//! Writes conditions and events of nodes.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::routes::{Advice, Creation, RouteDecision, RouteNodes};
use bowline_core::{CloudError, NetworkCondition, Node, error_chain, format_duration};
use futures::{StreamExt as _, stream};
use tracing::{debug, info, warn};

use super::{CloudRoutes, RouteController, RouteTopic};
use crate::kube::events::{node_reference, pod_reference};
use crate::kube::nodes::latest;
use crate::kube::write::WriteError;
use crate::report::Fact;

/// Nodes that are written at the same time, as many as pod ranges are.
const WRITES_AT_ONCE: usize = 30;

impl RouteController {
    /// Writes conditions and events of nodes, where they differ from the last ones. Returns whether all was written.
    pub(super) async fn publish(
        &self,
        state: &CloudRoutes<'_>,
        nodes: &RouteNodes,
        decision: &RouteDecision,
    ) -> bool {
        let mut writes = Vec::new();
        for (name, standing) in &decision.standings {
            let Some(node) = nodes.own.get(name) else {
                continue;
            };
            for remark in &standing.remarks {
                let key = RouteTopic::Node(node.uid.clone(), remark.reason);
                if state.reported.is_new(key, &remark.message) {
                    let about = node_reference(node);
                    let fact = Fact::warning(about, remark.reason, &remark.message);
                    self.parts.recorder.emit(fact);
                }
            }
            if let Some(unavailable) = standing.unavailable() {
                writes.push((node.clone(), unavailable));
            }
        }
        let written: Vec<bool> = stream::iter(writes)
            .map(|(node, unavailable)| self.write_condition(node, unavailable))
            .buffered(WRITES_AT_ONCE)
            .collect()
            .await;
        written.into_iter().all(|it| it)
    }

    /// Writes the condition, unless it says so already; false if that has to be tried again.
    async fn write_condition(&self, node: Arc<Node>, unavailable: bool) -> bool {
        let (condition, message) = condition(unavailable);
        let (wanted, node) = (&condition, latest(&self.parts.nodes, node));
        let name = node.name.clone();
        let writer = &self.parts.writer;
        let written = writer
            .retry_conflicts(node, WriteError::is_conflict, |node| async move {
                if node.network.as_ref() == Some(wanted) {
                    return Ok(None);
                }
                let now = self.parts.clock.now();
                let written = writer.set_network(&node, wanted, message, now).await?;
                Ok(Some(written))
            })
            .await;
        match written {
            Ok(None) => {}
            Ok(Some(_)) if writer.is_observing() => {}
            Ok(Some(written)) => {
                info!(
                    node = name,
                    reason = condition.reason,
                    "network condition written"
                );
                self.parts.nodes.note(written);
            }
            Err(error) if error.is_not_found() || error.is_another() => {
                debug!(node = name, "the node is another one by now");
            }
            Err(error) => {
                let error = error_chain(&error);
                warn!(
                    node = name,
                    error, "network condition not written; trying again"
                );
                return false;
            }
        }
        true
    }

    /// Reports what people should know before they rely on routes of that cloud.
    pub(super) fn advise(&self, state: &CloudRoutes<'_>) {
        let Some(Advice { pod, remark }) = state.routes.advice() else {
            return;
        };
        let (reason, message) = (remark.reason, remark.message);
        info!(cloud = %state.cloud.name(), reason, "{message}");
        if let Some((namespace, name)) = pod {
            let fact = Fact::warning(pod_reference(&namespace, &name), reason, message);
            self.parts.recorder.emit(fact);
        }
    }

    /// Reports that a route was not made, in the originals' words.
    pub(super) fn report_failed(&self, creation: &Creation, error: &CloudError, took: Duration) {
        let node = &creation.node;
        let message = format!(
            "Could not create route {} {} for node {} after {}: {}",
            node.uid,
            creation.route.destination,
            node.name,
            format_duration(took),
            error.chain()
        );
        let fact = Fact::warning(node_reference(node), "FailedToCreateRoute", message);
        self.parts.recorder.emit(fact);
    }
}

/// The condition and its message, in the originals' words.
fn condition(unavailable: bool) -> (NetworkCondition, &'static str) {
    let (status, reason, message) = if unavailable {
        (
            "True",
            "NoRouteCreated",
            "RouteController failed to create a route",
        )
    } else {
        ("False", "RouteCreated", "RouteController created a route")
    };
    let condition = NetworkCondition {
        status: status.to_owned(),
        reason: reason.to_owned(),
    };
    (condition, message)
}
