//! The Triton provider.

pub mod config;
pub mod keys;
pub mod signature;
