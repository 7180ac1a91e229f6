//! Load balancers: a Service, its nodes, and the simulated cloud.

mod calls;
mod create;
mod identity;
mod shop;
mod update;
