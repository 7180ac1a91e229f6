//! Vocabulary and decisions of the Bowline cloud controller manager. No I/O, no clock, no client.

mod error;
mod secret;

pub use error::{CloudError, CloudErrorKind};
pub use secret::Secret;
