//! The journal: every call to every simulated server, in order.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use tokio::sync::watch;

use crate::glob;

/// Calls that are kept; beyond it the oldest go and are counted.
///
/// A run of 2,000 nodes for an hour makes some 50,000 calls of about 1 KiB: 100,000 of them stay
/// near 100 MiB.
pub const MOST_ENTRIES: usize = 100_000;

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// When it was answered; for a stream, when it began.
    pub time: jiff::Timestamp,
    pub arrived: jiff::Timestamp,
    /// How many calls to the same server were under way when it arrived, itself included.
    pub concurrent: u32,
    /// Which simulated server: `kubernetes`, or the name of a cloud.
    pub server: String,
    pub method: String,
    /// The API's own name of the call, where it has names; empty if not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// Path without the query.
    pub path: String,
    /// Query without the question mark; empty if there was none.
    pub query: String,
    /// The request's body: JSON where it is JSON, else text.
    pub body: serde_json::Value,
    /// Status of the answer; 0 if the connection was cut instead, or no answer ever came.
    pub status: u16,
    /// Who called: the authenticated user, or the project of the token; empty if unknown.
    pub caller: String,
    /// The fault rule that struck this call, by name; empty if none did.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fault: String,
}

impl Entry {
    /// Whether the call could have changed something.
    pub fn is_mutating(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }

    /// The call as one line of a transcript.
    pub fn line(&self) -> String {
        let mut line = format!(
            "{} {} {} {}",
            self.time, self.server, self.method, self.path
        );
        if !self.query.is_empty() {
            let _ = write!(line, "?{}", self.query);
        }
        let _ = write!(line, " -> {}", self.status);
        if !self.caller.is_empty() {
            let _ = write!(line, " caller={}", self.caller);
        }
        if !self.fault.is_empty() {
            let _ = write!(line, " fault={}", self.fault);
        }
        if !self.body.is_null() {
            let _ = write!(line, " {}", self.body);
        }
        line
    }
}

/// Which calls are meant. An absent part means any; several parts must all hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    server: Option<String>,
    method: Option<String>,
    operation: Option<String>,
    path: Option<String>,
    query: Option<String>,
    status: Option<u16>,
    caller: Option<String>,
    mutating: bool,
}

impl Filter {
    pub fn any() -> Self {
        Self::default()
    }

    /// Whether the call is meant.
    pub fn matches(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|w| w == value);
        let fits = |wanted: &Option<String>, value: &str| {
            wanted.as_ref().is_none_or(|w| glob::fits(w, value))
        };
        is(&self.server, &entry.server)
            && is(&self.method, &entry.method)
            && is(&self.caller, &entry.caller)
            && fits(&self.operation, &entry.operation)
            && fits(&self.path, &entry.path)
            && fits(&self.query, &entry.query)
            && self.status.is_none_or(|status| status == entry.status)
            && (!self.mutating || entry.is_mutating())
    }
}

crate::setters! { Filter:
    server(name: &str) |filter| filter.server = Some(name.to_owned());
    method(method: &str) |filter| filter.method = Some(method.to_ascii_uppercase());
    /// Calls that the API itself names so, or whose names fit a pattern with `*`.
    operation(pattern: &str) |filter| filter.operation = Some(pattern.to_owned());
    /// Calls whose path fits a pattern with `*`.
    path(pattern: &str) |filter| filter.path = Some(pattern.to_owned());
    /// Calls whose query fits a pattern with `*`.
    query(pattern: &str) |filter| filter.query = Some(pattern.to_owned());
    /// Calls that were answered with that status (0: cut).
    status(status: u16) |filter| filter.status = Some(status);
    /// Calls made by that caller.
    caller(caller: &str) |filter| filter.caller = Some(caller.to_owned());
    /// Only calls that could have changed something.
    mutating() |filter| filter.mutating = true;
}

/// The shared, append-only list of calls.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    /// How many calls were ever recorded.
    total: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<Entry>,
    dropped: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self(Arc::new(Shared {
            kept: Mutex::default(),
            total: watch::Sender::new(0),
        }))
    }
}

impl Journal {
    /// Appends a call, and drops the oldest one if there are too many.
    pub fn record(&self, entry: Entry) {
        {
            let mut kept = self.lock();
            if kept.entries.len() >= MOST_ENTRIES {
                kept.entries.pop_front();
                kept.dropped += 1;
            }
            kept.entries.push_back(entry);
        }
        self.0.total.send_modify(|total| *total += 1);
    }

    /// All calls that are kept, oldest first.
    pub fn entries(&self) -> Vec<Entry> {
        self.lock().entries.iter().cloned().collect()
    }

    /// The calls that are meant, oldest first.
    pub fn matching(&self, filter: &Filter) -> Vec<Entry> {
        let kept = self.lock();
        let meant = kept.entries.iter().filter(|entry| filter.matches(entry));
        meant.cloned().collect()
    }

    /// Takes out all calls that are kept, oldest first: for runs with more calls than are kept.
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.lock()).entries.into()
    }

    /// How many calls are meant.
    pub fn count(&self, filter: &Filter) -> usize {
        let kept = self.lock();
        let meant = kept.entries.iter().filter(|entry| filter.matches(entry));
        meant.count()
    }

    /// How many calls were dropped because there were too many.
    pub fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Forgets all calls.
    pub fn clear(&self) {
        *self.lock() = Kept::default();
    }

    /// Changes with every recorded call; the value counts all calls ever recorded.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.total.subscribe()
    }

    /// Waits until at least `count` of the meant calls are in the journal, and returns them.
    pub async fn wait_for(&self, filter: &Filter, count: usize) -> Vec<Entry> {
        let mut total = self.subscribe();
        loop {
            total.mark_unchanged();
            let found = self.matching(filter);
            // The sender lives in `self`, so the channel cannot be closed.
            if found.len() >= count || total.changed().await.is_err() {
                return found;
            }
        }
    }

    /// One line per call, always the same for the same calls: for comparing runs byte by byte.
    pub fn transcript(&self) -> String {
        let kept = self.lock();
        kept.entries
            .iter()
            .map(|entry| entry.line() + "\n")
            .collect()
    }

    /// One JSON object per line.
    pub fn json_lines(&self) -> String {
        let kept = self.lock();
        let lines = kept
            .entries
            .iter()
            .filter_map(|entry| serde_json::to_string(entry).ok());
        lines.map(|line| line + "\n").collect()
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(method: &str, path: &str, status: u16) -> Entry {
        Entry {
            time: "2026-02-03T08:15:30Z".parse().unwrap(),
            arrived: "2026-02-03T08:15:29Z".parse().unwrap(),
            concurrent: 1,
            server: "demo-cloud".to_owned(),
            method: method.to_owned(),
            operation: String::new(),
            path: path.to_owned(),
            query: String::new(),
            body: serde_json::Value::Null,
            status,
            caller: "demo".to_owned(),
            fault: String::new(),
        }
    }

    #[test]
    fn calls_are_counted_by_filter() {
        let journal = Journal::default();
        journal.record(entry("GET", "/v1/servers", 200));
        journal.record(entry("GET", "/v1/servers/1", 404));
        journal.record(entry("PATCH", "/v1/servers/1", 204));
        for (filter, expected) in [
            (Filter::any(), 3),
            (Filter::any().server("kubernetes"), 0),
            (Filter::any().method("get"), 2),
            (Filter::any().path("/v1/servers/*"), 2),
            (Filter::any().path("/v1/servers/*").method("PATCH"), 1),
            (Filter::any().status(404), 1),
            (Filter::any().mutating(), 1),
            (Filter::any().caller("demo").query(""), 3),
        ] {
            assert_eq!(journal.count(&filter), expected, "{filter:?}");
        }
        journal.clear();
        assert_eq!(journal.count(&Filter::any()), 0);
    }

    #[test]
    fn the_oldest_calls_go_first_and_are_counted() {
        let journal = Journal::default();
        for number in 0..MOST_ENTRIES + 3 {
            journal.record(entry("GET", &format!("/{number}"), 200));
        }
        assert_eq!(journal.dropped(), 3);
        assert_eq!(journal.entries().len(), MOST_ENTRIES);
        assert_eq!(journal.entries()[0].path, "/3");
    }

    #[test]
    fn a_transcript_has_one_line_per_call() {
        let journal = Journal::default();
        let mut call = entry("POST", "/v1/servers", 201);
        call.body = json!({"name": "a\nb"});
        call.query = "x=1".to_owned();
        call.fault = "slow".to_owned();
        journal.record(call);
        assert_eq!(
            journal.transcript(),
            "2026-02-03T08:15:30Z demo-cloud POST /v1/servers?x=1 -> 201 caller=demo fault=slow \
             {\"name\":\"a\\nb\"}\n"
        );
        let line: serde_json::Value = serde_json::from_str(journal.json_lines().trim()).unwrap();
        assert_eq!(line["body"]["name"], "a\nb");
        assert_eq!(line["time"], "2026-02-03T08:15:30Z");
    }

    #[tokio::test]
    async fn a_call_can_be_awaited() {
        let journal = Journal::default();
        journal.record(entry("GET", "/a", 200));
        let later = journal.clone();
        let waiting =
            tokio::spawn(async move { later.wait_for(&Filter::any().path("/b"), 2).await });
        for path in ["/b", "/c", "/b"] {
            tokio::task::yield_now().await;
            journal.record(entry("GET", path, 200));
        }
        assert_eq!(waiting.await.unwrap().len(), 2);
    }
}
