//! What must be known before anything is destroyed, taken or certified: the numbered cases of that specification
//! that need a manager, end to end.

mod account;
mod balancers;
mod certificates;
mod exoscale;
mod services;
mod serving;
mod stores;
mod targets;
mod triton;
