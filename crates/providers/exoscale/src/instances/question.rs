//! The question that a node poses to the API. Pure.

use bowline_core::{Claim, Node};
use uuid::Uuid;

use crate::config::{InstanceConfig, Override};
use crate::id::{claim, hyphenated, instance_id};

#[derive(Clone, Debug)]
pub(super) enum Question<'a> {
    /// Nothing: it is no instance, and its override describes it.
    External(&'a Override),
    /// What the zone knows about that instance.
    About {
        id: Uuid,
        /// Takes precedence over the API's answer.
        node_override: Option<&'a Override>,
        /// Whether the node was ever known to be this instance's: then, if there is no such
        /// instance, it is gone; otherwise it may be of another cloud.
        known: bool,
    },
    /// Nothing: its provider id is none that this cloud gives.
    Malformed(String),
    /// Nothing: it belongs to another cloud.
    Nothing,
}

pub(super) fn question<'a>(node: &Node, config: &'a InstanceConfig) -> Question<'a> {
    match claim(node, config) {
        Claim::Foreign | Claim::Fallback | Claim::FallbackIfAlone => return Question::Nothing,
        Claim::Malformed(why) => return Question::Malformed(why),
        Claim::Mine => {}
    }
    let provider_id = node.provider_id.as_deref();
    let node_override = config.overrides.find(&node.name, provider_id);
    if let Some(node_override) = node_override.filter(|node_override| node_override.external) {
        return Question::External(node_override);
    }
    let id = match provider_id {
        Some(id) => instance_id(id),
        None => hyphenated(&node.system_uuid),
    };
    id.map_or(Question::Nothing, |id| Question::About {
        id,
        node_override,
        known: provider_id.is_some() || !node.is_uninitialized(),
    })
}
