//! Nodes and their machines.

mod credentials;
mod existence;
mod feed;
mod harness;
mod machines;
mod news;
