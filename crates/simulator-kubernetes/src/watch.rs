//! Watches. A watcher holds a cursor into the history and pulls; it has no queue of its own that
//! could grow, and it is cut off when the history has moved past it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bowline_http::Clock;
use bytes::Bytes;
use futures::Stream;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::kinds::Kind;
use super::list::version_number;
use super::object::text;
use super::protobuf;
use super::request::Query;
use super::respond::{Format, Shape, partial, to_beta};
use super::schema;
use super::selectors::Selector;
use super::status::Refusal;
use super::store::{Change, Listener, State, Store};
use super::strategy;
use super::strategy::problem::{Problem, check_options};
use super::table::{self, IncludeObject};

/// Changes taken from the history at a time: bounds the time under the lock and what waits to be
/// sent.
const BATCH: usize = 128;
/// How often a watcher that wants bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A watch without `timeoutSeconds` lasts between this and twice this, like the API server's.
pub const LEAST_TIMEOUT: Duration = Duration::from_secs(1800);

/// What a watch request asks for.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    start: Start,
    selector: Selector,
    bookmarks: bool,
    timeout: Option<Duration>,
    /// Why it ends before it begins.
    failure: Option<Refusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// All objects as they are now, then changes.
    State,
    /// All objects as they are now, a bookmark that says so, then changes.
    StateThenMark(u64),
    /// Changes from now on.
    Now,
    /// Changes after a version.
    After(u64),
}

impl WatchOptions {
    /// Reads and checks the query of a watch.
    pub fn parse(kind: &Kind, query: &Query) -> Result<Self, Refusal> {
        let selector =
            Selector::parse(kind, query.get("labelSelector"), query.get("fieldSelector"))?;
        let initial = query.flag("sendInitialEvents");
        let problems = check(
            query.get("resourceVersionMatch"),
            query.get("continue"),
            initial,
        );
        check_options("ListOptions", &problems)?;
        let number = version_number(query.get("resourceVersion"))
            .map_err(|refusal| unreadable_version(&refusal))?;
        let start = match (initial, number) {
            (Some(true), number) => Start::StateThenMark(number),
            (Some(false), 0) => Start::Now,
            (None, 0) => Start::State,
            (_, number) => Start::After(number),
        };
        let timeout = match query.get("timeoutSeconds") {
            "" | "0" => None,
            text => Some(Duration::from_secs(text.parse().map_err(|_| {
                Refusal::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax"
                ))
            })?)),
        };
        Ok(Self {
            start,
            selector,
            bookmarks: query.flag("allowWatchBookmarks") == Some(true),
            timeout,
            failure: None,
        })
    }

    /// Ends the watch with this as its only event.
    pub fn fail(&mut self, refusal: Refusal) {
        self.failure = Some(refusal);
    }

    /// Narrows to one object.
    pub fn only(&mut self, name: &str) {
        self.selector.only(name);
    }

    /// The version that must exist before the watch can start.
    pub fn wait_for(&self) -> u64 {
        match self.start {
            Start::StateThenMark(number) => number,
            _ => 0,
        }
    }
}

/// A watch says less politely than a list that its version is no number.
fn unreadable_version(refusal: &Refusal) -> Refusal {
    let start = "invalid resource version: ";
    let message = refusal.message.trim_start_matches(start);
    Refusal::new(500, "", message)
}

fn check(matching: &str, page: &str, initial: Option<bool>) -> Vec<Problem> {
    let field = "resourceVersionMatch";
    let mut problems = Vec::new();
    if initial.is_some() && matching != "NotOlderThan" {
        let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        problems.push(Problem::forbidden(field, detail));
    }
    if !matching.is_empty() {
        if initial.is_none() {
            let detail =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            problems.push(Problem::forbidden(field, detail));
        }
        if matching != "NotOlderThan" {
            problems.push(Problem::unsupported(
                field,
                &json!(matching),
                &["NotOlderThan"],
            ));
        }
        if !page.is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            problems.push(Problem::forbidden(field, detail));
        }
    }
    problems
}

/// Everything a watch needs from the server.
pub struct Source {
    /// The objects.
    pub store: Arc<Store>,
    /// Tells ages in tables.
    pub clock: Clock,
    /// How long a watch lasts that does not say so.
    pub timeout: Duration,
}

/// An open watch.
struct Watch {
    source: Source,
    kind: &'static Kind,
    namespace: Option<String>,
    options: WatchOptions,
    format: Format,
    include: IncludeObject,
    headers_sent: bool,
    queue: VecDeque<Bytes>,
    cursor: u64,
    pulse: Listener,
    breaks: u64,
    next_bookmark: Instant,
    deadline: Instant,
    over: bool,
}

/// Opens a watch: a stream of events, one JSON document per line or one message of protobuf after its length.
pub fn open(
    source: Source,
    kind: &'static Kind,
    namespace: Option<&str>,
    options: WatchOptions,
    format: Format,
    include: IncludeObject,
) -> impl Stream<Item = Bytes> + Send + use<> {
    let pulse = source.store.subscribe();
    let breaks = pulse.current().breaks;
    let now = Instant::now();
    let deadline = now + options.timeout.unwrap_or(source.timeout);
    let mut watch = Watch {
        source,
        kind,
        namespace: namespace.map(str::to_owned),
        options,
        format,
        include,
        headers_sent: false,
        queue: VecDeque::new(),
        cursor: 0,
        pulse,
        breaks,
        next_bookmark: now + BOOKMARK_EVERY,
        deadline,
        over: false,
    };
    watch.begin();
    futures::stream::unfold(watch, |mut watch| async move {
        let chunk = watch.next().await?;
        Some((chunk, watch))
    })
}

impl Watch {
    fn begin(&mut self) {
        if let Some(refusal) = self.options.failure.take() {
            self.push("ERROR", &refusal.to_status());
            self.over = true;
            return;
        }
        let store = Arc::clone(&self.source.store);
        store.with(|state| match self.options.start {
            Start::Now => self.cursor = state.revision(),
            Start::State => self.send_state(state),
            Start::StateThenMark(_) => {
                self.send_state(state);
                if self.options.bookmarks {
                    self.bookmark(true);
                }
            }
            Start::After(number) => {
                self.cursor = number;
                let floor = state.floor(self.kind);
                if number < floor {
                    let message = format!("too old resource version: {number} ({floor})");
                    let status = Refusal::expired(message).to_status();
                    self.push("ERROR", &status);
                    self.over = true;
                }
            }
        });
    }

    fn send_state(&mut self, state: &State) {
        self.cursor = state.revision();
        for object in state.list(self.kind, self.namespace.as_deref()) {
            if self.options.selector.matches(&object) {
                self.show("ADDED", &object);
            }
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.pulse.current().breaks != self.breaks {
                return None;
            }
            if let Some(chunk) = self.queue.pop_front() {
                return Some(chunk);
            }
            if self.over || !self.pull() {
                return None;
            }
            if !self.queue.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                changed = self.pulse.changed() => changed.ok()?,
                () = tokio::time::sleep_until(self.deadline) => {
                    self.over = true;
                    if self.options.bookmarks {
                        self.bookmark(false);
                    }
                }
                () = tokio::time::sleep_until(self.next_bookmark), if self.options.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                    self.bookmark(false);
                }
            }
        }
    }

    /// Takes the next changes from the history. False if some of them are forgotten: the watcher
    /// was too slow.
    fn pull(&mut self) -> bool {
        let (changes, revision, forgotten) = self.source.store.with(|state| {
            (
                state.changes(self.kind, self.cursor, BATCH),
                state.revision(),
                state.forgotten(self.kind),
            )
        });
        if self.cursor < forgotten {
            return false;
        }
        self.cursor = match changes.last() {
            Some(last) if changes.len() == BATCH => last.revision,
            // A watch may start after a version that does not exist yet.
            _ => revision.max(self.cursor),
        };
        for change in &changes {
            self.translate(change);
        }
        true
    }

    /// What a change means to this watcher: an object that starts to match appears to it, one
    /// that stops matching disappears.
    fn translate(&mut self, change: &Change) {
        if let Some(namespace) = &self.namespace
            && self.kind.namespaced
            && change.path.split('/').next() != Some(namespace)
        {
            return;
        }
        let selector = &self.options.selector;
        let matching =
            |object: &Option<Arc<Value>>| object.clone().filter(|object| selector.matches(object));
        match (matching(&change.before), matching(&change.after)) {
            (_, Some(after)) if change.before.is_none() => self.show("ADDED", &after),
            (None, Some(after)) => self.show("ADDED", &after),
            (Some(_), Some(after)) => self.show("MODIFIED", &after),
            (Some(before), None) => {
                let mut last = (*before).clone();
                last["metadata"]["resourceVersion"] = change.revision.to_string().into();
                self.show("DELETED", &last);
            }
            (None, None) => {}
        }
    }

    fn show(&mut self, event: &str, object: &Value) {
        let mut shown = match self.format.shape {
            Shape::Whole => object.clone(),
            Shape::Partial | Shape::PartialList => partial(object),
            Shape::Table => self.table(object),
        };
        if self.format.beta {
            to_beta(&mut shown);
        }
        self.push(event, &shown);
    }

    fn table(&mut self, object: &Value) -> Value {
        let mut table = table::table(
            self.kind,
            std::slice::from_ref(object),
            self.include,
            self.source.clock.now(),
        );
        table["metadata"]["resourceVersion"] = text(object, "/metadata/resourceVersion").into();
        if self.headers_sent {
            table["columnDefinitions"] = Value::Null;
        }
        self.headers_sent = true;
        table
    }

    fn bookmark(&mut self, end_of_state: bool) {
        let mut metadata = json!({ "resourceVersion": self.cursor.to_string() });
        if end_of_state {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        let mut object = json!({
            "kind": self.kind.kind, "apiVersion": self.kind.api_version(), "metadata": metadata,
        });
        // An object in which nothing is set.
        if let Ok((empty, _)) = schema::decode(&schema::type_of(self.kind), object.clone()) {
            object = empty;
            strategy::drop_field(&mut object["metadata"], "creationTimestamp");
        }
        self.show("BOOKMARK", &object);
    }

    fn push(&mut self, event: &str, object: &Value) {
        if self.format.protobuf {
            let frame = protobuf::event(event, object);
            self.queue.extend(frame.map(Bytes::from));
            return;
        }
        // The type first, as a real API server writes it: clients then read the object without holding it in between.
        let line = format!("{{\"type\":\"{event}\",\"object\":{object}}}\n");
        self.queue.push_back(line.into());
    }
}
