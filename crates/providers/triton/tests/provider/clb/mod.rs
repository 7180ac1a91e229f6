//! Mode `clb`: load balancer machines.

mod create;
mod modes;
mod remove;
mod share;
mod shop;
mod update;
