//! Triton through the whole manager: the real provider and the real manager between an API server and a simulated
//! data center, with the rights that its specification names and no others.

mod balancers;
mod harness;
mod lifecycle;
mod metrics;
mod nodes;
mod rights;
mod seeds;
pub(crate) mod service_harness;
mod services;
