//! The specification's cases of Services, end to end: the real manager in this process, an API
//! server, and a cloud of load balancers whose every answer is scripted.

mod apart;
mod audit;
mod changes;
mod deletion;
mod ensure;
mod failures;
mod harness;
mod members;
mod needs;
mod observing;
mod ownership;
mod restart;
mod rights;
mod seeds;
mod unreadable;
mod waiting;
