//! Load balancers: a Service, its nodes, and the simulated cloud.

mod calls;
mod create;
mod defects;
mod doubt;
mod failures;
mod harness;
mod identity;
mod inventory;
mod left_out;
mod monitors;
mod ports;
mod proof;
mod seeds;
mod update;
