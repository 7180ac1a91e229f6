//! The slow round over all initialised nodes: addresses and metadata follow the machines.

use std::sync::Arc;

use bowline_core::{
    AddressError, Instance, Lookup, Node, addresses_differ, desired_addresses, error_chain,
};
use futures::StreamExt;
use futures::future::join_all;
use futures::stream;
use tracing::{debug, info, warn};

use super::NodeController;
use crate::clouds::batcher::InstanceBatcher;
use tokio_util::sync::CancellationToken;

impl NodeController {
    /// Rounds of each cloud by itself, so that none waits for another.
    pub(super) async fn keep_addresses(&self, stop: CancellationToken) {
        let Some(()) = stop.run_until_cancelled(self.nodes.synced()).await else {
            return;
        };
        let rounds = self.owners.all().iter();
        join_all(rounds.map(|cloud| self.keep_addresses_in(cloud, &stop))).await;
    }

    /// A round right away, and another one a full period after each round ended.
    async fn keep_addresses_in(&self, cloud: &InstanceBatcher, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let round = self.refresh_addresses(cloud);
            if stop.run_until_cancelled(round).await.is_none() {
                return;
            }
            let pause = tokio::time::sleep(self.options.status_update_frequency);
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    async fn refresh_addresses(&self, cloud: &InstanceBatcher) {
        let nodes = self.nodes.all();
        let settled = || nodes.iter().filter(|node| !node.is_uninitialized());
        let owned = settled().filter(|node| self.owners.owns(cloud, node));
        let clouds = &self.metrics.clouds;
        clouds.nodes_owned(cloud.cloud().name().as_str(), owned.count());
        let described = settled().filter(|node| self.owners.describes(cloud, node));
        self.refresh_in(cloud, described.cloned().collect()).await;
    }

    async fn refresh_in(&self, cloud: &InstanceBatcher, nodes: Vec<Arc<Node>>) {
        let answers = cloud.ask(nodes.clone()).await;
        stream::iter(nodes.into_iter().zip(answers))
            .for_each_concurrent(self.options.concurrent_status_updates, |(node, answer)| {
                self.refresh(node, answer)
            })
            .await;
    }

    async fn refresh(&self, node: Arc<Node>, answer: Lookup) {
        let instance = match answer {
            Lookup::Found(instance) => instance,
            Lookup::NotMine | Lookup::Gone(_) => return,
            Lookup::CannotTell(error) => {
                let text = error.chain();
                if let Some(reason) = error.event() {
                    return self.report_once(&node, reason, text);
                }
                let (node, error) = (&node.name, text);
                return warn!(node, error, "addresses and metadata not refreshed");
            }
        };
        self.refresh_addresses_of(&node, &instance).await;
        self.refresh_metadata(node, &instance.marks).await;
    }

    async fn refresh_addresses_of(&self, node: &Node, instance: &Instance) {
        let wanted = desired_addresses(
            &instance.addresses,
            &node.addresses,
            node.provided_node_ip(),
        );
        match wanted {
            Err(AddressError::NoneShown) => {
                let text =
                    "Addresses stay as they are: the cloud shows no IP address of the instance";
                self.report_once(node, "AddressesKept", text.to_owned());
            }
            Err(error) => warn!(node = node.name, %error, "addresses left as they are"),
            Ok(Some(wanted)) if addresses_differ(&node.addresses, &wanted) => {
                match self.writer.set_addresses(node, &wanted).await {
                    Ok(_) if self.writer.is_observing() => {}
                    Ok(_) => info!(node = node.name, addresses = ?wanted, "addresses changed"),
                    Err(error) if error.is_not_found() || error.is_conflict() => {
                        debug!(node = node.name, "the node is another one by now");
                    }
                    Err(error) => {
                        warn!(
                            node = node.name,
                            error = error_chain(&error),
                            "addresses not written"
                        );
                    }
                }
            }
            Ok(_) => {}
        }
    }
}
