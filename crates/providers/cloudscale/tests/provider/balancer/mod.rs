//! Load balancers: a Service, its nodes, and the simulated cloud.

mod calls;
mod create;
mod defects;
mod failures;
mod identity;
mod inventory;
mod monitors;
mod ports;
mod seeds;
mod shop;
mod update;
