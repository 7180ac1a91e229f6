//! A call that the original did not make: a role written for it may not allow it, and there is
//! another way.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use tokio::time::Instant;
use tracing::warn;

/// How long a refusal is taken for an answer: roles are changed by people.
const REFUSED_FOR: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct Permission {
    operation: &'static str,
    instead: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    refused: Option<Instant>,
    reported: bool,
}

impl Permission {
    /// For that operation; `instead` is what is done without it.
    pub(super) fn new(operation: &'static str, instead: &'static str) -> Self {
        Self {
            operation,
            instead,
            state: Mutex::default(),
        }
    }

    /// Whether the call may be tried: it was not refused lately.
    pub(super) fn is_given(&self) -> bool {
        let refused = self.state().refused;
        refused.is_none_or(|at| at.elapsed() >= REFUSED_FOR)
    }

    /// Whether the call failed because the role does not allow it; reported once.
    pub(super) fn was_refused(&self, error: &CloudError) -> bool {
        if error.kind() != CloudErrorKind::Denied {
            return false;
        }
        let mut state = self.state();
        state.refused = Some(Instant::now());
        if !std::mem::replace(&mut state.reported, true) {
            let (operation, instead) = (self.operation, self.instead);
            let error = error.chain();
            warn!(error, "the API key may not {operation}: {instead}");
        }
        true
    }

    /// Other credentials have another role.
    pub(super) fn ask_again(&self) {
        *self.state() = State::default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Log;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_said_once() {
        let (log, _guard) = Log::keep();
        let permission = Permission::new("list-instances", "one by one");
        for _ in 0..3 {
            let denied = CloudError::new(CloudErrorKind::Denied, "GET instance answered 403");
            assert!(permission.was_refused(&denied));
        }
        let text = log.text();
        let reported = "the API key may not list-instances: one by one";
        assert_eq!(text.matches(reported).count(), 1, "{text}");
        assert!(text.contains("answered 403"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_for_a_while_and_only_for_those_credentials() {
        let permission = Permission::new("list-instances", "one by one");
        let denied = CloudError::new(CloudErrorKind::Denied, "no");
        let down = CloudError::new(CloudErrorKind::Unavailable, "down");
        assert!(!permission.was_refused(&down) && permission.is_given());
        assert!(permission.was_refused(&denied) && !permission.is_given());
        permission.ask_again();
        assert!(permission.is_given());
        assert!(permission.was_refused(&denied) && !permission.is_given());
        tokio::time::advance(REFUSED_FOR).await;
        assert!(permission.is_given());
    }
}
