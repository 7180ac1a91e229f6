//! Faults: what is made to go wrong, at the level of whole calls.

use std::sync::{Arc, Mutex};

/// The shared table of faults.
#[derive(Clone, Debug, Default)]
pub struct Faults(#[expect(dead_code, reason = "filled in next")] Arc<Mutex<()>>);
