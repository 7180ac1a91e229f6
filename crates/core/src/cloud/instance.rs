//! What a cloud knows about a machine, and its answer about one node.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::{CloudError, NodeAddress, NodeMetadata, ProviderId};

/// What a cloud knows of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Instance {
    /// Its id, where the cloud has one.
    pub provider_id: Option<ProviderId>,
    /// Its type (flavour, size); empty if the cloud does not say.
    pub instance_type: String,
    /// Its zone; empty if the cloud does not say.
    pub zone: String,
    /// Its region; empty if the cloud does not say.
    pub region: String,
    /// Its addresses, in the cloud's order.
    pub addresses: Vec<NodeAddress>,
    /// Whether it runs.
    pub power: Power,
    /// Further labels for its node: set once, when it is initialised, and only where there is none. Those that the
    /// cloud [holds](crate::LabelSync::holds) follow from then on.
    pub extra_labels: BTreeMap<String, String>,
    /// What its node is to carry beside that, from then on.
    pub marks: NodeMetadata,
}

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Power {
    /// It runs.
    On,
    /// The cloud says that it is powered off.
    Off,
    /// It is between states, or the cloud does not say.
    #[default]
    Unclear,
}

/// A cloud's answer about one node.
#[derive(Debug)]
pub enum Lookup {
    /// This is its machine.
    Found(Box<Instance>),
    /// The cloud said, about that very id, that there is no such machine.
    Gone(Evidence),
    /// No machine of this cloud: leave the node alone.
    NotMine,
    /// There is no answer; nothing may be concluded.
    CannotTell(CloudError),
}

/// Why a machine is believed to be gone: what the cloud was asked, what it said, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The question and the answer, in words: `GET v1/servers/… answered 404`.
    pub text: String,
    /// When the answer came.
    pub at: Timestamp,
}
