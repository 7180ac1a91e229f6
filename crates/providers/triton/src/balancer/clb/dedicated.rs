//! The plan for load balancer machines of one Service's own.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::{CloudError, DraftError, Notice, PreparedPlan, Problem, ResourceState};
use tokio::time::Instant;
use uuid::Uuid;

use super::backend::{self, Form, Names};
use super::draft::{NAMES_AGE, prepared, rules};
use super::execute::PlanFacts;
use super::machines::{
    Blueprint, CLUSTER_TAG, Leaving, NAMES_TAG, ReplicaDiff, SERVICE_TAG, UID_TAG, runs, stem,
};
use super::metadata::{self, Difference, PORTMAP};
use super::networks::{Placement, Question};
use super::plan::{self, Planned, Rules, Wanted};
use super::portmap::{self, Entry};
use super::publish::{Publisher, ports};
use super::state::{HOLD, Hold};
use super::{backend_labels, limits, observe, shared_appliance};
use crate::api::{Machine, MachineState};
use crate::balancer::draft_context::DraftContext;
use crate::balancer::settings::{Publish, table};
use crate::balancer::{cns, dns_names};

/// When to look again while the DNS names of nodes cannot be read.
const NAMES_PAUSE: Duration = Duration::from_secs(30);
/// When to look again for the Service's own name, while its zone is not known.
const ZONE_PAUSE: Duration = Duration::from_secs(15);

pub(super) struct PlanInputs<'a> {
    context: &'a DraftContext<'a>,
    /// Those of the Service, and one that is adopted.
    machines: Vec<Machine>,
    adopted: BTreeSet<Uuid>,
    /// Those that failed before they served.
    failed: Vec<Leaving>,
    targets: Vec<Machine>,
    names: BTreeMap<Uuid, Vec<String>>,
    notices: Vec<Notice>,
}

struct Behind {
    names: Names,
    form: Form,
    /// Whether the better name is published, if that is known.
    shown: Option<bool>,
    addresses: BTreeMap<bool, usize>,
    again: Option<Duration>,
}

struct Decided {
    /// What follows the label of the Service's own name, if anybody knows.
    suffix: Option<String>,
    /// Whether clients come in from outside.
    is_public: bool,
    behind: Behind,
    blueprint: Blueprint,
    /// Why no machine can be created.
    lack: Option<Hold>,
    rules: Rules,
    diff: ReplicaDiff,
}

impl Behind {
    /// Whether the better name is not there, and may come.
    fn may_improve(&self) -> bool {
        self.form == Form::Plain && self.shown == Some(false)
    }

    fn count(&self, form: Form) -> usize {
        let count = self.addresses.get(&(form == Form::Qualified));
        count.copied().unwrap_or_default()
    }
}

impl<'a> PlanInputs<'a> {
    pub(super) async fn look(context: &'a DraftContext<'a>) -> Result<Self, DraftError> {
        let data_center = &context.shared.data_center;
        let service = &context.request.service;
        let mut inputs = Self {
            context,
            machines: observe::own(data_center, context.cluster, &service.uid).await?,
            adopted: BTreeSet::new(),
            failed: Vec::new(),
            targets: backend_labels::targets(context).await?,
            names: BTreeMap::new(),
            notices: context.nodes.notices().into_iter().collect(),
        };
        inputs.find_failed().await?;
        if inputs.machines.is_empty() && context.shared.config.adopt_legacy {
            inputs.find_legacy().await?;
        }
        let ids: Vec<Uuid> = inputs.targets.iter().map(|it| it.id).collect();
        inputs.names = dns_names::read(context.shared, &ids, NAMES_AGE).await;
        let is_there = |id: Uuid| inputs.machines.iter().any(|it| it.id == id);
        context.shared.clb.keep(&service.uid, is_there);
        Ok(inputs)
    }

    /// Machines that failed before they served are on no list.
    async fn find_failed(&mut self) -> Result<(), DraftError> {
        let (shared, service) = (self.context.shared, &self.context.request.service);
        for (id, what) in shared.clb.failed_machines(&service.uid) {
            self.machines.retain(|it| it.id != id);
            match observe::one(&shared.data_center, id).await? {
                Some(machine) if machine.state != MachineState::Deleted => {
                    self.failed.push(Leaving {
                        machine,
                        why: format!("it {what}"),
                        is_replaced: true,
                        has_failed: true,
                    });
                }
                _ => shared.clb.is_gone(&service.uid, id),
            }
        }
        Ok(())
    }

    async fn find_legacy(&mut self) -> Result<(), DraftError> {
        let key = &self.context.request.service.key;
        let Some(machine) = observe::legacy(&self.context.shared.data_center, &key.name).await?
        else {
            return Ok(());
        };
        let mut others = self.context.request.all.iter();
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

    /// The plan, or what a person has to fix first.
    pub(super) async fn plan(&mut self) -> Result<Result<PreparedPlan, Problem>, DraftError> {
        let context = self.context;
        let references = backend_labels::references(&self.targets);
        let question = Question::new(context, &references, &self.names, &self.machines);
        let placement = match question.answer() {
            Ok(placement) => placement,
            Err(problem) => return Ok(Err(problem)),
        };
        let suffix = question.front_suffix(placement.front);
        let behind = self.behind(&placement, &references)?;
        drop(references);
        let (blueprint, lack) = match self.blueprint(&placement).await? {
            Ok(found) => found,
            Err(problem) => return Ok(Err(problem)),
        };
        let rules = rules(context, &self.targets, None, &mut self.notices).await?;
        let diff = self.diff(&blueprint);
        let decided = Decided {
            suffix,
            is_public: placement.front != placement.private,
            behind,
            blueprint,
            lack,
            rules,
            diff,
        };
        self.finish(&decided).map(Ok)
    }

    fn behind(&self, placement: &Placement, targets: &[&Machine]) -> Result<Behind, DraftError> {
        let context = self.context;
        let state = &context.shared.clb;
        let uid = &context.request.service.uid;
        let network = context.networks.get(&placement.private);
        let label = backend_labels::label(context);
        let names = Names::new(&label, network, &placement.suffix);
        let shown = if targets.is_empty() {
            Some(false)
        } else {
            names.shown(&self.names)
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
        let missed = state.missed(uid, shown, used);
        let (form, again) = backend::choose(shown, used, missed);
        let count = |form| {
            backend::addresses(
                targets,
                form,
                placement.private,
                &placement.suffix,
                &context.networks,
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

    /// What machines are to be like, and why none can be created.
    async fn blueprint(
        &self,
        placement: &Placement,
    ) -> Result<Result<(Blueprint, Option<Hold>), Problem>, CloudError> {
        let context = self.context;
        let (shared, config, clb) = (
            context.shared,
            &context.shared.config,
            &context.settings.clb,
        );
        if let Some(problem) = limits::excess(clb, config) {
            return Ok(Err(problem));
        }
        let Some(package) = clb.package.as_ref().or(config.clb_package.as_ref()) else {
            return Ok(Err(Problem {
                reason: "CLBPackageRequired",
                message: format!(
                    "no package is set for load balancer machines: configure clb-package, or set \
                     annotation {}",
                    table::PACKAGE.key
                ),
            }));
        };
        let image = clb.image.as_ref().unwrap_or(&config.clb_image);
        let lookups = &shared.clb.lookups;
        let images = lookups
            .images(&shared.data_center, image, &self.machines)
            .await?;
        let found = lookups.package(&shared.data_center, package).await?;
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
        let service = &context.request.service;
        let mut tags = BTreeMap::from([
            (CLUSTER_TAG.to_owned(), context.cluster.to_owned()),
            (UID_TAG.to_owned(), service.uid.clone()),
            (SERVICE_TAG.to_owned(), service.key.to_string()),
        ]);
        if !cns::is_involved(context) {
            // Not while nodes have it: a name would have the addresses of both.
            tags.insert(NAMES_TAG.to_owned(), context.label.clone());
        }
        let asked = clb.deletion_protection;
        let blueprint = Blueprint {
            stem: stem(&shared.cluster_name, &service.uid),
            tags,
            replicas: clb.replicas.unwrap_or(config.clb_replicas),
            image: images.newest.unwrap_or_default(),
            images: images.good,
            package: found.unwrap_or_else(|| package.clone()),
            wires: placement.wires.clone(),
            firewall: config.firewall,
            protection: asked.or_else(|| config.clb_deletion_protection.then_some(true)),
        };
        Ok(Ok((blueprint, lack)))
    }

    /// Compares the machines with the blueprint. An adopted one is kept for now: whether it fits is
    /// decided once it is ours.
    fn diff(&self, blueprint: &Blueprint) -> ReplicaDiff {
        let is_adopted = |it: &&Machine| self.adopted.contains(&it.id);
        let own = self.machines.iter().filter(|it| !is_adopted(it));
        let own: Vec<Machine> = own.cloned().collect();
        let mut diff = blueprint.diff(&own, &self.context.networks);
        diff.leaving.extend(self.failed.iter().cloned());
        for machine in self.machines.iter().filter(is_adopted) {
            if !diff.missing.is_empty() {
                let ordinal = diff.missing.remove(0);
                diff.kept.insert(ordinal, machine.clone());
            }
        }
        diff
    }

    /// The Service's ports. They were checked before anything else.
    fn entries(&self, behind: &Behind, form: Form) -> Vec<Entry> {
        let DraftContext {
            request, settings, ..
        } = self.context;
        let name = behind.names.of(form);
        portmap::entries(&request.service, &settings.clb, name).unwrap_or_default()
    }

    /// The metadata of a machine; one that exists keeps what must not be taken back.
    fn metadata_for(
        &self,
        behind: &Behind,
        form: Form,
        there: Option<&Machine>,
    ) -> BTreeMap<String, String> {
        let map = portmap::join(&self.entries(behind, form));
        let clb = &self.context.settings.clb;
        let there = there.map(|it| &it.metadata);
        metadata::wanted(&map, clb, behind.count(form), there)
    }

    /// Whether the better name is waited for before the first machine is made.
    fn waits_for_name(&self, behind: &Behind) -> bool {
        self.machines.is_empty() && !self.targets.is_empty() && behind.may_improve()
    }

    /// The form of the nodes' name that machines are expected to get.
    fn expected(&self, behind: &Behind) -> Form {
        if self.waits_for_name(behind) {
            Form::Qualified
        } else {
            behind.form
        }
    }

    /// Why no machine may be created now, after an earlier refusal.
    fn held(&self, decided: &Decided) -> Option<Hold> {
        // Whichever name of the nodes is used: that is no other machine.
        let map = portmap::join(&self.entries(&decided.behind, Form::Plain));
        let wanted = format!("{:?} {map}", decided.blueprint);
        let uid = &self.context.request.service.uid;
        self.context.shared.clb.hold(uid, &wanted)
    }

    fn steps(&self, decided: &Decided, hold: Option<&Hold>) -> Planned {
        let context = self.context;
        let Decided {
            behind,
            blueprint,
            diff,
            rules,
            ..
        } = decided;
        let differences = diff.kept.values().map(|it| {
            let wanted = self.metadata_for(behind, behind.form, Some(it));
            (it.id, Difference::between(&wanted, &it.metadata))
        });
        let (state, uid) = (&context.shared.clb, &context.request.service.uid);
        let out_of_dns = diff.leaving.iter().filter(|it| !has_name(it));
        let drained = out_of_dns.map(|it| (it.machine.id, state.drained(uid, it.machine.id)));
        let labelling =
            backend_labels::labelling(context, &backend_labels::label(context), &self.targets);
        let waits = self.waits_for_name(behind);
        let form = self.expected(behind);
        plan::reconcile(
            &Wanted {
                blueprint,
                labelling: &labelling,
                awaited: waits.then_some(behind.names.qualified.as_str()),
                metadata: &self.metadata_for(behind, form, None),
                differences: &differences.collect(),
                adopted: &self.adopted,
                hold,
                may_unprotect: blueprint.protection == Some(true),
                drained: &drained.collect(),
                rules,
            },
            diff,
        )
    }

    fn finish(&mut self, decided: &Decided) -> Result<PreparedPlan, DraftError> {
        let Decided {
            behind,
            blueprint,
            diff,
            lack,
            ..
        } = decided;
        let held = self.held(decided);
        let hold = lack.as_ref().or(held.as_ref());
        let mut planned = self.steps(decided, hold);
        let only_waits = planned.builder.plan.is_empty() && !diff.missing.is_empty();
        // A refusal was reported when it came; a lack is reported with every plan.
        if let Some(held) = held.filter(|_| only_waits && lack.is_none()) {
            let message = held.message.trim_end_matches('.');
            return Err(DraftError::Later {
                what: format!("the next try to make load balancer machines ({message})"),
                after: held.until.saturating_duration_since(Instant::now()),
            });
        }
        let publisher = self.publisher(decided);
        let nameless = publisher.hostname.is_none() && publisher.publish != Publish::Ip;
        let pauses = [behind.again, nameless.then_some(ZONE_PAUSE)];
        for pause in pauses.into_iter().flatten() {
            planned.sooner(pause);
        }
        let plan = &mut planned.builder.plan;
        let mut notices = std::mem::take(&mut self.notices);
        notices.append(&mut plan.notices);
        plan.notices = notices;
        plan.found = self.found();
        if plan.problems.is_empty() {
            let map = portmap::join(&self.entries(behind, self.expected(behind)));
            plan.wanted = wanted_states(blueprint, diff, &map);
        }
        let mut facts = self.facts(decided, publisher);
        facts.sharing = shared_appliance::push_leftovers(self.context, &mut planned.builder, None);
        Ok(prepared(self.context, planned, facts))
    }

    fn publisher(&self, decided: &Decided) -> Publisher {
        let DraftContext {
            request,
            settings,
            label,
            ..
        } = self.context;
        let own_name = decided.suffix.as_ref();
        let own_name = own_name.map(|suffix| format!("{label}.{suffix}"));
        Publisher {
            before: request.service.ingress.clone(),
            publish: settings.publish.unwrap_or(Publish::Ip),
            hostname: settings.hostname.clone().or(own_name),
            has_ip_mode: request.has_ip_mode,
            ports: ports(&request.service),
            replicas: usize::from(decided.blueprint.replicas),
        }
    }

    fn facts(&self, decided: &Decided, publisher: Publisher) -> PlanFacts {
        let Decided {
            behind,
            blueprint,
            diff,
            is_public,
            ..
        } = decided;
        let replaced = diff.leaving.iter();
        let replaced = replaced.filter(|it| it.is_replaced && runs(&it.machine));
        PlanFacts {
            names: Some(behind.names.clone()),
            form: behind.form,
            counts: [Form::Plain, Form::Qualified].map(|it| behind.count(it)),
            targets: self.targets.iter().map(|it| it.id).collect(),
            by_ordinal: diff.kept.clone(),
            former: replaced.map(|it| it.machine.clone()).collect(),
            is_public: *is_public,
            blueprint: Some(blueprint.clone()),
            publisher: Some(publisher),
            ..PlanFacts::default()
        }
    }

    pub(super) fn found(&self) -> Vec<ResourceState> {
        let networks = &self.context.networks;
        let machines = self.machines.iter();
        machines.map(|it| plan::found_state(it, networks)).collect()
    }
}

fn wanted_states(blueprint: &Blueprint, diff: &ReplicaDiff, map: &str) -> Vec<ResourceState> {
    let states = (0..blueprint.replicas).map(|ordinal| {
        let kept = diff.kept.get(&ordinal).map(|it| it.name.clone());
        let name = kept.unwrap_or_else(|| blueprint.name(ordinal));
        plan::wanted_state(&name, &blueprint.package, map)
    });
    states.collect()
}

fn has_name(leaving: &Leaving) -> bool {
    leaving.machine.tags.contains_key(NAMES_TAG)
}
