//! Changes as they happen: server-sent events, and notifications on a socket.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bowline_simulator::serve::{self, Body};
use bytes::Bytes;
use futures::Stream;
use http::{HeaderValue, Response, header};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::XenOrchestra;
use super::model::{Cloud, Kind};
use super::refusals::{OrRefusal, Refusal};

/// Between two signs of life on a stream.
const PING: Duration = Duration::from_secs(30);
/// Bytes that may wait for a slow reader before it is cut off.
const MOST_WAITING: usize = 20 * 1024 * 1024;
/// What can be subscribed to; of most there is nothing here.
const COLLECTIONS: [&str; 25] = [
    "pool",
    "VBD",
    "host",
    "VIF",
    "VTPM",
    "VM-snapshot",
    "SR",
    "VM",
    "VM-template",
    "message",
    "vgpu",
    "gpuGroup",
    "network",
    "PBD",
    "PCI",
    "PGPU",
    "PIF",
    "VDI",
    "VDI-snapshot",
    "VDI-unmanaged",
    "vgpuType",
    "VM-controller",
    "SM",
    "alarm",
    "task",
];

/// Which members of an object a listener wants.
#[derive(Clone, Debug)]
enum Fields {
    All,
    Some(Vec<String>),
}

impl Fields {
    fn of(&self, object: &Value) -> Map<String, Value> {
        let all = object.as_object().cloned().unwrap_or_default();
        match self {
            Self::All => all,
            Self::Some(names) => {
                let wanted = all.into_iter().filter(|(name, _)| names.contains(name));
                wanted.collect()
            }
        }
    }
}

/// How a listener is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As an event of a subscription.
    Event,
    /// As a notification about everything.
    Notification,
}

#[derive(Debug)]
struct Listener {
    /// The name of its user.
    user: String,
    form: Form,
    subscriptions: BTreeMap<String, Fields>,
    queue: Queue,
}

/// Everybody who listens, and what they know.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    all: BTreeMap<String, Listener>,
    known: BTreeMap<(Kind, String), Value>,
}

/// The near end of a stream.
#[derive(Clone, Debug)]
struct Queue {
    pieces: mpsc::UnboundedSender<Bytes>,
    waiting: Arc<AtomicUsize>,
}

impl Queue {
    /// Sends something; false if nobody reads, or too slowly.
    fn send(&self, piece: Bytes) -> bool {
        let length = piece.len();
        let waiting = self.waiting.fetch_add(length, Ordering::Relaxed) + length;
        waiting <= MOST_WAITING && self.pieces.send(piece).is_ok()
    }
}

/// The far end of a stream. The listener is forgotten when it goes.
pub(super) struct Ear {
    pub(super) id: String,
    pieces: mpsc::UnboundedReceiver<Bytes>,
    waiting: Arc<AtomicUsize>,
    orchestra: Weak<XenOrchestra>,
}

impl Ear {
    /// The next piece; none when there will not be another.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        let piece = self.pieces.recv().await?;
        self.waiting.fetch_sub(piece.len(), Ordering::Relaxed);
        Some(piece)
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if let Some(orchestra) = self.orchestra.upgrade() {
            orchestra.with(|cloud| cloud.listeners.all.remove(&self.id));
        }
    }
}

/// An event as it is written.
fn event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

impl XenOrchestra {
    /// Somebody begins to listen.
    pub(super) fn listen(&self, cloud: &mut Cloud, user: &str, form: Form) -> Ear {
        let id = self.world.random.uuid();
        let (sender, pieces) = mpsc::unbounded_channel();
        let waiting = Arc::<AtomicUsize>::default();
        let queue = Queue {
            pieces: sender,
            waiting: waiting.clone(),
        };
        let listener = Listener {
            user: user.to_owned(),
            form,
            subscriptions: BTreeMap::new(),
            queue,
        };
        cloud.listeners.all.insert(id.clone(), listener);
        Ear {
            id,
            pieces,
            waiting,
            orchestra: self.me.clone(),
        }
    }

    /// Opens a stream of events.
    pub(super) fn open_events(&self, cloud: &mut Cloud, user: &str) -> Response<Body> {
        let ear = self.listen(cloud, user, Form::Event);
        if let Some(listener) = cloud.listeners.all.get(&ear.id) {
            listener.queue.send(event("init", &json!({ "id": ear.id })));
        }
        let mut response = Response::new(serve::streamed(self.stream(ear)));
        let headers = response.headers_mut();
        let kind = HeaderValue::from_static("text/event-stream");
        headers.insert(header::CONTENT_TYPE, kind);
        let cache = HeaderValue::from_static("no-cache, no-transform");
        headers.insert(header::CACHE_CONTROL, cache);
        response
    }

    fn stream(&self, ear: Ear) -> impl Stream<Item = Bytes> + Send + use<> {
        let clock = self.world.clock.clone();
        let first = tokio::time::Instant::now() + PING;
        let pings = tokio::time::interval_at(first, PING);
        futures::stream::unfold(
            (ear, pings, clock),
            |(mut ear, mut pings, clock)| async move {
                let piece = tokio::select! {
                    biased;
                    piece = ear.next() => piece?,
                    _ = pings.tick() => {
                        event("ping", &json!({ "ping": clock.now().as_millisecond() }))
                    }
                };
                Some((piece, (ear, pings, clock)))
            },
        )
    }
}

impl Cloud {
    /// Subscribes a stream to a collection, and returns what the API answers.
    pub(super) fn subscribe(&mut self, id: &str, body: &Value) -> OrRefusal<Value> {
        let collection = body.get("collection");
        let Some(collection) = collection else {
            return Err(Refusal::parameter(
                "body.collection",
                "'collection' is required",
                None,
            ));
        };
        let known = collection
            .as_str()
            .filter(|word| COLLECTIONS.contains(word));
        let no_schema = "Value does not match any allowed schema";
        let known = known
            .ok_or_else(|| Refusal::parameter("body.collection", no_schema, Some(collection)))?;
        let fields = match body.get("fields") {
            None => Fields::All,
            Some(Value::String(word)) if word == "*" => Fields::All,
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
                let names = names.iter().filter_map(Value::as_str);
                Fields::Some(names.map(str::to_owned).collect())
            }
            Some(other) => {
                return Err(Refusal::parameter("body.fields", no_schema, Some(other)));
            }
        };
        let listener = self.listener(id)?;
        listener.subscriptions.insert(known.to_owned(), fields);
        Ok(json!({ "id": known }))
    }

    /// Takes a subscription back.
    pub(super) fn unsubscribe(&mut self, id: &str, collection: &str) -> OrRefusal {
        if !COLLECTIONS.contains(&collection) {
            let value = json!(collection);
            let message = "Value does not match any allowed schema";
            return Err(Refusal::parameter("subscriptionId", message, Some(&value)));
        }
        self.listener(id)?.subscriptions.remove(collection);
        Ok(())
    }

    fn listener(&mut self, id: &str) -> OrRefusal<&mut Listener> {
        let found = self.listeners.all.get_mut(id);
        let found = found.filter(|listener| listener.form == Form::Event);
        found.ok_or_else(|| Refusal::no_such("event", id))
    }

    /// How many streams and sockets are open.
    pub(super) fn listening(&self) -> usize {
        self.listeners.all.len()
    }

    /// Ends every stream and socket.
    pub(super) fn hang_up(&mut self) {
        self.listeners.all.clear();
    }

    /// Tells those who listen what has changed since they were told last.
    pub(super) fn publish(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        let mut listeners = std::mem::take(&mut self.listeners);
        for (kind, id) in std::mem::take(&mut self.touched) {
            let now = self.show(kind, &id);
            let key = (kind, id);
            let before = listeners.known.remove(&key);
            if before == now {
                listeners.known.extend(now.map(|now| (key, now)));
                continue;
            }
            let change = Change {
                kind,
                before: before.as_ref(),
                now: now.as_ref(),
            };
            listeners.all.retain(|_, listener| {
                let user = self.users.get(&listener.user);
                let may = user.is_some_and(|user| user.may(kind.resource(), "read", &key.1));
                let piece = may.then(|| change.reported(listener)).flatten();
                piece.is_none_or(|piece| listener.queue.send(piece))
            });
            listeners.known.extend(now.map(|now| (key, now)));
        }
        self.listeners = listeners;
    }
}

/// What happened to an object.
struct Change<'a> {
    kind: Kind,
    before: Option<&'a Value>,
    now: Option<&'a Value>,
}

impl Change<'_> {
    /// What a listener hears of it.
    fn reported(&self, listener: &Listener) -> Option<Bytes> {
        match listener.form {
            Form::Event => self.event(listener.subscriptions.get(self.kind.word())?),
            Form::Notification => self.notification(),
        }
    }

    fn event(&self, fields: &Fields) -> Option<Bytes> {
        let name = match (self.before, self.now) {
            (None, _) => "add",
            (Some(_), Some(_)) => "update",
            (Some(_), None) => "remove",
        };
        let mut data = fields.of(self.now.or(self.before)?);
        if let (Fields::Some(_), Some(before), Some(_)) = (fields, self.before, self.now)
            && fields.of(before) == data
        {
            return None;
        }
        data.insert("$subscription".to_owned(), json!(self.kind.word()));
        Some(event(name, &Value::Object(data)))
    }

    fn notification(&self) -> Option<Bytes> {
        let object = self.now.or(self.before)?;
        let id = object.get("id")?.as_str()?;
        let kind = if self.now.is_some() { "enter" } else { "exit" };
        let reported = json!({
            "jsonrpc": "2.0",
            "method": "all",
            "params": { "type": kind, "items": { id: object } },
        });
        Some(reported.to_string().into())
    }
}
