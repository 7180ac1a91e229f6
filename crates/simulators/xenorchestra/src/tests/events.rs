//! Streams of events.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::*;

/// A stream of events, read one by one.
struct Stream {
    body: Incoming,
    text: String,
    id: String,
}

impl Stream {
    async fn open(harness: &Harness, token: &str) -> Self {
        let cookie = format!("authenticationToken={token}");
        let opened = harness
            .attempt("GET", "/rest/v0/events", "", &[("cookie", &cookie)])
            .await
            .unwrap();
        assert_eq!(opened.headers()["content-type"], "text/event-stream");
        let mut stream = Self {
            body: opened.into_body(),
            text: String::new(),
            id: String::new(),
        };
        let (name, data) = stream.next().await.unwrap();
        assert_eq!(name, "init");
        stream.id = data["id"].as_str().unwrap().to_owned();
        stream
    }

    /// The next event; none when the stream has ended.
    async fn next(&mut self) -> Option<(String, Value)> {
        while !self.text.contains("\n\n") {
            let piece: Bytes = self.body.frame().await?.ok()?.into_data().unwrap();
            self.text.push_str(std::str::from_utf8(&piece).unwrap());
        }
        let (first, rest) = self
            .text
            .split_once("\n\n")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))?;
        self.text = rest;
        let (name, data) = first.split_once('\n').unwrap();
        let name = name.strip_prefix("event: ").unwrap().to_owned();
        let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        Some((name, data))
    }

    /// The next event that is no ping.
    async fn news(&mut self) -> Option<(String, Value)> {
        loop {
            let next = self.next().await;
            if next.as_ref().is_none_or(|(name, _)| name != "ping") {
                return next;
            }
        }
    }

    async fn subscribe(&self, harness: &Harness, token: &str, body: Value) -> Reply {
        let path = format!("/events/{}/subscriptions", self.id);
        harness.call_with(token, "POST", &path, body).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_hears_what_changes() {
    let harness = Harness::new();
    let mut stream = Stream::open(&harness, DEFAULT_TOKEN).await;
    let body = json!({ "collection": "VM", "fields": ["id", "$container", "power_state"] });
    let reply = stream.subscribe(&harness, DEFAULT_TOKEN, body).await;
    refused(&reply, 201, &json!({ "id": "VM" }));
    // Neither a new name nor a new place of another kind is of interest.
    harness.orchestra.rename("worker 1", "other").unwrap();
    harness.orchestra.rename_host("xcp 1", "other").unwrap();
    harness.orchestra.migrate("other", "xcp-2").unwrap();
    let (name, data) = stream.news().await.unwrap();
    let wanted =
        json!({ "$subscription": "VM", "id": VM1, "$container": H2, "power_state": "Running" });
    assert_eq!((name.as_str(), data), ("update", wanted));
    harness
        .orchestra
        .add_vm(&VmSpec::named("new").id(UNKNOWN))
        .unwrap();
    let (name, data) = stream.news().await.unwrap();
    assert_eq!((name.as_str(), &data["id"]), ("add", &json!(UNKNOWN)));
    harness.orchestra.destroy("new").unwrap();
    let (name, data) = stream.news().await.unwrap();
    assert_eq!(
        (name.as_str(), &data["power_state"]),
        ("remove", &json!("Running"))
    );
    let path = format!("/events/{}/subscriptions/VM", stream.id);
    assert_eq!(harness.call("DELETE", &path, Value::Null).await.status, 204);
    let reply = stream
        .subscribe(
            &harness,
            DEFAULT_TOKEN,
            json!({ "collection": "pool", "fields": "*" }),
        )
        .await;
    assert_eq!(reply.status, 201);
    harness.orchestra.halt("other").unwrap();
    harness
        .orchestra
        .rename_pool("lab pool", "renamed")
        .unwrap();
    let (name, data) = stream.news().await.unwrap();
    assert_eq!(
        (name.as_str(), &data["name_label"]),
        ("update", &json!("renamed"))
    );
}

#[tokio::test(start_paused = true)]
async fn things_that_take_time_are_told_when_they_happen() {
    let harness = Harness::new();
    let mut stream = Stream::open(&harness, DEFAULT_TOKEN).await;
    let body = json!({ "collection": "VM", "fields": ["id", "$container"] });
    stream.subscribe(&harness, DEFAULT_TOKEN, body).await;
    let began = harness.world.clock.now();
    harness
        .orchestra
        .begin_migration("worker 1", "xcp-2")
        .unwrap();
    let (_, data) = stream.news().await.unwrap();
    assert_eq!(data["$container"], H2);
    assert_eq!(harness.world.clock.since(began), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_goes_takes_everything_along_and_brings_it_back() {
    let harness = Harness::new();
    let mut stream = Stream::open(&harness, DEFAULT_TOKEN).await;
    for collection in ["VM", "host", "pool"] {
        let body = json!({ "collection": collection, "fields": ["id"] });
        assert_eq!(
            stream.subscribe(&harness, DEFAULT_TOKEN, body).await.status,
            201
        );
    }
    harness.orchestra.disconnect_pool("lab pool").unwrap();
    for wanted in ["remove", "add"] {
        let mut ids = Vec::new();
        for _ in 0..5 {
            let (name, data) = stream.news().await.unwrap();
            assert_eq!(name, wanted);
            ids.push(data["id"].as_str().unwrap().to_owned());
        }
        assert_eq!(ids, [PA, H2, H1, VM2, VM1]);
        harness.orchestra.connect_pool("lab pool").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_shows_signs_of_life() {
    let harness = Harness::new();
    let mut stream = Stream::open(&harness, DEFAULT_TOKEN).await;
    let began = harness.world.clock.now();
    for round in 1..=3 {
        let (name, data) = stream.next().await.unwrap();
        assert_eq!((name.as_str(), data["ping"].is_i64()), ("ping", true));
        assert_eq!(
            harness.world.clock.since(began),
            Duration::from_secs(30 * round)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_subscription_is_refused() {
    let harness = Harness::new();
    let stream = Stream::open(&harness, DEFAULT_TOKEN).await;
    let reply = stream
        .subscribe(&harness, DEFAULT_TOKEN, json!({ "collection": "cow" }))
        .await;
    let wrong = json!({ "message": "Value does not match any allowed schema", "value": "cow" });
    refused(
        &reply,
        422,
        &json!({ "error": { "body.collection": wrong }, "data": {} }),
    );
    let path = format!("/events/{UNKNOWN}/subscriptions");
    let reply = harness
        .call("POST", &path, json!({ "collection": "VM" }))
        .await;
    let data = json!({ "id": UNKNOWN, "type": "event" });
    refused(
        &reply,
        404,
        &json!({ "error": format!("no such event {UNKNOWN}"), "data": data }),
    );
}

#[tokio::test(start_paused = true)]
async fn somebody_without_rights_hears_nothing() {
    let harness = Harness::new();
    harness
        .orchestra
        .set_user("reader", User::with("p", &[Privilege::read("host")]));
    harness.orchestra.set_token("reader-token", "reader");
    let mut stream = Stream::open(&harness, "reader-token").await;
    for collection in ["VM", "host"] {
        let body = json!({ "collection": collection, "fields": ["id"] });
        stream.subscribe(&harness, "reader-token", body).await;
    }
    harness.orchestra.destroy("worker 1").unwrap();
    harness
        .orchestra
        .add_host(&HostSpec::named("new", "lab pool").id(UNKNOWN))
        .unwrap();
    let (name, data) = stream.news().await.unwrap();
    assert_eq!((name.as_str(), &data["id"]), ("add", &json!(UNKNOWN)));
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_a_restart_and_is_forgotten_when_its_reader_goes() {
    let harness = Harness::new();
    let mut stream = Stream::open(&harness, DEFAULT_TOKEN).await;
    let other = Stream::open(&harness, DEFAULT_TOKEN).await;
    assert_eq!(harness.orchestra.listening(), 2);
    drop(other);
    while harness.orchestra.listening() > 1 {
        tokio::task::yield_now().await;
    }
    harness.orchestra.restart();
    assert_eq!(stream.news().await, None);
    assert_eq!(harness.orchestra.listening(), 0);
    let mut stream = Stream::open(&harness, DEFAULT_TOKEN).await;
    harness.world.faults.cut_streams(NAME);
    assert_eq!(stream.news().await, None);
}

#[tokio::test(start_paused = true)]
async fn there_may_be_no_events() {
    let harness = Harness::new();
    harness
        .orchestra
        .set_quirks(|quirks| quirks.no_events = true);
    assert_eq!(harness.status("/events").await, 404);
}
