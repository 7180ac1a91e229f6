//! Services and their load balancers: the cases that need the whole manager.

mod changes;
mod crashes;
mod creation;
mod defects;
mod deletion;
mod doubt;
mod drift;
mod identity;
mod leftovers;
mod nodes;
mod replicas;
mod scale;
mod seeds;
mod service_harness;
mod unreadable;
