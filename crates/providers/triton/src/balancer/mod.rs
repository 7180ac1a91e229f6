//! Services of type LoadBalancer.

pub(crate) mod clb;
pub(crate) mod firewall;
