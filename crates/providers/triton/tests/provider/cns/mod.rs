//! Mode `cns`: a DNS name of the nodes.

mod create;
mod faults;
mod members;
mod names;
mod update;
