//! Mode `clb`: load balancer machines.

mod create;
mod harness;
mod modes;
mod remove;
mod shared_appliance;
mod update;
