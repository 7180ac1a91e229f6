//! A configured cloud and what it can do.

pub(crate) mod account;
pub(crate) mod chores;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod instance;
pub(crate) mod token_bucket;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::ipam::Networks;
use crate::routes::Routes;
use crate::{
    Balancers, Chores, CloudError, LabelSync, Lookup, Node, ProviderEvent, Secret,
    ServingCertificates,
};

/// A future of a capability's method; capabilities are used behind pointers.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The name an operator gave to one configured cloud: lower-case letters, digits and dashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct CloudName(String);

/// Why a text is not a cloud name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cloud name {0:?} is not 1 to 63 lower-case letters, digits and inner dashes")]
pub struct CloudNameError(String);

impl CloudName {
    /// Checks the form: it becomes part of class names, labels and metric labels.
    pub fn parse(value: &str) -> Result<Self, CloudNameError> {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let well_formed = (1..=63).contains(&value.len())
            && value.bytes().all(inner)
            && !value.starts_with('-')
            && !value.ends_with('-');
        if well_formed {
            Ok(Self(value.into()))
        } else {
            Err(CloudNameError(value.into()))
        }
    }

    /// As it is written in class names, labels and metrics.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CloudName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a cloud says about a node, by looking at it alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Its provider id is of this cloud's scheme and well formed; or it has none, and calls its
    /// machine by an id as this cloud gives them.
    Mine,
    /// Its provider id is of this cloud's scheme, but not one it could have given; the text says
    /// why.
    Malformed(String),
    /// Its provider id is of another scheme, but this cloud manages it as long as no other does.
    Fallback,
    /// The same, though nothing says that the machine is of its kind: it does so only where it is the only cloud, or its
    /// node selector means the node.
    FallbackIfAlone,
    /// Its provider id is of another scheme; or it has none, and nothing else to tell by.
    Foreign,
}

/// Whether a cloud is the one that describes a node: gives it its provider id, addresses and labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescribePolicy {
    /// If it owns the node.
    Owner,
    /// Whoever owns it: the machine itself is asked, and knows best.
    Always,
    /// Never, not even if it owns the node.
    Never,
}

/// What a node is to a cloud, by the node alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMatch {
    /// Whether the node carries an id of this cloud's.
    pub claim: Claim,
    /// Whether what else the node carries says that it is of another account, zone or endpoint of this kind of cloud.
    /// Counts only where several clouds claim the node.
    pub other_account: bool,
    /// Whether the cloud describes the node.
    pub describes: DescribePolicy,
}

impl NodeMatch {
    /// By the scheme of the provider ID.
    pub fn by_scheme(provider: &str, node: &Node) -> Self {
        let rest = node
            .provider_id
            .as_deref()
            .and_then(|id| id.strip_prefix(provider));
        let is_mine = rest.is_some_and(|rest| rest.starts_with("://"));
        if is_mine { Claim::Mine } else { Claim::Foreign }.into()
    }
}

/// With nothing else to say.
impl From<Claim> for NodeMatch {
    fn from(claim: Claim) -> Self {
        Self {
            claim,
            other_account: false,
            describes: DescribePolicy::Owner,
        }
    }
}

/// One configured account, zone or endpoint of a cloud.
pub trait Cloud: Send + Sync + 'static {
    /// What the operator calls it, unique among the clouds of a cluster.
    fn name(&self) -> &CloudName;

    /// The provider's name, as in `--cloud-provider`.
    fn provider(&self) -> &'static str;

    /// Which of its nodes that is, by the node alone. Makes no call.
    fn match_node(&self, node: &Node) -> NodeMatch;

    /// Whether the cloud can distinguish clusters; without it the manager starts only with
    /// `--allow-untagged-cloud`.
    fn has_cluster_id(&self) -> bool {
        true
    }

    /// Whether it has what it needs to work, or what is missing. Answers from memory; a process with
    /// a cloud that is not ready runs and says so at `/readyz`.
    fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// What distinguishes its account from others: endpoint, zone, project and as much of the credentials as that takes (made by
    /// [`account_identity`](crate::account_identity)). It changes with the credentials in use, not before what they
    /// sign. None if it has no account. Answers from memory.
    fn account(&self) -> Option<Secret> {
        None
    }

    /// The next thing that people should hear of, as soon as there is one. Each is given once, to who leads.
    fn next_event(&self) -> BoxFuture<'_, ProviderEvent> {
        Box::pin(std::future::pending())
    }

    /// How a new node's machine is recognised, and what to check if it is not: for a cloud that goes by something else
    /// than names, and owns all nodes, so that one that it does not know is reported.
    fn recognises_by(&self) -> Option<&'static str> {
        None
    }

    /// The reason of the event about a node whose provider id is [`Claim::Malformed`].
    fn malformed_reason(&self) -> &'static str {
        "MalformedProviderID"
    }

    /// What it knows about machines.
    fn instances(&self) -> Option<&dyn Instances> {
        None
    }

    /// What it does about Services of type LoadBalancer.
    fn balancers(&self) -> Option<&dyn Balancers> {
        None
    }

    /// What it knows about networks that pods have addresses from.
    fn networks(&self) -> Option<&dyn Networks> {
        None
    }

    /// What it does about routes to pods.
    fn routes(&self) -> Option<&dyn Routes> {
        None
    }

    /// Whether what it says about machines follows into the labels of their nodes.
    fn label_sync(&self) -> Option<&dyn LabelSync> {
        None
    }

    /// What it says to requests of kubelets for serving certificates.
    fn serving_certificates(&self) -> Option<&dyn ServingCertificates> {
        None
    }

    /// What it does for the cluster beside all that.
    fn chores(&self) -> Option<&dyn Chores> {
        None
    }
}

/// Knowledge about machines. Asked about many nodes at once, so that an API with a list call
/// needs few calls.
pub trait Instances: Send + Sync {
    /// One answer for each node, in the same order.
    ///
    /// A node without a provider id is recognised by whatever the cloud trusts (mostly its name)
    /// and is then never [`Lookup::Gone`], unless the cloud claims it ([`Cloud::match_node`]).
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>>;

    /// Whether each machine answers for itself. Asking about many together then saves nothing, and one that
    /// does not answer would hold up the others: questions that arrive together travel apart.
    fn answers_apart(&self) -> bool {
        false
    }

    /// Whether the machines of these nodes exist and run: one answer for each, in the same order. Asked
    /// every few seconds about nodes that are not Ready; what else is in the answers is not used.
    fn presence<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        self.lookup(nodes)
    }

    /// Whether the operator describes the machine of that node, so that nobody asks for it: what is said about it
    /// then proves nothing about the account. Makes no call.
    fn is_declared(&self, node: &Node) -> bool {
        let _ = node;
        false
    }

    /// A cheap read that succeeds only if the cloud answers and the credentials hold. Whether they see the right
    /// account is not its business.
    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_names_are_label_like() {
        for right in ["cloudscale", "exo-1", "a"] {
            assert_eq!(CloudName::parse(right).unwrap().as_str(), right);
        }
        for wrong in ["", "-a", "a-", "A", "a_b", "a.b", &"a".repeat(64)] {
            assert!(CloudName::parse(wrong).is_err(), "{wrong:?} was accepted");
        }
    }
}
