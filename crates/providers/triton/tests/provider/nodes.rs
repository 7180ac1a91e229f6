//! Nodes and their machines.

mod credentials;
mod events;
mod existence;
mod feed;
mod harness;
mod machines;
