//! What must hold all along, whatever happens. It is looked at every few seconds of simulated time, in which nobody but
//! the managers acts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_core::CLEANUP_FINALIZER;
use bowline_scenarios::objects::{finalizers, is_uninitialized, readiness, text};
use bowline_simulator::World;
use bowline_simulator::journal::Entry;
use bowline_simulator::machines::Power;
use bowline_simulator::sandbox::{Balancer, Balancers};
use bowline_simulator_kubernetes::kinds::{self, Kind as Resource};
use bowline_simulator_kubernetes::store::Store;
use jiff::Timestamp;
use serde_json::Value;

/// The load balancers of each cloud, by its name.
pub(crate) type Seen = BTreeMap<String, Balancers>;

/// The routes of each cloud, by its name: where packets for each range go.
pub(crate) type Routes = BTreeMap<String, BTreeMap<String, String>>;

/// The name of what is nobody's of this cluster.
pub(crate) const FOREIGN: &str = "foreign";
/// What names of managers begin with.
pub(crate) const MANAGER: &str = "bowline-";
/// What pod ranges begin with.
pub(crate) const POD_RANGES: &str = "10.244.";
/// The path of the lease that managers compete for.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// A Service that shows the address of a load balancer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shown {
    uid: String,
    cloud: String,
    balancer: String,
}

/// A request for a serving certificate.
pub(crate) struct Asked {
    /// The Node of the kubelet that asked.
    pub(crate) by: String,
    /// Whether it asked for its own names and addresses alone.
    pub(crate) is_own: bool,
}

#[derive(Default)]
pub(crate) struct Invariants {
    /// Revisions of the store that were looked at.
    revision: u64,
    /// Machines, by the names of their Nodes.
    pub(crate) machines: BTreeMap<String, String>,
    /// What belongs to others, as it was first seen.
    foreign: Option<Seen>,
    /// As they were at the last look.
    routes: Routes,
    shown: BTreeSet<Shown>,
    /// Load balancers (cloud, id) of Services that want them, as they were at the last look.
    balancers: BTreeMap<(String, String), Balancer>,
    /// Nodes that are no targets for a reason that people gave, now or once: what follows from that may come late.
    pub(crate) unwanted: BTreeSet<String>,
    /// Nodes that pretend to be others, and which.
    pub(crate) twins: BTreeMap<String, String>,
    /// Clouds whose load balancers know targets by DNS names, of which the cloud itself takes machines that are off.
    by_dns: BTreeSet<String>,
    /// Uids of Services that a restored API server does not know: what is left of them belongs to nobody.
    pub(crate) lost: BTreeSet<String>,
    /// Load balancers (cloud, id) of such Services, and which: they stay, unless another Service takes them over.
    pub(crate) left: BTreeMap<(String, String), String>,
    /// Whether the API server was restored: what it lacks keeps its routes.
    pub(crate) is_restored: bool,
    /// Requests for certificates, by name.
    pub(crate) asked: BTreeMap<String, Asked>,
    /// Load balancers that somebody else deleted.
    pub(crate) removed: BTreeSet<String>,
    /// Who holds the lease.
    holder: Option<String>,
    /// Since when.
    held_since: Option<Timestamp>,
    /// What nobody may tell.
    secrets: Vec<String>,
    broken: Vec<String>,
}

impl Invariants {
    /// Nothing has happened yet.
    pub(crate) fn new(secrets: Vec<String>, by_dns: BTreeSet<String>) -> Self {
        Self {
            by_dns,
            secrets,
            ..Self::default()
        }
    }

    /// What is broken so far.
    pub(crate) fn broken(&self) -> &[String] {
        &self.broken
    }

    /// Notes what is broken.
    pub(crate) fn find(&mut self, broken: impl IntoIterator<Item = String>) {
        for what in broken {
            if !self.broken.contains(&what) {
                self.broken.push(what);
            }
        }
    }

    /// Looks at everything that has happened since the last look.
    pub(crate) fn look(
        &mut self,
        world: &World,
        store: &Store,
        services: &[Value],
        (seen, routes): (&Seen, Routes),
        entries: &[Entry],
    ) {
        let mut broken = self.look_at_objects(world, store, seen);
        broken.extend(Self::look_at_ranges(store));
        broken.extend(self.look_at_routes(world, store, routes));
        broken.extend(self.look_at_foreign(seen));
        broken.extend(self.look_at_balancers(services, seen));
        broken.extend(self.look_at_left(seen));
        broken.extend(self.look_at_targets(world, store, services, seen));
        broken.extend(entries.iter().filter_map(|it| self.look_at_call(it)));
        self.find(broken);
    }

    /// What has happened to the API server up to now is no manager's doing, and these Services are lost.
    pub(crate) fn forget(&mut self, store: &Store, lost: BTreeSet<String>) {
        self.revision = store.revision();
        self.lost.extend(lost);
        self.is_restored = true;
        self.routes.clear();
        self.balancers.clear();
        // Where the lease was restored, it may have been another's.
        self.holder = None;
        self.held_since = None;
    }

    /// Whether a text tells a secret.
    pub(crate) fn tells_secret(&self, text: &str) -> bool {
        self.secrets.iter().any(|it| text.contains(it.as_str()))
    }

    fn look_at_objects(&mut self, world: &World, store: &Store, seen: &Seen) -> Vec<String> {
        let revision = store.revision();
        let changes =
            |kind: &Resource| store.with(|state| state.changes(kind, self.revision, usize::MAX));
        let (nodes, services) = (changes(kind("Node")), changes(kind("Service")));
        self.revision = revision;
        let mut broken = Vec::new();
        for change in nodes {
            let name = &change.path;
            let machine = self.machines.get(name).map_or("", String::as_str);
            let Some(after) = &change.after else {
                // Twins are deleted by people.
                let is_ready =
                    |it: &Arc<Value>| readiness(it) == "True" && self.machines.contains_key(name);
                if world.machines.power(machine).is_some() {
                    broken.push(format!("Node {name} was deleted, and its machine exists"));
                } else if change.before.as_ref().is_some_and(is_ready) {
                    broken.push(format!("Node {name} was deleted while it was Ready"));
                }
                continue;
            };
            let id = text(&after["spec"]["providerID"]);
            let own = machine.rsplit('/').next().unwrap_or_default();
            // Talos names machines after their addresses.
            if !id.is_empty() && !id.ends_with(own) && !id.starts_with("talos://") {
                broken.push(format!(
                    "Node {name} has {id}, and its machine is {machine}"
                ));
            }
            let victim = self.twins.get(name).and_then(|it| self.machines.get(it));
            let is_twin = victim.is_some_and(|it| world.machines.power(it).is_some());
            if is_twin && !is_uninitialized(after) {
                broken.push(format!("Node {name} was initialized as somebody else"));
            }
            let was_tainted = change
                .before
                .as_ref()
                .is_some_and(|it| is_uninitialized(it));
            if was_tainted && !is_uninitialized(after) && id.is_empty() {
                broken.push(format!("Node {name} is initialized without a provider ID"));
            }
        }
        for change in services {
            let Some(before) = &change.before else {
                continue;
            };
            let is_held = |it: &Value| finalizers(it).iter().any(|it| it == CLEANUP_FINALIZER);
            let is_still = change.after.as_ref().is_some_and(|it| is_held(it));
            let uid = text(&before["metadata"]["uid"]);
            if is_held(before) && !is_still && !self.lost.contains(uid) {
                let left = balancers_of(uid, seen).map(|(cloud, id)| {
                    let name = &change.path;
                    format!(
                        "Service {name} lost its finalizer, and load balancer {id} is in {cloud}"
                    )
                });
                broken.extend(left);
            }
        }
        broken
    }

    /// No two Nodes have one pod range.
    fn look_at_ranges(store: &Store) -> Vec<String> {
        let nodes = store.with(|state| state.list(kind("Node"), None));
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        let mut broken = Vec::new();
        for node in &nodes {
            for range in pod_ranges(node) {
                let name = text(&node["metadata"]["name"]);
                if let Some(other) = taken.insert(range, name) {
                    broken.push(format!("Nodes {other} and {name} have pod range {range}"));
                }
            }
        }
        broken
    }

    /// No route goes that a Node needs, and none of somebody else's.
    fn look_at_routes(&mut self, world: &World, store: &Store, routes: Routes) -> Vec<String> {
        let nodes = store.with(|state| state.list(kind("Node"), None));
        let mut broken = Vec::new();
        for (cloud, before) in std::mem::replace(&mut self.routes, routes) {
            let is_there = |range: &str, target: &str| {
                let now = self.routes.get(&cloud).and_then(|it| it.get(range));
                now.is_some_and(|it| it == target)
            };
            for (range, target) in &before {
                if is_there(range, target) {
                    continue;
                }
                if !range.starts_with(POD_RANGES) {
                    broken.push(format!(
                        "the route to {range} in {cloud} is somebody else's"
                    ));
                }
                let needs = |node: &&Arc<Value>| {
                    let name = text(&node["metadata"]["name"]);
                    let machine = self.machines.get(name).map_or("", String::as_str);
                    name.starts_with(&format!("{cloud}."))
                        && world.machines.power(machine).is_some()
                        && pod_ranges(node).any(|it| it == range)
                        && addresses(node).contains(target)
                };
                if let Some(node) = nodes.iter().find(needs) {
                    let name = &node["metadata"]["name"];
                    broken.push(format!(
                        "the route to {range} in {cloud} is gone, and Node {name} needs it"
                    ));
                }
            }
        }
        broken
    }

    /// What is not ours stays as it is.
    fn look_at_foreign(&mut self, seen: &Seen) -> Option<String> {
        let foreign: Seen = seen
            .iter()
            .map(|(cloud, all)| {
                // Others may be renamed to the same.
                let first = self.foreign.as_ref().map(|it| &it[cloud]);
                let all = all.iter().filter(|(id, it)| match first {
                    Some(first) => first.contains_key(*id),
                    None => it.name == FOREIGN,
                });
                let all = all.map(|(id, it)| {
                    let is_made = true;
                    let it = it.clone();
                    (id.clone(), Balancer { is_made, ..it })
                });
                (cloud.clone(), all.collect())
            })
            .collect();
        match &self.foreign {
            None => {
                self.foreign = Some(foreign);
                None
            }
            Some(before) => (*before != foreign)
                .then(|| format!("load balancers of others were {before:?}, and are {foreign:?}")),
        }
    }

    /// A load balancer whose address a Service shows stays while that wants one, and the address goes with it.
    fn look_at_balancers(&mut self, services: &[Value], seen: &Seen) -> Vec<String> {
        let mut broken = Vec::new();
        let wanting: BTreeMap<&str, &Value> = services
            .iter()
            .filter(|it| wants_balancer(it))
            .map(|it| (text(&it["metadata"]["uid"]), it))
            .collect();
        for was in &self.shown {
            let there = seen.get(&was.cloud).and_then(|it| it.get(&was.balancer));
            let is_ours = !self.removed.contains(&was.balancer);
            if !wanting.contains_key(was.uid.as_str()) || !is_ours {
                continue;
            }
            let what = match there {
                None => "was deleted",
                Some(it) if !is_of(it, &was.uid) => "was given away",
                Some(_) => continue,
            };
            broken.push(format!(
                "load balancer {} {what} in {}, and its Service {} wants one",
                was.balancer, was.cloud, was.uid
            ));
        }
        self.shown.clear();
        for (uid, service) in &wanting {
            let published = published(service);
            for (cloud, all) in seen {
                for (id, it) in all.iter().filter(|(_, it)| is_of(it, uid)) {
                    if it.addresses.iter().any(|it| published.contains(it)) {
                        self.shown.insert(Shown {
                            uid: (*uid).to_owned(),
                            cloud: cloud.clone(),
                            balancer: id.clone(),
                        });
                    }
                }
            }
        }
        broken
    }

    /// What a restored API server lacks keeps its load balancer.
    fn look_at_left(&mut self, seen: &Seen) -> Vec<String> {
        let mut broken = Vec::new();
        self.left.retain(|(cloud, id), uid| {
            let there = seen.get(cloud).and_then(|it| it.get(id));
            if there.is_none() && !self.removed.contains(id) {
                broken.push(format!(
                    "load balancer {id} was deleted in {cloud}, and Service {uid} was lost"
                ));
            }
            there.is_some_and(|it| is_of(it, uid))
        });
        broken
    }

    /// No target goes whose Node and machine are there. Lost Nodes apart: their kubelets register anew.
    fn look_at_targets(
        &mut self,
        world: &World,
        store: &Store,
        services: &[Value],
        seen: &Seen,
    ) -> Vec<String> {
        let wanting = services.iter().filter(|it| wants_balancer(it));
        let uids: Vec<&str> = wanting.map(|it| text(&it["metadata"]["uid"])).collect();
        let of_cloud = |(cloud, all): (&String, &Balancers)| {
            let wanted = |it: &Balancer| uids.iter().any(|uid| is_of(it, uid));
            let wanted = all.iter().filter(|(_, it)| wanted(it));
            let wanted = wanted.map(|(id, it)| ((cloud.clone(), id.clone()), it.clone()));
            wanted.collect::<Vec<_>>()
        };
        let now: BTreeMap<_, _> = seen.iter().flat_map(of_cloud).collect();
        let before = std::mem::replace(&mut self.balancers, now);
        if self.is_restored {
            return Vec::new();
        }
        let nodes = store.with(|state| state.list(kind("Node"), None));
        let is_needed = |cloud: &str, target: &str| {
            let machine = self.machines.get(target).map_or("", String::as_str);
            let node = nodes.iter().find(|it| it["metadata"]["name"] == target);
            let is_node = node.is_some_and(|it| !is_uninitialized(it) && deleted(it).is_null());
            let power = world.machines.power(machine);
            let is_known = power == Some(Power::Running) || !self.by_dns.contains(cloud);
            is_node
                && is_known
                && power.is_some()
                && target.starts_with(&format!("{cloud}."))
                && !self.unwanted.contains(target)
        };
        let mut broken = Vec::new();
        for ((cloud, id), before) in &before {
            let now = self.balancers.get(&(cloud.clone(), id.clone()));
            // A pool that is made anew is empty for a moment.
            let Some(now) = now.filter(|it| it.parts == before.parts) else {
                continue;
            };
            let gone = before.targets.difference(&now.targets);
            let needed = gone.filter(|target| is_needed(cloud, target));
            broken.extend(needed.map(|target| {
                format!("load balancer {id} in {cloud} lost target {target}, which is there")
            }));
        }
        broken
    }

    /// Only who holds the lease writes, and nobody writes a secret.
    fn look_at_call(&mut self, entry: &Entry) -> Option<String> {
        // Without a caller, nothing came of it.
        if !entry.is_mutating() || !entry.caller.starts_with(MANAGER) {
            return None;
        }
        if self.tells_secret(&entry.body.to_string()) {
            return Some(format!("a secret was written to {}", entry.path));
        }
        let is_done = entry.status < 400;
        if entry.path.starts_with(LEASE) {
            // Whoever did not hear that it holds the lease does not act on it.
            if is_done && entry.status != 0 {
                let holder = text(&entry.body["spec"]["holderIdentity"]);
                let holder = (!holder.is_empty()).then(|| entry.caller.clone());
                if self.holder != holder {
                    self.held_since = Some(entry.time);
                }
                self.holder = holder;
            }
            return None;
        }
        let is_event = entry.path.contains("/events");
        let is_holder = self.holder.as_ref() == Some(&entry.caller) || self.held_since.is_none();
        // A call that was on its way when the lease changed hands cannot be called back.
        let was_sent_before = self.held_since.is_some_and(|since| entry.arrived <= since);
        (is_done && !is_event && !is_holder && !was_sent_before).then(|| {
            format!(
                "{} wrote to {} while the lease was held by {:?}",
                entry.caller, entry.path, self.holder
            )
        })
    }
}

/// A resource of the core group.
fn kind(name: &str) -> &'static Resource {
    #[expect(clippy::expect_used, reason = "they are there")]
    kinds::by_kind("", "v1", name).expect("a core resource")
}

fn deleted(object: &Value) -> &Value {
    &object["metadata"]["deletionTimestamp"]
}

/// The pod ranges of a Node.
pub(crate) fn pod_ranges(node: &Value) -> impl Iterator<Item = &str> {
    let ranges = node["spec"]["podCIDRs"].as_array();
    ranges.into_iter().flatten().map(text)
}

/// The IP addresses that a Node shows.
pub(crate) fn addresses(node: &Value) -> Vec<String> {
    let all = node["status"]["addresses"].as_array();
    let all = all.into_iter().flatten();
    let all = all.filter(|it| text(&it["type"]).ends_with("IP"));
    all.map(|it| text(&it["address"]).to_owned()).collect()
}

/// Whether a Service asks for a load balancer.
pub(crate) fn wants_balancer(service: &Value) -> bool {
    service["spec"]["type"] == "LoadBalancer" && service["metadata"]["deletionTimestamp"].is_null()
}

/// The addresses that a Service shows.
pub(crate) fn published(service: &Value) -> BTreeSet<String> {
    let all = service["status"]["loadBalancer"]["ingress"].as_array();
    let all = all.into_iter().flatten();
    all.map(|it| text(&it["ip"]).to_owned()).collect()
}

/// Whether a load balancer was made for the Service of that uid.
pub(crate) fn is_of(balancer: &Balancer, uid: &str) -> bool {
    balancer.owner == uid || balancer.name.contains(uid)
}

/// The load balancers that were made for the Service of that uid: cloud and id.
pub(crate) fn balancers_of<'a>(
    uid: &'a str,
    seen: &'a Seen,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    seen.iter().flat_map(move |(cloud, all)| {
        let own = all.iter().filter(move |(_, it)| is_of(it, uid));
        own.map(|(id, _)| (cloud.as_str(), id.as_str()))
    })
}
