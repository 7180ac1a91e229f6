//! Mode `cns`: a DNS name of the nodes.

mod crashes;
mod create;
mod faults;
mod harness;
mod members;
mod names;
mod update;
