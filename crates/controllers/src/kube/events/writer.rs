//! The one task per recorder that writes events to the API server.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, Patch, PatchParams, PostParams};
use tokio::sync::{mpsc, oneshot};

use super::{Action, Correlator, EventContext};
use crate::kube::election::Fenced;

/// How often a write is tried when the server cannot be reached.
const TRIES: u32 = 12;
/// The pause between two tries; the first one is a random part of it, so that the writers of many
/// processes do not come back in step.
const PAUSE: Duration = Duration::from_secs(10);
/// How long one call may take: the client itself would wait for ever on a half-open connection.
const CALL_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) enum Message {
    Event(Box<Event>),
    Flush(oneshot::Sender<()>),
}

/// What came of one try.
enum WriteOutcome {
    Written,
    /// The server answered with an error: final.
    Refused(String),
    /// The lease is no longer ours: final too.
    Fenced,
    /// Nobody answered.
    Unreachable(String),
}

pub(super) async fn run(
    client: kube::Client,
    component: &'static str,
    context: EventContext,
    mut messages: mpsc::Receiver<Message>,
) {
    let mut correlator = Correlator::default();
    while let Some(message) = messages.recv().await {
        match message {
            Message::Event(event) => {
                let action = correlator.observe(*event, context.clock.now());
                if action == Action::Drop {
                    context.metrics.events.dropped(component, "too_many");
                } else {
                    write(&client, component, &context, &action).await;
                }
            }
            Message::Flush(done) => {
                // Nobody waiting any more is fine.
                let _ = done.send(());
            }
        }
    }
}

async fn write(
    client: &kube::Client,
    component: &'static str,
    context: &EventContext,
    action: &Action,
) {
    for tried in 1..=TRIES {
        match perform(client, action).await {
            WriteOutcome::Written => return,
            WriteOutcome::Refused(error) => {
                tracing::warn!(component, error, "event refused by the API server, dropped");
                context.metrics.events.dropped(component, "refused");
                return;
            }
            WriteOutcome::Fenced => {
                tracing::debug!(component, "event dropped: the lease is no longer ours");
                context.metrics.events.dropped(component, "fenced");
                return;
            }
            WriteOutcome::Unreachable(error) => {
                tracing::debug!(component, error, tried, "event not written");
            }
        }
        let pause = match tried {
            TRIES => break,
            1 => PAUSE.mul_f64(context.random.unit()),
            _ => PAUSE,
        };
        tokio::time::sleep(pause).await;
    }
    tracing::warn!(component, "API server not reached, event dropped");
    context.metrics.events.dropped(component, "unreachable");
}

async fn perform(client: &kube::Client, action: &Action) -> WriteOutcome {
    match action {
        Action::Drop => WriteOutcome::Written,
        Action::Create(event) => outcome(create(client, event).await),
        Action::Patch { patch, event } => {
            let api = api(client, event);
            let name = event.metadata.name.as_deref().unwrap_or_default();
            let (parameters, patch) = (PatchParams::default(), Patch::Strategic(patch));
            let call = api.patch(name, &parameters, &patch);
            match limited(call).await {
                Err(Failure::Status(404, _)) => outcome(create(client, event).await),
                other => outcome(other),
            }
        }
    }
}

enum Failure {
    Status(u16, String),
    Fenced,
    NoAnswer(String),
}

async fn create(client: &kube::Client, event: &Event) -> Result<(), Failure> {
    limited(api(client, event).create(&PostParams::default(), event)).await
}

async fn limited(call: impl Future<Output = kube::Result<Event>>) -> Result<(), Failure> {
    match tokio::time::timeout(CALL_LIMIT, call).await {
        Ok(Err(kube::Error::Api(status))) => {
            Err(Failure::Status(status.code, status.message.clone()))
        }
        // An answer that is no event: the server has the event all the same.
        Ok(Ok(_) | Err(kube::Error::SerdeError(_))) => Ok(()),
        Ok(Err(kube::Error::Service(error))) if error.is::<Fenced>() => Err(Failure::Fenced),
        Ok(Err(error)) => Err(Failure::NoAnswer(error.to_string())),
        Err(_) => Err(Failure::NoAnswer(format!(
            "no answer within {CALL_LIMIT:?}"
        ))),
    }
}

fn outcome(result: Result<(), Failure>) -> WriteOutcome {
    match result {
        Ok(()) => WriteOutcome::Written,
        Err(Failure::Status(code, message)) => WriteOutcome::Refused(format!("{code} {message}")),
        Err(Failure::Fenced) => WriteOutcome::Fenced,
        Err(Failure::NoAnswer(error)) => WriteOutcome::Unreachable(error),
    }
}

fn api(client: &kube::Client, event: &Event) -> Api<Event> {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    Api::namespaced(client.clone(), namespace)
}
