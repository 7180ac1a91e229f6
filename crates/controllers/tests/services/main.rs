//! The specification's cases of Services, end to end: the real manager in this process, a
//! simulated API server over pipes, and a cloud of load balancers whose every answer can be
//! scripted.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

mod audit;
mod balancers;
mod bench;
mod changes;
mod cloud;
mod deletion;
mod ensure;
mod failures;
mod members;
mod observing;
mod ownership;
mod restart;
mod rights;
mod seeds;
mod waiting;
