//! The findings about a request, and their texts.

use std::fmt;
use std::net::IpAddr;

/// Why a request can never be right, whatever becomes of its node: what it says does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It asks for no name and no address.
    NoName,
    /// It asks for a name of the API server, or for a wildcard.
    ReservedName,
    /// It asks for e-mail addresses.
    Email,
    /// It asks for URIs.
    Uri,
    /// It asks for names of another kind.
    OtherName,
    /// Its subject is in other organisations than `system:nodes` alone.
    Organization,
    /// Its common name is no node's.
    CommonName,
    /// It asks for other usages than those of a server.
    Usages,
    /// Its common name is not who asks.
    Requester,
    /// It has that many DNS names, where exactly one is wanted.
    DnsNames(usize),
}

impl Fault {
    /// A short name for metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoName => "NoName",
            Self::ReservedName => "ReservedName",
            Self::Email => "Email",
            Self::Uri => "URI",
            Self::OtherName => "OtherName",
            Self::Organization => "Organization",
            Self::CommonName => "CommonName",
            Self::Usages => "Usages",
            Self::Requester => "Requester",
            Self::DnsNames(_) => "DNSNames",
        }
    }
}

// These words are a part of denials, and people look for them.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoName => "DNS or IP subjectAltName is required",
            Self::ReservedName => "DNS subjectAltNames are not allowed",
            Self::Email => "email subjectAltNames are not allowed",
            Self::Uri => "URI subjectAltNames are not allowed",
            Self::OtherName => "subjectAltNames of other kinds are not allowed",
            Self::Organization => "subject organization is not system:nodes",
            Self::CommonName => "subject common name does not begin with system:node: ",
            Self::Usages => "key usage does not match",
            Self::Requester => "subject common name does not match the requesting user",
            Self::DnsNames(count) => {
                return write!(f, "expected 1 DNS subjectAltName, got {count}");
            }
        })
    }
}

/// What is found about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Everything is its own.
    Approved,
    /// It cannot be read; the text says why.
    Unreadable(String),
    /// It can never be right.
    Faulty(Fault),
    /// Its cloud says that it is not to have this.
    Refused(String),
    /// There is no Node of that name yet.
    NoNode,
    /// The Node waits for its cloud.
    NotInitialized,
    /// No cloud has a machine of that name.
    NoMachine,
    /// The machine that answers for the Node says that it is another one.
    NotItsMachine(String),
    /// The Node belongs to none of the clouds that approve.
    Foreign,
    /// Several clouds have one; the text names them.
    Contested(String),
    /// A name that is not the node's.
    Name {
        /// The DNS name or address that the request has.
        asked: String,
    },
    /// Addresses that are not the machine's.
    Addresses {
        /// Those of the machine.
        known: Vec<IpAddr>,
        /// Those that are asked for.
        asked: Vec<IpAddr>,
    },
    /// Addresses that the machine has, and the Node not yet.
    NodeAddresses {
        /// Those that the Node lacks.
        missing: Vec<IpAddr>,
    },
    /// Something that is the cluster's own.
    ClustersOwn {
        /// What it asks for.
        asked: String,
        /// What that is.
        why: &'static str,
    },
    /// Something that another Node shows as well, and nobody knows who owns it.
    ClaimedTwice {
        /// What it asks for.
        asked: String,
        /// The other Node.
        other: String,
    },
    /// Nobody can say now; the text says why.
    CannotTell(String),
}

impl Finding {
    /// A short name for events, metrics and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Approved => "Approved",
            Self::Unreadable(_) => "Unreadable",
            Self::Faulty(fault) => fault.reason(),
            Self::Refused(_) => "Refused",
            Self::NoNode => "NoNode",
            Self::NotInitialized => "NotInitialized",
            Self::NoMachine => "NoMachine",
            Self::NotItsMachine(_) => "MachineNameMismatch",
            Self::Foreign => "ForeignNode",
            Self::Contested(_) => "Contested",
            Self::Name { .. } => "ForeignName",
            Self::Addresses { .. } => "ForeignAddress",
            Self::NodeAddresses { .. } => "AddressNotOnNode",
            Self::ClustersOwn { .. } => "ReservedByCluster",
            Self::ClaimedTwice { .. } => "AddressClaimedTwice",
            Self::CannotTell(_) => "CannotTell",
        }
    }

    /// Whether it may pass by itself soon, as things are while a node comes up.
    pub fn is_early(&self) -> bool {
        matches!(
            self,
            Self::NoNode
                | Self::NotInitialized
                | Self::Foreign
                | Self::NodeAddresses { .. }
                | Self::CannotTell(_)
        )
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approved => f.write_str("all names and addresses are the node's"),
            Self::Unreadable(why) => write!(f, "the request cannot be read: {why}"),
            Self::Faulty(fault) => write!(f, "{fault}"),
            Self::Refused(why) | Self::NotItsMachine(why) | Self::CannotTell(why) => {
                f.write_str(why)
            }
            Self::NoNode => f.write_str("there is no Node of that name yet"),
            Self::NotInitialized => f.write_str("the Node is not initialised yet"),
            Self::NoMachine => f.write_str("no cloud has a machine of that name"),
            Self::Foreign => f.write_str("the Node is of no cloud that approves certificates"),
            Self::Contested(clouds) => {
                write!(f, "several clouds have a machine of that name: {clouds}")
            }
            Self::Name { asked } => write!(f, "{asked:?} is not a name of that node"),
            Self::Addresses { known, asked } => {
                write!(
                    f,
                    "the machine's addresses are {known:?}, asked for are {asked:?}"
                )
            }
            Self::ClustersOwn { asked, why } => {
                write!(f, "{asked} is {why}: no node gets a certificate for it")
            }
            Self::ClaimedTwice { asked, other } => write!(
                f,
                "Node {other} reports {asked} as well, and neither machine nor cloud confirms which node has it"
            ),
            Self::NodeAddresses { missing } => {
                write!(f, "the Node does not have the addresses {missing:?} yet")
            }
        }
    }
}
