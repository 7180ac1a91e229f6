//! The journal: every call to every simulated server, in order.

use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// When it was answered.
    pub time: jiff::Timestamp,
    /// Which simulated server: `kubernetes`, `cloudscale`, …
    pub server: String,
    /// HTTP method.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query without the question mark; empty if there was none.
    pub query: String,
    /// The request's body: JSON where it is JSON, else text.
    pub body: serde_json::Value,
    /// Status of the answer; 0 if the connection was cut instead.
    pub status: u16,
    /// Who called: the authenticated user, or the project of the token; empty if unknown.
    pub caller: String,
}

/// The shared, append-only list of calls.
#[derive(Clone, Debug, Default)]
pub struct Journal(Arc<Mutex<Vec<Entry>>>);

impl Journal {
    /// Appends a call.
    pub fn record(&self, entry: Entry) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(entry);
    }

    /// All calls so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
