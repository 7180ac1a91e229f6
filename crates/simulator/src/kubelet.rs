//! The kubelet of a machine, as its command line and its machine make it.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// A kubelet that may join a cluster.
#[derive(Clone, Debug, Default)]
pub struct KubeletSpec {
    /// `--hostname-override`: the name of the Node.
    pub node_name: String,
    /// The machine it runs on: its key in the world's register of machines.
    pub machine_id: String,
    /// `--node-ip`: nothing, `0.0.0.0` or `::`, one address, or two with a comma.
    pub provided_node_ip: Option<String>,
    /// The machine's own addresses, from which `--node-ip=0.0.0.0` or `::` guesses.
    pub own_addresses: Vec<IpAddr>,
    /// `--provider-id`.
    pub provider_id: Option<String>,
    /// What the firmware tells.
    pub system_uuid: String,
    /// The name of the operating system; empty for an ordinary one.
    pub os_image: String,
    /// `--node-labels`.
    pub labels: BTreeMap<String, String>,
    /// `--register-with-taints`, each with key, value and effect.
    pub taints: Vec<(String, String, String)>,
}
