//! Serving certificates of kubelets: which requests are approved, and what a cloud says to it.
//!
//! ```text
//!  a request ──▶ recognise ── is it a kubelet's, well formed, about itself? ──▶ Candidate
//!                                                                                  │
//!  the node's cloud ──▶ MachineAnswer ── which names and addresses are its own? ──▶ decide ──▶ Verdict
//!                                                                                  │
//!  the cluster, all other Nodes ──▶ claims ── does anybody else have them? ────────┘
//! ```
//!
//! Who asks is decided by [`CertificateRequest::username`] alone, which the API server has
//! authenticated; everything else in a request is only what somebody would like to be.

mod claims;
mod decide;
mod finding;
mod recognise;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use crate::{BoxFuture, CloudError, Node};

pub use claims::{ClusterNames, Names, RequestedName, clusters_own, is_proven, rivals, settle};
pub use decide::{CertificateVerdict, decide};
pub use finding::{Fault, Finding};
pub use recognise::{Recognised, WellFormedRequest, recognise};

/// The signer of kubelets' serving certificates; requests for any other are left alone.
pub const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";
/// How the user names of kubelets begin; the node's name follows.
pub const NODE_USER_PREFIX: &str = "system:node:";

/// The parts of a CertificateSigningRequest that decisions are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// `spec.signerName`.
    pub signer: String,
    /// `spec.username`: who asks, as the API server knows it.
    pub username: String,
    /// `spec.groups`: of whom asks.
    pub groups: Vec<String>,
    /// `spec.usages`.
    pub usages: Vec<String>,
    /// The types of `status.conditions`.
    pub conditions: Vec<String>,
    /// Whether there is a certificate already.
    pub is_issued: bool,
    /// What `spec.request` asks for, or why it cannot be read.
    pub content: Result<RequestContent, String>,
}

/// What a PKCS#10 request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestContent {
    /// The common names of the subject.
    pub common_names: Vec<String>,
    /// The organisations of the subject.
    pub organizations: Vec<String>,
    /// DNS names among the subject alternative names.
    pub dns_names: Vec<String>,
    /// IP addresses among them.
    pub addresses: Vec<IpAddr>,
    /// How many e-mail addresses are among them.
    pub emails: usize,
    /// How many URIs are among them.
    pub uris: usize,
    /// How many names of any other kind are among them.
    pub others: usize,
}

/// The node that a user name names.
pub fn node_of(username: &str) -> Option<&str> {
    let name = username.strip_prefix(NODE_USER_PREFIX)?;
    (!name.is_empty()).then_some(name)
}

/// What a cloud wants of a request beside what everybody wants, and how it says what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApprovalRules {
    /// What the Node object is good for.
    pub node: NodePart,
    /// Whether exactly one DNS name must be asked for, the node's.
    pub one_dns_name: bool,
    /// Whether a request that can never be right is denied, and not only left pending.
    pub denies_faults: bool,
    /// The words of an approval.
    pub approval: Words,
    /// The words of a denial; the message is followed by what is wrong.
    pub denial: Words,
}

/// Reason and message of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The condition's reason.
    pub reason: &'static str,
    /// The condition's message.
    pub message: &'static str,
}

/// What the Node object of the asking kubelet is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodePart {
    /// It may be missing: the machine alone decides.
    Optional,
    /// It must exist; what it says is in the cloud's answer.
    Needed,
    /// It must exist and be initialised, and have itself what is asked for.
    Confirms,
}

impl Default for ApprovalRules {
    /// The framework's rules, for a cloud that has none of its own.
    fn default() -> Self {
        Self {
            node: NodePart::Confirms,
            one_dns_name: false,
            denies_faults: false,
            approval: Words {
                reason: "ApprovedByBowline",
                message: "This CSR was approved by Bowline: all names and addresses are the node's",
            },
            denial: Words {
                reason: "DeniedByBowline",
                message: "This CSR was denied by Bowline: ",
            },
        }
    }
}

/// What a cloud knows of the machine of a node that asks for a certificate.
#[derive(Debug)]
pub enum MachineAnswer {
    /// Its machine; several where the cloud cannot distinguish them, and then one of them alone must
    /// have everything that is asked for.
    Machines(Vec<MachineIdentity>),
    /// No machine of this cloud is that node's.
    Unknown,
    /// Who answers where the node says it is says that it is another one; the text says which.
    NotItsMachine(String),
    /// The cloud positively says that what is asked for is not the machine's, now or ever; the text
    /// says why.
    Refused(String),
    /// There is no answer; nothing may be concluded.
    CannotTell(CloudError),
}

/// What a machine may show a certificate for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineIdentity {
    /// Its addresses, by what machine or cloud say.
    pub addresses: Vec<IpAddr>,
    /// Its DNS names, beside the node's own name, likewise.
    pub names: Vec<String>,
    /// Addresses that only its Node shows: its kubelet writes those, so they are its own as long as nobody else shows
    /// them.
    pub claimed_addresses: Vec<IpAddr>,
    /// DNS names, likewise.
    pub claimed_names: Vec<String>,
}

/// What became of a request, for those who count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// An approval was written.
    Approved,
    /// A denial was written.
    Denied,
}

/// Serving certificates of kubelets as a capability of a cloud: it says which names and addresses
/// the machine of a node has now.
pub trait ServingCertificates: Send + Sync {
    /// What it wants beside the common rules, and its words.
    fn rules(&self) -> ApprovalRules;

    /// Whether it approves without being asked to on the command line.
    fn is_default_on(&self) -> bool {
        false
    }

    /// Whether it also speaks for nodes whose provider id is another cloud's.
    fn speaks_for_all(&self) -> bool {
        false
    }

    /// The names and addresses of the machine of the node of that name; `node` is its Node object
    /// if there is one. Reads, and may be asked often.
    fn machine<'a>(&'a self, name: &'a str, node: Option<&'a Node>)
    -> BoxFuture<'a, MachineAnswer>;

    /// How it says that of a request, where its users wait for certain words; none for the
    /// ordinary ones.
    fn phrase(&self, request: &str, finding: &Finding) -> Option<String> {
        let _ = (request, finding);
        None
    }

    /// Gets to know what became of a request, once for each.
    fn count(&self, counted: Counted) {
        let _ = counted;
    }
}
