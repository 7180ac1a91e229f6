//! Many clouds in one cluster: all five kinds, two accounts of one of them, and machines that belong to nobody; the
//! real providers and the real manager between an API server and simulated clouds.

mod claims;
mod describing;
mod failures;
mod foreign;
pub(crate) mod harness;
pub(crate) mod machines;
mod nodes;
mod quiet;
pub(crate) mod services;
mod starting;
mod twice;
