//! The process as a whole: the real manager against the simulated API server, over real TLS sockets
//! where the serving side matters and over pipes on a paused clock where time does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

mod cloud;
mod harness;
mod https;
mod observing;
mod serving;
mod starting;
mod watching;
#[path = "../../src/serving/tests/witness.rs"]
mod witness;
