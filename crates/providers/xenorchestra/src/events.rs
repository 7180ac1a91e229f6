//! Following a server's events, so that what moves is known within seconds and nothing has to be
//! listed again and again.
//!
//! ```text
//!  connect ─▶ init ─▶ subscribe: VM, host, pool ─▶ list all three ─▶ a view ─▶ add, update, remove …
//!     ▲                                                               (answers look-ups while it lives)
//!     └── broken, silent, or not understood: no view, look-ups list for themselves ◀────────┘
//! ```
//!
//! There is no replay: after every connection everything is listed before an update is used. An
//! object that is removed leaves the view and nothing else happens: a pool that is disconnected
//! removes all it had, and whether a machine is gone is asked and proven one by one.

mod sse;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::CloudError;
use bowline_http::{Random, ResponseStream};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tracing::{debug, info};
use uuid::Uuid;

use crate::api::{Api, CallErrorOrOther, Host, Listing, Pool, Vm};
use crate::server::Server;
use sse::{Event, Reader};

/// The server sends a ping every 30 s; without two of them and a bit the connection is dead.
const SILENCE: Duration = Duration::from_secs(75);
/// How long the first event may take.
const GREETING: Duration = Duration::from_secs(30);
/// The waits between connections: the first, doubled up to the longest, stretched by up to half.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
const JITTER: f64 = 0.5;
/// A connection that held this long was a good one: the next may be made soon.
const GOOD: Duration = Duration::from_secs(60);
/// How long until a server without events is asked again: it may have been renewed.
const WITHOUT_EVENTS: Duration = Duration::from_secs(3600);
/// How old a view may become before everything is listed again, should an event ever have been
/// lost.
const VIEW_AGE: Duration = Duration::from_secs(1800);

/// What a server shows at the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) vms: BTreeMap<Uuid, Vm>,
    pub(crate) hosts: BTreeMap<Uuid, String>,
    pub(crate) pools: BTreeMap<Uuid, String>,
}

/// Why events are not followed any further.
#[derive(Debug, Error)]
enum Lost {
    #[error("the server has no events: {0}")]
    NoEvents(String),
    #[error("{0}")]
    Other(String),
}

impl From<CloudError> for Lost {
    fn from(error: CloudError) -> Self {
        Self::Other(error.chain())
    }
}

pub(crate) async fn follow(server: Arc<Server>, random: Random) {
    let mut wait = FIRST_WAIT;
    let mut without_events = false;
    loop {
        let start = Instant::now();
        let lost = match followed(&server).await {
            Ok(never) => match never {},
            Err(lost) => lost,
        };
        server.set_view(None);
        let pause = if let Lost::NoEvents(_) = lost {
            if !without_events {
                info!(server = server.name(), "{lost}; its VMs are listed instead");
            }
            without_events = true;
            WITHOUT_EVENTS
        } else {
            debug!(server = server.name(), "events are not followed: {lost}");
            if start.elapsed() >= GOOD {
                wait = FIRST_WAIT;
            }
            let pause = random.jitter(wait, JITTER);
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
            pause
        };
        sleep(pause).await;
    }
}

async fn followed(server: &Server) -> Result<std::convert::Infallible, Lost> {
    let api = server.api();
    let way = api.session().number();
    let mut stream = Stream::open(api).await?;
    let connection = stream.greeting().await?;
    subscribe(api, &connection).await?;
    server.set_view(Some(listed(api).await?));
    info!(
        server = server.name(),
        "following the events of Xen Orchestra"
    );
    let mut listed_at = Instant::now();
    loop {
        for event in stream.next(SILENCE).await? {
            let Some(change) = Change::read(&event) else {
                continue;
            };
            server.change_view(|view| change.apply(view));
        }
        // At the latest with the next ping: what is followed may be another server than the one
        // meant.
        if api.session().number() != way {
            return Err(Lost::Other("the settings have changed".to_owned()));
        }
        if listed_at.elapsed() >= VIEW_AGE {
            server.set_view(Some(listed(api).await?));
            listed_at = Instant::now();
        }
    }
}

async fn subscribe(api: &Api, connection: &str) -> Result<(), CloudError> {
    let of_vms: Vec<&str> = Vm::FIELDS.split(',').collect();
    let of_others = ["id", "name_label"];
    for (collection, fields) in [
        ("VM", of_vms.as_slice()),
        ("host", &of_others),
        ("pool", &of_others),
    ] {
        api.subscribe(connection, collection, fields).await?;
    }
    Ok(())
}

async fn listed(api: &Api) -> Result<View, CloudError> {
    fn by_id<T, V>(list: Listing<T>, pair: impl Fn(T) -> (Uuid, V)) -> BTreeMap<Uuid, V> {
        list.items.into_iter().map(pair).collect()
    }
    Ok(View {
        vms: by_id(api.vms(None).await?, |vm: Vm| (vm.id, vm)),
        hosts: by_id(api.hosts().await?, |host: Host| {
            (host.id, host.name_label.unwrap_or_default())
        }),
        pools: by_id(api.pools().await?, |pool: Pool| {
            (pool.id, pool.name_label.unwrap_or_default())
        }),
    })
}

struct Stream {
    following: ResponseStream,
    reader: Reader,
    /// Read with the greeting.
    waiting: Vec<Event>,
}

impl Stream {
    async fn open(api: &Api) -> Result<Self, Lost> {
        let following = api.events().await.map_err(|error| match error {
            // Older servers know no such path; some proxies do not let it through.
            CallErrorOrOther::Call(error) if matches!(error.status(), Some(404 | 405 | 501)) => {
                Lost::NoEvents(error.to_string())
            }
            CallErrorOrOther::Call(error) => CloudError::from(error).into(),
            CallErrorOrOther::Other(error) => error.into(),
        })?;
        let kind = following.content_type();
        if !kind.starts_with("text/event-stream") {
            return Err(Lost::NoEvents(format!("GET events answered with {kind:?}")));
        }
        Ok(Self {
            following,
            reader: Reader::default(),
            waiting: Vec::new(),
        })
    }

    /// The name of this connection, which comes first.
    async fn greeting(&mut self) -> Result<String, Lost> {
        #[derive(Deserialize)]
        struct Init {
            id: String,
        }
        let mut events = self.next(GREETING).await?;
        let first = events.remove(0);
        self.waiting = events;
        let init: Option<Init> = serde_json::from_str(&first.data).ok();
        let init = init.filter(|_| first.name == "init");
        init.map(|init| init.id)
            .ok_or_else(|| Lost::Other(format!("the first event is {:?}, not init", first.name)))
    }

    /// The next events, at least one.
    async fn next(&mut self, patience: Duration) -> Result<Vec<Event>, Lost> {
        loop {
            if !self.waiting.is_empty() {
                return Ok(std::mem::take(&mut self.waiting));
            }
            let piece = self.following.next(patience).await;
            let piece = piece.map_err(|error| Lost::Other(error.to_string()))?;
            let events = self.reader.take(&piece);
            self.waiting = events.map_err(|error| Lost::Other(error.to_string()))?;
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Change {
    collection: String,
    id: Uuid,
    /// The object as it is now; none if it was removed, or cannot be read: then it is asked for
    /// when somebody wants to know.
    object: Option<Value>,
}

impl Change {
    fn read(event: &Event) -> Option<Self> {
        let removed = match event.name.as_str() {
            "add" | "update" => false,
            "remove" => true,
            _ => return None,
        };
        let object: Value = serde_json::from_str(&event.data).ok()?;
        Some(Self {
            collection: object["$subscription"].as_str()?.to_owned(),
            id: object["id"].as_str()?.parse().ok()?,
            object: (!removed).then_some(object),
        })
    }

    /// Takes it into the view; returns whether anything is different now.
    fn apply(self, view: &mut View) -> bool {
        fn put<T: PartialEq>(map: &mut BTreeMap<Uuid, T>, id: Uuid, new: Option<T>) -> bool {
            match new {
                Some(new) if map.get(&id) == Some(&new) => false,
                Some(new) => {
                    map.insert(id, new);
                    true
                }
                None => map.remove(&id).is_some(),
            }
        }
        let Self {
            collection,
            id,
            object,
        } = self;
        match collection.as_str() {
            "VM" => {
                let vm = object.and_then(|it| serde_json::from_value(it).ok());
                put(&mut view.vms, id, vm)
            }
            "host" | "pool" => {
                let names = if collection == "host" {
                    &mut view.hosts
                } else {
                    &mut view.pools
                };
                let name =
                    object.map(|it| it["name_label"].as_str().unwrap_or_default().to_owned());
                put(names, id, name)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{H1, PA, VM1, vm1};
    use serde_json::json;

    fn change(name: &str, data: &Value) -> Option<Change> {
        let event = Event {
            name: name.into(),
            data: data.to_string(),
        };
        Change::read(&event)
    }

    #[test]
    fn a_view_follows_what_it_is_reported() {
        let mut view = View::default();
        let vm = json!({
            "$subscription": "VM", "id": VM1, "name_label": "worker 1", "power_state": "Running",
            "CPUs": {"max": 4, "number": 2}, "addresses": {"0/ipv4/0": "10.20.0.11"},
            "memory": {"size": 4_294_967_296_u64, "static": [2_147_483_648_u64, 4_294_967_296_u64]},
            "mainIpAddress": "10.20.0.11", "tags": ["k8s"], "$container": H1, "$pool": PA, "$poolId": PA
        });
        assert!(change("add", &vm).unwrap().apply(&mut view));
        assert_eq!(view.vms[&vm1().id], vm1());
        assert!(!change("update", &vm).unwrap().apply(&mut view), "no news");
        let host = json!({"$subscription": "host", "id": H1, "name_label": "xcp 1"});
        assert!(change("update", &host).unwrap().apply(&mut view));
        let pool = json!({"$subscription": "pool", "id": PA, "name_label": "lab pool"});
        assert!(change("add", &pool).unwrap().apply(&mut view));
        assert_eq!(view.hosts.values().collect::<Vec<_>>(), ["xcp 1"]);
        assert_eq!(view.pools.values().collect::<Vec<_>>(), ["lab pool"]);
        for gone in [&vm, &host, &pool] {
            assert!(change("remove", gone).unwrap().apply(&mut view));
        }
        assert_eq!(view, View::default());
    }

    #[test]
    fn what_is_not_understood_changes_nothing() {
        let alarm = json!({"$subscription": "alarm", "id": VM1});
        assert!(!change("add", &alarm).unwrap().apply(&mut View::default()));
        for (name, data) in [
            ("ping", json!({"ping": 1})),
            ("add", json!({"id": VM1})),
            ("add", json!({"$subscription": "VM", "id": "x"})),
            ("add", json!([])),
        ] {
            assert_eq!(change(name, &data), None, "{name} {data}");
        }
    }
}
