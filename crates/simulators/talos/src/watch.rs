//! Watches: what there is, then what changes.

use std::collections::{BTreeMap, VecDeque};

use bowline_talos_api::resource::{
    Event, EventType, Metadata, Resource, Spec, WatchRequest, WatchResponse,
};
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use tokio::sync::watch;
use tonic::Status;

use super::model::Stored;
use super::service::Asked;

/// The version of the protocol from which on the end of what there is is reported.
const TELLS_BOOTSTRAPPED: i32 = 1;

/// One watch. Changes that happen before it looks again are seen as one.
struct Watching {
    asked: Asked,
    request: WatchRequest,
    /// What the caller knows.
    known: BTreeMap<String, Stored>,
    changed: watch::Receiver<u64>,
    waiting: VecDeque<WatchResponse>,
}

/// Begins a watch.
pub(super) fn begin(
    asked: Asked,
    request: WatchRequest,
) -> Result<BoxStream<'static, Result<WatchResponse, Status>>, Status> {
    let options = request.options.clone().unwrap_or_default();
    let queries = !options.label_query.is_empty()
        || options.id_query.is_some_and(|one| !one.regexp.is_empty());
    if queries || options.tail_events > 0 || !options.start_from_bookmark.is_empty() {
        let text = "watches with queries, of earlier events or from bookmarks are not simulated";
        return Err(Status::unimplemented(text));
    }
    if request.id.is_some() && options.bootstrap_contents {
        let text = "bootstrap contents is not implemented for resource watch";
        return Err(Status::unimplemented(text));
    }
    let changed = asked.talos.changes();
    let mut watching = Watching {
        known: BTreeMap::new(),
        waiting: VecDeque::new(),
        asked,
        request,
        changed,
    };
    watching.begin(options.bootstrap_contents);
    let messages = stream::unfold(watching, |mut watching| async move {
        loop {
            if let Some(next) = watching.waiting.pop_front() {
                return Some((Ok(next), watching));
            }
            watching.changed.changed().await.ok()?;
            if !watching.asked.answers() {
                let lost = Status::unavailable("error reading from server: EOF");
                // The stream is over after an error.
                watching.waiting.clear();
                return Some((Err(lost), watching));
            }
            watching.look();
        }
    });
    Ok(messages.boxed())
}

fn event(kind: EventType, resource: Option<Resource>, old: Option<Resource>) -> Event {
    Event {
        resource,
        event_type: kind.into(),
        old,
        error: None,
        bookmark: None,
    }
}

impl Watching {
    fn current(&self) -> BTreeMap<String, Stored> {
        let (namespace, kind) = (&self.request.namespace, &self.request.r#type);
        let all = self.asked.resources(namespace, kind).into_iter();
        let wanted = self.request.id.as_ref();
        all.map(|one| (one.metadata.id.clone(), one))
            .filter(|(id, _)| wanted.is_none_or(|wanted| wanted == id))
            .collect()
    }

    /// An empty message says that the watch is on; then comes what there is.
    fn begin(&mut self, contents: bool) {
        self.changed.mark_unchanged();
        self.waiting.push_back(WatchResponse::default());
        let current = self.current();
        let created = |one: &Stored| event(EventType::Created, Some(one.clone().into()), None);
        let mut events = Vec::new();
        if contents {
            events.extend(current.values().map(created));
            if self.request.api_version >= TELLS_BOOTSTRAPPED {
                events.push(event(EventType::Bootstrapped, None, None));
            }
        } else if let Some(id) = &self.request.id {
            events.push(match current.values().next() {
                Some(one) => created(one),
                None => event(EventType::Destroyed, Some(self.tombstone(id)), None),
            });
        }
        self.known = current;
        self.tell(events);
    }

    /// A resource that is not there.
    fn tombstone(&self, id: &str) -> Resource {
        Resource {
            metadata: Some(Metadata {
                namespace: self.request.namespace.clone(),
                r#type: self.request.r#type.clone(),
                id: id.to_owned(),
                version: "undefined".to_owned(),
                phase: "running".to_owned(),
                ..Metadata::default()
            }),
            spec: Some(Spec::default()),
        }
    }

    /// Tells what is not as the caller knows it.
    fn look(&mut self) {
        let current = self.current();
        let mut events = Vec::new();
        for (id, one) in &current {
            let now = Some(one.clone().into());
            match self.known.get(id) {
                None => events.push(event(EventType::Created, now, None)),
                Some(before) if before.metadata != one.metadata => {
                    let before = Some(before.clone().into());
                    events.push(event(EventType::Updated, now, before));
                }
                Some(_) => {}
            }
        }
        let gone = self
            .known
            .iter()
            .filter(|(id, _)| !current.contains_key(*id));
        events.extend(gone.map(|(_, one)| {
            let last = Some(one.clone().into());
            event(EventType::Destroyed, last, None)
        }));
        self.known = current;
        self.tell(events);
    }

    /// One message for each event, or one for all.
    fn tell(&mut self, events: Vec<Event>) {
        let options = self.request.options.as_ref();
        if options.is_some_and(|options| options.aggregated) {
            if !events.is_empty() {
                self.waiting.push_back(WatchResponse { event: events });
            }
            return;
        }
        let single = events
            .into_iter()
            .map(|one| WatchResponse { event: vec![one] });
        self.waiting.extend(single);
    }
}
