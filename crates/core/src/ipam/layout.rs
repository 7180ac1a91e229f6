//! From flags to ranges and masks.

use std::fmt;

use ipnet::IpNet;

use super::blocks::{BlockSet, BlockSetError};
use super::{ClusterRanges, IPV4_MASK};
use crate::quote;

/// How blocks are found for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocatorKind {
    /// From the cluster's ranges.
    Range,
    /// IPv6 from the network of the node's machine, if it has one; else from the cluster's ranges.
    Cloud,
}

/// What the command line says, as written.
#[derive(Clone, Debug, Default)]
pub struct IpamFlags {
    /// `--cidr-allocator-type`.
    pub allocator: String,
    /// `--cluster-cidr`.
    pub cluster: String,
    /// `--service-cluster-ip-range`.
    pub services: String,
    /// `--node-cidr-mask-size`; 0 if unset, here and below.
    pub mask: i32,
    /// `--node-cidr-mask-size-ipv4`.
    pub mask_ipv4: i32,
    /// `--node-cidr-mask-size-ipv6`.
    pub mask_ipv6: i32,
}

/// A range and the mask of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeMask {
    /// The range.
    pub range: IpNet,
    /// Of one node's block.
    pub mask: u8,
}

/// What blocks are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// How blocks are found.
    pub kind: AllocatorKind,
    /// The cluster's ranges, in order: a node gets a block of each.
    pub clusters: Vec<NodeMask>,
    /// Never given to nodes.
    pub services: Vec<IpNet>,
    /// Texts among the Services' ranges that are none; they are passed over.
    pub ignored: Vec<String>,
}

/// Why flags make no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// An unknown allocator.
    #[error("--cidr-allocator-type is {}; it must be RangeAllocator or CloudAllocator", quote(.0))]
    Allocator(String),
    /// No range.
    #[error("--cluster-cidr is empty, and no configured cloud knows the pods' ranges")]
    NoCluster,
    /// No range at all.
    #[error("{} in --cluster-cidr is no CIDR", quote(.0))]
    NotCidr(String),
    /// More than one of a family.
    #[error("{0} holds {1}: one CIDR, or two of different families, can be used")]
    NotDual(RangeSource, String),
    /// A mask for all families in a cluster of two.
    #[error("usage of --node-cidr-mask-size is not allowed with dual-stack clusters")]
    MaskOfTwo,
    /// A mask for all families, and one for one.
    #[error(
        "usage of --node-cidr-mask-size-ipv4 and --node-cidr-mask-size-ipv6 is not allowed if \
         --node-cidr-mask-size is set. For dual-stack clusters please unset it and use IPFamily \
         specific flags"
    )]
    MaskTwice,
    /// A mask for a family that the cluster has not.
    #[error(
        "usage of --node-cidr-mask-size-{flag} is not allowed for a single-stack {cluster} cluster"
    )]
    MaskOfOther {
        /// `ipv4` or `ipv6`.
        flag: &'static str,
        /// The other one.
        cluster: &'static str,
    },
    /// A range that cannot be cut like that.
    #[error(transparent)]
    Blocks(#[from] BlockSetError),
}

/// Which ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSource {
    /// Of pods.
    Cluster,
    /// Of Services.
    Services,
}

impl fmt::Display for RangeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cluster => "--cluster-cidr",
            Self::Services => "--service-cluster-ip-range",
        })
    }
}

/// Reads the flags, filling in what a cloud knows; `ipv6_mask` counts where no flag says another.
pub fn layout(
    flags: &IpamFlags,
    known: &ClusterRanges,
    ipv6_mask: u8,
) -> Result<Layout, LayoutError> {
    let kind = match flags.allocator.as_str() {
        "RangeAllocator" => AllocatorKind::Range,
        "CloudAllocator" => AllocatorKind::Cloud,
        other => return Err(LayoutError::Allocator(other.to_owned())),
    };
    let (pods, wrong) = parse(&flags.cluster);
    if let Some(wrong) = wrong.into_iter().next() {
        return Err(LayoutError::NotCidr(wrong));
    }
    let pods = if pods.is_empty() {
        trunc(&known.pods)
    } else {
        pods
    };
    if pods.is_empty() {
        return Err(LayoutError::NoCluster);
    }
    check_families(RangeSource::Cluster, &pods)?;
    let (services, ignored) = parse(&flags.services);
    let services = if known.services.is_empty() {
        services
    } else {
        trunc(&known.services)
    };
    check_families(RangeSource::Services, &services)?;
    let masks = masks(flags, &pods, ipv6_mask)?;
    let clusters = pods.into_iter().zip(masks);
    let mut checked = Vec::new();
    for (range, mask) in clusters {
        let mask = u8::try_from(mask).map_err(|_| BlockSetError::NoBlock)?;
        BlockSet::new(range, mask)?;
        checked.push(NodeMask { range, mask });
    }
    Ok(Layout {
        kind,
        clusters: checked,
        services,
        ignored,
    })
}

/// The networks of a comma-separated list, and what is none.
fn parse(list: &str) -> (Vec<IpNet>, Vec<String>) {
    let (mut networks, mut wrong) = (Vec::new(), Vec::new());
    for text in list
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty())
    {
        match text.parse::<IpNet>() {
            Ok(network) => networks.push(network.trunc()),
            Err(_) => wrong.push(text.to_owned()),
        }
    }
    (networks, wrong)
}

fn trunc(networks: &[IpNet]) -> Vec<IpNet> {
    networks.iter().map(IpNet::trunc).collect()
}

fn check_families(source: RangeSource, networks: &[IpNet]) -> Result<(), LayoutError> {
    match networks {
        [] | [_] | [IpNet::V4(_), IpNet::V6(_)] | [IpNet::V6(_), IpNet::V4(_)] => Ok(()),
        more => {
            let texts: Vec<String> = more.iter().map(IpNet::to_string).collect();
            Err(LayoutError::NotDual(source, texts.join(",")))
        }
    }
}

fn masks(flags: &IpamFlags, pods: &[IpNet], ipv6_mask: u8) -> Result<Vec<i32>, LayoutError> {
    let or = |flag: i32, default: u8| if flag == 0 { i32::from(default) } else { flag };
    let (ipv4, ipv6) = (
        or(flags.mask_ipv4, IPV4_MASK),
        or(flags.mask_ipv6, ipv6_mask),
    );
    let own = |range: &IpNet| match range {
        IpNet::V4(_) => ipv4,
        IpNet::V6(_) => ipv6,
    };
    let [single] = pods else {
        if flags.mask != 0 {
            return Err(LayoutError::MaskOfTwo);
        }
        return Ok(pods.iter().map(own).collect());
    };
    if flags.mask != 0 && (flags.mask_ipv4 != 0 || flags.mask_ipv6 != 0) {
        return Err(LayoutError::MaskTwice);
    }
    match single {
        IpNet::V6(_) if flags.mask_ipv4 != 0 => Err(LayoutError::MaskOfOther {
            flag: "ipv4",
            cluster: "IPv6",
        }),
        IpNet::V4(_) if flags.mask_ipv6 != 0 => Err(LayoutError::MaskOfOther {
            flag: "ipv6",
            cluster: "IPv4",
        }),
        range if flags.mask == 0 => Ok(vec![own(range)]),
        _ => Ok(vec![flags.mask]),
    }
}
