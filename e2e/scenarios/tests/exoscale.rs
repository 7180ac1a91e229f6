//! Exoscale through the whole manager: the real provider and the real manager between an API server
//! and a simulated cloud, with the rights of the original's service account and no others.

pub(crate) mod harness;
mod nodes;
pub(crate) mod services;
