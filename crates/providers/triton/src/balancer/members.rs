//! Which machines serve a Service. Pure.

use std::sync::Arc;

use bowline_core::Node;

use crate::api::Machine;

/// A node that may serve, and its machine.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) node: Arc<Node>,
    pub(crate) machine: Machine,
}
