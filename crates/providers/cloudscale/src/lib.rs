//! The cloudscale.ch provider.

pub mod config;
pub mod id;
