//! What a real server holds of one scenario (nodes, Services, requests for certificates, events, leases), kept
//! up to date by watches, so that scenarios can read without waiting.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event as KubeEvent, Node, Service};
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, ObjectList, PartialObjectMeta, TypeMeta};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster::REQUEST;
use crate::names::Names;

/// Where the leases of managers are.
pub(crate) const LEASES: &str = "kube-system";
/// No watch of a healthy server lags so much; beyond it something is broken.
const LAG: Duration = Duration::from_secs(60);
/// Between tries while a server restarts.
const PAUSE: Duration = Duration::from_millis(200);

/// Nodes, Services and events of one scenario. Dropping it ends the watches.
pub(crate) struct Mirror {
    client: Client,
    names: Names,
    nodes: Kept,
    services: Kept,
    requests: Kept,
    events: Kept,
    leases: Kept,
    pulse: watch::Sender<()>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.end();
    }
}

/// The objects of one kind.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// By their names on the server.
    current: BTreeMap<String, Value>,
    /// Every version, in the order the server told them.
    versions: Vec<Value>,
    /// Names met since a watch started over.
    fresh: BTreeMap<String, Value>,
    is_complete: bool,
}

impl Mirror {
    /// Watches what is the scenario's; returns when it is known.
    pub(crate) async fn start(client: Client, names: &Names) -> Self {
        let mirror = Self {
            client,
            names: names.clone(),
            nodes: Kept::default(),
            services: Kept::default(),
            requests: Kept::default(),
            events: Kept::default(),
            leases: Kept::default(),
            pulse: watch::Sender::default(),
            tasks: Mutex::default(),
        };
        mirror.begin().await;
        mirror
    }

    /// Begins anew with a server that was restored to an earlier state: a watch from a later version would be silent.
    pub(crate) async fn begin_anew(&self) {
        self.end();
        for kept in self.all() {
            *kept.lock() = State::default();
        }
        self.begin().await;
    }

    fn end(&self) {
        for task in self.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
    }

    fn all(&self) -> [&Kept; 5] {
        [
            &self.nodes,
            &self.services,
            &self.requests,
            &self.events,
            &self.leases,
        ]
    }

    async fn begin(&self) {
        let own = watcher::Config {
            label_selector: self.names.selector(),
            ..watcher::Config::default()
        };
        let every = watcher::Config::default();
        let request = ApiResource::erase::<CertificateSigningRequest>(&());
        let kinds = [
            (ApiResource::erase::<Node>(&()), "Node", &own),
            (ApiResource::erase::<Service>(&()), "Service", &own),
            (request, REQUEST, &own),
            (ApiResource::erase::<KubeEvent>(&()), "Event", &every),
            (ApiResource::erase::<Lease>(&()), "Lease", &every),
        ];
        let tasks = kinds.into_iter().zip(self.all());
        let tasks = tasks.map(|((resource, kind, config), kept)| {
            let api = match kind {
                "Lease" => Api::namespaced_with(self.client.clone(), LEASES, &resource),
                _ => Api::all_with(self.client.clone(), &resource),
            };
            follow(api, kind, config.clone(), kept, &self.names, &self.pulse)
        });
        self.tasks.lock().unwrap().extend(tasks);
        let complete = || self.all().iter().all(|kept| kept.lock().is_complete);
        self.until("the first lists are here", complete).await;
    }

    /// Changes with everything that is seen.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.pulse.subscribe()
    }

    /// The node of that name on the server.
    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.nodes.lock().current.get(name).cloned()
    }

    /// The nodes, by name.
    pub(crate) fn nodes(&self) -> Vec<Value> {
        self.nodes.lock().current.values().cloned().collect()
    }

    /// Every version of that node, oldest first.
    pub(crate) fn versions(&self, name: &str) -> Vec<Value> {
        let state = self.nodes.lock();
        let own = state.versions.iter();
        own.filter(|it| it["metadata"]["name"] == name)
            .cloned()
            .collect()
    }

    /// The Services, by name: a scenario has no two of one name.
    pub(crate) fn services(&self) -> Vec<Value> {
        self.services.lock().current.values().cloned().collect()
    }

    /// The request for a certificate of that name on the server.
    pub(crate) fn request(&self, name: &str) -> Option<Value> {
        self.requests.lock().current.get(name).cloned()
    }

    /// Waits until that request is seen.
    pub(crate) async fn until_requested(&self, name: &str) {
        let what = format!("request {name} is seen");
        self.until(&what, || self.request(name).is_some()).await;
    }

    /// The lease of that name on the server.
    pub(crate) fn lease(&self, name: &str) -> Option<Value> {
        self.leases.lock().current.get(name).cloned()
    }

    /// The events, by name.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.events.lock().current.values().cloned().collect()
    }

    /// Waits until the node is seen in that version or a later one.
    pub(crate) async fn until_seen(&self, name: &str, version: u64) {
        let what = format!("version {version} of node {name} is seen");
        self.until(&what, || {
            let node = self.node(name);
            node.is_some_and(|it| version_of(&it) >= version)
        })
        .await;
    }

    /// Waits until the node is seen with that uid.
    pub(crate) async fn until_made(&self, name: &str, uid: &Value) {
        let what = format!("node {name} is seen");
        self.until(&what, || {
            let node = self.node(name);
            node.is_some_and(|it| it["metadata"]["uid"] == *uid)
        })
        .await;
    }

    /// Waits until there is no node of that name with that uid.
    pub(crate) async fn until_gone(&self, name: &str, uid: &Value) {
        let what = format!("node {name} is seen to go");
        self.until(&what, || {
            self.node(name)
                .is_none_or(|it| it["metadata"]["uid"] != *uid)
        })
        .await;
    }

    /// Waits until everything is seen that is on the server now.
    pub(crate) async fn catch_up(&self) {
        let select = ListParams {
            label_selector: self.names.selector(),
            ..ListParams::default()
        };
        let nodes: Api<Node> = Api::all(self.client.clone());
        self.agree(&self.nodes, nodes, &select).await;
        let services: Api<Service> = Api::all(self.client.clone());
        self.agree(&self.services, services, &select).await;
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        self.agree(&self.requests, requests, &select).await;
        let events: Api<KubeEvent> = Api::all(self.client.clone());
        self.agree(&self.events, events, &ListParams::default())
            .await;
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        self.agree(&self.leases, leases, &ListParams::default())
            .await;
    }

    /// Lists, and waits until the watch has shown what the list says.
    async fn agree<K>(&self, kept: &Kept, api: Api<K>, select: &ListParams)
    where
        K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let list = listed(&api, select).await;
        let at = number(list.metadata.resource_version.as_deref());
        let listed: BTreeMap<String, u64> = list
            .items
            .into_iter()
            .map(|it| it.metadata)
            .filter_map(|it| Some((it.name?, number(it.resource_version.as_deref()))))
            .filter(|(name, _)| self.names.is_own(name))
            .collect();
        self.until("the watches agree with the lists", || {
            let state = kept.lock();
            let version = |name: &str| state.current.get(name).map(version_of);
            let are_seen = listed
                .iter()
                // One that is not there any more was there, or will be before it goes.
                .all(|(name, wanted)| state.reported(name, *wanted));
            let are_gone = state
                .current
                .keys()
                .filter(|name| !listed.contains_key(*name))
                .all(|name| version(name) > Some(at));
            are_seen && are_gone
        })
        .await;
    }

    async fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let mut pulse = self.pulse.subscribe();
        let wait = async {
            loop {
                pulse.mark_unchanged();
                if done() {
                    return;
                }
                let _ = pulse.changed().await;
            }
        };
        let is_done = tokio::time::timeout(LAG, wait).await.is_ok();
        assert!(
            is_done,
            "the watches of the test never come to this: {what}"
        );
    }
}

impl State {
    /// Whether that object was told in that version or a later one.
    fn reported(&self, name: &str, version: u64) -> bool {
        let reported = self.versions.iter().rev();
        reported
            .filter(|it| it["metadata"]["name"] == name)
            .any(|it| version_of(it) >= version)
    }

    fn apply(&mut self, object: Value) {
        let name = name_of(&object);
        self.versions.push(object.clone());
        self.current.insert(name, object);
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn take(&self, event: Event<Value>) {
        let mut state = self.lock();
        match event {
            Event::Apply(object) => state.apply(object),
            Event::Delete(object) => {
                state.current.remove(&name_of(&object));
            }
            Event::Init => state.fresh.clear(),
            Event::InitApply(object) => {
                state.fresh.insert(name_of(&object), object);
            }
            Event::InitDone => {
                let fresh = std::mem::take(&mut state.fresh);
                state.current.retain(|name, _| fresh.contains_key(name));
                for (name, object) in fresh {
                    if state.current.get(&name).map(version_of) != Some(version_of(&object)) {
                        state.apply(object);
                    }
                }
                state.is_complete = true;
            }
        }
    }
}

/// The list, as soon as the server gives it: it may be about to restart.
async fn listed<K>(api: &Api<K>, select: &ListParams) -> ObjectList<PartialObjectMeta<K>>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let list = async {
        loop {
            match api.list_metadata(select).await {
                Ok(list) => return list,
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    };
    let list = tokio::time::timeout(LAG, list).await;
    list.expect("the server gives lists")
}

/// The same pause before every new try of a watch.
struct Steady;

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(PAUSE)
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}

/// Starts to watch one kind.
fn follow(
    api: Api<DynamicObject>,
    kind: &'static str,
    config: watcher::Config,
    kept: &Kept,
    names: &Names,
    pulse: &watch::Sender<()>,
) -> JoinHandle<()> {
    let (kept, names, pulse) = (kept.clone(), names.clone(), pulse.clone());
    tokio::spawn(async move {
        let mut reported = std::pin::pin!(reported(api, kind, config));
        while let Some(event) = reported.next().await {
            let own = match &event {
                Event::Apply(it) | Event::Delete(it) | Event::InitApply(it) => {
                    names.is_own(&name_of(it))
                }
                Event::Init | Event::InitDone => true,
            };
            if own {
                kept.take(event);
                pulse.send_replace(());
            }
        }
    })
}

/// The watch without its errors: after one it starts over by itself.
fn reported(
    api: Api<DynamicObject>,
    kind: &'static str,
    config: watcher::Config,
) -> impl Stream<Item = Event<Value>> + Send {
    let events = watcher::watcher(api, config).backoff(Steady);
    events.filter_map(async move |event| {
        let value = |object| value(object, kind);
        Some(match event.ok()? {
            Event::Apply(object) => Event::Apply(value(object)),
            Event::Delete(object) => Event::Delete(value(object)),
            Event::Init => Event::Init,
            Event::InitApply(object) => Event::InitApply(value(object)),
            Event::InitDone => Event::InitDone,
        })
    })
}

/// Items of lists do not say what they are; here all do.
fn value(mut object: DynamicObject, kind: &str) -> Value {
    let group = match kind {
        "Lease" => "coordination.k8s.io/",
        REQUEST => "certificates.k8s.io/",
        _ => "",
    };
    object.types = Some(TypeMeta {
        api_version: format!("{group}v1"),
        kind: kind.to_owned(),
    });
    serde_json::to_value(object).unwrap()
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Kubernetes promises that versions of one kind can be compared as numbers.
pub(crate) fn version_of(object: &Value) -> u64 {
    number(object["metadata"]["resourceVersion"].as_str())
}

fn number(version: Option<&str>) -> u64 {
    version.and_then(|it| it.parse().ok()).unwrap_or_default()
}
