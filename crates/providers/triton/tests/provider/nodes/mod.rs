//! Nodes and their machines.

mod credentials;
mod existence;
mod feed;
mod machines;
mod news;
mod stage;
