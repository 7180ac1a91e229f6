//! Mode `cns`: a DNS name of the nodes, by tags of their machines.
//!
//! ```text
//!  nodes, endpoints ─▶ targets ─┐                        ┌─ tags, machine by machine (tag reconciler)
//!  networks, names ─▶ naming ───┼─▶ plan ─▶ execute ─────┼─ firewall rules
//!  all Services ─▶ labels ──────┘  (pure)                └─ until the name is published ─▶ status
//! ```
//!
//! DNS has no health check: only nodes that are Ready are targets. A label that no Service wants
//! any more goes with the next plan of any Service, if every Service is known and its settings are
//! valid.

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

use super::dns_names;
use super::draft_context::DraftContext;
use super::naming::{Choice, Zones, addresses_on};
use super::settings::{INVALID, Settings, table};
use super::steps::{LABEL, NAME, new, note, push_names, services, withdrawn};
use super::targets::{self, Chosen, Circumstances, Nodes, recorded, sooner};
use crate::api::{Machine, TagValue};
use crate::tags::{self, NODE, Ports, SERVICES};
use execute::{Action, CnsActions, Ending, NAME_LIMIT};
use labels::{Claims, Reader};
use plan::Work;
use publish::Shown;

pub(crate) use orphans::{marked, remove_orphan};

/// How long cached DNS names of targets are used.
const NAMES_AGE: Duration = Duration::from_secs(30);
/// When to look again for a zone that is not known yet.
const ZONE_PAUSE: Duration = Duration::from_secs(15);

struct PlanInputs<'a> {
    context: &'a DraftContext<'a>,
    builder: PlanBuilder<Action>,
    works: Vec<Work>,
    has_targets: bool,
    ending: Ending,
}

/// The plan for a Service in this mode; its annotations are valid.
pub(crate) async fn draft(context: &DraftContext<'_>) -> Result<PreparedPlan, DraftError> {
    let mut inputs = PlanInputs::new(context);
    inputs.look();
    let (mut faults, notices) = check::check(&context.request.service, &context.settings);
    inputs.builder.plan.notices = notices;
    faults.extend(network_fault(context));
    faults.extend(conflict(context));
    if faults.is_empty() && !context.account.triton_cns_enabled {
        if context.shared.config.cns_enable_account {
            inputs.enable_names();
            return Ok(inputs.done());
        }
        faults.push(disabled(context));
    }
    if faults.is_empty() {
        Box::pin(inputs.plan()).await?;
    } else {
        inputs.builder.plan.problems.extend(faults);
        inputs.keep_publication();
    }
    Ok(inputs.done())
}

/// The plan that removes a Service from this mode: empty if it has nothing of it.
pub(crate) async fn removal(context: &DraftContext<'_>) -> Result<PreparedPlan, DraftError> {
    let mut inputs = PlanInputs::new(context);
    let claims = inputs.claims(Goal::Absent);
    let former = inputs.look();
    let shared = shared_entries(context, &claims);
    let mut wanted = BTreeMap::new();
    for label in former {
        if label == context.label {
            wanted.insert(label.to_owned(), shared.clone());
        } else if claims.is_stale(label) {
            wanted.insert(label.to_owned(), BTreeMap::new());
        }
    }
    let none = BTreeSet::new();
    inputs.plan_tags(&Nodes::default(), &wanted, &claims, (&none, &none));
    if context.request.goal == Goal::Absent {
        inputs.plan_rules(&[]).await?;
        context
            .shared
            .metrics
            .forget_service(&context.request.service.key.to_string());
    }
    context
        .shared
        .state
        .holds_nothing(&context.request.service.uid);
    inputs.ending.publication = withdrawn();
    Ok(inputs.done())
}

pub(crate) fn is_involved(context: &DraftContext<'_>) -> bool {
    own_machines(context).any(|it| targets::carries(&it.tags, &context.label))
}

fn own_machines<'a>(context: &'a DraftContext<'_>) -> impl Iterator<Item = &'a Machine> {
    let ours = TagValue::from(context.cluster);
    let machines = context.listing.machines.values();
    machines.filter(move |it| it.tags.get(NODE) == Some(&ours))
}

/// What stays of a label that other Services have too: what is there, without the ports that are
/// this one's alone.
fn shared_entries(context: &DraftContext<'_>, claims: &Claims) -> BTreeMap<Uuid, Ports> {
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
        let same = items.filter(|it| it.name == context.label);
        let ports: Ports = same.map(|it| it.port).collect();
        ports.intersection(&theirs).copied().collect()
    };
    own_machines(context)
        .map(|machine| (machine.id, left(machine)))
        .filter(|(_, ports)| !ports.is_empty())
        .collect()
}

fn network_fault(context: &DraftContext<'_>) -> Option<Problem> {
    let (name, origin) = context.named_network()?;
    if context.network_named(name).is_some() {
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
pub(crate) fn conflict(context: &DraftContext<'_>) -> Option<Problem> {
    if context.settings.cns_service.is_some() {
        // Said so on purpose.
        return None;
    }
    let ours = TagValue::from(context.cluster);
    let is_ours = |machine: &Machine| {
        context.is_node(machine.id)
            || machine.tags.get(NODE) == Some(&ours)
            || machine.tags.get(tags::BALANCER) == Some(&ours)
    };
    let carries = |machine: &Machine| {
        let items = services(&machine.tags);
        items.iter().any(|it| it.name == context.label)
    };
    let mut machines = context.listing.machines.values();
    let other = machines.find(|it| !is_ours(it) && carries(it))?;
    Some(Problem {
        reason: "CNSNameConflict",
        message: format!(
            "machine {} ({}) outside of the cluster has the DNS service {}; annotation {} chooses another \
             label, or shares this one on purpose",
            other.name,
            other.id,
            context.label,
            table::CNS_SERVICE.key
        ),
    })
}

pub(crate) fn disabled(context: &DraftContext<'_>) -> Problem {
    Problem {
        reason: "CNSDisabled",
        message: format!(
            "the name service (CNS) is switched off for account {}: switch triton_cns_enabled on, or let \
             us with cns-enable-account",
            context.account.login
        ),
    }
}

impl<'a> PlanInputs<'a> {
    fn new(context: &'a DraftContext<'a>) -> Self {
        Self {
            context,
            builder: PlanBuilder::default(),
            works: Vec::new(),
            has_targets: false,
            ending: Ending::default(),
        }
    }

    /// Puts what exists of the Service into the plan, and returns its labels.
    fn look(&mut self) -> BTreeSet<&'a str> {
        let context = self.context;
        let recorded = own_machines(context).flat_map(|it| recorded(&it.tags));
        let labels = labels::former(
            &context.request.service,
            &context.label,
            &recorded.collect(),
        );
        self.builder.plan.found = plan::found(&context.listing, context.cluster, &labels);
        labels
    }

    fn claims(&self, goal: Goal) -> Claims {
        let DraftContext {
            shared, request, ..
        } = self.context;
        let reader = Reader {
            config: &shared.config,
            cluster_name: &shared.cluster_name,
            cluster: self.context.cluster,
        };
        let claims = Claims::gather(request, goal, &self.context.label, reader);
        let there = own_machines(self.context).flat_map(|it| recorded(&it.tags));
        shared
            .state
            .note_wanted(claims.of(there.map(str::to_owned)));
        claims
    }

    fn keep_publication(&mut self) {
        self.ending.publication.ingress = self.context.request.service.ingress.clone();
    }

    fn enable_names(&mut self) {
        let account = &self.context.account;
        let why = "the Service needs the name service";
        push_names(&mut self.builder, account, why, Action::EnableNames);
        self.keep_publication();
    }

    async fn plan(&mut self) -> Result<(), DraftError> {
        let context = self.context;
        let service = &context.request.service;
        context.shared.state.forget_others(&context.request.all);
        let claims = self.claims(Goal::Present);
        let not_ready = context.shared.state.not_ready(&context.request.nodes);
        let chosen = self.targets(service, &context.settings, &not_ready);
        let mut entries = BTreeMap::new();
        let own = check::ports(service, context.settings.port_mode);
        add_entries(&mut entries, &chosen, &own);
        for sharer in &claims.sharers {
            let others = self.targets(&sharer.service, &sharer.settings, &not_ready);
            let ports = check::ports(&sharer.service, sharer.settings.port_mode);
            add_entries(&mut entries, &others, &ports);
        }
        self.ending.again = chosen.again;
        self.builder.plan.notices.extend(chosen.notices.clone());
        self.builder.plan.notices.extend(context.nodes.notices());
        let foreign: Vec<Arc<Node>> = context.nodes.foreign.values().cloned().collect();
        context.shared.report_on_nodes(
            "MachineOwnedByOtherCluster",
            &foreign,
            "its machine bears the mark of another cluster and serves no Service of this one",
        );
        self.report_pending();
        self.builder.plan.wanted = plan::wanted(&context.listing, &context.label, &entries);
        let wanted = BTreeMap::from([(context.label.clone(), entries)]);
        let (left, unclear) = (context.left(), context.unclear());
        self.plan_tags(&context.nodes, &wanted, &claims, (&left, &unclear));
        let machines: Vec<Machine> = context.with_nics(&chosen).await?;
        self.plan_rules(&machines).await?;
        Box::pin(self.plan_name(&machines)).await;
        self.follow_label_change(&claims);
        Ok(())
    }

    fn targets(
        &self,
        service: &Service,
        settings: &Settings,
        not_ready: &BTreeMap<String, Duration>,
    ) -> Chosen {
        let context = self.context;
        let none = BTreeSet::new();
        let local = service.traffic_policy == TrafficPolicy::Local;
        let endpoints = context.request.endpoints.as_ref().filter(|_| local);
        let serving = endpoints.map(|it| it.get(&service.key).unwrap_or(&none));
        let here = Circumstances {
            settings,
            label: &context.label,
            serving,
            not_ready,
        };
        let mut chosen = targets::choose(&context.nodes, here);
        let state = &context.shared.state;
        let lasting = state.without_endpoints(service, chosen.lacks_endpoints);
        chosen.without_endpoints_for(lasting);
        chosen
    }

    /// Reports machines whose tags do not change; the plan does not wait for them.
    fn report_pending(&mut self) {
        let nodes = &self.context.nodes.ours;
        let shared = self.context.shared;
        let pending = shared.state.pending(|id| nodes.contains_key(&id));
        let text =
            "the tags of its machine do not change, perhaps because its compute node is down";
        let of = |id: &Uuid| nodes.get(id).map(|it| it.node.clone());
        let their_nodes: Vec<Arc<Node>> = pending.keys().filter_map(of).collect();
        shared.report_on_nodes("CNSTagPending", &their_nodes, text);
        if !pending.is_empty() {
            self.builder.plan.notices.push(Notice {
                warning: true,
                reason: "CNSTagPending",
                message: format!(
                    "the tags of machines [{}] do not change, perhaps because their compute node is down; \
                     they are tried again every minute, and nothing waits for them",
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
        let context = self.context;
        let reconciler = &context.shared.tags;
        let unreconciled = reconciler.unreconciled();
        let request = plan::CnsRequest {
            cluster: context.cluster,
            is_held: &|machine, label| {
                execute::is_held(context.shared, &context.request.service.uid, machine, label)
            },
            unreconciled: &unreconciled,
            nodes,
            labels,
            claims,
            left,
            unclear,
        };
        let works = request.works(&context.listing, |machine, label, ports| {
            reconciler.shows(context.cluster, (machine.id, &machine.tags), label, ports)
        });
        let mut bad = Vec::new();
        for work in works {
            self.await_tags_before(Some(&work));
            let machine = context.listing.machines.get(&work.machine);
            let tags = machine.map(|it| it.tags.clone()).unwrap_or_default();
            match plan::preview(&tags, &work, context.cluster) {
                Ok(changes) => {
                    let reason = work.reason();
                    let impact = plan::impact(&work, &tags, labels);
                    let note = note(impact, Some(&reason), &[]);
                    let action = Action::Tags(self.works.len());
                    self.builder
                        .change(plan::object(&work), changes, &note, action);
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
        let text = format!("tag {SERVICES} of its machine cannot be parsed and stays untouched");
        if context.request.goal == Goal::Present {
            context.shared.report_on_nodes("BadCNSTag", &bad, &text);
        }
        let targets = labels.values().flat_map(BTreeMap::keys);
        let written: BTreeSet<Uuid> = self.works.iter().map(|it| it.machine).collect();
        self.has_targets = targets.into_iter().any(|id| !written.contains(id));
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
        let note = note(Impact::None, Some(why), &[]);
        let object = new(LABEL, &self.context.label);
        self.builder.wait(object, &note, Action::AwaitTags { puts });
    }

    /// The name, where it is published, and what is shown of it.
    async fn plan_name(&mut self, machines: &[Machine]) {
        let context = self.context;
        let ids: Vec<Uuid> = machines.iter().map(|it| it.id).collect();
        let names = dns_names::read(context.shared, &ids, NAMES_AGE).await;
        let targets: Vec<&Machine> = machines.iter().collect();
        let network = context.named_network().map(|it| it.0);
        let zones = Zones {
            networks: &context.networks,
            account: context.account.id,
            targets: &targets,
            names: &names,
            internal: context.settings.internal,
            network: network.and_then(|it| context.network_named(it)),
            zone: context.configured_zone(),
            published: context.published(),
        };
        let (hostname, network) = match zones.choose() {
            Choice::Place(place) => {
                self.report_other_zones(&place.others);
                let hostname = format!("{}.{}", context.label, place.suffix);
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
                let begin = format!("{}.svc.", context.label);
                let published = context.published().filter(|it| it.starts_with(&begin));
                (published.map(str::to_owned), None)
            }
        };
        if let Some(hostname) = hostname.as_ref().filter(|_| !ids.is_empty()) {
            self.plan_wait(hostname, ids, &names);
        }
        let addresses = machines
            .iter()
            .flat_map(|it| addresses_on(it, network, &context.networks))
            .collect();
        let shown = Shown {
            settings: &context.settings,
            hostname: hostname.as_deref(),
            addresses: &addresses,
            has_ip_mode: context.request.has_ip_mode,
        };
        let (ingress, notice) = shown.ingress();
        self.builder.plan.notices.extend(notice);
        let status = shown.status(&context.request.service);
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
        } = self.context;
        let there = names
            .values()
            .any(|names| names.iter().any(|it| it == hostname));
        if there && self.works.iter().all(|it| !it.puts()) {
            shared.state.arrived(&request.service.uid);
            shared
                .metrics
                .published(&request.service.key.to_string(), true);
            return;
        }
        let lasting = shared.state.awaited(&request.service.uid, hostname);
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
        let note = note(Impact::None, Some(why), &[]);
        let action = Action::AwaitName {
            hostname: hostname.to_owned(),
            machines: machines.into_iter().take(dns_names::ASKED).collect(),
        };
        self.builder.wait(new(NAME, hostname), &note, action);
    }

    fn report_other_zones(&mut self, others: &[String]) {
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
        let context = self.context;
        let mut former = own_machines(context).flat_map(|it| recorded(&it.tags));
        let label = context.label.as_str();
        let begin = |label: &str| format!("{label}.svc.");
        let shown = context.published().unwrap_or_default();
        if former.any(|it| it != label && claims.is_shown(it) && shown.starts_with(&begin(it))) {
            self.ending.again = sooner(self.ending.again, execute::SOON);
        }
    }

    fn done(self) -> PreparedPlan {
        let context = self.context;
        let PlanBuilder { mut plan, actions } = self.builder;
        if context.request.goal == Goal::Present {
            plan.held = context.holding(&context.label);
        }
        let before = Publication {
            ingress: context.request.service.ingress.clone(),
            withdrawn: self.ending.publication.withdrawn.clone(),
            ..Publication::default()
        };
        let executor = CnsActions {
            shared: Arc::clone(context.shared),
            cluster: context.cluster.to_owned(),
            service: context.request.service.clone(),
            actions,
            works: self.works,
            has_targets: self.has_targets,
            before,
            ending: self.ending,
            started: BTreeSet::new(),
            outcomes: BTreeMap::new(),
            has_failed: false,
        };
        PreparedPlan::new(plan, Box::new(executor))
    }
}

fn add_entries(entries: &mut BTreeMap<Uuid, Ports>, chosen: &Chosen, ports: &Ports) {
    for id in chosen.targets.keys() {
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
