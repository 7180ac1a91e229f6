//! Services and their load balancers: the cases that need the whole manager.

mod creation;
mod deletion;
mod faults;
mod rotation;
mod seeds;
pub(crate) mod service_harness;

use crate::exoscale::harness;
