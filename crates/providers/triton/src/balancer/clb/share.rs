//! A machine that somebody else looks after: which Services name it, and the plan of one of them.

use std::collections::BTreeMap;

use bowline_core::{DraftError, Impact, PreparedPlan, Problem, Service};
use serde_json::Value;
use uuid::Uuid;

use super::backend::{self, Form, Names};
use super::draft::{prepared, rules, still};
use super::execute::PlanFacts;
use super::machines::{CLUSTER_TAG, Leaving, NAMES_TAG, SERVICE_TAG};
use super::metadata::{LOADBALANCER, OURS, PORTMAP};
use super::place::Question;
use super::plan::{self, AWAITED, Action, Farewell, PlanBuilder, Planned};
use super::portmap::{self, Entry};
use super::publish::{Publisher, ports};
use super::shared::{Claim, SharedMap, View};
use super::{behind, observe};
use crate::api::Machine;
use crate::balancer::names;
use crate::balancer::parts::{NAME, change, new, remark, seen};
use crate::balancer::scene::DraftContext;
use crate::balancer::settings::{Mode, Publish, Settings, table};
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

fn claims(scene: &DraftContext<'_>, machine: &Machine) -> Vec<Claim> {
    let config = &scene.shared.config;
    let own = &scene.request.service.uid;
    let all = scene.request.all.iter();
    let others = all.filter(|it| it.uid != *own && it.is_load_balancer && !it.deleting);
    let names = |service: &&std::sync::Arc<Service>| {
        let (settings, faults) = Settings::read(service, config);
        let served = settings.mode_or(config) == Some(Mode::Clb) || !faults.is_empty();
        let name = settings.clb.lb_instance;
        served && name.is_some_and(|it| names_it(&it, machine))
    };
    others.filter(names).map(|it| Claim::of(it)).collect()
}

/// Machines in whose port maps entries are that no Service wants: of this one, which named them before, or
/// of one that is no more.
fn leftovers<'a>(
    scene: &'a DraftContext<'_>,
    except: Option<Uuid>,
) -> Vec<(&'a Machine, Vec<Claim>)> {
    if !scene.request.all_known {
        return Vec::new();
    }
    let labels = behind::labels(scene);
    let machines = scene.listing.machines.values();
    let marked = machines.filter(|it| it.metadata.contains_key(OURS) && Some(it.id) != except);
    let left = marked.filter_map(|machine| {
        let (map, others) = (map_of(&machine.metadata), claims(scene, machine));
        let view = View {
            map: &map,
            labels: &labels,
            others: &others,
        };
        let without = view.with(&scene.request.service.key, &[]);
        (without != map).then_some((machine, others))
    });
    left.collect()
}

/// Whether entries of this Service may be where it is not served any more.
pub(crate) fn has_left_something(scene: &DraftContext<'_>) -> bool {
    !leftovers(scene, None).is_empty()
}

/// Adds the steps that take out what nobody wants, and says who else names those machines.
pub(crate) fn push_leftovers(
    scene: &DraftContext<'_>,
    builder: &mut PlanBuilder,
    except: Option<Uuid>,
) -> BTreeMap<Uuid, Vec<Claim>> {
    let mut sharing = BTreeMap::new();
    for (machine, others) in leftovers(scene, except) {
        let map = map_of(&machine.metadata);
        let labels = behind::labels(scene);
        let view = View {
            map: &map,
            labels: &labels,
            others: &others,
        };
        let after = view.with(&scene.request.service.key, &[]);
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
    let remark = remark(Impact::InPlace, Some(why), needs);
    let action = Action::ShareMap {
        id: machine.id,
        brings,
    };
    builder.change(seen(machine), changes, &remark, action)
}

/// The machine that the Service names, or why it cannot be used.
fn target<'a>(scene: &'a DraftContext<'_>, name: &str) -> Result<&'a Machine, Problem> {
    let problem = |message: String| Problem {
        reason: "LBInstanceUnusable",
        message: format!("annotation {}: {message}", table::LB_INSTANCE.key),
    };
    let machines = scene.listing.machines.values();
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
        let whose = machine.tags.get(SERVICE_TAG).map(ToString::to_string);
        let whose = whose.unwrap_or_default();
        return Err(problem(format!(
            "machine {name:?} was made for Service {whose}"
        )));
    }
    Ok(machine)
}

pub(crate) async fn draft(
    scene: &DraftContext<'_>,
    name: &str,
) -> Result<PreparedPlan, DraftError> {
    let machine = match target(scene, name) {
        Ok(machine) => scene.shared.site.with_nics(machine).await?,
        Err(problem) => return Ok(still(scene, vec![problem])),
    };
    let publish = scene.settings.publish.unwrap_or(Publish::Ip);
    if publish != Publish::Ip && scene.settings.hostname.is_none() {
        let message = format!(
            "annotation {}: a machine that is shared has no name of this Service; annotation {} says one",
            table::PUBLISH.key,
            table::HOSTNAME.key
        );
        let reason = crate::balancer::settings::INVALID;
        return Ok(still(scene, vec![Problem { reason, message }]));
    }
    let members = behind::members(scene).await?;
    let ids: Vec<Uuid> = members.iter().map(|it| it.id).collect();
    let known = names::read(scene.shared, &ids, super::draft::NAMES_AGE).await;
    let backends = match backends(scene, &machine, &members, &known) {
        Ok(backends) => backends,
        Err(problem) => return Ok(still(scene, vec![problem])),
    };
    let mut planned = Planned::default();
    let mut notices: Vec<_> = scene.nodes.notices().into_iter().collect();
    let rules = rules(scene, &members, Some(&machine), &mut notices).await?;
    planned.builder.plan.notices = notices;
    let told = plan_sharing(scene, &machine, &members, backends, &mut planned);
    plan::push_rules(&mut planned.builder, &rules);
    plan_own_machines(scene, &mut planned).await?;
    planned
        .builder
        .plan
        .found
        .push(plan::found_thing(&machine, &scene.networks));
    let publisher = Publisher {
        before: scene.request.service.ingress.clone(),
        publish,
        hostname: scene.settings.hostname.clone(),
        has_ip_mode: scene.request.has_ip_mode,
        ports: ports(&scene.request.service),
        replicas: 1,
    };
    let told = PlanFacts {
        seats: BTreeMap::from([(0, machine)]),
        is_public: !scene.settings.internal,
        publisher: Some(publisher),
        ..told
    };
    Ok(prepared(scene, planned, told))
}

/// How the nodes are called for that machine, and whether the better name is there.
fn backends(
    scene: &DraftContext<'_>,
    machine: &Machine,
    members: &[Machine],
    known: &BTreeMap<Uuid, Vec<String>>,
) -> Result<(Names, Form, Option<bool>), Problem> {
    let references = behind::references(members);
    let machines = [machine.clone()];
    let question = Question {
        networks: &scene.networks,
        account: scene.account.id,
        settings: &scene.settings,
        config: &scene.shared.config,
        members: &references,
        names: known,
        machines: &machines,
    };
    let (private, suffix) = question.inside()?;
    let label = behind::label(scene);
    let network = scene.networks.get(&private);
    let names = Names::new(&label, network, &suffix);
    let shown = names.shown(known);
    let map = map_of(&machine.metadata);
    let used = names.used_in(&map.record);
    let missed = scene
        .shared
        .clb
        .missed(&scene.request.service.uid, shown, used);
    let (form, _) = backend::choose(shown, used, missed);
    Ok((names, form, shown))
}

/// The label on the nodes, and the entries in the map.
fn plan_sharing(
    scene: &DraftContext<'_>,
    machine: &Machine,
    members: &[Machine],
    (names, form, shown): (Names, Form, Option<bool>),
    planned: &mut Planned,
) -> PlanFacts {
    let service = &scene.request.service;
    let labelling = behind::labelling(scene, &behind::label(scene), members);
    let why = "load balancer machines find the nodes by it";
    let builder = &mut planned.builder;
    let mut needs: Vec<usize> = plan::push_label(builder, &labelling, why)
        .into_iter()
        .collect();
    let others = claims(scene, machine);
    let labels = behind::labels(scene);
    let map = map_of(&machine.metadata);
    let view = View {
        map: &map,
        labels: &labels,
        others: &others,
    };
    let own = Claim::of(service);
    let entries = |form| -> Vec<Entry> {
        let clb = &scene.settings.clb;
        portmap::entries(service, clb, names.of(form)).unwrap_or_default()
    };
    let is_first = names.used_in(&map.record).is_none();
    let waits = is_first && !members.is_empty() && form == Form::Plain && shown == Some(false);
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
            let remark = remark(Impact::None, Some(AWAITED), &needs);
            let step = builder.wait(new(NAME, name), &remark, Action::AwaitName);
            needs.push(step);
        }
        push_map(builder, machine, (&map, &after), true, &needs);
    }
    let mut sharing = push_leftovers(scene, builder, Some(machine.id));
    sharing.insert(machine.id, others);
    PlanFacts {
        form,
        members: members.iter().map(|it| it.id).collect(),
        sharing,
        names: Some(names),
        ..PlanFacts::default()
    }
}

/// Machines that were made before the Service named one go.
async fn plan_own_machines(
    scene: &DraftContext<'_>,
    planned: &mut Planned,
) -> Result<(), DraftError> {
    let uid = &scene.request.service.uid;
    let own = observe::own(&scene.shared.site, scene.cluster, uid).await?;
    let clb = &scene.settings.clb;
    let config = &scene.shared.config;
    let memory = &scene.shared.clb;
    let leaving: Vec<Leaving> = own
        .into_iter()
        .map(|machine| Leaving {
            machine,
            why: "the Service names another machine".to_owned(),
            is_replaced: false,
            is_ruined: false,
        })
        .collect();
    let out_of_dns = leaving
        .iter()
        .filter(|it| !it.machine.tags.contains_key(NAMES_TAG));
    let drained = out_of_dns.map(|it| (it.machine.id, memory.drained(uid, it.machine.id)));
    let drained: BTreeMap<Uuid, std::time::Duration> = drained.collect();
    let needs: Vec<usize> = (0..planned.builder.plan.steps.len()).collect();
    let farewell = Farewell {
        may_unprotect: clb
            .deletion_protection
            .unwrap_or(config.clb_deletion_protection),
        drained: &drained,
        needs: &needs,
    };
    farewell.push(planned, &leaving);
    Ok(())
}
