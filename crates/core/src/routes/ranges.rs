//! The ranges of all pods, and which routes are about them.

use ipnet::IpNet;

use crate::quote;

/// Why `--cluster-cidr` says no ranges.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// It says nothing.
    #[error(
        "--cluster-cidr is empty: routes need the ranges of all pods; set it, or \
         --configure-cloud-routes=false"
    )]
    Empty,
    /// It says something else.
    #[error("{} in --cluster-cidr is no CIDR", quote(.0))]
    NotCidr(String),
    /// It says too much.
    #[error("--cluster-cidr holds {0}: one CIDR, or two of different families, can be used")]
    NotDual(String),
}

/// The ranges of all pods, from the flag.
pub fn cluster_ranges(flag: &str) -> Result<Vec<IpNet>, RangeError> {
    let texts = flag
        .split(',')
        .map(str::trim)
        .filter(|text| !text.is_empty());
    let parse = |text: &str| {
        let network = text.parse::<IpNet>();
        network.map_err(|_| RangeError::NotCidr(text.to_owned()))
    };
    let ranges: Vec<IpNet> = texts
        .map(|text| parse(text).map(|it| it.trunc()))
        .collect::<Result<_, _>>()?;
    match ranges.as_slice() {
        [] => Err(RangeError::Empty),
        [_] | [IpNet::V4(_), IpNet::V6(_)] | [IpNet::V6(_), IpNet::V4(_)] => Ok(ranges),
        more => {
            let texts: Vec<String> = more.iter().map(IpNet::to_string).collect();
            Err(RangeError::NotDual(texts.join(",")))
        }
    }
}

/// Whether a route to that destination is about pods: its first or its last address is one of theirs.
pub fn is_responsible(ranges: &[IpNet], destination: &str) -> bool {
    let Ok(network) = destination.parse::<IpNet>() else {
        return false;
    };
    let (first, last) = (network.network(), network.broadcast());
    ranges
        .iter()
        .any(|range| range.contains(&first) || range.contains(&last))
}

/// A destination in the one spelling that all spellings of it have in common. What is none stays as it
/// is written.
pub fn destination(text: &str) -> String {
    let network = text.parse::<IpNet>();
    network.map_or_else(|_| text.to_owned(), |it| it.trunc().to_string())
}
