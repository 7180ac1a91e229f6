use std::sync::{Mutex, PoisonError};

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use k8s_openapi::api::core::v1::{Event, ObjectReference};

type Call = (Duration, String, String, Value);

/// What the API server answers to one call; none for a connection refused.
type Answer = Box<dyn Fn(&str, usize) -> Option<StatusCode> + Send + Sync>;

#[derive(Clone)]
struct Server {
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Server {
    fn start(answer: Answer) -> (Self, kube::Client) {
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let start = Instant::now();
        let (log, answer) = (Arc::clone(&calls), Arc::new(answer));
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let method = parts.method.to_string();
                let call = (
                    start.elapsed(),
                    method.clone(),
                    parts.uri.path().to_owned(),
                    body,
                );
                let number = {
                    let mut log = log.lock().unwrap();
                    log.push(call.clone());
                    log.len()
                };
                let status = answer(&method, number)
                    .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::ConnectionRefused))?;
                let body = if status.is_success() {
                    let mut event = call.3;
                    event["involvedObject"] = json!({});
                    event["metadata"] = json!({});
                    event
                } else {
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                        "status": "Failure", "message": "no", "code": status.as_u16()})
                };
                let body = Body::from(serde_json::to_vec(&body).unwrap());
                Ok::<_, std::io::Error>(Response::builder().status(status).body(body).unwrap())
            }
        });
        (Self { calls }, kube::Client::new(service, "default"))
    }

    fn calls(&self) -> Vec<Call> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn context() -> EventContext {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    EventContext::new(Clock::simulated(start), Random::seeded(1), Metrics::new())
}

fn service() -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Service".to_owned()),
        namespace: Some("shop".to_owned()),
        name: Some("web".to_owned()),
        uid: Some("u-1".to_owned()),
        ..ObjectReference::default()
    }
}

const FAILED: &str = "SyncLoadBalancerFailed";

fn failed(message: &str) -> Fact {
    Fact::warning(service(), FAILED, message)
}

#[tokio::test(start_paused = true)]
async fn an_event_is_written_whole_into_the_namespace_of_its_object() {
    let (server, client) = Server::start(Box::new(|_: &str, _: usize| Some(StatusCode::CREATED)));
    let recorder = Recorder::new(client, "cloud-node-controller", &context());
    let mut node = bowline_core::Node::default();
    (node.name, node.uid, node.resource_version) = ("n1".into(), "u-n1".into(), "77".into());
    let about = versioned_node_reference(&node);
    recorder.emit(Fact::normal(about, "Synced", "Node synced successfully"));
    assert!(recorder.flush(Duration::from_secs(1)).await);
    let calls = server.calls();
    assert_eq!(calls.len(), 1);
    let (_, method, path, body) = &calls[0];
    assert_eq!(
        (method.as_str(), path.as_str()),
        ("POST", "/api/v1/namespaces/default/events")
    );
    let expected = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": "n1.18867562e9fb0000", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u-n1",
            "resourceVersion": "77"},
        "reason": "Synced", "message": "Node synced successfully", "type": "Normal",
        "source": {"component": "cloud-node-controller"},
        "reportingComponent": "cloud-node-controller", "reportingInstance": "",
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    });
    let mut body = body.clone();
    let name = body["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(Some(name), event_name("n1", 1_767_225_600_000_000_000));
    body["metadata"]["name"] = expected["metadata"]["name"].clone();
    assert_eq!(body, expected);
}

#[tokio::test(start_paused = true)]
async fn the_same_event_again_is_counted_onto_the_first_and_created_anew_when_that_is_gone() {
    let answer = |method: &str, number: usize| {
        Some(match (method, number) {
            ("PATCH", 3) => StatusCode::NOT_FOUND,
            _ => StatusCode::OK,
        })
    };
    let (server, client) = Server::start(Box::new(answer));
    let recorder = Recorder::new(client, "service-controller", &context());
    for _ in 0..3 {
        recorder.emit(failed("no quota"));
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    let calls = server.calls();
    let methods: Vec<_> = calls.iter().map(|call| call.1.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH", "POST"]);
    let name = calls[0].3["metadata"]["name"].as_str().unwrap();
    assert_eq!(calls[1].2, format!("/api/v1/namespaces/shop/events/{name}"));
    let patch = json!({"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z", "message": "no quota"});
    assert_eq!(calls[1].3, patch);
    assert_eq!(calls[3].3["count"], 3);
    assert_eq!(calls[3].3["metadata"]["name"], name);
    assert_eq!(calls[3].3["firstTimestamp"], "2026-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn framework_case_138_the_tenth_distinct_message_is_combined() {
    let (server, client) = Server::start(Box::new(|_: &str, _: usize| Some(StatusCode::CREATED)));
    let recorder = Recorder::new(client, "service-controller", &context());
    for number in 1..=11 {
        recorder.emit(failed(&format!("error {number}")));
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    let calls = server.calls();
    let messages: Vec<_> = calls
        .iter()
        .map(|call| call.3["message"].as_str().unwrap())
        .collect();
    for number in 1..=9 {
        assert_eq!(messages[number - 1], format!("error {number}"));
    }
    assert_eq!(messages[9], "(combined from similar events): error 10");
    assert_eq!(calls[9].1, "POST");
    assert_eq!(
        (calls[10].1.as_str(), &calls[10].3["count"]),
        ("PATCH", &json!(2))
    );
    assert_eq!(messages[10], "(combined from similar events): error 11");
}

#[tokio::test(start_paused = true)]
async fn framework_case_138_a_refused_event_is_dropped_and_not_tried_again() {
    for status in [403, 404, 409, 500, 503] {
        let answer = move |_: &str, _: usize| StatusCode::from_u16(status).ok();
        let (server, client) = Server::start(Box::new(answer));
        let context = context();
        let recorder = Recorder::new(client, "service-controller", &context);
        recorder.emit(failed("no quota"));
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(server.calls().len(), 1, "{status}");
        let line =
            "bowline_events_dropped_total{component=\"service-controller\",reason=\"refused\"} 1";
        assert!(context.metrics.text().contains(line));
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_138_an_unreachable_server_is_tried_again_until_it_is_back() {
    let answer = |_: &str, number: usize| (number > 4).then_some(StatusCode::CREATED);
    let (server, client) = Server::start(Box::new(answer));
    let recorder = Recorder::new(client, "service-controller", &context());
    recorder.emit(failed("no quota"));
    assert!(!recorder.flush(Duration::from_secs(20)).await, "bounded");
    assert!(recorder.flush(Duration::from_secs(60)).await);
    let calls = server.calls();
    assert_eq!(calls.len(), 5);
    let pauses: Vec<_> = calls
        .windows(2)
        .map(|pair| pair[1].0.saturating_sub(pair[0].0))
        .collect();
    assert!(pauses[0] < Duration::from_secs(10) && pauses[0] > Duration::ZERO);
    assert!(
        pauses[1..]
            .iter()
            .all(|pause| *pause == Duration::from_secs(10))
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_given_up_after_twelve_tries() {
    let (server, client) = Server::start(Box::new(|_: &str, _: usize| None));
    let context = context();
    let recorder = Recorder::new(client, "service-controller", &context);
    recorder.emit(failed("no quota"));
    assert!(recorder.flush(Duration::from_secs(600)).await);
    assert_eq!(server.calls().len(), 12);
    assert!(context.metrics.text().contains("reason=\"unreachable\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts_and_never_blocks() {
    let (_server, client) = Server::start(Box::new(|_: &str, _: usize| None));
    let context = context();
    let recorder = Recorder::new(client, "service-controller", &context);
    for number in 0..QUEUE_LIMIT + 7 {
        recorder.emit(failed(&number.to_string()));
    }
    assert!(context.metrics.text().contains("reason=\"queue_full\"} 7"));
}

/// A million reasons to write events about a hundred thousand objects, before a server that never answers, and then past
/// one that does: what waits and what is remembered is bounded, and everything else is counted. What is measured are
/// counts: other tests share the memory of this process.
#[tokio::test(start_paused = true)]
async fn a_million_reasons_for_events_keep_the_queue_and_the_memory_at_their_limits() {
    const EVENTS: usize = 1_000_000;
    const OBJECTS: usize = 100_000;
    let (_server, client) = Server::start(Box::new(|_: &str, _: usize| None));
    let context = context();
    let recorder = Recorder::new(client, "service-controller", &context);
    let about = |number: usize| ObjectReference {
        name: Some(format!("web-{}", number % OBJECTS)),
        uid: Some(format!("{}", number % OBJECTS)),
        ..service()
    };
    for number in 0..EVENTS {
        let fact = Fact::warning(about(number), "SyncLoadBalancerFailed", number.to_string());
        recorder.emit(fact);
    }
    let dropped = format!("reason=\"queue_full\"}} {}", EVENTS - QUEUE_LIMIT);
    assert!(context.metrics.text().contains(&dropped), "{dropped}");
    let mut correlator = Correlator::default();
    let mut written = 0;
    for number in 0..EVENTS {
        let event = Event {
            involved_object: about(number),
            message: Some(number.to_string()),
            reason: Some("SyncLoadBalancerFailed".to_owned()),
            type_: Some("Warning".to_owned()),
            ..Event::default()
        };
        let action = correlator.observe(event, context.clock.now());
        written += usize::from(action != Action::Drop);
    }
    let kept = correlator.len();
    println!(
        "{EVENTS} reasons for events: {QUEUE_LIMIT} wait and {} are dropped; {kept} remembered, bound {}; {written} written",
        EVENTS - QUEUE_LIMIT,
        3 * super::correlate::CACHE_LIMIT
    );
    assert_eq!(kept, 3 * super::correlate::CACHE_LIMIT);
}

#[test]
fn at_most_25_in_a_burst_and_then_one_in_300_seconds() {
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let at = |seconds: i64| start + jiff::SignedDuration::from_secs(seconds);
    let event = |object: &str, kind: EventType| Event {
        involved_object: pod_reference("default", object),
        type_: Some(kind.as_str().to_owned()),
        message: Some("same".to_owned()),
        ..Event::default()
    };
    let mut correlator = Correlator::default();
    let mut dropped = |object, kind, seconds| {
        correlator.observe(event(object, kind), at(seconds)) == Action::Drop
    };
    for number in 0..25 {
        assert!(!dropped("n1", EventType::Normal, 0), "{number}");
    }
    let rows = [
        ("n1", EventType::Normal, 0, true),
        ("n1", EventType::Warning, 0, false),
        ("n2", EventType::Normal, 0, false),
        ("n1", EventType::Normal, 299, true),
        ("n1", EventType::Normal, 301, false),
        ("n1", EventType::Normal, 302, true),
        ("n1", EventType::Normal, 100, true),
    ];
    for (object, kind, seconds, expected) in rows {
        assert_eq!(
            dropped(object, kind, seconds),
            expected,
            "{object} {kind:?} {seconds}"
        );
    }
}

#[test]
fn a_pause_of_more_than_600_seconds_starts_the_counting_of_messages_anew() {
    let start: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut correlator = Correlator::default();
    for number in 0..20 {
        let event = Event {
            involved_object: service(),
            message: Some(format!("error {number}")),
            ..Event::default()
        };
        let now = start + jiff::SignedDuration::from_secs(601 * number);
        let Action::Create(event) = correlator.observe(event, now) else {
            panic!("error {number} is a new event");
        };
        assert_eq!(event.message, Some(format!("error {number}")));
    }
}

#[test]
fn the_first_nine_messages_keep_their_own_events_after_the_tenth() {
    let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let mut correlator = Correlator::default();
    let mut observe = |number: usize| {
        let event = Event {
            involved_object: service(),
            message: Some(format!("error {number}")),
            ..Event::default()
        };
        match correlator.observe(event, now) {
            Action::Create(event) | Action::Patch { event, .. } => {
                (event.message.unwrap(), event.count.unwrap())
            }
            Action::Drop => panic!("error {number} was dropped"),
        }
    };
    for number in 1..=9 {
        assert_eq!(observe(number), (format!("error {number}"), 1));
    }
    let combined = |number: usize| format!("(combined from similar events): error {number}");
    assert_eq!(observe(10), (combined(10), 1));
    assert_eq!(observe(11), (combined(11), 2));
    assert_eq!(observe(10), (combined(10), 3));
    assert_eq!(observe(3), ("error 3".to_owned(), 2));
}

#[test]
fn a_long_message_is_cut_between_characters() {
    assert_eq!(shortened("short".to_owned()), "short");
    let long = shortened("ä".repeat(3000));
    assert_eq!(long, "ä".repeat(2048) + "…");
}
