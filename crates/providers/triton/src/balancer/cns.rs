//! Mode `cns`: a DNS name of the nodes, by tags of their machines.
//!
//! ```text
//!  nodes, endpoints ─▶ members ─┐                        ┌─ tags, machine by machine (the keeper)
//!  networks, names ─▶ naming ───┼─▶ plan ─▶ execute ─────┼─ firewall rules
//!  all Services ─▶ labels ──────┘  (pure)                └─ until the name is published ─▶ status
//! ```
//!
//! DNS has no health check: only nodes that are Ready are members. A label that no Service wants any
//! more goes with the next plan of any Service, if every Service is known and can be understood.

mod check;
mod execute;
mod firewall;
mod labels;
mod orphans;
mod plan;
mod publish;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    DraftError, Goal, Impact, Node, Notice, PlanBuilder, PreparedPlan, Problem, Publication,
    Service, TrafficPolicy, name_list,
};
use uuid::Uuid;

use super::members::{self, Chosen, Circumstances, Nodes, recorded, sooner};
use super::names;
use super::naming::{Choice, Zones, addresses_on};
use super::parts::{LABEL, NAME, new, push_names, remark, services, withdrawn};
use super::scene::DraftContext;
use super::settings::{INVALID, Settings, table};
use crate::api::{Machine, TagValue};
use crate::tags::{self, NODE, Ports, SERVICES};
use execute::{Action, CnsActions, Ending, NAME_LIMIT};
use labels::{Claims, Reader};
use plan::Work;
use publish::Shown;

pub(crate) use orphans::{marked, remove_orphan};

/// For how long the DNS names of members are believed.
const NAMES_AGE: Duration = Duration::from_secs(30);
/// When to look again for a zone that nobody knows yet.
const ZONE_PAUSE: Duration = Duration::from_secs(15);

struct PlanInputs<'a> {
    scene: &'a DraftContext<'a>,
    builder: PlanBuilder<Action>,
    works: Vec<Work>,
    has_members: bool,
    ending: Ending,
}

/// The plan for a Service that is to be served so. Nothing is wrong with its annotations.
pub(crate) async fn draft(scene: &DraftContext<'_>) -> Result<PreparedPlan, DraftError> {
    let mut making = PlanInputs::new(scene);
    making.look();
    let (mut faults, notices) = check::check(&scene.request.service, &scene.settings);
    making.builder.plan.notices = notices;
    faults.extend(network_fault(scene));
    faults.extend(conflict(scene));
    if faults.is_empty() && !scene.account.triton_cns_enabled {
        if scene.shared.config.cns_enable_account {
            making.enable_names();
            return Ok(making.done());
        }
        faults.push(disabled(scene));
    }
    if faults.is_empty() {
        Box::pin(making.plan()).await?;
    } else {
        making.builder.plan.problems.extend(faults);
        making.keep_publication();
    }
    Ok(making.done())
}

/// The plan for a Service that is to be served so no more: empty if it has nothing of this mode.
pub(crate) async fn removal(scene: &DraftContext<'_>) -> Result<PreparedPlan, DraftError> {
    let mut making = PlanInputs::new(scene);
    let claims = making.claims(Goal::Absent);
    let former = making.look();
    let shared = shared_entries(scene, &claims);
    let mut wanted = BTreeMap::new();
    for label in former {
        if label == scene.label {
            wanted.insert(label.to_owned(), shared.clone());
        } else if claims.is_stale(label) {
            wanted.insert(label.to_owned(), BTreeMap::new());
        }
    }
    let none = BTreeSet::new();
    making.plan_tags(&Nodes::default(), &wanted, &claims, (&none, &none));
    if scene.request.goal == Goal::Absent {
        making.plan_rules(&[]).await?;
        scene
            .shared
            .metrics
            .forget_service(&scene.request.service.key.to_string());
    }
    scene
        .shared
        .memory
        .holds_nothing(&scene.request.service.uid);
    making.ending.publication = withdrawn();
    Ok(making.done())
}

pub(crate) fn is_involved(scene: &DraftContext<'_>) -> bool {
    own_machines(scene).any(|it| members::carries(&it.tags, &scene.label))
}

fn own_machines<'a>(scene: &'a DraftContext<'_>) -> impl Iterator<Item = &'a Machine> {
    let ours = TagValue::from(scene.cluster);
    let machines = scene.listing.machines.values();
    machines.filter(move |it| it.tags.get(NODE) == Some(&ours))
}

/// What stays of a label that other Services have too: what is there, without the ports that are this
/// one's alone.
fn shared_entries(scene: &DraftContext<'_>, claims: &Claims) -> BTreeMap<Uuid, Ports> {
    if claims.sharers.is_empty() {
        return BTreeMap::new();
    }
    let theirs: Ports = claims
        .sharers
        .iter()
        .flat_map(|it| check::ports(&it.service, it.settings.port_mode))
        .collect();
    let left = |machine: &Machine| -> Ports {
        let items = services(&machine.tags).into_iter();
        let same = items.filter(|it| it.name == scene.label);
        let ports: Ports = same.map(|it| it.port).collect();
        ports.intersection(&theirs).copied().collect()
    };
    own_machines(scene)
        .map(|machine| (machine.id, left(machine)))
        .filter(|(_, ports)| !ports.is_empty())
        .collect()
}

fn network_fault(scene: &DraftContext<'_>) -> Option<Problem> {
    let (name, origin) = scene.named_network()?;
    if scene.network_named(name).is_some() {
        return None;
    }
    let (reason, origin) = match origin {
        None => (INVALID, format!("annotation {}", table::CNS_NETWORK.key)),
        Some(key) => ("NetworkNotFound", format!("configuration {key}")),
    };
    Some(Problem {
        reason,
        message: format!("{origin}: there is no network {name:?}"),
    })
}

/// A machine of somebody else's already has the label.
pub(crate) fn conflict(scene: &DraftContext<'_>) -> Option<Problem> {
    if scene.settings.cns_service.is_some() {
        // Said so on purpose.
        return None;
    }
    let ours = TagValue::from(scene.cluster);
    let is_ours = |machine: &Machine| {
        scene.is_node(machine.id)
            || machine.tags.get(NODE) == Some(&ours)
            || machine.tags.get(tags::BALANCER) == Some(&ours)
    };
    let carries = |machine: &Machine| {
        let items = services(&machine.tags);
        items.iter().any(|it| it.name == scene.label)
    };
    let mut machines = scene.listing.machines.values();
    let other = machines.find(|it| !is_ours(it) && carries(it))?;
    Some(Problem {
        reason: "CNSNameConflict",
        message: format!(
            "machine {} ({}) outside of the cluster has the DNS service {}; annotation {} chooses another \
             label, or shares this one on purpose",
            other.name,
            other.id,
            scene.label,
            table::CNS_SERVICE.key
        ),
    })
}

pub(crate) fn disabled(scene: &DraftContext<'_>) -> Problem {
    Problem {
        reason: "CNSDisabled",
        message: format!(
            "the name service (CNS) is switched off for account {}: switch triton_cns_enabled on, or let \
             us with cns-enable-account",
            scene.account.login
        ),
    }
}

impl<'a> PlanInputs<'a> {
    fn new(scene: &'a DraftContext<'a>) -> Self {
        Self {
            scene,
            builder: PlanBuilder::default(),
            works: Vec::new(),
            has_members: false,
            ending: Ending::default(),
        }
    }

    /// Shows what is there of the Service, and says under which labels.
    fn look(&mut self) -> BTreeSet<&'a str> {
        let scene = self.scene;
        let recorded = own_machines(scene).flat_map(|it| recorded(&it.tags));
        let labels = labels::former(&scene.request.service, &scene.label, &recorded.collect());
        self.builder.plan.found = plan::found(&scene.listing, scene.cluster, &labels);
        labels
    }

    fn claims(&self, goal: Goal) -> Claims {
        let DraftContext {
            shared, request, ..
        } = self.scene;
        let reader = Reader {
            config: &shared.config,
            cluster_name: &shared.cluster_name,
            cluster: self.scene.cluster,
        };
        let claims = Claims::gather(request, goal, &self.scene.label, reader);
        let there = own_machines(self.scene).flat_map(|it| recorded(&it.tags));
        shared
            .memory
            .note_wanted(claims.of(there.map(str::to_owned)));
        claims
    }

    fn keep_publication(&mut self) {
        self.ending.publication.ingress = self.scene.request.service.ingress.clone();
    }

    fn enable_names(&mut self) {
        let account = &self.scene.account;
        let why = "the Service needs the name service";
        push_names(&mut self.builder, account, why, Action::EnableNames);
        self.keep_publication();
    }

    async fn plan(&mut self) -> Result<(), DraftError> {
        let scene = self.scene;
        let service = &scene.request.service;
        scene.shared.memory.forget_others(&scene.request.all);
        let claims = self.claims(Goal::Present);
        let not_ready = scene.shared.memory.not_ready(&scene.request.nodes);
        let chosen = self.members(service, &scene.settings, &not_ready);
        let mut entries = BTreeMap::new();
        let own = check::ports(service, scene.settings.port_mode);
        add_entries(&mut entries, &chosen, &own);
        for sharer in &claims.sharers {
            let others = self.members(&sharer.service, &sharer.settings, &not_ready);
            let ports = check::ports(&sharer.service, sharer.settings.port_mode);
            add_entries(&mut entries, &others, &ports);
        }
        self.ending.again = chosen.again;
        self.builder.plan.notices.extend(chosen.notices.clone());
        self.builder.plan.notices.extend(scene.nodes.notices());
        let foreign: Vec<Arc<Node>> = scene.nodes.foreign.values().cloned().collect();
        scene.shared.tell_nodes(
            "MachineOwnedByOtherCluster",
            &foreign,
            "its machine bears the mark of another cluster and serves no Service of this one",
        );
        self.tell_pending();
        self.builder.plan.wanted = plan::wanted(&scene.listing, &scene.label, &entries);
        let wanted = BTreeMap::from([(scene.label.clone(), entries)]);
        let (left, unclear) = (scene.left(), scene.unclear());
        self.plan_tags(&scene.nodes, &wanted, &claims, (&left, &unclear));
        let machines: Vec<Machine> = scene.with_nics(&chosen).await?;
        self.plan_rules(&machines).await?;
        Box::pin(self.plan_name(&machines)).await;
        self.follow_label_change(&claims);
        Ok(())
    }

    fn members(
        &self,
        service: &Service,
        settings: &Settings,
        not_ready: &BTreeMap<String, Duration>,
    ) -> Chosen {
        let scene = self.scene;
        let none = BTreeSet::new();
        let local = service.traffic_policy == TrafficPolicy::Local;
        let endpoints = scene.request.endpoints.as_ref().filter(|_| local);
        let serving = endpoints.map(|it| it.get(&service.key).unwrap_or(&none));
        let here = Circumstances {
            settings,
            label: &scene.label,
            serving,
            not_ready,
        };
        let mut chosen = members::choose(&scene.nodes, here);
        let memory = &scene.shared.memory;
        let lasting = memory.without_endpoints(service, chosen.lacks_endpoints);
        chosen.without_endpoints_for(lasting);
        chosen
    }

    /// Machines whose tags do not change are told about and not waited for.
    fn tell_pending(&mut self) {
        let nodes = &self.scene.nodes.ours;
        let shared = self.scene.shared;
        let pending = shared.memory.pending(|id| nodes.contains_key(&id));
        let text =
            "the tags of its machine do not change, perhaps because its compute node is down";
        let of = |id: &Uuid| nodes.get(id).map(|it| it.node.clone());
        let their_nodes: Vec<Arc<Node>> = pending.keys().filter_map(of).collect();
        shared.tell_nodes("CNSTagPending", &their_nodes, text);
        if !pending.is_empty() {
            self.builder.plan.notices.push(Notice {
                warning: true,
                reason: "CNSTagPending",
                message: format!(
                    "the tags of machines [{}] do not change, perhaps because their compute node is down; \
                     they are tried again every minute, and nobody waits for them",
                    name_list(pending.values().map(String::as_str))
                ),
            });
        }
    }

    fn plan_tags(
        &mut self,
        nodes: &Nodes,
        labels: &BTreeMap<String, BTreeMap<Uuid, Ports>>,
        claims: &Claims,
        (left, unclear): (&BTreeSet<Uuid>, &BTreeSet<Uuid>),
    ) {
        let scene = self.scene;
        let keeper = &scene.shared.keeper;
        let unsettled = keeper.unsettled();
        let request = plan::CnsRequest {
            cluster: scene.cluster,
            is_held: &|machine, label| {
                execute::is_held(scene.shared, &scene.request.service.uid, machine, label)
            },
            unsettled: &unsettled,
            nodes,
            labels,
            claims,
            left,
            unclear,
        };
        let works = request.works(&scene.listing, |machine, label, ports| {
            keeper.shows(scene.cluster, (machine.id, &machine.tags), label, ports)
        });
        let mut bad = Vec::new();
        for work in works {
            self.await_tags_before(Some(&work));
            let machine = scene.listing.machines.get(&work.machine);
            let tags = machine.map(|it| it.tags.clone()).unwrap_or_default();
            match plan::preview(&tags, &work, scene.cluster) {
                Ok(changes) => {
                    let reason = work.reason();
                    let impact = plan::impact(&work, &tags, labels);
                    let remark = remark(impact, Some(&reason), &[]);
                    let action = Action::Tags(self.works.len());
                    self.builder
                        .change(plan::object(&work), changes, &remark, action);
                    self.works.push(work);
                }
                Err(notice) => {
                    let node = nodes.ours.get(&work.machine);
                    bad.extend(node.map(|it| it.node.clone()));
                    self.builder.plan.notices.push(notice);
                }
            }
        }
        self.await_tags_before(None);
        let text = format!("tag {SERVICES} of its machine cannot be understood and is left alone");
        if scene.request.goal == Goal::Present {
            scene.shared.tell_nodes("BadCNSTag", &bad, &text);
        }
        let members = labels.values().flat_map(BTreeMap::keys);
        let written: BTreeSet<Uuid> = self.works.iter().map(|it| it.machine).collect();
        self.has_members = members.into_iter().any(|id| !written.contains(id));
    }

    /// What machines get shows before others lose it, and all of it before the plan ends.
    fn await_tags_before(&mut self, next: Option<&Work>) {
        let Some(puts) = self.works.last().map(Work::puts) else {
            return;
        };
        if next.is_some_and(|next| next.puts() == puts) {
            return;
        }
        let why = "machines show their tags some seconds later";
        let remark = remark(Impact::None, Some(why), &[]);
        let object = new(LABEL, &self.scene.label);
        self.builder
            .wait(object, &remark, Action::AwaitTags { puts });
    }

    /// The name, where it is published, and what is shown of it.
    async fn plan_name(&mut self, machines: &[Machine]) {
        let scene = self.scene;
        let ids: Vec<Uuid> = machines.iter().map(|it| it.id).collect();
        let names = names::read(scene.shared, &ids, NAMES_AGE).await;
        let members: Vec<&Machine> = machines.iter().collect();
        let network = scene.named_network().map(|it| it.0);
        let zones = Zones {
            networks: &scene.networks,
            account: scene.account.id,
            members: &members,
            names: &names,
            internal: scene.settings.internal,
            network: network.and_then(|it| scene.network_named(it)),
            zone: scene.configured_zone(),
            published: scene.published(),
        };
        let (hostname, network) = match zones.choose() {
            Choice::Place(place) => {
                self.tell_other_zones(&place.others);
                let hostname = format!("{}.{}", scene.label, place.suffix);
                (Some(hostname), place.network)
            }
            Choice::Unclear(zones) => {
                self.builder.plan.problems.push(unclear(&zones));
                (None, None)
            }
            Choice::Unknown => {
                if !machines.is_empty() {
                    self.ending.again = sooner(self.ending.again, ZONE_PAUSE);
                }
                let begin = format!("{}.svc.", scene.label);
                let published = scene.published().filter(|it| it.starts_with(&begin));
                (published.map(str::to_owned), None)
            }
        };
        if let Some(hostname) = hostname.as_ref().filter(|_| !ids.is_empty()) {
            self.plan_wait(hostname, ids, &names);
        }
        let addresses = machines
            .iter()
            .flat_map(|it| addresses_on(it, network, &scene.networks))
            .collect();
        let shown = Shown {
            settings: &scene.settings,
            hostname: hostname.as_deref(),
            addresses: &addresses,
            has_ip_mode: scene.request.has_ip_mode,
        };
        let (ingress, notice) = shown.ingress();
        self.builder.plan.notices.extend(notice);
        let status = shown.status(&scene.request.service);
        self.ending.publication = Publication {
            annotations: BTreeMap::from([(table::STATUS.key.to_owned(), status)]),
            ingress,
            ..Publication::default()
        };
    }

    /// Waits for the name to be published, unless it is, or never seems to be.
    fn plan_wait(
        &mut self,
        hostname: &str,
        machines: Vec<Uuid>,
        names: &BTreeMap<Uuid, Vec<String>>,
    ) {
        let DraftContext {
            shared, request, ..
        } = self.scene;
        let there = names
            .values()
            .any(|names| names.iter().any(|it| it == hostname));
        if there && self.works.iter().all(|it| !it.puts()) {
            shared.memory.arrived(&request.service.uid);
            shared
                .metrics
                .published(&request.service.key.to_string(), true);
            return;
        }
        let lasting = shared.memory.awaited(&request.service.uid, hostname);
        if lasting.is_some_and(|it| it >= NAME_LIMIT) && !there {
            self.builder.plan.notices.push(not_published(hostname));
            shared
                .metrics
                .published(&request.service.key.to_string(), false);
            return;
        }
        if there {
            return;
        }
        let why = "CNS publishes changes every ten seconds";
        let remark = remark(Impact::None, Some(why), &[]);
        let action = Action::AwaitName {
            hostname: hostname.to_owned(),
            machines: machines.into_iter().take(names::ASKED).collect(),
        };
        self.builder.wait(new(NAME, hostname), &remark, action);
    }

    fn tell_other_zones(&mut self, others: &[String]) {
        if !others.is_empty() {
            self.builder.plan.notices.push(Notice {
                warning: false,
                reason: "AmbiguousCNSZone",
                message: format!(
                    "the name could be published under {} as well: public-network in the configuration, or \
                     annotation {}, says which network is meant",
                    others.join(", "),
                    table::CNS_NETWORK.key
                ),
            });
        }
    }

    /// A former label goes when another name is shown in its place.
    fn follow_label_change(&mut self, claims: &Claims) {
        let scene = self.scene;
        let mut former = own_machines(scene).flat_map(|it| recorded(&it.tags));
        let label = scene.label.as_str();
        let begin = |label: &str| format!("{label}.svc.");
        let shown = scene.published().unwrap_or_default();
        if former.any(|it| it != label && claims.is_shown(it) && shown.starts_with(&begin(it))) {
            self.ending.again = sooner(self.ending.again, execute::SOON);
        }
    }

    fn done(self) -> PreparedPlan {
        let scene = self.scene;
        let PlanBuilder { mut plan, actions } = self.builder;
        if scene.request.goal == Goal::Present {
            plan.held = scene.holding(&scene.label);
        }
        let before = Publication {
            ingress: scene.request.service.ingress.clone(),
            withdrawn: self.ending.publication.withdrawn.clone(),
            ..Publication::default()
        };
        let executor = CnsActions {
            shared: Arc::clone(scene.shared),
            cluster: scene.cluster.to_owned(),
            service: scene.request.service.clone(),
            actions,
            works: self.works,
            has_members: self.has_members,
            before,
            ending: self.ending,
            told: BTreeSet::new(),
            settled: BTreeMap::new(),
            has_failed: false,
        };
        PreparedPlan::new(plan, Box::new(executor))
    }
}

fn add_entries(entries: &mut BTreeMap<Uuid, Ports>, chosen: &Chosen, ports: &Ports) {
    for id in chosen.members.keys() {
        entries.entry(*id).or_default().extend(ports);
    }
}

fn unclear(zones: &BTreeSet<String>) -> Problem {
    let zones: Vec<&str> = zones.iter().map(String::as_str).collect();
    Problem {
        reason: "AmbiguousCNSZone",
        message: format!(
            "the machines have names in several zones ({}), and the networks do not say which is meant: \
             configure cns-suffix-public or cns-suffix-private",
            zones.join(", ")
        ),
    }
}

fn not_published(hostname: &str) -> Notice {
    Notice {
        warning: true,
        reason: "CNSNotPublished",
        message: format!(
            "CNS has not published {hostname} within {} seconds; it is shown all the same",
            NAME_LIMIT.as_secs()
        ),
    }
}
