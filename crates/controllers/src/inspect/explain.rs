//! `bowline explain`: which cloud manages a node or serves a Service, and why. Reads the objects once,
//! asks the clouds that could have a node's machine, and writes nothing.

mod report;
mod service;
mod text;
mod warnings;

use std::sync::Arc;

use bowline_core::ownership::{CloudCandidate, Recognition, Unowned};
use bowline_core::{
    Claim, Cloud, CloudError, CloudName, DescribePolicy, Lookup, Node, Ownership, error_chain,
    node_of,
};
use futures::future::join_all;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Api;
use kube::api::ListParams;

use crate::clouds::accounts::{Accounts, Departed};
use crate::clouds::cloud_health::CloudHealth;
use crate::clouds::machines::Machines;
use crate::clouds::owners::OwnerDiscovery;
use crate::clouds::resolver::{CloudRules, OwnershipResolver};
use crate::inspect::departed::departed;
use crate::kube::csr_store::Requested;
use crate::kube::election::{Fence, LeaseName};
use crate::kube::events::{certificate_reference, lease_reference, node_reference};
use crate::kube::objects::{CertificateObject, DeserializeGuard, NodeObject};
use crate::kube::store::Stored as _;
use tokio_util::sync::CancellationToken;

pub use self::service::{ServiceExplanation, explain_service};
pub use self::warnings::Warnings;

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The API server did not give it.
    #[error("reading {what} failed: {why}")]
    Read {
        /// What was read.
        what: String,
        why: String,
    },
    /// There is no such object.
    #[error("there is no {0}")]
    Missing(String),
}

pub(super) fn unread(what: String) -> impl FnOnce(kube::Error) -> ExplainError {
    move |error| ExplainError::Read {
        what,
        why: match error {
            // With all that the API server says beside it, nobody would find the message.
            kube::Error::Api(status) => status.message,
            other => error_chain(&other),
        },
    }
}

/// Which cloud manages a node, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub node: String,
    pub provider_id: Option<String>,
    /// Whether it waits for a cloud.
    pub waits: bool,
    /// What each cloud says.
    pub clouds: Vec<Testimony>,
    /// Its owner.
    pub owner: Ownership,
    /// Who says what it is.
    pub describer: Ownership,
    /// What was refused or held back for it lately, and for the manager as a whole.
    pub warnings: Warnings,
}

/// What a cloud says about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// What is known without asking it.
    pub candidate: CloudCandidate,
    /// What kind of cloud it is.
    pub provider: &'static str,
    /// How it recognises machines, if not by name.
    pub recognises_by: Option<&'static str>,
    /// Whether the node has a provider id at all.
    pub has_id: bool,
    /// Whether it describes the node.
    pub describe_policy: DescribePolicy,
    /// What it answered, if it was asked.
    pub answer: Option<InstanceAnswer>,
}

/// What a cloud answered about the machine of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceAnswer {
    Has,
    /// It had it, and it is gone; the text is the evidence.
    Gone(String),
    /// It has none.
    NotMine,
    /// It cannot tell; the text is the error.
    CannotTell(String),
}

impl InstanceAnswer {
    fn recognition(&self) -> Recognition {
        match self {
            Self::Has => Recognition::Mine,
            Self::Gone(_) | Self::NotMine => Recognition::NotMine,
            Self::CannotTell(why) => Recognition::CannotTell(why.clone()),
        }
    }
}

impl From<Lookup> for InstanceAnswer {
    fn from(lookup: Lookup) -> Self {
        match lookup {
            Lookup::Found(_) => Self::Has,
            Lookup::Gone(evidence) => Self::Gone(evidence.text),
            Lookup::NotMine => Self::NotMine,
            Lookup::CannotTell(error) => Self::CannotTell(CloudError::chain(&error)),
        }
    }
}

/// Says who looks after the node of that name among these clouds.
pub async fn explain_node(
    client: &kube::Client,
    clouds: &[Arc<dyn Cloud>],
    rules: Arc<CloudRules>,
    name: &str,
    lease: &LeaseName,
) -> Result<Explanation, ExplainError> {
    // All of them: another Node may show the same machine.
    let api = Api::<DeserializeGuard<NodeObject>>::all(client.clone());
    let read = api.list(&ListParams::default()).await;
    let objects = read.map_err(unread("the Nodes".to_owned()))?.items;
    let mut nodes: Vec<Arc<Node>> = Vec::new();
    for object in objects {
        match object.0 {
            Ok(object) => nodes.push(Arc::new(object.into())),
            // Another one that cannot be read is no reason to say nothing about this one.
            Err(broken) if broken.metadata.name.as_deref() == Some(name) => {
                return Err(ExplainError::Read {
                    what: format!("the Node {name}"),
                    why: broken.error,
                });
            }
            Err(_) => {}
        }
    }
    let node = nodes.iter().find(|it| it.name == name);
    let node = node.ok_or_else(|| ExplainError::Missing(format!("Node {name}")))?;
    let objects = [node_reference(node), manager(lease)];
    let mut warnings = Warnings::about(client, &objects).await;
    if clouds.iter().any(|it| it.serving_certificates().is_some()) {
        match pending_requests(client, name).await {
            Ok(requests) => warnings.extend(Warnings::about(client, &requests).await),
            Err(error) => warnings.lack(&error),
        }
    }
    let departed = departed_of(client, lease, clouds, &mut warnings).await;
    let resolver = OwnershipResolver::seeing(clouds, rules, (Machines::of(&nodes), departed));
    Ok(explain(node, &resolver, warnings).await)
}

/// Accounts that left the configuration. That they cannot be read is part of the answer.
async fn departed_of(
    client: &kube::Client,
    lease: &LeaseName,
    clouds: &[Arc<dyn Cloud>],
    warnings: &mut Warnings,
) -> Departed {
    let departed = departed(client, lease, clouds).await;
    departed.unwrap_or_else(|error| {
        warnings.lack(&error);
        Departed::new()
    })
}

/// What events about the manager as a whole are about.
fn manager(lease: &LeaseName) -> ObjectReference {
    lease_reference(&lease.namespace, &lease.name)
}

/// A node's requests for a serving certificate that nobody has decided.
async fn pending_requests(
    client: &kube::Client,
    node: &str,
) -> Result<Vec<ObjectReference>, ExplainError> {
    let api = Api::<CertificateObject>::all(client.clone());
    let of_kubelets = Requested::fields().unwrap_or_default();
    let read = api.list(&ListParams::default().fields(&of_kubelets)).await;
    let all = read.map_err(unread("the certificate requests".to_owned()))?;
    let all = all.into_iter().map(Requested::from);
    let pending = all
        .filter(|it| it.conditions.is_empty() && node_of(&it.username) == Some(node))
        .map(|it| certificate_reference(&it));
    Ok(pending.collect())
}

/// Those who decide for the manager, for who looks at a cluster only once.
fn owners(resolver: &OwnershipResolver, stop: &CancellationToken) -> OwnerDiscovery {
    let (cloud_health, accounts) = (CloudHealth::default(), Accounts::default());
    OwnerDiscovery::asking(resolver, &cloud_health, &accounts, &Fence::open(), stop)
}

async fn explain(
    node: &Arc<Node>,
    resolver: &OwnershipResolver,
    warnings: Warnings,
) -> Explanation {
    let stop = CancellationToken::new();
    let _ends = stop.clone().drop_guard();
    let owners = owners(resolver, &stop);
    let asked: Vec<CloudName> = owners.asked_about(node);
    let testimonies = resolver.clouds().iter().zip(resolver.candidates(node));
    let testimonies = testimonies.map(|(cloud, candidate)| async {
        let is_asked = asked.contains(&candidate.name)
            || candidate.claim == Claim::Mine
            || node.provider_id.is_none();
        let batcher = owners.of(&candidate.name).filter(|_| is_asked);
        let lookup = match batcher {
            Some(batcher) => Some(batcher.ask_one(node.clone()).await),
            None => None,
        };
        // Another Node may have the machine that is found for this one.
        let holder = lookup.as_ref().and_then(|it| owners.holder(node, it));
        let testimony = Testimony {
            candidate,
            provider: cloud.provider(),
            recognises_by: cloud.recognises_by(),
            has_id: node.provider_id.is_some(),
            describe_policy: cloud.match_node(node).describes,
            answer: lookup.map(InstanceAnswer::from),
        };
        (testimony, holder)
    });
    let (clouds, holders): (Vec<Testimony>, Vec<_>) =
        join_all(testimonies).await.into_iter().unzip();
    let answer = |name: &CloudName| {
        let said = clouds.iter().find(|it| it.candidate.name == *name)?;
        Some(said.answer.as_ref()?.recognition())
    };
    let answers: Vec<(CloudName, Recognition)> = asked
        .iter()
        .filter_map(|name| Some((name.clone(), answer(name)?)))
        .collect();
    let owner = owners.verdict(node, &answers);
    let describer = owners.describer_given(node, &owner);
    let held = |decided: Ownership| {
        let Ownership::Owned { by, .. } = &decided else {
            return decided;
        };
        let mut all = clouds.iter().zip(&holders);
        let older =
            all.find_map(|(it, holder)| holder.clone().filter(|_| it.candidate.name == *by));
        match older {
            Some(older) if node.provider_id.is_none() => {
                Ownership::Nobody(Unowned::ClaimedTwice(older))
            }
            _ => decided,
        }
    };
    let (owner, describer) = (held(owner), held(describer));
    Explanation {
        node: node.name.clone(),
        provider_id: node.provider_id.as_ref().map(ToString::to_string),
        waits: node.is_uninitialized(),
        describer,
        owner,
        clouds,
        warnings,
    }
}
