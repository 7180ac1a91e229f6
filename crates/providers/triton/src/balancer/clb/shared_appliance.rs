//! An appliance that somebody else manages: which Services name it, and the plan of one of them.

use std::collections::BTreeMap;

use bowline_core::{DraftError, Impact, PreparedPlan, Problem, Service};
use serde_json::Value;
use uuid::Uuid;

use super::backend::{self, Form, Names};
use super::draft::{prepared, rules, still};
use super::execute::PlanFacts;
use super::machines::{CLUSTER_TAG, Leaving, NAMES_TAG, SERVICE_TAG};
use super::metadata::{LOADBALANCER, OURS, PORTMAP};
use super::networks::Question;
use super::plan::{self, AWAITED, Action, Departure, PlanBuilder, Planned};
use super::portmap::{self, Entry};
use super::publish::{Publisher, ports};
use super::shared_map::{Claim, SharedMap, View};
use super::{backend_labels, observe};
use crate::api::Machine;
use crate::balancer::dns_names;
use crate::balancer::draft_context::DraftContext;
use crate::balancer::settings::{Mode, Publish, Settings, table};
use crate::balancer::steps::{NAME, change, new, note, seen};
use crate::id::hyphenated;

/// The port map of a machine, and what in it is of clusters.
pub(crate) fn map_of(metadata: &BTreeMap<String, crate::api::TagValue>) -> SharedMap {
    let text = |key: &str| metadata.get(key).map_or(String::new(), ToString::to_string);
    SharedMap {
        portmap: text(PORTMAP),
        record: text(OURS),
    }
}

fn names_it(text: &str, machine: &Machine) -> bool {
    match hyphenated(text) {
        Some(id) => id == machine.id,
        None => text == machine.name,
    }
}

fn claims(context: &DraftContext<'_>, machine: &Machine) -> Vec<Claim> {
    let config = &context.shared.config;
    let own = &context.request.service.uid;
    let all = context.request.all.iter();
    let others = all.filter(|it| it.uid != *own && it.is_load_balancer && !it.deleting);
    let names = |service: &&std::sync::Arc<Service>| {
        let (settings, faults) = Settings::read(service, config);
        let served = settings.mode_or(config) == Some(Mode::Clb) || !faults.is_empty();
        let name = settings.clb.lb_instance;
        served && name.is_some_and(|it| names_it(&it, machine))
    };
    others.filter(names).map(|it| Claim::of(it)).collect()
}

/// Machines with port map entries that no Service wants: of this one, which named them before, or
/// of one that is gone.
fn leftovers<'a>(
    context: &'a DraftContext<'_>,
    except: Option<Uuid>,
) -> Vec<(&'a Machine, Vec<Claim>)> {
    if !context.request.all_known {
        return Vec::new();
    }
    let labels = backend_labels::labels(context);
    let machines = context.listing.machines.values();
    let marked = machines.filter(|it| it.metadata.contains_key(OURS) && Some(it.id) != except);
    let left = marked.filter_map(|machine| {
        let (map, others) = (map_of(&machine.metadata), claims(context, machine));
        let view = View {
            map: &map,
            labels: &labels,
            others: &others,
        };
        let without = view.with(&context.request.service.key, &[]);
        (without != map).then_some((machine, others))
    });
    left.collect()
}

/// Whether entries of this Service may remain where it is not served any more.
pub(crate) fn has_left_something(context: &DraftContext<'_>) -> bool {
    !leftovers(context, None).is_empty()
}

/// Adds the steps that remove unwanted entries; returns the other Services that name those
/// machines.
pub(crate) fn push_leftovers(
    context: &DraftContext<'_>,
    builder: &mut PlanBuilder,
    except: Option<Uuid>,
) -> BTreeMap<Uuid, Vec<Claim>> {
    let mut sharing = BTreeMap::new();
    for (machine, others) in leftovers(context, except) {
        let map = map_of(&machine.metadata);
        let labels = backend_labels::labels(context);
        let view = View {
            map: &map,
            labels: &labels,
            others: &others,
        };
        let after = view.with(&context.request.service.key, &[]);
        push_map(builder, machine, (&map, &after), false, &[]);
        sharing.insert(machine.id, others);
    }
    sharing
}

fn push_map(
    builder: &mut PlanBuilder,
    machine: &Machine,
    (before, after): (&SharedMap, &SharedMap),
    brings: bool,
    needs: &[usize],
) -> usize {
    let text = |it: &str| match it {
        "" => Value::Null,
        it => Value::String(it.to_owned()),
    };
    let (old, new) = (text(&before.portmap), text(&after.portmap));
    let changes = vec![change(PORTMAP, old, new)];
    let why = "the machine is shared; entries of others stay";
    let note = note(Impact::InPlace, Some(why), needs);
    let action = Action::ShareMap {
        id: machine.id,
        brings,
    };
    builder.change(seen(machine), changes, &note, action)
}

/// The machine that the Service names, or why it cannot be used.
fn target<'a>(context: &'a DraftContext<'_>, name: &str) -> Result<&'a Machine, Problem> {
    let problem = |message: String| Problem {
        reason: "LBInstanceUnusable",
        message: format!("annotation {}: {message}", table::LB_INSTANCE.key),
    };
    let machines = context.listing.machines.values();
    let mut found = machines.filter(|it| names_it(name, it));
    let (Some(machine), None) = (found.next(), found.next()) else {
        return Err(problem(format!(
            "there is no machine {name:?}, or there are several"
        )));
    };
    let switch = machine.metadata.get(LOADBALANCER).map(ToString::to_string);
    if switch.as_deref() != Some("true") {
        let text =
            format!("machine {name:?} is no load balancer: its metadata lacks {LOADBALANCER}");
        return Err(problem(text));
    }
    if machine.tags.contains_key(CLUSTER_TAG) {
        let owner = machine.tags.get(SERVICE_TAG).map(ToString::to_string);
        let owner = owner.unwrap_or_default();
        return Err(problem(format!(
            "machine {name:?} was made for Service {owner}"
        )));
    }
    Ok(machine)
}

pub(crate) async fn draft(
    context: &DraftContext<'_>,
    name: &str,
) -> Result<PreparedPlan, DraftError> {
    let machine = match target(context, name) {
        Ok(machine) => context.shared.data_center.with_nics(machine).await?,
        Err(problem) => return Ok(still(context, vec![problem])),
    };
    let publish = context.settings.publish.unwrap_or(Publish::Ip);
    if publish != Publish::Ip && context.settings.hostname.is_none() {
        let message = format!(
            "annotation {}: a shared machine has no name of this Service; set one with annotation {}",
            table::PUBLISH.key,
            table::HOSTNAME.key
        );
        let reason = crate::balancer::settings::INVALID;
        return Ok(still(context, vec![Problem { reason, message }]));
    }
    let targets = backend_labels::targets(context).await?;
    let ids: Vec<Uuid> = targets.iter().map(|it| it.id).collect();
    let known = dns_names::read(context.shared, &ids, super::draft::NAMES_AGE).await;
    let backends = match backends(context, &machine, &targets, &known) {
        Ok(backends) => backends,
        Err(problem) => return Ok(still(context, vec![problem])),
    };
    let mut planned = Planned::default();
    let mut notices: Vec<_> = context.nodes.notices().into_iter().collect();
    let rules = rules(context, &targets, Some(&machine), &mut notices).await?;
    planned.builder.plan.notices = notices;
    let facts = plan_sharing(context, &machine, &targets, backends, &mut planned);
    plan::push_rules(&mut planned.builder, &rules);
    plan_own_machines(context, &mut planned).await?;
    planned
        .builder
        .plan
        .found
        .push(plan::found_state(&machine, &context.networks));
    let publisher = Publisher {
        before: context.request.service.ingress.clone(),
        publish,
        hostname: context.settings.hostname.clone(),
        has_ip_mode: context.request.has_ip_mode,
        ports: ports(&context.request.service),
        replicas: 1,
    };
    let facts = PlanFacts {
        by_ordinal: BTreeMap::from([(0, machine)]),
        is_public: !context.settings.internal,
        publisher: Some(publisher),
        ..facts
    };
    Ok(prepared(context, planned, facts))
}

/// How the nodes are called for that machine, and whether the better name is there.
fn backends(
    context: &DraftContext<'_>,
    machine: &Machine,
    targets: &[Machine],
    known: &BTreeMap<Uuid, Vec<String>>,
) -> Result<(Names, Form, Option<bool>), Problem> {
    let references = backend_labels::references(targets);
    let machines = [machine.clone()];
    let question = Question::new(context, &references, known, &machines);
    let (private, suffix) = question.inside()?;
    let label = backend_labels::label(context);
    let network = context.networks.get(&private);
    let names = Names::new(&label, network, &suffix);
    let shown = names.shown(known);
    let map = map_of(&machine.metadata);
    let used = names.used_in(&map.record);
    let missed = context
        .shared
        .clb
        .missed(&context.request.service.uid, shown, used);
    let (form, _) = backend::choose(shown, used, missed);
    Ok((names, form, shown))
}

/// The label on the nodes, and the entries in the map.
fn plan_sharing(
    context: &DraftContext<'_>,
    machine: &Machine,
    targets: &[Machine],
    (names, form, shown): (Names, Form, Option<bool>),
    planned: &mut Planned,
) -> PlanFacts {
    let service = &context.request.service;
    let labelling = backend_labels::labelling(context, &backend_labels::label(context), targets);
    let why = "load balancer machines find the nodes by it";
    let builder = &mut planned.builder;
    let mut needs: Vec<usize> = plan::push_label(builder, &labelling, why)
        .into_iter()
        .collect();
    let others = claims(context, machine);
    let labels = backend_labels::labels(context);
    let map = map_of(&machine.metadata);
    let view = View {
        map: &map,
        labels: &labels,
        others: &others,
    };
    let own = Claim::of(service);
    let entries = |form| -> Vec<Entry> {
        let clb = &context.settings.clb;
        portmap::entries(service, clb, names.of(form)).unwrap_or_default()
    };
    let is_first = names.used_in(&map.record).is_none();
    let waits = is_first && !targets.is_empty() && form == Form::Plain && shown == Some(false);
    let awaited = waits.then_some(names.qualified.as_str());
    let expected = if awaited.is_some() {
        Form::Qualified
    } else {
        form
    };
    let (admitted, problems) = view.admit(&own, &entries(expected));
    builder.plan.problems.extend(problems);
    let after = view.with(&own.key, &admitted);
    if after != map {
        if let Some(name) = awaited {
            let note = note(Impact::None, Some(AWAITED), &needs);
            let step = builder.wait(new(NAME, name), &note, Action::AwaitName);
            needs.push(step);
        }
        push_map(builder, machine, (&map, &after), true, &needs);
    }
    let mut sharing = push_leftovers(context, builder, Some(machine.id));
    sharing.insert(machine.id, others);
    PlanFacts {
        form,
        targets: targets.iter().map(|it| it.id).collect(),
        sharing,
        names: Some(names),
        ..PlanFacts::default()
    }
}

/// Machines that were made before the Service named one go.
async fn plan_own_machines(
    context: &DraftContext<'_>,
    planned: &mut Planned,
) -> Result<(), DraftError> {
    let uid = &context.request.service.uid;
    let own = observe::own(&context.shared.data_center, context.cluster, uid).await?;
    let clb = &context.settings.clb;
    let config = &context.shared.config;
    let state = &context.shared.clb;
    let leaving: Vec<Leaving> = own
        .into_iter()
        .map(|machine| Leaving {
            machine,
            why: "the Service names another machine".to_owned(),
            is_replaced: false,
            has_failed: false,
        })
        .collect();
    let out_of_dns = leaving
        .iter()
        .filter(|it| !it.machine.tags.contains_key(NAMES_TAG));
    let drained = out_of_dns.map(|it| (it.machine.id, state.drained(uid, it.machine.id)));
    let drained: BTreeMap<Uuid, std::time::Duration> = drained.collect();
    let needs: Vec<usize> = (0..planned.builder.plan.steps.len()).collect();
    let departure = Departure {
        may_unprotect: clb
            .deletion_protection
            .unwrap_or(config.clb_deletion_protection),
        drained: &drained,
        needs: &needs,
    };
    departure.push(planned, &leaving);
    Ok(())
}
