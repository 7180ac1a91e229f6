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
    async fn open(sim: &Harness, token: &str) -> Self {
        let cookie = format!("authenticationToken={token}");
        let opened = sim
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

    async fn subscribe(&self, sim: &Harness, token: &str, body: Value) -> Reply {
        let path = format!("/events/{}/subscriptions", self.id);
        sim.call_with(token, "POST", &path, body).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_hears_what_changes() {
    let sim = Harness::new();
    let mut stream = Stream::open(&sim, DEFAULT_TOKEN).await;
    let body = json!({ "collection": "VM", "fields": ["id", "$container", "power_state"] });
    let reply = stream.subscribe(&sim, DEFAULT_TOKEN, body).await;
    answers!(reply, 201, { "id": "VM" });
    // Neither a new name nor a new place of another kind is of interest.
    sim.orchestra.rename("worker 1", "other").unwrap();
    sim.orchestra.rename_host("xcp 1", "other").unwrap();
    sim.orchestra.migrate("other", "xcp-2").unwrap();
    let (name, data) = stream.news().await.unwrap();
    let wanted =
        json!({ "$subscription": "VM", "id": VM1, "$container": H2, "power_state": "Running" });
    assert_eq!((name.as_str(), data), ("update", wanted));
    sim.orchestra
        .add_vm(&VmSpec::named("new").id(UNKNOWN))
        .unwrap();
    let (name, data) = stream.news().await.unwrap();
    assert_eq!((name.as_str(), &data["id"]), ("add", &json!(UNKNOWN)));
    sim.orchestra.destroy("new").unwrap();
    let (name, data) = stream.news().await.unwrap();
    assert_eq!(
        (name.as_str(), &data["power_state"]),
        ("remove", &json!("Running"))
    );
    let path = format!("/events/{}/subscriptions/VM", stream.id);
    assert_eq!(sim.call("DELETE", &path, Value::Null).await.status, 204);
    let reply = stream
        .subscribe(
            &sim,
            DEFAULT_TOKEN,
            json!({ "collection": "pool", "fields": "*" }),
        )
        .await;
    assert_eq!(reply.status, 201);
    sim.orchestra.halt("other").unwrap();
    sim.orchestra.rename_pool("lab pool", "renamed").unwrap();
    let (name, data) = stream.news().await.unwrap();
    assert_eq!(
        (name.as_str(), &data["name_label"]),
        ("update", &json!("renamed"))
    );
}

#[tokio::test(start_paused = true)]
async fn things_that_take_time_are_told_when_they_happen() {
    let sim = Harness::new();
    let mut stream = Stream::open(&sim, DEFAULT_TOKEN).await;
    let body = json!({ "collection": "VM", "fields": ["id", "$container"] });
    stream.subscribe(&sim, DEFAULT_TOKEN, body).await;
    let began = sim.world.clock.now();
    sim.orchestra.begin_migration("worker 1", "xcp-2").unwrap();
    let (_, data) = stream.news().await.unwrap();
    assert_eq!(data["$container"], H2);
    assert_eq!(sim.world.clock.since(began), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_goes_takes_everything_along_and_brings_it_back() {
    let sim = Harness::new();
    let mut stream = Stream::open(&sim, DEFAULT_TOKEN).await;
    for collection in ["VM", "host", "pool"] {
        let body = json!({ "collection": collection, "fields": ["id"] });
        assert_eq!(
            stream.subscribe(&sim, DEFAULT_TOKEN, body).await.status,
            201
        );
    }
    sim.orchestra.disconnect_pool("lab pool").unwrap();
    for wanted in ["remove", "add"] {
        let mut ids = Vec::new();
        for _ in 0..5 {
            let (name, data) = stream.news().await.unwrap();
            assert_eq!(name, wanted);
            ids.push(data["id"].as_str().unwrap().to_owned());
        }
        assert_eq!(ids, [PA, H2, H1, VM2, VM1]);
        sim.orchestra.connect_pool("lab pool").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_shows_signs_of_life() {
    let sim = Harness::new();
    let mut stream = Stream::open(&sim, DEFAULT_TOKEN).await;
    let began = sim.world.clock.now();
    for round in 1..=3 {
        let (name, data) = stream.next().await.unwrap();
        assert_eq!((name.as_str(), data["ping"].is_i64()), ("ping", true));
        assert_eq!(
            sim.world.clock.since(began),
            Duration::from_secs(30 * round)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_subscription_is_refused() {
    let sim = Harness::new();
    let stream = Stream::open(&sim, DEFAULT_TOKEN).await;
    let reply = stream
        .subscribe(&sim, DEFAULT_TOKEN, json!({ "collection": "cow" }))
        .await;
    let wrong = json!({ "message": "Value does not match any allowed schema", "value": "cow" });
    answers!(reply, 422, { "error": { "body.collection": wrong }, "data": {} });
    let path = format!("/events/{UNKNOWN}/subscriptions");
    let reply = sim.call("POST", &path, json!({ "collection": "VM" })).await;
    let data = json!({ "id": UNKNOWN, "type": "event" });
    answers!(reply, 404, { "error": format!("no such event {UNKNOWN}"), "data": data });
}

#[tokio::test(start_paused = true)]
async fn somebody_without_rights_hears_nothing() {
    let sim = Harness::new();
    sim.orchestra
        .set_user("reader", User::with("p", &[Privilege::read("host")]));
    sim.orchestra.set_token("reader-token", "reader");
    let mut stream = Stream::open(&sim, "reader-token").await;
    for collection in ["VM", "host"] {
        let body = json!({ "collection": collection, "fields": ["id"] });
        stream.subscribe(&sim, "reader-token", body).await;
    }
    sim.orchestra.destroy("worker 1").unwrap();
    sim.orchestra
        .add_host(&HostSpec::named("new", "lab pool").id(UNKNOWN))
        .unwrap();
    let (name, data) = stream.news().await.unwrap();
    assert_eq!((name.as_str(), &data["id"]), ("add", &json!(UNKNOWN)));
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_a_restart_and_is_forgotten_when_its_reader_goes() {
    let sim = Harness::new();
    let mut stream = Stream::open(&sim, DEFAULT_TOKEN).await;
    let other = Stream::open(&sim, DEFAULT_TOKEN).await;
    assert_eq!(sim.orchestra.listening(), 2);
    drop(other);
    while sim.orchestra.listening() > 1 {
        tokio::task::yield_now().await;
    }
    sim.orchestra.restart();
    assert_eq!(stream.news().await, None);
    assert_eq!(sim.orchestra.listening(), 0);
    let mut stream = Stream::open(&sim, DEFAULT_TOKEN).await;
    sim.world.faults.cut_streams(NAME);
    assert_eq!(stream.news().await, None);
}

#[tokio::test(start_paused = true)]
async fn there_may_be_no_events() {
    let sim = Harness::new();
    sim.orchestra.set_quirks(|quirks| quirks.no_events = true);
    assert_eq!(sim.status("/events").await, 404);
}
