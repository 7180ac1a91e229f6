//! Mode `cns`: a DNS name of the nodes.

mod crashes;
mod create;
mod faults;
mod members;
mod names;
mod shop;
mod update;
