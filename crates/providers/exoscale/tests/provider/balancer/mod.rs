//! Load balancers of Services.

mod create;
mod external;
mod faults;
mod remove;
mod seeds;
mod shared;
mod shop;
mod update;
