//! What has to be asked about a node. Pure.

use bowline_core::{Claim, Node};
use uuid::Uuid;

use crate::config::{InstanceConfig, Override};
use crate::id::{claim, hyphenated, instance_id};

#[derive(Clone, Debug)]
pub(super) enum Question<'a> {
    /// Nothing: it is no instance, and the operator says what it is.
    External(&'a Override),
    /// What the zone knows about that instance.
    About {
        id: Uuid,
        /// What the operator says beside.
        said: Option<&'a Override>,
        /// Whether the node was ever known to be this instance's: then, if there is no such
        /// instance, it is gone, and else it may be anybody's.
        known: bool,
    },
    /// Nothing: its provider id is none that this cloud gives.
    Malformed(String),
    /// Nothing: it is somebody else's.
    Nothing,
}

pub(super) fn question<'a>(node: &Node, config: &'a InstanceConfig) -> Question<'a> {
    match claim(node, config) {
        Claim::Foreign | Claim::Fallback | Claim::FallbackIfAlone => return Question::Nothing,
        Claim::Malformed(why) => return Question::Malformed(why),
        Claim::Mine => {}
    }
    let provider_id = node.provider_id.as_deref();
    let said = config.overrides.find(&node.name, provider_id);
    if let Some(said) = said.filter(|said| said.external) {
        return Question::External(said);
    }
    let id = match provider_id {
        Some(id) => instance_id(id),
        None => hyphenated(&node.system_uuid),
    };
    id.map_or(Question::Nothing, |id| Question::About {
        id,
        said,
        known: provider_id.is_some() || !node.is_uninitialized(),
    })
}
