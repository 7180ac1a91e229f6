//! Core v1 events: what a user sees in `kubectl describe`.
//!
//! A [`Recorder`] never blocks its caller. It hands events to one writer task, which folds similar
//! ones together ([`Correlator`]) and writes the rest; a stuck write holds back later ones and a full
//! queue drops them, but no controller ever waits for an event.

mod correlate;
mod names;
mod reference;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use bowline_http::{Clock, Random};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::metrics::Metrics;
pub use correlate::{Action, Correlator};
pub use names::{EventNames, event_name};
pub use reference::{
    certificate_reference, lease_reference, node_reference, pod_reference, service_reference,
    versioned_node_reference,
};
use writer::Message;

use crate::report::Fact;

/// Facts that may wait for the writer, half a kilobyte each; further ones are dropped. Events are written one at a time,
/// so that those of many nodes that join at once are written after the nodes.
pub const QUEUE_LIMIT: usize = 20_000;

/// Bytes of a message; a cloud's error page must not fill the event store.
const MESSAGE_LIMIT: usize = 4096;

/// Whether an event is normal or a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Things go as they should.
    Normal,
    /// Somebody may have to look.
    Warning,
}

impl EventType {
    pub const fn warning_if(is_warning: bool) -> Self {
        if is_warning {
            Self::Warning
        } else {
            Self::Normal
        }
    }

    /// As it stands in the object.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// What all recorders of a process share.
#[derive(Clone, Debug)]
pub struct EventContext {
    /// The time of day.
    pub clock: Clock,
    /// For the first pause of a retry, and for names.
    pub random: Random,
    /// Where events and drops are counted.
    pub metrics: Arc<Metrics>,
    /// Keeps names unique when several events fall into one nanosecond.
    pub names: EventNames,
}

impl EventContext {
    /// A context with names of its own.
    pub fn new(clock: Clock, random: Random, metrics: Arc<Metrics>) -> Self {
        Self {
            clock,
            random,
            metrics,
            names: EventNames::default(),
        }
    }
}

/// Records the events of one component; clones share its writer, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: &'static str,
    context: EventContext,
    /// None for an observer, who only logs.
    writer: Option<Writer>,
}

#[derive(Clone, Debug)]
struct Writer {
    queue: mpsc::Sender<Message>,
    task: AbortHandle,
}

impl Recorder {
    /// A recorder for that component (`cloud-node-controller`, …), and its writer task.
    ///
    /// The client should not repeat calls by itself: any answer of the server is final.
    pub fn new(client: kube::Client, component: &'static str, context: &EventContext) -> Self {
        let (queue, messages) = mpsc::channel(QUEUE_LIMIT);
        let writer = tokio::spawn(writer::run(client, component, context.clone(), messages));
        Self {
            component,
            context: context.clone(),
            writer: Some(Writer {
                queue,
                task: writer.abort_handle(),
            }),
        }
    }

    /// A recorder that writes nothing: its events are log lines.
    pub fn observing(component: &'static str, context: &EventContext) -> Self {
        Self {
            component,
            context: context.clone(),
            writer: None,
        }
    }

    /// Writes nothing more, not even what was recorded before.
    pub fn abandon(&self) {
        if let Some(writer) = &self.writer {
            writer.task.abort();
        }
    }

    /// Writes and counts an event. Returns at once, also when nothing can be written.
    pub fn emit(&self, mut fact: Fact) {
        fact.message = shortened(fact.message);
        tracing::debug!(
            component = self.component,
            kind = fact.about.kind.as_deref(),
            name = fact.about.name.as_deref(),
            reason = fact.reason,
            message = fact.message,
            "event"
        );
        let counts = &self.context.metrics.events;
        counts.recorded(self.component, fact.kind.as_str(), fact.reason);
        let Some(writer) = &self.writer else { return };
        let message = Message::Fact(Box::new(fact), self.context.clock.now());
        if writer.queue.try_send(message).is_err() {
            counts.dropped(self.component, "queue_full");
        }
    }

    /// Waits until everything recorded before is written or dropped, at most `limit`. Says whether
    /// that was reached.
    pub async fn flush(&self, limit: Duration) -> bool {
        let Some(Writer { queue, .. }) = &self.writer else {
            return true;
        };
        let (done, reached) = oneshot::channel();
        let wait =
            async { queue.send(Message::Flush(done)).await.is_ok() && reached.await.is_ok() };
        tokio::time::timeout(limit, wait).await.unwrap_or(false)
    }
}

/// Cut to the limit at a character's boundary, with a sign that it was.
fn shortened(mut message: String) -> String {
    if message.len() > MESSAGE_LIMIT {
        let whole = |at: &usize| message.is_char_boundary(*at);
        let end = (0..=MESSAGE_LIMIT).rev().find(whole).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    message
}
