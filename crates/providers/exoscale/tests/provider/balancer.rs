//! Load balancers of Services.

mod calls;
mod create;
mod external;
mod faults;
mod harness;
mod remove;
mod seeds;
mod shared;
mod update;
