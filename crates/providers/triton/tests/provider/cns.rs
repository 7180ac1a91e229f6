//! Mode `cns`: a DNS name of the nodes.

mod crashes;
mod create;
mod faults;
mod harness;
mod names;
mod targets;
mod update;
