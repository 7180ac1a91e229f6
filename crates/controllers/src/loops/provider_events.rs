//! Writes the events that providers raise; the leader takes each once.
//!
//! An event with a series is one of `events.k8s.io/v1` that counts how often it came. The originals'
//! permissions for it are `get`, `create` and `update`; a refused write is only logged.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Cloud, EventSeries, ProviderEvent, Regarding, error_chain};
use bowline_http::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries as CountedSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::kube::events::{EventType, Recorder};
use crate::report::{Fact, emit};
use tokio_util::sync::CancellationToken;

/// Bytes of a note that the API server takes.
const LONGEST_NOTE: usize = 1024;
/// How long writing one event of a series may take: the client itself would wait for ever on a half-open connection.
const WRITING: Duration = Duration::from_secs(30);

/// What events are written with.
pub(crate) struct Writers {
    /// For ordinary ones.
    pub(crate) recorder: Recorder,
    /// It stands for the manager as a whole: an object that exists, in a namespace where operators look.
    pub(crate) lease: ObjectReference,
    /// For those with a series; without a client they are only logged.
    pub(crate) client: Option<kube::Client>,
    /// The time of day.
    pub(crate) clock: Clock,
}

/// Writes the events of a cloud until it is time to stop.
pub(crate) async fn write_all(cloud: Arc<dyn Cloud>, writers: Writers, stop: CancellationToken) {
    while let Some(event) = stop.run_until_cancelled(cloud.next_event()).await {
        let (name, reason) = (cloud.name(), event.reason);
        if let Some(series) = &event.series {
            debug!(cloud = %name, reason, "{}", event.message);
            count(name.as_str(), &writers, &event, series, &stop).await;
        } else {
            let fact = fact(event, &writers.lease);
            emit!(writers.recorder, fact, cloud = %name, reason);
        }
    }
}

/// An ordinary event.
pub(crate) fn fact(event: ProviderEvent, lease: &ObjectReference) -> Fact {
    let object = if event.regarding.is_manager() {
        lease.clone()
    } else {
        reference(&event.regarding)
    };
    let kind = EventType::warning_if(event.is_warning);
    Fact::new(kind, object, event.reason, event.message)
}

async fn count(
    cloud: &str,
    writers: &Writers,
    event: &ProviderEvent,
    series: &EventSeries,
    stop: &CancellationToken,
) {
    let Some(client) = &writers.client else {
        return;
    };
    let writing = timeout(WRITING, write(client, event, series, writers.clock.now()));
    match stop.run_until_cancelled(writing).await {
        None | Some(Ok(Ok(()))) => {}
        Some(Ok(Err(error))) => {
            let error = error_chain(&error);
            warn!(cloud, error, "an event about the cloud was not written");
        }
        Some(Err(_)) => warn!(cloud, "an event about the cloud takes too long"),
    }
}

async fn write(
    client: &kube::Client,
    event: &ProviderEvent,
    series: &EventSeries,
    now: Timestamp,
) -> kube::Result<()> {
    let api: Api<Event> = Api::namespaced(client.clone(), &event.regarding.namespace);
    let parameters = PostParams::default();
    match api.create(&parameters, &first(event, series, now)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => return other.map(|_| ()),
    }
    let again = once_more(api.get(&series.name).await?, now);
    api.replace(&series.name, &parameters, &again).await?;
    Ok(())
}

/// The object of an event that comes for the first time.
fn first(event: &ProviderEvent, series: &EventSeries, now: Timestamp) -> Event {
    let text = |text: &str| Some(text.to_owned());
    let (controller, instance) = &series.reporter;
    Event {
        metadata: ObjectMeta {
            name: text(&series.name),
            namespace: text(&event.regarding.namespace),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        type_: text("Warning"),
        action: text(series.action),
        reason: text(event.reason),
        note: text(shortened(&event.message)),
        reporting_controller: text(controller),
        reporting_instance: text(instance),
        regarding: Some(reference(&event.regarding)),
        ..Event::default()
    }
}

/// The same event, counted once more. Nothing else of it may change, its note neither.
fn once_more(mut event: Event, now: Timestamp) -> Event {
    let count = event.series.as_ref().map_or(1, |series| series.count);
    event.series = Some(CountedSeries {
        count: count.saturating_add(1),
        last_observed_time: MicroTime(now),
    });
    event
}

fn reference(regarding: &Regarding) -> ObjectReference {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ObjectReference {
        api_version: text("v1"),
        kind: text(regarding.kind),
        namespace: text(&regarding.namespace),
        name: text(&regarding.name),
        uid: text(&regarding.uid),
        ..ObjectReference::default()
    }
}

/// Cut to the limit at a character's boundary.
fn shortened(note: &str) -> &str {
    let whole = |at: &usize| note.is_char_boundary(*at);
    let end = (0..=LONGEST_NOTE.min(note.len())).rev().find(whole);
    &note[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, PoisonError};

    use bowline_core::BoxFuture;
    use bowline_http::Random;
    use http::{Method, Request, Response, StatusCode};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::clouds::test_cloud::test_cloud;
    use crate::kube::events::EventContext;
    use crate::metrics::Metrics;
    use tokio_util::sync::CancellationToken;

    /// Raises an event every minute, each with another message, three times.
    #[derive(Default)]
    struct Troubled(AtomicU64);

    test_cloud!(Troubled {
        fn next_event(&self) -> BoxFuture<'_, ProviderEvent> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                match self.0.fetch_add(1, Ordering::Relaxed) + 1 {
                    number @ 1..=3 => trouble(number),
                    _ => std::future::pending().await,
                }
            })
        }
    });

    fn trouble(number: u64) -> ProviderEvent {
        let regarding = Regarding {
            namespace: "infra".into(),
            kind: "Pod",
            name: "pod-0".into(),
            uid: String::new(),
        };
        let message = format!("it is down ({number})");
        ProviderEvent {
            series: Some(EventSeries {
                name: "demo-0123".into(),
                reporter: ("demo".into(), "pod-0".into()),
                action: "CheckClient",
            }),
            ..ProviderEvent::warning(regarding, "FailedToCheckClient", message)
        }
    }

    type Objects = Arc<Mutex<BTreeMap<String, Value>>>;

    /// An API server that knows events, and nothing else; or that refuses them.
    fn server(refuses: bool) -> (Objects, kube::Client) {
        let objects = Objects::default();
        let store = objects.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let store = store.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap_or_default();
                let root = "/apis/events.k8s.io/v1/namespaces/infra/events";
                assert!(parts.uri.path().starts_with(root), "{}", parts.uri);
                let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
                let name = "demo-0123".to_owned();
                let status = |code: u16| {
                    let failure = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                        "status": "Failure", "message": "no", "code": code});
                    (code, failure)
                };
                let (code, answer) = match (parts.method, store.get(&name)) {
                    _ if refuses => status(403),
                    (Method::POST, Some(_)) => status(409),
                    (Method::GET, Some(object)) => (200, object.clone()),
                    (Method::POST, None) | (Method::PUT, Some(_)) => {
                        store.insert(name, body.clone());
                        (200, body)
                    }
                    (method, _) => panic!("{method}"),
                };
                let code = StatusCode::from_u16(code).unwrap();
                let body = Body::from(serde_json::to_vec(&answer).unwrap());
                let answer = Response::builder().status(code).body(body).unwrap();
                Ok::<_, std::io::Error>(answer)
            }
        });
        (objects, kube::Client::new(service, "default"))
    }

    async fn an_hour_of(client: Option<kube::Client>) {
        let cloud = Arc::new(Troubled::default());
        let stop = CancellationToken::new();
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let context = EventContext::new(clock.clone(), Random::seeded(1), Metrics::new());
        let writers = Writers {
            recorder: Recorder::observing("demo", &context),
            lease: ObjectReference::default(),
            client,
            clock,
        };
        let writing_all = tokio::spawn(write_all(cloud, writers, stop.clone()));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        stop.cancel();
        writing_all.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn xenorchestra_case_20_what_happens_again_is_counted_whatever_it_says() {
        let (objects, client) = server(false);
        an_hour_of(Some(client)).await;
        let objects = objects.lock().unwrap();
        let event = &objects["demo-0123"];
        assert_eq!(event["note"], "it is down (1)");
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["action"], "CheckClient");
        assert_eq!(event["reason"], "FailedToCheckClient");
        assert_eq!(event["reportingController"], "demo");
        assert_eq!(event["reportingInstance"], "pod-0");
        assert_eq!(event["eventTime"], "2026-01-01T00:01:00.000000Z");
        let series = json!({"count": 3, "lastObservedTime": "2026-01-01T00:03:00.000000Z"});
        assert_eq!(event["series"], series);
        let regarding = json!({"apiVersion": "v1", "kind": "Pod", "name": "pod-0",
            "namespace": "infra"});
        assert_eq!(event["regarding"], regarding);
    }

    #[tokio::test(start_paused = true)]
    async fn xenorchestra_case_87_an_event_that_is_refused_stops_nothing() {
        let (objects, client) = server(true);
        an_hour_of(Some(client)).await;
        assert!(objects.lock().unwrap().is_empty());
        an_hour_of(None).await;
    }

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let note = format!("{}é", "x".repeat(LONGEST_NOTE - 1));
        assert_eq!(shortened(&note).len(), LONGEST_NOTE - 1);
        assert_eq!(shortened("short"), "short");
    }
}
