//! Networks that pods can have addresses from: the cluster's, and those of machines.

use std::net::IpAddr;
use std::sync::Arc;

use bowline_core::ipam::{ClusterRanges, MachineAddress, Networks, node_ips};
use bowline_core::{BoxFuture, CloudError, CloudErrorKind, Node};
use ipnet::IpNet;

use crate::api::{Api, ApiError};
use crate::certificates::mismatch;
use crate::instances::MISMATCH;
use crate::instances::addresses::is_ignored;
use crate::instances::machine;

/// Blocks of IPv6 ranges, as Talos clusters have them: 65,536 of them in a /64.
const IPV6_MASK: u8 = 80;

pub(crate) struct MachineNetworks(Arc<Api>);

impl MachineNetworks {
    pub(crate) fn new(api: Arc<Api>) -> Self {
        Self(api)
    }

    /// A machine is asked through each address of its node until one answers.
    async fn addresses(&self, node: &Node) -> Result<Vec<MachineAddress>, CloudError> {
        let text = || format!("error getting interfaces list from the node {}", node.name);
        let ips = node_ips(node)
            .map_err(|error| CloudError::new(CloudErrorKind::Invalid, text()).caused_by(error))?;
        let mut last = CloudError::new(CloudErrorKind::Invalid, text());
        for ip in ips {
            match self.own(node, ip).await {
                Ok(Ok(listed)) => return Ok(usable(&listed)),
                Ok(Err(name)) => {
                    let text = mismatch(ip, &name, &node.name);
                    last = CloudError::new(CloudErrorKind::Invalid, text).reported_as(MISMATCH);
                }
                Err(error) => last = CloudError::new(error.kind(), text()).caused_by(error),
            }
        }
        Err(last)
    }

    /// The addresses of the machine at that one if it is the node's; else the node name that it
    /// reports.
    async fn own(
        &self,
        node: &Node,
        ip: IpAddr,
    ) -> Result<Result<Vec<machine::MachineAddress>, String>, ApiError> {
        let name = self.0.node_name(ip).await?;
        if name != node.name {
            return Ok(Err(name));
        }
        self.0.addresses(ip).await.map(Ok)
    }
}

/// Those on links that pod ranges may come from.
fn usable(listed: &[machine::MachineAddress]) -> Vec<MachineAddress> {
    let usable = listed.iter().filter(|it| !is_ignored(&it.link));
    let usable = usable.filter_map(|it| {
        Some(MachineAddress {
            address: IpNet::new(it.address, it.prefix_length).ok()?,
            permanent: it.is_permanent(),
        })
    });
    usable.collect()
}

impl Networks for MachineNetworks {
    fn cluster_ranges(&self) -> BoxFuture<'_, Result<ClusterRanges, CloudError>> {
        Box::pin(async {
            let ranges = self.0.cluster_ranges().await;
            ranges.map_err(|error| {
                let text = "reading the cluster's ranges from its control plane";
                CloudError::new(error.kind(), text).caused_by(error)
            })
        })
    }

    fn machine_addresses<'a>(
        &'a self,
        node: &'a Node,
    ) -> BoxFuture<'a, Result<Vec<MachineAddress>, CloudError>> {
        Box::pin(self.addresses(node))
    }

    fn ipv6_mask(&self) -> u8 {
        IPV6_MASK
    }
}
