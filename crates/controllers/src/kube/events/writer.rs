//! The one task per recorder that writes events to the API server.

use std::time::Duration;

use http::Request;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Resource as _;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::core::Status;
use tokio::sync::{mpsc, oneshot};

use super::{Action, Correlator, EventContext};
use crate::kube::election::Fenced;
use crate::report::Fact;

/// How often a write is tried when the server cannot be reached.
const TRIES: u32 = 12;
/// The pause between two tries; the first one is a random part of it, so that the writers of many
/// processes do not come back in step.
const PAUSE: Duration = Duration::from_secs(10);
/// How long one call may take: the client itself would wait for ever on a half-open connection.
const CALL_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) enum Message {
    /// With the time of its emission.
    Fact(Box<Fact>, Timestamp),
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
            Message::Fact(fact, emitted) => {
                let event = event(component, &context, *fact, emitted);
                let action = correlator.observe(event, emitted);
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

fn event(component: &str, context: &EventContext, fact: Fact, emitted: Timestamp) -> Event {
    let object = fact.about;
    let name = object.name.as_deref().unwrap_or_default();
    let namespace = object.namespace.as_deref().filter(|name| !name.is_empty());
    Event {
        metadata: ObjectMeta {
            name: Some(context.names.next(name, emitted, &context.random)),
            namespace: Some(namespace.unwrap_or("default").to_owned()),
            ..ObjectMeta::default()
        },
        reason: Some(fact.reason.to_owned()),
        message: Some(fact.message),
        type_: Some(fact.kind.as_str().to_owned()),
        source: Some(EventSource {
            component: Some(component.to_owned()),
            host: None,
        }),
        reporting_component: Some(component.to_owned()),
        reporting_instance: Some(String::new()),
        first_timestamp: Some(Time(emitted)),
        last_timestamp: Some(Time(emitted)),
        count: Some(1),
        involved_object: object,
        ..Event::default()
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
            let name = event.metadata.name.as_deref().unwrap_or_default();
            let (parameters, patch) = (PatchParams::default(), Patch::Strategic(patch));
            match send(client, path(event).patch(name, &parameters, &patch)).await {
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
    let body = serde_json::to_vec(event).map_err(|error| Failure::NoAnswer(error.to_string()))?;
    send(client, path(event).create(&PostParams::default(), body)).await
}

/// Makes a write of whose answer only the status counts.
async fn send(
    client: &kube::Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<(), Failure> {
    let request = request.map_err(|error| Failure::NoAnswer(error.to_string()))?;
    let call = async {
        let response = client.send(request.map(Body::from)).await?;
        let status = response.status();
        // To its end, so that the connection can be used again.
        let body = response.into_body().collect().await?.to_bytes();
        Ok((status, body))
    };
    match tokio::time::timeout(CALL_LIMIT, call).await {
        Ok(Ok((status, _))) if status.is_success() => Ok(()),
        Ok(Ok((status, body))) => Err(Failure::Status(status.as_u16(), message(&body))),
        Ok(Err(kube::Error::Service(error))) if error.is::<Fenced>() => Err(Failure::Fenced),
        Ok(Err(error)) => Err(Failure::NoAnswer(error.to_string())),
        Err(_) => Err(Failure::NoAnswer(format!(
            "no answer within {CALL_LIMIT:?}"
        ))),
    }
}

/// What a refusal says.
fn message(body: &[u8]) -> String {
    let status = serde_json::from_slice::<Status>(body);
    status.map_or_else(
        |_| String::from_utf8_lossy(body).trim().to_owned(),
        |status| status.message,
    )
}

fn outcome(result: Result<(), Failure>) -> WriteOutcome {
    match result {
        Ok(()) => WriteOutcome::Written,
        Err(Failure::Status(code, message)) => WriteOutcome::Refused(format!("{code} {message}")),
        Err(Failure::Fenced) => WriteOutcome::Fenced,
        Err(Failure::NoAnswer(error)) => WriteOutcome::Unreachable(error),
    }
}

fn path(event: &Event) -> kube::core::Request {
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    kube::core::Request::new(Event::url_path(&(), Some(namespace)))
}
