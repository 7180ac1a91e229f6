//! Services of type `LoadBalancer`: who serves one, what its load balancer should be, and the steps from what is
//! found to that.

pub(crate) mod annotation;
pub(crate) mod balancers;
pub(crate) mod builder;
pub(crate) mod change_event;
pub(crate) mod class;
pub(crate) mod exclusion;
pub(crate) mod fingerprint;
pub(crate) mod ingress;
pub(crate) mod needs_update;
pub(crate) mod ownership;
pub(crate) mod plan;
pub(crate) mod preview;
pub(crate) mod progress;
pub mod reconcile;
pub(crate) mod roster;
pub(crate) mod service;
pub(crate) mod source_ranges;
pub mod targets;
