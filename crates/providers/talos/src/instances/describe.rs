//! From a machine's answers to the description of its node. Pure.
//!
//! Two steps, because the first shows what else has to be asked:
//!
//! ```text
//!  Node, platform metadata ──▶ recognise ──▶ Recognised: is it ready? are the firmware's facts needed?
//!                                                │
//!  firmware, addresses ──────────────────────────┴──▶ describe ──▶ Instance, with its marks
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use bowline_core::{Instance, MetadataPolicy, Node, NodeMetadata, Power, ProviderId};
use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

use crate::config::Config;
use crate::id::{IdError, is_ready, provider_id};
use crate::instances::addresses::{Sources, addresses};
use crate::instances::labels::labels;
use crate::instances::machine::{MachineAddress, PlatformMetadata, SystemInformation};
use crate::transform::{Matching, RuleError};

/// How long after its Node's creation a machine may take to learn its own id; clouds answer within
/// seconds, and after minutes nothing will come any more.
pub const GRACE: Duration = Duration::from_secs(300);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DescribeError {
    /// The platform's metadata has not arrived: try again.
    #[error("the machine of node {0} does not know its own id yet")]
    NotReady(String),
    #[error(transparent)]
    Id(#[from] IdError),
    #[error("error transforming node: {0}")]
    Rule(#[from] RuleError),
}

/// A machine before its rules.
#[derive(Clone, Debug)]
pub struct PlatformDescription<'a> {
    metadata: PlatformMetadata,
    matching: Matching<'a>,
}

/// The empty description of a node whose kubelet names no address. A node with a provider id loses
/// its taint and nothing else changes; one without goes on waiting.
pub fn nothing() -> Instance {
    Instance {
        provider_id: None,
        instance_type: String::new(),
        zone: String::new(),
        region: String::new(),
        addresses: Vec::new(),
        power: Power::On,
        extra_labels: BTreeMap::new(),
        marks: NodeMetadata::default(),
    }
}

/// Takes a machine's platform metadata, fills in what is missing, and finds the rules for it.
/// `reported` came through `node_ip`.
pub fn recognise<'a>(
    config: &'a Config,
    node: &Node,
    reported: &PlatformMetadata,
    node_ip: IpAddr,
    now: Timestamp,
) -> Result<PlatformDescription<'a>, DescribeError> {
    let mut metadata = reported.clone();
    let id = provider_id(reported, node_ip);
    let waiting = now.duration_since(node.created);
    let patient = SignedDuration::try_from(GRACE).is_ok_and(|grace| waiting < grace);
    if metadata.hostname.is_empty() {
        metadata.hostname.clone_from(&node.name);
    }
    // Rules may compare with the id; where there is none to wait for, it is the one they would see.
    if let Ok(id) = &id {
        metadata.provider_id.clone_from(id);
    }
    if patient && !is_ready(reported, false) {
        let matching = config.rules.matching(&metadata)?;
        if !is_ready(reported, matching.set_the_provider_id()) {
            return Err(DescribeError::NotReady(node.name.clone()));
        }
    }
    metadata.provider_id = id?;
    let matching = config.rules.matching(&metadata)?;
    Ok(PlatformDescription { metadata, matching })
}

impl PlatformDescription<'_> {
    pub fn needs_system_information(&self) -> bool {
        self.matching.need_system_information()
    }

    /// What the node gets; its labels, annotations and taints are marks, because they are written
    /// as they are, also in name spaces of Kubernetes. `cluster_name` is what the credentials say,
    /// for a cluster that the configuration does not name.
    pub fn describe(
        &self,
        config: &Config,
        node: &Node,
        system: &SystemInformation,
        listed: &[MachineAddress],
        cluster_name: Option<&str>,
    ) -> Result<Instance, DescribeError> {
        let transformed = self.matching.apply(&self.metadata, system)?;
        let cluster_name = config.cluster_name(cluster_name);
        let labels = labels(&transformed, cluster_name.as_deref());
        let annotation = node.provided_node_ip().unwrap_or("");
        let node_ips = crate::instances::addresses::node_ips(annotation, config.prefer_ipv6);
        let metadata = &transformed.metadata;
        let addresses = addresses(&Sources {
            node_name: &node.name,
            hostname: &metadata.hostname,
            platform: &metadata.platform,
            node_ips: &node_ips,
            listed,
            discover: transformed.public_ip_discovery,
            prefer_ipv6: config.prefer_ipv6,
        });
        Ok(Instance {
            provider_id: ProviderId::parse(&metadata.provider_id).ok(),
            instance_type: metadata.instance_type.clone(),
            zone: metadata.zone.clone(),
            region: metadata.region.clone(),
            addresses,
            marks: NodeMetadata {
                labels,
                annotations: transformed.annotations,
                taints: transformed.taints,
                keeping: if config.enforce {
                    MetadataPolicy::Own
                } else {
                    MetadataPolicy::Add
                },
            },
            ..nothing()
        })
    }
}

#[cfg(test)]
mod tests;
