//! Bowline's control loops on kube: manager, lease, nodes, life cycle, serving.

pub mod election;
pub mod options;
