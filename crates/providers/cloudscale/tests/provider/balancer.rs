//! Load balancers: a Service, its nodes, and the simulated cloud.

mod calls;
mod create;
mod defects;
mod failures;
mod harness;
mod identity;
mod left_out;
mod monitors;
mod ports;
mod proof;
mod resource_states;
mod seeds;
mod unreadable_nodes;
mod update;
