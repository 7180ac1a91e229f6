//! CloudAPI of one data center. Thin: nothing here decides what is to be done.
//!
//! ```text
//!  Api ─▶ Client (of the credentials in use) ─▶ bowline-http: limit, sign, send, try again
//!   ├─ a clock that is too far off: learned from the answer, asked once more
//!   ├─ maintenance with an end: no write before it
//!   └─ roles: asked for where the server takes them, and nowhere else
//! ```

mod calls;
mod client;
mod error;
mod machine;
mod objects;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::CloudErrorKind;
use bowline_http::{Call, Reply, RetryPolicy};
use jiff::Timestamp;
use tracing::{info, warn};

use crate::lock;

pub use calls::{Deleted, List};
pub use client::{Client, ClientError, Setting};
pub use error::{ApiError, FieldError};
pub use machine::{
    Machine, MachineAction, MachineQuery, MachineRead, MachineState, NewMachine, Nic, TagValue,
};
pub use objects::{
    Account, AccountKey, FirewallRule, Image, Limit, Network, Package, Ping, WantedRule,
};

/// One call with all its attempts and waits: it must end before the two minutes that a look-up of
/// nodes may take.
pub const CALL_DEADLINE: Duration = Duration::from_secs(110);
/// Machines on one page: the most that the server gives.
pub const PAGE: usize = 1000;
/// Pages of machines: 100,000 machines are more than any account has.
pub const MOST_PAGES: usize = 100;

/// What is tried again: six attempts, between them 0.5 s, 1 s, 2 s, 4 s and 8 s, of which up to a
/// half is left to chance, so that many who failed together do not come back together.
pub fn retry_policy() -> RetryPolicy {
    RetryPolicy {
        attempts: 6,
        first_wait: Duration::from_millis(250),
        longest_wait: Duration::from_secs(15),
        jitter: 1.0,
        longest_hint: Duration::from_secs(60),
        // No write is sent in a maintenance, however short it is.
        longest_outage: Duration::ZERO,
    }
}

#[derive(Debug)]
pub struct Api {
    client: Mutex<Arc<Client>>,
    /// No write before this: the server said when its maintenance ends.
    writes_from: Mutex<Option<Timestamp>>,
}

impl Api {
    pub fn new(client: Client) -> Self {
        Self {
            client: Mutex::new(Arc::new(client)),
            writes_from: Mutex::new(None),
        }
    }

    pub fn client(&self) -> Arc<Client> {
        Arc::clone(&lock(&self.client))
    }

    /// Uses another client from now on, also for calls that are tried again.
    pub fn replace(&self, client: Arc<Client>) {
        *lock(&self.client) = client;
    }

    async fn read(&self, make: impl Fn(&Client) -> Call) -> Result<Reply, ApiError> {
        self.client().send(make).await
    }

    async fn write(&self, make: impl Fn(&Client) -> Call) -> Result<Reply, ApiError> {
        let client = self.client();
        self.may_write(client.now())?;
        let sent = client.send(make).await;
        if let Err(error) = &sent {
            self.note_maintenance(error, client.now());
        }
        sent
    }

    fn may_write(&self, now: Timestamp) -> Result<(), ApiError> {
        let mut from = lock(&self.writes_from);
        let Some(moment) = *from else {
            return Ok(());
        };
        let left = Duration::try_from(moment.duration_since(now)).unwrap_or_default();
        if left.is_zero() {
            *from = None;
            return Ok(());
        }
        let why = format!("CloudAPI is in maintenance until {moment}: nothing is written");
        Err(ApiError::held(CloudErrorKind::Unavailable, why, Some(left)))
    }

    fn note_maintenance(&self, error: &ApiError, now: Timestamp) {
        let hint = error.retry_hint().filter(|_| error.is_maintenance());
        if let Some(hint) = hint
            && let Ok(end) = now.saturating_add(hint)
        {
            info!(until = %end, "CloudAPI is in maintenance");
            *lock(&self.writes_from) = Some(end);
        }
    }
}

impl Client {
    /// Sends a call. A refusal because of the clock is a lesson: the difference is kept, and the
    /// call is sent once more, which is safe, because the refused one was not looked at.
    pub(crate) async fn send(&self, make: impl Fn(&Self) -> Call) -> Result<Reply, ApiError> {
        let error = match make(self).send().await {
            Ok(reply) => return Ok(reply),
            Err(error) => ApiError::from(error),
        };
        let learned = error
            .servers_date()
            .and_then(|date| self.offset().learn(date, self.now()));
        let Some(offset) = learned else {
            return Err(error);
        };
        let seconds = offset.as_secs();
        let side = if seconds < 0 { "ahead of" } else { "behind" };
        let seconds = seconds.abs();
        warn!("this clock is {seconds} s {side} CloudAPI's; requests are dated accordingly");
        Ok(make(self).send().await?)
    }
}
