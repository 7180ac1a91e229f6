//! Who looks after a node or serves a Service, and why: what `bowline explain` asks for. Reads the objects once, and
//! for a node the clouds that could have its machine; writes nothing.

mod report;
mod service;
mod text;

use std::sync::Arc;

use bowline_core::ownership::{self, Candidate, Recognition};
use bowline_core::{
    Claim, Cloud, CloudError, CloudName, Lookup, Node, Ownership, Voice, error_chain,
};
use futures::future::join_all;
use kube::Api;

use crate::election::Fence;
use crate::lookups::Lookups;
use crate::objects::NodeObject;
use crate::referee::{CloudRules, Referee};
use crate::stop::stop_signal;

pub use self::service::{ServiceExplanation, explain_service};

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The API server did not give it.
    #[error("reading {what} failed: {why}")]
    Read {
        /// What was read.
        what: String,
        /// Why.
        why: String,
    },
    /// There is no such object.
    #[error("there is no {0}")]
    Missing(String),
}

fn unread(what: String) -> impl FnOnce(kube::Error) -> ExplainError {
    move |error| ExplainError::Read {
        what,
        why: match error {
            // With all that the API server says beside it, nobody would find the message.
            kube::Error::Api(status) => status.message,
            other => error_chain(&other),
        },
    }
}

/// Who looks after a node, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The node.
    pub node: String,
    /// Its provider id.
    pub provider_id: Option<String>,
    /// Whether it waits for a cloud.
    pub waits: bool,
    /// What each cloud says.
    pub clouds: Vec<Testimony>,
    /// Whose it is.
    pub owner: Ownership,
    /// Who says what it is.
    pub describer: Ownership,
}

/// What a cloud says about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// What is known without asking it.
    pub candidate: Candidate,
    /// What kind of cloud it is.
    pub provider: &'static str,
    /// How it recognises machines, if not by name.
    pub recognises_by: Option<&'static str>,
    /// Whether the node has a provider id at all.
    pub has_id: bool,
    /// Whether it describes the node.
    pub voice: Voice,
    /// What it answered, if it was asked.
    pub answer: Option<Answer>,
}

/// What a cloud answered about the machine of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has it.
    Has,
    /// It had it, and it is gone; the text is the evidence.
    Gone(String),
    /// It has none.
    NotMine,
    /// It cannot tell; the text is the error.
    CannotTell(String),
}

impl Answer {
    fn recognition(&self) -> Recognition {
        match self {
            Self::Has => Recognition::Mine,
            Self::Gone(_) | Self::NotMine => Recognition::NotMine,
            Self::CannotTell(why) => Recognition::CannotTell(why.clone()),
        }
    }
}

impl From<Lookup> for Answer {
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
) -> Result<Explanation, ExplainError> {
    let what = format!("Node {name}");
    let read = Api::<NodeObject>::all(client.clone()).get_opt(name).await;
    let object = read.map_err(unread(format!("the {what}")))?;
    let object = object.ok_or(ExplainError::Missing(what))?;
    Ok(explain(&Arc::new(Node::from(object)), clouds, rules).await)
}

async fn explain(
    node: &Arc<Node>,
    clouds: &[Arc<dyn Cloud>],
    rules: Arc<CloudRules>,
) -> Explanation {
    let referee = Referee::new(clouds, rules);
    let (_handle, stop) = stop_signal();
    let testimonies = clouds.iter().zip(referee.candidates(node));
    let testimonies = testimonies.map(|(cloud, candidate)| async {
        let asked = cloud.instances().is_some()
            && (candidate.claim == Claim::Mine || node.provider_id.is_none());
        let answer = if asked {
            let lookups = Lookups::start(cloud.clone(), Fence::open(), &stop);
            Some(lookups.ask_one(node.clone()).await.into())
        } else {
            None
        };
        Testimony {
            candidate,
            provider: cloud.provider(),
            recognises_by: cloud.recognises_by(),
            has_id: node.provider_id.is_some(),
            voice: cloud.voice(node),
            answer,
        }
    });
    let clouds = join_all(testimonies).await;
    let owner = decide(node, &referee, &clouds);
    let voices: Vec<(CloudName, Voice)> = clouds
        .iter()
        .map(|it| (it.candidate.name.clone(), it.voice))
        .collect();
    let describer = ownership::describer(&voices, Some(owner.clone()));
    Explanation {
        node: node.name.clone(),
        provider_id: node.provider_id.as_ref().map(ToString::to_string),
        waits: node.is_uninitialized(),
        describer: describer.unwrap_or_else(|| owner.clone()),
        owner,
        clouds,
    }
}

/// As the manager decides, once it has asked.
fn decide(node: &Node, referee: &Referee, clouds: &[Testimony]) -> Ownership {
    match referee.ownership(node) {
        Some(decided) if !matches!(decided, Ownership::Contested(_)) => return decided,
        _ => {}
    }
    let askable = referee.askable(node);
    let answers: Vec<(CloudName, Recognition)> = clouds
        .iter()
        .filter(|it| askable.contains(&it.candidate.name))
        .filter_map(|it| Some((it.candidate.name.clone(), it.answer.as_ref()?.recognition())))
        .collect();
    ownership::by_recognition(&answers)
}
