//! Everything that speaks to the API server: clients, leases, stores that follow it, writes and events.

pub mod clients;
pub(crate) mod consistent;
pub(crate) mod csr_store;
pub mod election;
pub(crate) mod encoding;
pub(crate) mod endpoints;
pub mod events;
pub(crate) mod nodes;
pub(crate) mod objects;
pub mod secrets;
pub(crate) mod services;
pub(crate) mod store;
pub(crate) mod write;
