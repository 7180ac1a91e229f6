//! The fence: nobody acts whose lease may have run out.

use std::fmt;
use std::sync::Arc;

/// Asked before every write to the API server and before every call to a cloud.
///
/// With leader election it stands on the time of the last good renewal, by the local clock, so
/// that a process that was frozen for longer than its lease does nothing when it wakes.
#[derive(Clone)]
pub struct Fence(Arc<dyn Fn() -> bool + Send + Sync>);

/// The lease may belong to somebody else by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease was not renewed in time, so another process may be leading")]
pub struct Fenced;

impl Fence {
    /// Open as long as `held` says so.
    pub fn new(held: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(held))
    }

    /// Always open: for runs without leader election.
    pub fn open() -> Self {
        Self::new(|| true)
    }

    /// Whether it is still safe to act.
    pub fn check(&self) -> Result<(), Fenced> {
        if (self.0)() { Ok(()) } else { Err(Fenced) }
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.check().is_ok() {
            "Fence(open)"
        } else {
            "Fence(closed)"
        })
    }
}
