//! The Triton provider.

pub mod api;
pub mod config;
pub mod keys;
pub mod signature;
#[cfg(test)]
mod testing;
