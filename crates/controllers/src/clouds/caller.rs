//! The gate of every cloud call: none starts without a valid lease, and each has a deadline.
//!
//! The fence is checked whenever the call continues, so that no further request follows once the lease
//! is lost. A request that was sent may still take effect.

use std::fmt::Display;
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};

use crate::kube::election::Fence;

/// No call takes longer. Each request inside has a shorter deadline of its own; this one is for a provider that
/// forgot it.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// Calls clouds. Callers report cloud health themselves, since it depends on the purpose of the call.
#[derive(Clone)]
pub struct CloudCaller {
    fence: Fence,
    deadline: Duration,
}

impl CloudCaller {
    pub fn new(fence: Fence) -> Self {
        Self {
            fence,
            deadline: DEADLINE,
        }
    }

    /// The same for calls that are worth another wait.
    #[must_use]
    pub fn within(&self, deadline: Duration) -> Self {
        Self {
            fence: self.fence.clone(),
            deadline,
        }
    }

    /// Whether nothing may be changed.
    pub fn is_observing(&self) -> bool {
        self.fence.is_observing()
    }

    /// A call that changes nothing: an observer may make as many as it likes. `what` begins a sentence.
    ///
    /// Chores come this way, too: an observer runs them, and they ask `Cluster::is_observing` before they
    /// write.
    pub async fn read<T>(
        &self,
        what: impl Display,
        call: impl Future<Output = T>,
    ) -> Result<T, CloudError> {
        if self.is_observing() {
            return self.through(&Fence::open(), what, call).await;
        }
        self.through(&self.fence, what, call).await
    }

    /// A call that changes something.
    pub async fn write<T>(
        &self,
        what: impl Display,
        call: impl Future<Output = T>,
    ) -> Result<T, CloudError> {
        self.through(&self.fence, what, call).await
    }

    async fn through<T>(
        &self,
        fence: &Fence,
        what: impl Display,
        call: impl Future<Output = T>,
    ) -> Result<T, CloudError> {
        let unavailable = |text: String| CloudError::new(CloudErrorKind::Unavailable, text);
        match fence
            .during(async { tokio::time::timeout(self.deadline, call).await })
            .await
        {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => Err(unavailable(format!(
                "{what} took longer than {:?}",
                self.deadline
            ))),
            Err(fenced) => {
                Err(unavailable(format!("{what} was not begun or not finished")).caused_by(fenced))
            }
        }
    }
}
