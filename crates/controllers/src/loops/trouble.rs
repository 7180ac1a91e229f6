//! Troubles of clouds as events of `events.k8s.io/v1`: one event for each kind of trouble, which counts how
//! often it came.
//!
//! The rights of the originals are `get`, `create` and `update`. What the API server refuses is logged, and
//! nothing more.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Cloud, Trouble, error_chain};
use bowline_http::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{Api, PostParams};
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::stop::Stop;

/// Bytes of a note that the API server takes.
const LONGEST_NOTE: usize = 1024;
/// How long telling one trouble may take: the client itself would wait for ever on a half-open connection.
const TELLING: Duration = Duration::from_secs(30);

/// Tells the troubles of a cloud until it is time to stop. Without a client they are only logged.
pub(crate) async fn tell(
    cloud: Arc<dyn Cloud>,
    client: Option<kube::Client>,
    clock: Clock,
    stop: Stop,
) {
    let mut told = 0;
    while let Some(trouble) = stop.unless_given(cloud.next_trouble(told)).await {
        told = trouble.number;
        let name = cloud.name();
        debug!(cloud = %name, reason = trouble.reason, note = trouble.note, "trouble");
        let Some(client) = &client else { continue };
        let writing = timeout(TELLING, write(client, &trouble, clock.now()));
        match stop.unless_given(writing).await {
            None => return,
            Some(Ok(Ok(()))) => {}
            Some(Ok(Err(error))) => {
                let error = error_chain(&error);
                warn!(cloud = %name, error, "an event about the cloud was not written");
            }
            Some(Err(_)) => warn!(cloud = %name, "an event about the cloud takes too long"),
        }
    }
}

async fn write(client: &kube::Client, trouble: &Trouble, now: Timestamp) -> kube::Result<()> {
    let api: Api<Event> = Api::namespaced(client.clone(), &trouble.regarding.namespace);
    let parameters = PostParams::default();
    match api.create(&parameters, &event(trouble, now)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        other => return other.map(|_| ()),
    }
    let again = once_more(api.get(&trouble.event).await?, now);
    api.replace(&trouble.event, &parameters, &again).await?;
    Ok(())
}

/// The event of a trouble that comes for the first time.
fn event(trouble: &Trouble, now: Timestamp) -> Event {
    let text = |text: &str| Some(text.to_owned());
    let (controller, instance) = &trouble.reporter;
    let regarding = &trouble.regarding;
    Event {
        metadata: ObjectMeta {
            name: text(&trouble.event),
            namespace: text(&regarding.namespace),
            ..ObjectMeta::default()
        },
        event_time: Some(MicroTime(now)),
        type_: text("Warning"),
        action: text(trouble.action),
        reason: text(trouble.reason),
        note: text(shortened(&trouble.note)),
        reporting_controller: text(controller),
        reporting_instance: text(instance),
        regarding: Some(ObjectReference {
            api_version: text("v1"),
            kind: text(regarding.kind),
            namespace: text(&regarding.namespace),
            name: text(&regarding.name),
            uid: text(&regarding.uid).filter(|uid| !uid.is_empty()),
            ..ObjectReference::default()
        }),
        ..Event::default()
    }
}

/// The same event, counted once more. Nothing else of it may change, its note neither.
fn once_more(mut event: Event, now: Timestamp) -> Event {
    let count = event.series.as_ref().map_or(1, |series| series.count);
    event.series = Some(EventSeries {
        count: count.saturating_add(1),
        last_observed_time: MicroTime(now),
    });
    event
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
    use std::sync::{Mutex, PoisonError};

    use bowline_core::{BoxFuture, Claim, CloudName, Node, Regarding};
    use http::{Method, Request, Response, StatusCode};
    use http_body_util::BodyExt as _;
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;
    use crate::stop::stop_signal;

    /// Has a trouble every minute, each with another note, three times.
    struct Troubled(CloudName);

    impl Cloud for Troubled {
        fn name(&self) -> &CloudName {
            &self.0
        }

        fn provider(&self) -> &'static str {
            "demo"
        }

        fn claim(&self, _: &Node) -> Claim {
            Claim::Foreign
        }

        fn next_trouble(&self, after: u64) -> BoxFuture<'_, Trouble> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(60)).await;
                if after == 3 {
                    std::future::pending::<()>().await;
                }
                trouble(after + 1)
            })
        }
    }

    fn trouble(number: u64) -> Trouble {
        Trouble {
            number,
            event: "demo-0123".into(),
            reporter: ("demo".into(), "pod-0".into()),
            regarding: Regarding {
                namespace: "infra".into(),
                kind: "Pod",
                name: "pod-0".into(),
                uid: String::new(),
            },
            action: "CheckClient",
            reason: "FailedToCheckClient",
            note: format!("it is down ({number})"),
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
        let cloud = Arc::new(Troubled(CloudName::parse("demo").unwrap()));
        let (handle, stop) = stop_signal();
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let telling = tokio::spawn(tell(cloud, client, clock, stop));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        handle.stop();
        telling.await.unwrap();
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
