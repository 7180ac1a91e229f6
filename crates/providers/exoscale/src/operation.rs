//! Waits for an operation without blocking a worker: when to look again, and what a look shows.
//! Pure; the caller makes the calls and puts the work aside in between.
//!
//! ```text
//!  write ─▶ Operation ─▶ Waiting::begin ─┬─ Done, or an error: it was over at once
//!                                        └─ Wait(after) ─▶ Api::operation ─▶ Waiting::answered ┐
//!                                              ▲─────────────────────────────────────────────┘
//! ```

use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use tokio::time::Instant;
use uuid::Uuid;

use crate::api::{Operation, OperationReference, OperationState};

/// An operation is waited for so long; then the next sync reads what has become of it. Users have
/// seen services of load balancers take more than ten minutes.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);
/// So many looks in a row may fail, whatever the error: the official clients' patience, and enough
/// for a change of credentials.
pub(crate) const FAILED_LOOKS: u32 = 5;
/// Up to here it is looked at every second: most operations take a few seconds, and the original's
/// looks every three seconds are not to find out sooner.
const SOON: Duration = Duration::from_secs(6);
/// The vendor's cadence begins here; before, looks come sooner.
const VENDORS_CADENCE: Duration = Duration::from_secs(30);

/// How long to wait before the next look, given the time since the start; none when it is over.
///
/// Every second up to 6 s, then every 3 s. From 30 s on as the vendor's clients do it: 3 s, rising
/// to 60 s at 15 minutes. The last look comes at the limit.
pub(crate) fn next_look(elapsed: Duration) -> Option<Duration> {
    let left = LIMIT.checked_sub(elapsed).filter(|left| !left.is_zero())?;
    let wait = if elapsed < SOON {
        Duration::from_secs(1)
    } else if elapsed < VENDORS_CADENCE {
        Duration::from_secs(3)
    } else {
        let since = elapsed.as_secs() - VENDORS_CADENCE.as_secs();
        Duration::from_secs((3 + since * 57 / 870).min(60))
    };
    Some(wait.min(left))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    Done,
    /// It is under way; look again after this long.
    Wait(Duration),
}

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    what: String,
    id: Uuid,
    began: Instant,
    failed_looks: u32,
}

impl Waiting {
    /// Takes the first answer of a write, which may be the last. `what` names the write, in
    /// words that follow "waiting for": `creation of load balancer x`.
    pub(crate) fn begin(
        what: impl Into<String>,
        operation: &Operation,
        now: Instant,
    ) -> Result<Option<Self>, CloudError> {
        let what = what.into();
        if succeeded(&what, operation)? {
            return Ok(None);
        }
        let Some(id) = operation.id else {
            let message = format!("{what} was answered with an operation that has no id");
            return Err(CloudError::new(CloudErrorKind::Unknown, message));
        };
        Ok(Some(Self {
            what,
            id,
            began: now,
            failed_looks: 0,
        }))
    }

    pub(crate) fn id(&self) -> Uuid {
        self.id
    }

    pub(crate) fn what(&self) -> &str {
        &self.what
    }

    /// When to look for the first or the next time.
    pub(crate) fn after(&self, now: Instant) -> Result<Duration, CloudError> {
        next_look(now.saturating_duration_since(self.began)).ok_or_else(|| {
            let Self { what, id, .. } = self;
            let limit = LIMIT.as_secs() / 60;
            let message = format!("{what} (operation {id}) is not done after {limit} minutes");
            CloudError::new(CloudErrorKind::Unavailable, message)
        })
    }

    pub(crate) fn answered(
        &mut self,
        answer: Result<Operation, CloudError>,
        now: Instant,
    ) -> Result<Waited, CloudError> {
        match answer {
            Ok(operation) => {
                self.failed_looks = 0;
                if succeeded(&self.what, &operation)? {
                    return Ok(Waited::Done);
                }
            }
            Err(error) => {
                self.failed_looks += 1;
                if self.failed_looks >= FAILED_LOOKS {
                    return Err(error);
                }
            }
        }
        self.after(now).map(Waited::Wait)
    }
}

/// Whether it is done; an error if it never will be. A state that is not known is not over.
fn succeeded(what: &str, operation: &Operation) -> Result<bool, CloudError> {
    let state = match &operation.state {
        OperationState::Success => return Ok(true),
        OperationState::Pending | OperationState::Missing | OperationState::Other(_) => {
            return Ok(false);
        }
        OperationState::Failure => "failure",
        OperationState::Timeout => "timeout",
    };
    let id = operation.id.map(|id| format!(" {id}")).unwrap_or_default();
    let about = operation.reference.as_ref().map(described);
    let about = about.unwrap_or_default();
    let part = |before: &str, text: &Option<String>| {
        let text = text.as_ref().map(|text| format!("{before}{text}"));
        text.unwrap_or_default()
    };
    let reason = part(", reason ", &operation.reason);
    let message = part(": ", &operation.message);
    let text = format!("{what} failed: operation{id}{about}, state {state}{reason}{message}");
    Err(CloudError::new(kind(operation), text))
}

fn described(reference: &OperationReference) -> String {
    let OperationReference { id, command, .. } = reference;
    let command = command.as_deref().unwrap_or_default();
    let id = id.map(|id| id.to_string()).unwrap_or_default();
    format!(" ({})", format!("{command} {id}").trim())
}

/// Which kind of error a failed operation is. Never *not found*: what is missing need not be
/// what was asked about.
fn kind(operation: &Operation) -> CloudErrorKind {
    if operation.state == OperationState::Timeout {
        return CloudErrorKind::Unavailable;
    }
    match operation.reason.as_deref().unwrap_or_default() {
        "busy" | "conflict" => CloudErrorKind::Conflict,
        "forbidden" => CloudErrorKind::Denied,
        "incorrect" | "unsupported" => CloudErrorKind::Invalid,
        "interrupted" | "unavailable" => CloudErrorKind::Unavailable,
        _ => CloudErrorKind::Unknown,
    }
}

#[cfg(test)]
mod tests;
