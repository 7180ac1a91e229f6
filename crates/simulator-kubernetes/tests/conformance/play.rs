//! Sends a story to a server and writes down what it answers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use crate::normal::{Normal, pick, places};
use crate::server::{Server, Watch};
use crate::story::{Caller, Step, Story};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
/// How long a server may take for one step; the longest are watches that last two seconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a step that waits for something waits before it asks again.
const BETWEEN: Duration = Duration::from_millis(20);
/// Stories that are played at the same time: all of them, nearly, since some wait for seconds.
const AT_ONCE: usize = 32;
/// Long enough to be refused as an annotation.
const LONG: usize = 256 * 1024;
/// How a document in protobuf begins.
const PROTOBUF: &[u8] = b"k8s\0";
/// What answers are compared by, beside their status and body.
const HEADERS: [&str; 6] = [
    "allow",
    "cache-control",
    "content-type",
    "retry-after",
    "warning",
    "x-content-type-options",
];

/// Plays all stories on a server; the answers are in the order of the stories.
pub(crate) async fn play(server: &Server, stories: &[Story], run: &str) -> Vec<Vec<Value>> {
    futures::stream::iter(stories)
        .map(|story| Player::new(server, story, run).play(story))
        .buffered(AT_ONCE)
        .collect()
        .await
}

/// One run of a story.
struct Player<'a> {
    server: &'a Server,
    normal: Normal,
    kept: BTreeMap<String, String>,
    watches: BTreeMap<String, Watch>,
    /// Where the objects are that it made.
    made: Vec<String>,
}

impl<'a> Player<'a> {
    fn new(server: &'a Server, story: &Story, run: &str) -> Self {
        let kept = BTreeMap::from([
            ("run".to_owned(), run.to_owned()),
            ("ns".to_owned(), format!("{}-{run}", story.name)),
            ("long".to_owned(), "x".repeat(LONG)),
        ]);
        Self {
            server,
            normal: Normal::new(run),
            kept,
            watches: BTreeMap::new(),
            made: Vec::new(),
        }
    }

    async fn play(mut self, story: &Story) -> Vec<Value> {
        let namespace = json!({ "metadata": { "name": self.kept["ns"] } }).to_string();
        let made = self
            .server
            .call("POST", "/api/v1/namespaces", JSON, namespace);
        let made = made.await;
        assert_eq!(made.0, 201, "{}: {}", story.name, made.1);
        let mut answers = Vec::new();
        for step in &story.steps {
            let answer = tokio::time::timeout(PATIENCE, self.step_until(step)).await;
            let answer = answer.unwrap_or_else(|_| json!({ "error": "no answer in time" }));
            let mut record = json!({ "step": step.what });
            for (key, value) in answer.as_object().unwrap() {
                record[key] = value.clone();
            }
            answers.push(record);
        }
        self.clean_up().await;
        answers
    }

    /// Removes what the story made, whatever its finalizers say.
    async fn clean_up(&self) {
        let namespace = format!("/api/v1/namespaces/{}", self.kept["ns"]);
        for path in self.made.iter().chain([&namespace]) {
            let (_, mut left) = self.server.call("DELETE", path, JSON, String::new()).await;
            if left.pointer("/metadata/finalizers").is_some() {
                let free = json!({ "metadata": { "finalizers": null } }).to_string();
                self.server.call("PATCH", path, MERGE, free).await;
            }
            // A server without controllers keeps a namespace until it is reported that it is empty.
            if left["kind"] == "Namespace" {
                left["spec"]["finalizers"] = json!([]);
                let path = format!("{path}/finalize");
                self.server.call("PUT", &path, JSON, left.to_string()).await;
            }
        }
    }

    /// Takes a step, again and again if it waits for something.
    async fn step_until(&mut self, step: &Step) -> Value {
        loop {
            let answer = self.step(step).await;
            let body = &answer["body"];
            let met = |(pointer, value): (&String, &Value)| body.pointer(pointer) == Some(value);
            if step.until.iter().all(met) {
                return answer;
            }
            tokio::time::sleep(BETWEEN).await;
        }
    }

    async fn step(&mut self, step: &Step) -> Value {
        if let Some(name) = &step.read {
            let mut watch = self.watches.remove(name).expect("a watch of that name");
            let events = self.events(step, &mut watch).await;
            self.watches.insert(name.clone(), watch);
            return json!({ "events": events });
        }
        let request = self.request(step);
        let (method, path) = (
            request.method().to_string(),
            request.uri().path().to_owned(),
        );
        let client = match step.caller {
            Caller::Admin => &self.server.admin,
            Caller::Nobody => &self.server.nobody,
        };
        let response = client.send(request).await.unwrap();
        let mut answer = json!({ "status": response.status().as_u16() });
        let headers = self.headers(response.headers());
        if !headers.is_empty() {
            answer["headers"] = json!(headers);
        }
        let streams = step.watch.is_some() || step.events.is_some() || step.to_end;
        if streams && response.status().is_success() {
            let mut watch = Watch::of(response);
            if let Some(name) = &step.watch {
                self.watches.insert(name.clone(), watch);
            } else {
                answer["events"] = self.events(step, &mut watch).await;
            }
            return answer;
        }
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        if answer["status"] == 201 {
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            self.made(&method, &path, &body);
        }
        answer["body"] = self.body(step, &bytes);
        answer
    }

    /// Fills kept values in, the longest names first.
    fn fill(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in self.kept.iter().rev() {
            text = text.replace(&format!("${name}"), value);
        }
        text
    }

    fn fill_all(&self, document: &Value) -> Value {
        match document {
            Value::String(text) => self.fill(text).into(),
            Value::Array(list) => list.iter().map(|value| self.fill_all(value)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| (self.fill(key), self.fill_all(value)))
                .collect(),
            other => other.clone(),
        }
    }

    fn request(&self, step: &Step) -> Request<Body> {
        let sent = self.fill(step.send.as_deref().unwrap_or_default());
        let (method, address) = sent.split_once(' ').expect("a method and a path");
        let content = match (&step.body, &step.text, &step.base64) {
            (Some(body), None, None) => self.fill_all(body).to_string().into_bytes(),
            (None, Some(text), None) => self.fill(text).into_bytes(),
            (None, None, Some(bytes)) => STANDARD.decode(bytes).unwrap(),
            (None, None, None) => Vec::new(),
            _ => panic!("{}: one body", step.what),
        };
        let mut request = Request::builder().method(method).uri(encoded(address));
        let has = |name: &str| {
            step.headers
                .keys()
                .any(|key| key.eq_ignore_ascii_case(name))
        };
        if !has("User-Agent") {
            request = request.header("User-Agent", "conformance/1.0");
        }
        if !content.is_empty() && !has("Content-Type") {
            request = request.header("Content-Type", "application/json");
        }
        for (name, value) in &step.headers {
            request = request.header(name, self.fill(value));
        }
        request.body(Body::from(content)).unwrap()
    }

    /// The headers that count, without what nearly every answer has.
    fn headers(&mut self, headers: &HeaderMap) -> BTreeMap<&'static str, Value> {
        let usual = ["application/json", "no-cache, private"];
        let mut result = BTreeMap::new();
        for name in HEADERS {
            let values: Vec<String> = headers
                .get_all(name)
                .iter()
                .map(|value| self.normal.text(&String::from_utf8_lossy(value.as_bytes())))
                .filter(|value| !usual.contains(&value.as_str()))
                .collect();
            match values.as_slice() {
                [] => {}
                [one] => _ = result.insert(name, json!(one)),
                several => _ = result.insert(name, json!(several)),
            }
        }
        result
    }

    fn body(&mut self, step: &Step, bytes: &[u8]) -> Value {
        let Ok(mut body) = serde_json::from_slice::<Value>(bytes) else {
            return match std::str::from_utf8(bytes) {
                Ok(text) if !bytes.starts_with(PROTOBUF) => self.normal.text(text).into(),
                _ => "<bytes>".into(),
            };
        };
        self.remember(step, &body);
        if let (Value::Object(map), false) = (&mut body, step.only.is_empty()) {
            map.retain(|name, _| step.only.contains(name));
        }
        for one in &step.pick {
            pick(&mut body, one);
        }
        for pointer in &step.varies {
            for place in places(&mut body, pointer) {
                *place = "<varies>".into();
            }
        }
        self.normal.document(&body)
    }

    /// Keeps what later steps need.
    fn remember(&mut self, step: &Step, body: &Value) {
        for (name, pointer) in &step.keep {
            let value = match body.pointer(pointer) {
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
                None => String::new(),
            };
            self.kept.insert(name.clone(), value);
        }
    }

    /// Remembers where a new object is, so that it can be removed in the end.
    fn made(&mut self, method: &str, path: &str, body: &Value) {
        let name = body.pointer("/metadata/name").and_then(Value::as_str);
        if let (Some(name), Some(_)) = (name, body.pointer("/metadata/uid")) {
            self.made.push(match method {
                "POST" => format!("{path}/{name}"),
                _ => path.to_owned(),
            });
        }
    }

    async fn events(&mut self, step: &Step, watch: &mut Watch) -> Value {
        let limit = step.events.unwrap_or(usize::MAX);
        let mut events = Vec::new();
        while events.len() < limit {
            let Some(event) = watch.next().await else {
                if !step.to_end {
                    events.push(json!("the watch ended"));
                }
                break;
            };
            if is_chance(&event) {
                continue;
            }
            for (name, pointer) in &step.keep {
                if let Some(value) = event.pointer(pointer).and_then(Value::as_str) {
                    self.kept.insert(name.clone(), value.to_owned());
                }
            }
            events.push(self.normal.document(&event));
        }
        Value::Array(events)
    }
}

/// Whether an event is a bookmark that the server sends when it likes, not the one that ends
/// the initial events.
fn is_chance(event: &Value) -> bool {
    let marks = "/object/metadata/annotations/k8s.io~1initial-events-end";
    let row = "/object/rows/0/object/metadata/annotations/k8s.io~1initial-events-end";
    event["type"] == "BOOKMARK" && event.pointer(marks).is_none() && event.pointer(row).is_none()
}

/// An address in which everything that may not stand in one is escaped.
fn encoded(address: &str) -> String {
    let mut result = String::new();
    for byte in address.bytes() {
        if byte.is_ascii_graphic() && !br#"<>"{}|\^`"#.contains(&byte) {
            result.push(byte.into());
        } else {
            let _ = write!(result, "%{byte:02X}");
        }
    }
    result
}
