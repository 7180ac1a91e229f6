//! The Triton provider.

pub mod keys;
pub mod signature;
