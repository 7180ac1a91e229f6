//! Watches the sandbox's cluster as a user would, looks at its clouds, prints what happens, and keeps
//! the latest view.

mod balancers;
mod nodes;
mod routes;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::sandbox::{Balancer, Balancers, SimulatedCloud};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Node, Service};
use k8s_openapi::serde::de::DeserializeOwned;
use kube::runtime::watcher::{self, Event as Change};
use kube::runtime::{WatchStreamExt, watcher as watch_stream};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::display::{Display, Mark};
use super::harness::SandboxCloud;
pub(super) use nodes::NodeView;
pub(super) use services::ServiceView;

/// Above this many nodes only numbers are shown, not every single change.
const NAMED_NODES: usize = 12;
/// How often a cloud is polled, as none of them can be watched: for a person this is at once.
const LOOK: Duration = Duration::from_millis(100);

/// What events about the manager's configuration are about.
pub(super) const CONFIGURATION: &str = "the configuration";

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    /// Every change.
    Every,
    /// What matters where there are several clouds, each with its name.
    Main,
    /// Nothing about single nodes: there are too many.
    Numbers,
}

/// What there is.
#[derive(Clone, Debug, Default)]
pub(super) struct Views {
    /// All nodes by name.
    pub nodes: BTreeMap<String, NodeView>,
    /// Services that want a load balancer, by name.
    pub services: BTreeMap<String, ServiceView>,
    /// The load balancers of each cloud by id.
    pub balancers: BTreeMap<&'static str, Balancers>,
    /// The first cloud's routes: where packets for each range go.
    pub routes: BTreeMap<String, String>,
    /// The reasons of events about Services, each with the name of its Service, and about the configuration.
    pub events: BTreeSet<(String, String)>,
}

impl Views {
    /// Whether there was an event of that reason about that Service, or about the configuration.
    pub(super) fn has_event(&self, about: &str, reason: &str) -> bool {
        let of_that = |(what, why): &(String, String)| what == about && why == reason;
        self.events.iter().any(of_that)
    }

    /// The id of the load balancer whose address that Service shows, and the load balancer.
    pub(super) fn balancer_of(&self, service: &str) -> Option<(&String, &Balancer)> {
        let mut clouds = self.balancers.keys();
        clouds.find_map(|cloud| self.balancer_at(cloud, service))
    }

    /// The same, if it is that cloud's: several may have given the same address.
    pub(super) fn balancer_at(&self, cloud: &str, service: &str) -> Option<(&String, &Balancer)> {
        let addresses = &self.services.get(service)?.addresses;
        let mut all = self.balancers.get(cloud)?.iter();
        all.find(|(_, it)| addresses.iter().any(|one| it.addresses.contains(one)))
    }

    /// Whether some cloud has a load balancer of that id.
    pub(super) fn has_balancer(&self, id: &str) -> bool {
        self.balancers.values().any(|all| all.contains_key(id))
    }
}

/// The latest view, and a way to wait for a change of it.
#[derive(Clone)]
pub(super) struct Observer(Arc<Inner>);

struct Inner {
    views: watch::Sender<Views>,
    clouds: Vec<Watched>,
    display: Arc<Display>,
    detail: Detail,
}

/// A cloud that is looked at.
struct Watched {
    name: &'static str,
    cloud: Arc<dyn SimulatedCloud>,
    /// What it calls a load balancer, if it has any.
    balancer: Option<&'static str>,
}

impl Observer {
    /// Starts to watch until `stop`.
    pub(super) fn start(
        client: &kube::Client,
        clouds: &[SandboxCloud],
        display: Arc<Display>,
        nodes: usize,
        stop: &CancellationToken,
    ) -> Self {
        let watched = clouds.iter().map(|cloud| Watched {
            name: cloud.name,
            cloud: cloud.simulated().clone(),
            balancer: cloud.kind.balancer.map(|words| words.name),
        });
        let inner = Arc::new(Inner {
            views: watch::Sender::default(),
            clouds: watched.collect(),
            display,
            detail: match clouds.len() {
                _ if nodes > NAMED_NODES => Detail::Numbers,
                1 => Detail::Every,
                _ => Detail::Main,
            },
        });
        let see = inner.clone();
        follow(client, stop, move |it: &Node, there| see.node(it, there));
        let see = inner.clone();
        follow(client, stop, move |it: &Service, there| {
            see.service(it, there);
        });
        let see = inner.clone();
        follow(client, stop, move |it: &Event, there| see.event(it, there));
        tokio::spawn(inner.clone().look_again_and_again(stop.clone()));
        Self(inner)
    }

    /// Waits until `condition` holds and gives what it gives.
    pub(super) async fn until<T>(&self, condition: impl Fn(&Views) -> Option<T>) -> T {
        let mut views = self.0.views.subscribe();
        loop {
            if let Some(found) = condition(&views.borrow_and_update()) {
                return found;
            }
            // The sender lives in `self`, so there is always a next change to wait for.
            let _ = views.changed().await;
        }
    }

    /// How things are now.
    pub(super) fn now(&self) -> Views {
        self.0.views.borrow().clone()
    }
}

impl Inner {
    fn node(&self, node: &Node, there: bool) {
        let (name, new) = (node.name_any(), there.then(|| nodes::view(node)));
        let old = self.views.borrow().nodes.get(&name).cloned();
        let lines = match self.detail {
            Detail::Every => nodes::differences(&name, old.as_ref(), new.as_ref()),
            Detail::Main => nodes::main_differences(&name, old.as_ref(), new.as_ref()),
            Detail::Numbers => Vec::new(),
        };
        self.show(lines);
        self.views
            .send_modify(|views| set(&mut views.nodes, name, new));
    }

    fn service(&self, service: &Service, there: bool) {
        let name = services::name(service);
        let new = services::view(service).filter(|_| there);
        let old = self.views.borrow().services.get(&name).cloned();
        self.look();
        self.show(services::differences(&name, old.as_ref(), new.as_ref()));
        self.views
            .send_modify(|views| set(&mut views.services, name, new));
    }

    /// Prints warnings, announcements, and events about Services; routine events stay in
    /// `kubectl get events`.
    fn event(&self, event: &Event, there: bool) {
        let reason = event.reason.clone().unwrap_or_default();
        let warning = event.type_.as_deref() == Some("Warning");
        let service = services::service_of(event);
        let configuration = reason.starts_with("Configuration");
        let matters = warning || configuration || reason == "DeletingNode";
        if !there || !(matters || service.is_some()) {
            return;
        }
        // Where there are several clouds, what a Service got says enough, and one warning of a kind does.
        let again = event.count.is_some_and(|count| count > 1);
        let routine = !warning && service.is_some();
        let silent = self.detail != Detail::Every && (routine || again);
        let mark = if warning {
            Mark::Warning
        } else {
            Mark::Happened
        };
        let text = event.message.as_deref().unwrap_or_default();
        self.look();
        if !silent {
            self.show(vec![(mark, format!("event {reason}: {text}"))]);
        }
        let about = service.or_else(|| configuration.then(|| CONFIGURATION.to_owned()));
        if let Some(about) = about {
            let event = (about, reason);
            self.views
                .send_if_modified(|views| views.events.insert(event));
        }
    }

    async fn look_again_and_again(self: Arc<Self>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            self.look();
        }
    }

    /// Looks at the clouds. Done before anything else is printed as well, so that what happened first
    /// is printed first.
    fn look(&self) {
        self.look_at_routes();
        for watched in &self.clouds {
            if let Some(word) = watched.balancer {
                self.look_at_balancers(watched, word);
            }
        }
    }

    fn look_at_balancers(&self, watched: &Watched, word: &str) {
        let mut new = watched.cloud.balancers();
        let old = self.views.borrow().balancers.get(watched.name).cloned();
        let old = old.unwrap_or_default();
        for (id, balancer) in &mut new {
            // A change of a load balancer does not unmake it.
            balancer.is_made |= old.get(id).is_some_and(|it| it.is_made);
        }
        if new == old {
            return;
        }
        let ids = old
            .keys()
            .chain(new.keys().filter(|it| !old.contains_key(*it)));
        for id in ids {
            let (before, after) = (old.get(id), new.get(id));
            let lines = match self.detail {
                Detail::Every => balancers::differences(word, before, after, false),
                Detail::Numbers => balancers::differences(word, before, after, true),
                Detail::Main => {
                    let word = format!("{}: {word}", watched.name);
                    balancers::main_differences(&word, before, after)
                }
            };
            let lines = lines.into_iter().map(|text| (Mark::Happened, text));
            self.show(lines.collect());
        }
        self.views.send_modify(|views| {
            views.balancers.insert(watched.name, new);
        });
    }

    fn look_at_routes(&self) {
        let first = self.clouds.first();
        let Some(new) = first.and_then(|it| it.cloud.routes()) else {
            return;
        };
        let old = self.views.borrow().routes.clone();
        if new == old {
            return;
        }
        if self.detail == Detail::Every {
            self.show(routes::differences(&old, &new));
        }
        self.views.send_modify(|views| views.routes = new);
    }

    fn show(&self, lines: Vec<(Mark, String)>) {
        for (mark, text) in lines {
            self.display.line(mark, &text);
        }
    }
}

fn set<V>(kept: &mut BTreeMap<String, V>, name: String, view: Option<V>) {
    match view {
        Some(view) => kept.insert(name, view),
        None => kept.remove(&name),
    };
}

/// Watches all objects of a kind until `stop`: each is seen as it is, or as it was when it went.
fn follow<K>(
    client: &kube::Client,
    stop: &CancellationToken,
    see: impl Fn(&K, bool) + Send + 'static,
) where
    K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let (api, stop) = (Api::<K>::all(client.clone()), stop.clone());
    tokio::spawn(async move {
        let mut changes = pin!(watch_stream(api, watcher::Config::default()).default_backoff());
        while let Some(Some(change)) = stop.run_until_cancelled(changes.next()).await {
            match change {
                Ok(Change::Apply(object) | Change::InitApply(object)) => see(&object, true),
                Ok(Change::Delete(object)) => see(&object, false),
                Ok(Change::Init | Change::InitDone) | Err(_) => {}
            }
        }
    });
}
