//! Metrics of machines, with the simulated metrics service.

mod discovery;
mod export;
mod harness;
