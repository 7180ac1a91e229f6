mod allocator;
mod blocks;
mod layout;
mod machine;
mod properties;

use ipnet::IpNet;

use super::*;
use crate::node::examples::fresh_node;

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// A node of that name with these pod ranges; its uid follows from its name.
fn node(name: &str, ranges: &[&str]) -> Node {
    Node {
        name: name.to_owned(),
        uid: format!("uid of {name}"),
        pod_cidrs: ranges.iter().map(|&range| range.to_owned()).collect(),
        ..fresh_node()
    }
}

fn flags(kind: &str, cluster: &str) -> IpamFlags {
    IpamFlags {
        allocator: kind.to_owned(),
        cluster: cluster.to_owned(),
        ..IpamFlags::default()
    }
}

fn texts(networks: &[IpNet]) -> Vec<String> {
    networks.iter().map(IpNet::to_string).collect()
}
