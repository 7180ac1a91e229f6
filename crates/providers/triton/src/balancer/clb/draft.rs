//! From one Service to its plan: gather, decide, and hand over to who carries it out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::{
    CloudError, CloudErrorKind, Draft, DraftError, Impact, Notice, Object, Problem, Publication,
    Remark, source_ranges,
};
use ipnet::IpNet;
use tokio::time::Instant;
use uuid::Uuid;

use super::backend::{self, Form, Names};
use super::execute::{Hands, Told};
use super::machines::{
    Blueprint, CLUSTER_TAG, Leaving, NAMES_TAG, SERVICE_TAG, UID_TAG, runs, stem,
};
use super::memory::{HOLD, Hold};
use super::metadata::{self, Difference, PORTMAP};
use super::place::{Placed, Question};
use super::plan::{self, Action, Planned, Sketch, Wanted};
use super::portmap::{self, Entry};
use super::publish::{Publisher, ports};
use super::{behind, observe, share};
use crate::api::Machine;
use crate::balancer::firewall::{self, Holder, RuleChange};
use crate::balancer::scene::Scene;
use crate::balancer::settings::{Fault, INVALID, Publish, table};
use crate::balancer::{cns, names};

/// For how long the DNS names of members are believed.
pub(super) const NAMES_AGE: Duration = Duration::from_secs(30);
/// When to look again while nobody can say what nodes are called.
const NAMES_PAUSE: Duration = Duration::from_secs(30);
/// When to look again for the Service's own name, while its zone is not known.
const ZONE_PAUSE: Duration = Duration::from_secs(15);
/// Where metrics are read if nobody says otherwise.
const METRICS_PORT: u16 = 8405;
/// What stands for the name of the backends while ports are checked.
const ANY_NAME: &str = "nodes";

/// The plan for a Service that is to be served so. Nothing is wrong with its annotations.
pub(crate) async fn draft(scene: &Scene<'_>) -> Result<Draft, DraftError> {
    let faults = faults(scene);
    if !faults.is_empty() {
        return Ok(super::super::refusal(scene.wish, faults, Vec::new()));
    }
    if !scene.account.triton_cns_enabled {
        return Ok(enable_names(scene));
    }
    if let Some(name) = &scene.settings.clb.lb_instance {
        return share::draft(scene, name).await;
    }
    let mut making = Making::look(scene).await?;
    match making.plan().await? {
        Ok(draft) => Ok(draft),
        Err(problem) => {
            let found = making.found();
            let mut draft = still(scene, vec![problem]);
            draft.plan.found = found;
            Ok(draft)
        }
    }
}

/// What is wrong before anything is asked.
fn faults(scene: &Scene<'_>) -> Vec<Fault> {
    let service = &scene.wish.service;
    let mut faults = Vec::new();
    let families = &service.ip_families;
    if !families.is_empty() && families.iter().all(|it| it == "IPv6") {
        faults.push(Fault {
            reason: "IPv6Unsupported",
            message:
                "the Service is for IPv6 alone, and machines of this cloud have IPv4 addresses only"
                    .to_owned(),
        });
    }
    let fault = |problem: Problem| Fault {
        reason: problem.reason,
        message: problem.message,
    };
    if let Err(problems) = portmap::entries(service, &scene.settings.clb, ANY_NAME) {
        faults.extend(problems.into_iter().map(fault));
    }
    if let Err(error) = source_ranges(service) {
        faults.push(Fault {
            reason: INVALID,
            message: error.to_string(),
        });
    }
    faults.extend(cns::conflict(scene));
    if !scene.account.triton_cns_enabled && !scene.shared.config.cns_enable_account {
        faults.push(cns::disabled(scene));
    }
    faults
}

/// Nothing is done while a person has to put something right.
pub(super) fn still(scene: &Scene<'_>, problems: Vec<Problem>) -> Draft {
    let mut draft = super::super::refusal(scene.wish, Vec::new(), Vec::new());
    draft.plan.unread = false;
    draft.plan.problems = problems;
    draft
}

fn enable_names(scene: &Scene<'_>) -> Draft {
    let mut planned = Planned::default();
    let account = &scene.account;
    let object = Object {
        kind: "account",
        name: account.login.clone(),
        id: Some(account.id.to_string()),
    };
    let changes = vec![plan::change("triton_cns_enabled", false, true)];
    let remark = Remark {
        impact: Impact::None,
        reason: Some("load balancer machines find the nodes by the name service"),
        needs: &[],
    };
    let sketch = &mut planned.sketch;
    sketch.change(object, changes, &remark, Action::EnableNames);
    planned.again = Some(Duration::from_secs(1));
    hands(scene, planned, Told::default())
}

/// A draft of that plan.
pub(super) fn hands(scene: &Scene<'_>, planned: Planned, told: Told) -> Draft {
    let Planned { sketch, again } = planned;
    let Sketch { plan, actions } = sketch;
    let hands = Hands::new(scene, &plan, actions, told, again);
    Draft {
        plan,
        executor: Box::new(hands),
    }
}

/// The firewall rules that have to change.
pub(super) async fn rules(
    scene: &Scene<'_>,
    members: &[Machine],
    shared: Option<&Machine>,
    notices: &mut Vec<Notice>,
) -> Result<Vec<RuleChange>, DraftError> {
    if !scene.shared.config.firewall {
        return Ok(Vec::new());
    }
    let service = &scene.wish.service;
    let clb = &scene.settings.clb;
    let holder = Holder::new(scene.cluster, &service.uid);
    // It was read before anything else.
    let sources = source_ranges(service).unwrap_or_default();
    let ports: BTreeSet<u16> = service.ports.iter().map(|it| it.port).collect();
    let mut behind: BTreeSet<u16> = service.ports.iter().map(|it| it.node_port).collect();
    behind.extend(service.local_health_check_port());
    let entries = portmap::entries(service, clb, ANY_NAME).unwrap_or_default();
    behind.extend(entries.iter().filter_map(|it| it.check.as_ref()?.port));
    let guarded = members.iter().any(|it| it.firewall_enabled);
    let readers: BTreeSet<IpNet> = clb.metrics_acl.iter().map(|it| IpNet::V4(*it)).collect();
    let metrics_port = clb.metrics_port.unwrap_or(METRICS_PORT);
    let opened = firewall::Machines {
        ports: &ports,
        sources: &sources,
        metrics: (!readers.is_empty() && shared.is_none()).then_some((&readers, metrics_port)),
        back: guarded.then_some(&behind),
        shared: shared.map(|it| it.id),
    };
    let wanted = holder.of_machines(&opened);
    notices.extend(wanted.notices);
    let there = match scene.shared.rules.all(&scene.shared.site).await {
        Ok(there) => there,
        Err(error) if error.kind() == CloudErrorKind::Denied => {
            notices.push(Notice {
                warning: true,
                reason: "FirewallNotAllowed",
                message: format!("firewalls are not opened, as rules cannot be listed: {error}"),
            });
            return Ok(Vec::new());
        }
        Err(error) => return Err(CloudError::from(error).into()),
    };
    let orphans = &scene.shared.orphans;
    let is_gone = |uid: &str| orphans.is_gone(scene.wish, uid);
    Ok(firewall::compare(&holder, &wanted.rules, &there, is_gone))
}

/// A plan in the making.
struct Making<'a> {
    scene: &'a Scene<'a>,
    /// Those of the Service, and one that is taken over.
    machines: Vec<Machine>,
    adopted: BTreeSet<Uuid>,
    members: Vec<Machine>,
    names: BTreeMap<Uuid, Vec<String>>,
    notices: Vec<Notice>,
}

/// How the nodes are called.
struct Behind {
    names: Names,
    form: Form,
    /// Whether the better name is published, if that is known.
    shown: Option<bool>,
    /// The addresses under each name.
    addresses: BTreeMap<bool, usize>,
    again: Option<Duration>,
}

impl Behind {
    fn count(&self, form: Form) -> usize {
        let count = self.addresses.get(&(form == Form::Qualified));
        count.copied().unwrap_or_default()
    }
}

impl<'a> Making<'a> {
    async fn look(scene: &'a Scene<'a>) -> Result<Self, DraftError> {
        let site = &scene.shared.site;
        let service = &scene.wish.service;
        let mut making = Self {
            scene,
            machines: observe::own(site, scene.cluster, &service.uid).await?,
            adopted: BTreeSet::new(),
            members: behind::members(scene).await?,
            names: BTreeMap::new(),
            notices: scene.nodes.notices().into_iter().collect(),
        };
        if making.machines.is_empty() && scene.shared.config.adopt_legacy {
            making.look_for_legacy().await?;
        }
        let ids: Vec<Uuid> = making.members.iter().map(|it| it.id).collect();
        making.names = names::read(scene.shared, &ids, NAMES_AGE).await;
        let is_there = |id: Uuid| making.machines.iter().any(|it| it.id == id);
        scene.shared.clb.keep(&service.uid, is_there);
        Ok(making)
    }

    async fn look_for_legacy(&mut self) -> Result<(), DraftError> {
        let key = &self.scene.wish.service.key;
        let Some(machine) = observe::legacy(&self.scene.shared.site, &key.name).await? else {
            return Ok(());
        };
        let mut others = self.scene.wish.all.iter();
        let other = others.find(|it| {
            it.is_load_balancer && it.key.name == key.name && it.key.namespace != key.namespace
        });
        if let Some(other) = other {
            self.notices.push(Notice {
                warning: true,
                reason: "LegacyMachineAmbiguous",
                message: format!(
                    "machine {} ({}) of the former controller is not taken over: it may be that of Service {}",
                    machine.name, machine.id, other.key
                ),
            });
            return Ok(());
        }
        self.adopted.insert(machine.id);
        self.machines.push(machine);
        Ok(())
    }

    async fn plan(&mut self) -> Result<Result<Draft, Problem>, DraftError> {
        let scene = self.scene;
        let references = behind::references(&self.members);
        let question = Question {
            networks: &scene.networks,
            account: scene.account.id,
            settings: &scene.settings,
            config: &scene.shared.config,
            members: &references,
            names: &self.names,
            machines: &self.machines,
        };
        let placed = match question.answer() {
            Ok(placed) => placed,
            Err(problem) => return Ok(Err(problem)),
        };
        let suffix = question.front_suffix(placed.front);
        let behind = self.behind(&placed, &references)?;
        drop(references);
        let (blueprint, lack) = match self.blueprint(&placed).await? {
            Ok(found) => found,
            Err(problem) => return Ok(Err(problem)),
        };
        let rules = rules(scene, &self.members, None, &mut self.notices).await?;
        self.finish(&placed, suffix, &behind, blueprint, lack, &rules)
    }

    /// What the nodes are called now.
    fn behind(&self, placed: &Placed, members: &[&Machine]) -> Result<Behind, DraftError> {
        let scene = self.scene;
        let memory = &scene.shared.clb;
        let uid = &scene.wish.service.uid;
        let network = scene.networks.get(&placed.private);
        let label = behind::label(scene);
        let names = match network {
            Some(network) => Names::new(&label, network, &placed.suffix),
            None => Names {
                plain: format!("{label}.{}", placed.suffix),
                qualified: format!("{label}.{}", placed.suffix),
            },
        };
        let mut all = self.names.values().flatten();
        let shown = (!self.names.is_empty()).then(|| all.any(|it| *it == names.qualified));
        let shown = if members.is_empty() {
            Some(false)
        } else {
            shown
        };
        if self.machines.is_empty() && shown.is_none() {
            return Err(DraftError::Later {
                what: "the DNS names of the nodes, which cannot be read".to_owned(),
                after: NAMES_PAUSE,
            });
        }
        let maps = self
            .machines
            .iter()
            .filter_map(|it| it.metadata.get(PORTMAP));
        let used = maps
            .map(ToString::to_string)
            .find_map(|map| names.used_in(&map));
        let missed = match shown {
            Some(shown) => memory.missed(uid, shown || used != Some(Form::Qualified)),
            None => Duration::ZERO,
        };
        let (form, again) = backend::choose(shown, used, missed);
        let count = |form| {
            backend::addresses(
                members,
                form,
                placed.private,
                &placed.suffix,
                &scene.networks,
            )
        };
        let addresses = [Form::Plain, Form::Qualified].map(|it| (it == Form::Qualified, count(it)));
        Ok(Behind {
            names,
            form,
            shown,
            addresses: addresses.into(),
            again,
        })
    }

    /// What machines are to be like, and what is lacking to make one.
    async fn blueprint(
        &self,
        placed: &Placed,
    ) -> Result<Result<(Blueprint, Option<Hold>), Problem>, CloudError> {
        let scene = self.scene;
        let (shared, config, clb) = (scene.shared, &scene.shared.config, &scene.settings.clb);
        let Some(package) = clb.package.as_ref().or(config.clb_package.as_ref()) else {
            return Ok(Err(Problem {
                reason: "CLBPackageRequired",
                message: format!(
                    "no package is said for load balancer machines: configure clb-package, or set \
                     annotation {}",
                    table::PACKAGE.key
                ),
            }));
        };
        let image = clb.image.as_ref().unwrap_or(&config.clb_image);
        let lookups = &shared.clb.lookups;
        let images = lookups.images(&shared.site, image, &self.machines).await?;
        let found = lookups.package(&shared.site, package).await?;
        let lack = if found.is_none() {
            Some((
                "CLBPackageNotFound",
                format!("there is no package {package:?}"),
            ))
        } else if images.newest.is_none() {
            Some((
                "CLBImageNotFound",
                format!("there is no active image {image:?}"),
            ))
        } else {
            None
        };
        let until = Instant::now() + HOLD;
        let lack = lack.map(|(reason, message)| Hold {
            reason,
            message: format!("{message} to make load balancer machines from"),
            until,
        });
        let service = &scene.wish.service;
        let mut tags = BTreeMap::from([
            (CLUSTER_TAG.to_owned(), scene.cluster.to_owned()),
            (UID_TAG.to_owned(), service.uid.clone()),
            (SERVICE_TAG.to_owned(), service.key.to_string()),
        ]);
        if !cns::is_involved(scene) {
            // Not while nodes have it: a name would have the addresses of both.
            tags.insert(NAMES_TAG.to_owned(), scene.label.clone());
        }
        let asked = clb.deletion_protection;
        let blueprint = Blueprint {
            stem: stem(&shared.cluster_name, &service.uid),
            tags,
            replicas: clb.replicas.unwrap_or(config.clb_replicas),
            image: images.newest.unwrap_or_default(),
            images: images.good,
            package: found.unwrap_or_else(|| package.clone()),
            wires: placed.wires.clone(),
            firewall: config.firewall,
            protection: asked.or_else(|| config.clb_deletion_protection.then_some(true)),
        };
        Ok(Ok((blueprint, lack)))
    }

    fn finish(
        &mut self,
        placed: &Placed,
        suffix: Option<String>,
        behind: &Behind,
        blueprint: Blueprint,
        lack: Option<Hold>,
        rules: &[RuleChange],
    ) -> Result<Result<Draft, Problem>, DraftError> {
        let scene = self.scene;
        let memory = &scene.shared.clb;
        let service = &scene.wish.service;
        let clb = &scene.settings.clb;
        let entries = |form| -> Vec<Entry> {
            let name = behind.names.of(form);
            // They were checked before anything else.
            portmap::entries(service, clb, name).unwrap_or_default()
        };
        let map = portmap::join(&entries(behind.form));
        let own: Vec<Machine> = self
            .machines
            .iter()
            .filter(|it| !self.adopted.contains(&it.id))
            .cloned()
            .collect();
        let mut lineup = blueprint.lineup(&own, &scene.networks);
        let adopted = self
            .machines
            .iter()
            .filter(|it| self.adopted.contains(&it.id));
        for machine in adopted {
            // As it is, for now; whether it fits is seen when it is ours.
            if !lineup.missing.is_empty() {
                lineup
                    .kept
                    .insert(lineup.missing.remove(0), machine.clone());
            }
        }
        let told_to = |form, there: Option<&Machine>| {
            let there = there.map(|it| &it.metadata);
            let map = portmap::join(&entries(form));
            metadata::wanted(&map, clb, behind.count(form), there)
        };
        let differences: BTreeMap<Uuid, Difference> = lineup
            .kept
            .values()
            .map(|it| {
                let wanted = told_to(behind.form, Some(it));
                (it.id, Difference::between(&wanted, &it.metadata))
            })
            .collect();
        // Whichever name of the nodes is used: that is no other machine.
        let wanted_text = format!("{blueprint:?} {}", portmap::join(&entries(Form::Plain)));
        let held = memory.hold(&service.uid, &wanted_text);
        let is_lacking = lack.is_some();
        let hold = lack.or(held);
        let drained = lineup.leaving.iter().filter(|it| !has_name(it));
        let drained =
            drained.map(|it| (it.machine.id, memory.drained(&service.uid, it.machine.id)));
        let labelling = behind::labelling(scene, &behind::label(scene), &self.members);
        let is_first = self.machines.is_empty();
        let has_members = !self.members.is_empty();
        let awaited = plan::awaited(
            &behind.names,
            behind.form,
            behind.shown,
            is_first,
            has_members,
        );
        let form = if awaited.is_some() {
            Form::Qualified
        } else {
            behind.form
        };
        let requested = blueprint.protection == Some(true);
        let planned = plan::reconcile(
            &Wanted {
                blueprint: &blueprint,
                networks: &scene.networks,
                labelling: &labelling,
                awaited,
                metadata: &told_to(form, None),
                differences: &differences,
                adopted: &self.adopted,
                hold: hold.as_ref(),
                may_unprotect: requested,
                drained: &drained.collect(),
                rules,
            },
            &lineup,
        );
        let only_waits = planned.sketch.plan.is_empty() && !lineup.missing.is_empty();
        // A refusal was told when it came; what is lacking is told with every plan.
        if let Some(hold) = hold.filter(|_| only_waits && !is_lacking) {
            let message = hold.message.trim_end_matches('.');
            return Err(DraftError::Later {
                what: format!("the next try to make load balancer machines ({message})"),
                after: hold.until.saturating_duration_since(Instant::now()),
            });
        }
        let publish = scene.settings.publish.unwrap_or(Publish::Ip);
        let own_name = suffix.map(|suffix| format!("{}.{suffix}", scene.label));
        let hostname = scene.settings.hostname.clone().or(own_name);
        let nameless = hostname.is_none() && publish != Publish::Ip;
        let publisher = Publisher {
            before: service.ingress.clone(),
            publish,
            hostname,
            has_ip_mode: scene.wish.has_ip_mode,
            ports: ports(service),
            replicas: usize::from(blueprint.replicas),
        };
        let told = Told {
            names: Some(behind.names.clone()),
            form: behind.form,
            counts: [Form::Plain, Form::Qualified].map(|it| behind.count(it)),
            members: self.members.iter().map(|it| it.id).collect(),
            seats: lineup.kept.clone(),
            former: lineup
                .leaving
                .iter()
                .filter(|it| it.is_replaced && runs(&it.machine))
                .map(|it| it.machine.clone())
                .collect(),
            is_public: !scene.settings.internal && placed.front != placed.private,
            blueprint: Some(blueprint),
            publisher: Some(publisher),
            ..Told::default()
        };
        let mut planned = planned;
        let pauses = [behind.again, nameless.then_some(ZONE_PAUSE)];
        planned.again = planned
            .again
            .into_iter()
            .chain(pauses.into_iter().flatten())
            .min();
        let plan = &mut planned.sketch.plan;
        let mut notices = std::mem::take(&mut self.notices);
        notices.append(&mut plan.notices);
        plan.notices = notices;
        plan.found = self.found();
        if plan.problems.is_empty() {
            let seats = told.blueprint.iter().flat_map(|it| 0..it.replicas);
            plan.wanted = seats
                .filter_map(|seat| {
                    let kept = told.seats.get(&seat);
                    let name = kept.map(|it| it.name.clone());
                    let blueprint = told.blueprint.as_ref()?;
                    let name = name.unwrap_or_else(|| blueprint.name(seat));
                    Some(plan::wanted_thing(&name, &blueprint.package, &map))
                })
                .collect();
        }
        let mut told = told;
        told.sharing = share::push_leftovers(scene, &mut planned.sketch, None);
        Ok(Ok(hands(scene, planned, told)))
    }

    fn found(&self) -> Vec<bowline_core::Thing> {
        let networks = &self.scene.networks;
        let machines = self.machines.iter();
        machines.map(|it| plan::found_thing(it, networks)).collect()
    }
}

fn has_name(leaving: &Leaving) -> bool {
    leaving.machine.tags.contains_key(NAMES_TAG)
}

/// The plan for a Service that is to be served so no more: empty if it has nothing of this mode. Its
/// firewall rules are not its business.
pub(crate) async fn removal(scene: &Scene<'_>) -> Result<Draft, DraftError> {
    let service = &scene.wish.service;
    let site = &scene.shared.site;
    let machines = observe::own(site, scene.cluster, &service.uid).await?;
    let clb = &scene.settings.clb;
    let config = &scene.shared.config;
    let requested = clb
        .deletion_protection
        .unwrap_or(config.clb_deletion_protection);
    let mut planned = Planned::default();
    let sketch = &mut planned.sketch;
    for machine in &machines {
        let why = "no Service wants it";
        let gone = plan::push_removal(sketch, machine, why, requested, &[]);
        if gone.is_none() {
            let (reason, message) = plan::protected(machine);
            sketch.plan.problems.push(Problem { reason, message });
        }
        sketch
            .plan
            .found
            .push(plan::found_thing(machine, &scene.networks));
    }
    if machines.is_empty() {
        scene.shared.clb.forget(&service.uid);
    }
    let label = behind::unlabelling(scene);
    plan::push_label(sketch, &label, "no Service needs it any more");
    let told = Told {
        sharing: share::push_leftovers(scene, sketch, None),
        farewell: Some(Publication {
            withdrawn: [table::STATUS.key, table::INSTANCES.key]
                .map(str::to_owned)
                .into(),
            ..Publication::default()
        }),
        ..Told::default()
    };
    Ok(hands(scene, planned, told))
}
