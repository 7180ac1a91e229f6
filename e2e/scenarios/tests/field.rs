//! Disasters from the field, replayed: what other controller managers destroyed, or could not get out of, with the real
//! providers on their simulated clouds. Each scenario names the report that it is made from.

mod balancers;
mod crashes;
mod harness;
mod nodes;
mod vanished;
