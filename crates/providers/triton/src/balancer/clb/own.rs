//! The plan for machines of a Service's own: gather, decide, and hand over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::{CloudError, DraftError, Notice, PreparedPlan, Problem, ResourceState};
use tokio::time::Instant;
use uuid::Uuid;

use super::backend::{self, Form, Names};
use super::draft::{NAMES_AGE, prepared, rules};
use super::execute::PlanFacts;
use super::machines::{
    Blueprint, CLUSTER_TAG, Leaving, Lineup, NAMES_TAG, SERVICE_TAG, UID_TAG, runs, stem,
};
use super::memory::{HOLD, Hold};
use super::metadata::{self, Difference, PORTMAP};
use super::place::{Placed, Question};
use super::plan::{self, Planned, Rules, Wanted};
use super::portmap::{self, Entry};
use super::publish::{Publisher, ports};
use super::{behind, limits, observe, share};
use crate::api::{Machine, MachineState};
use crate::balancer::scene::DraftContext;
use crate::balancer::settings::{Publish, table};
use crate::balancer::{cns, names};

/// When to look again while nobody can say what nodes are called.
const NAMES_PAUSE: Duration = Duration::from_secs(30);
/// When to look again for the Service's own name, while its zone is not known.
const ZONE_PAUSE: Duration = Duration::from_secs(15);

pub(super) struct PlanInputs<'a> {
    scene: &'a DraftContext<'a>,
    /// Those of the Service, and one that is taken over.
    machines: Vec<Machine>,
    adopted: BTreeSet<Uuid>,
    /// Those that came to nothing.
    ruined: Vec<Leaving>,
    members: Vec<Machine>,
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
    /// What is lacking to make a machine.
    lack: Option<Hold>,
    rules: Rules,
    lineup: Lineup,
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
    pub(super) async fn look(scene: &'a DraftContext<'a>) -> Result<Self, DraftError> {
        let site = &scene.shared.site;
        let service = &scene.request.service;
        let mut making = Self {
            scene,
            machines: observe::own(site, scene.cluster, &service.uid).await?,
            adopted: BTreeSet::new(),
            ruined: Vec::new(),
            members: behind::members(scene).await?,
            names: BTreeMap::new(),
            notices: scene.nodes.notices().into_iter().collect(),
        };
        making.look_for_ruins().await?;
        if making.machines.is_empty() && scene.shared.config.adopt_legacy {
            making.look_for_legacy().await?;
        }
        let ids: Vec<Uuid> = making.members.iter().map(|it| it.id).collect();
        making.names = names::read(scene.shared, &ids, NAMES_AGE).await;
        let is_there = |id: Uuid| making.machines.iter().any(|it| it.id == id);
        scene.shared.clb.keep(&service.uid, is_there);
        Ok(making)
    }

    /// Machines that came to nothing are on no list, and are not counted on.
    async fn look_for_ruins(&mut self) -> Result<(), DraftError> {
        let (shared, service) = (self.scene.shared, &self.scene.request.service);
        for (id, what) in shared.clb.ruined(&service.uid) {
            self.machines.retain(|it| it.id != id);
            match observe::one(&shared.site, id).await? {
                Some(machine) if machine.state != MachineState::Deleted => {
                    self.ruined.push(Leaving {
                        machine,
                        why: format!("it {what}"),
                        is_replaced: true,
                        is_ruined: true,
                    });
                }
                _ => shared.clb.is_gone(&service.uid, id),
            }
        }
        Ok(())
    }

    async fn look_for_legacy(&mut self) -> Result<(), DraftError> {
        let key = &self.scene.request.service.key;
        let Some(machine) = observe::legacy(&self.scene.shared.site, &key.name).await? else {
            return Ok(());
        };
        let mut others = self.scene.request.all.iter();
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

    /// Plans, or says what a person must put right.
    pub(super) async fn plan(&mut self) -> Result<Result<PreparedPlan, Problem>, DraftError> {
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
        let lineup = self.lineup(&blueprint);
        let decided = Decided {
            suffix,
            is_public: placed.front != placed.private,
            behind,
            blueprint,
            lack,
            rules,
            lineup,
        };
        self.finish(&decided).map(Ok)
    }

    fn behind(&self, placed: &Placed, members: &[&Machine]) -> Result<Behind, DraftError> {
        let scene = self.scene;
        let memory = &scene.shared.clb;
        let uid = &scene.request.service.uid;
        let network = scene.networks.get(&placed.private);
        let label = behind::label(scene);
        let names = Names::new(&label, network, &placed.suffix);
        let shown = if members.is_empty() {
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
        let missed = memory.missed(uid, shown, used);
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
        if let Some(problem) = limits::excess(clb, config) {
            return Ok(Err(problem));
        }
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
        let service = &scene.request.service;
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

    /// What becomes of the machines. One that is taken over stays as it is, for now: whether it fits is seen
    /// when it is ours.
    fn lineup(&self, blueprint: &Blueprint) -> Lineup {
        let is_adopted = |it: &&Machine| self.adopted.contains(&it.id);
        let own = self.machines.iter().filter(|it| !is_adopted(it));
        let own: Vec<Machine> = own.cloned().collect();
        let mut lineup = blueprint.lineup(&own, &self.scene.networks);
        lineup.leaving.extend(self.ruined.iter().cloned());
        for machine in self.machines.iter().filter(is_adopted) {
            if !lineup.missing.is_empty() {
                let seat = lineup.missing.remove(0);
                lineup.kept.insert(seat, machine.clone());
            }
        }
        lineup
    }

    /// The Service's ports. They were checked before anything else.
    fn entries(&self, behind: &Behind, form: Form) -> Vec<Entry> {
        let DraftContext {
            request, settings, ..
        } = self.scene;
        let name = behind.names.of(form);
        portmap::entries(&request.service, &settings.clb, name).unwrap_or_default()
    }

    /// What a machine is to be told; one that is there keeps what must not be taken back.
    fn told_to(
        &self,
        behind: &Behind,
        form: Form,
        there: Option<&Machine>,
    ) -> BTreeMap<String, String> {
        let map = portmap::join(&self.entries(behind, form));
        let clb = &self.scene.settings.clb;
        let there = there.map(|it| &it.metadata);
        metadata::wanted(&map, clb, behind.count(form), there)
    }

    /// Whether the better name is waited for before the first machine is made.
    fn waits_for_name(&self, behind: &Behind) -> bool {
        self.machines.is_empty() && !self.members.is_empty() && behind.may_improve()
    }

    /// The name that machines are expected to be told.
    fn expected(&self, behind: &Behind) -> Form {
        if self.waits_for_name(behind) {
            Form::Qualified
        } else {
            behind.form
        }
    }

    /// Why nothing may be made now, because of what was refused before.
    fn held(&self, decided: &Decided) -> Option<Hold> {
        // Whichever name of the nodes is used: that is no other machine.
        let map = portmap::join(&self.entries(&decided.behind, Form::Plain));
        let wanted = format!("{:?} {map}", decided.blueprint);
        let uid = &self.scene.request.service.uid;
        self.scene.shared.clb.hold(uid, &wanted)
    }

    fn steps(&self, decided: &Decided, hold: Option<&Hold>) -> Planned {
        let scene = self.scene;
        let Decided {
            behind,
            blueprint,
            lineup,
            rules,
            ..
        } = decided;
        let differences = lineup.kept.values().map(|it| {
            let wanted = self.told_to(behind, behind.form, Some(it));
            (it.id, Difference::between(&wanted, &it.metadata))
        });
        let (memory, uid) = (&scene.shared.clb, &scene.request.service.uid);
        let out_of_dns = lineup.leaving.iter().filter(|it| !has_name(it));
        let drained = out_of_dns.map(|it| (it.machine.id, memory.drained(uid, it.machine.id)));
        let labelling = behind::labelling(scene, &behind::label(scene), &self.members);
        let waits = self.waits_for_name(behind);
        let form = self.expected(behind);
        plan::reconcile(
            &Wanted {
                blueprint,
                labelling: &labelling,
                awaited: waits.then_some(behind.names.qualified.as_str()),
                metadata: &self.told_to(behind, form, None),
                differences: &differences.collect(),
                adopted: &self.adopted,
                hold,
                may_unprotect: blueprint.protection == Some(true),
                drained: &drained.collect(),
                rules,
            },
            lineup,
        )
    }

    fn finish(&mut self, decided: &Decided) -> Result<PreparedPlan, DraftError> {
        let Decided {
            behind,
            blueprint,
            lineup,
            lack,
            ..
        } = decided;
        let held = self.held(decided);
        let hold = lack.as_ref().or(held.as_ref());
        let mut planned = self.steps(decided, hold);
        let only_waits = planned.builder.plan.is_empty() && !lineup.missing.is_empty();
        // A refusal was told when it came; what is lacking is told with every plan.
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
            plan.wanted = wanted_things(blueprint, lineup, &map);
        }
        let mut told = self.told(decided, publisher);
        told.sharing = share::push_leftovers(self.scene, &mut planned.builder, None);
        Ok(prepared(self.scene, planned, told))
    }

    fn publisher(&self, decided: &Decided) -> Publisher {
        let DraftContext {
            request,
            settings,
            label,
            ..
        } = self.scene;
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

    fn told(&self, decided: &Decided, publisher: Publisher) -> PlanFacts {
        let Decided {
            behind,
            blueprint,
            lineup,
            is_public,
            ..
        } = decided;
        let replaced = lineup.leaving.iter();
        let replaced = replaced.filter(|it| it.is_replaced && runs(&it.machine));
        PlanFacts {
            names: Some(behind.names.clone()),
            form: behind.form,
            counts: [Form::Plain, Form::Qualified].map(|it| behind.count(it)),
            members: self.members.iter().map(|it| it.id).collect(),
            seats: lineup.kept.clone(),
            former: replaced.map(|it| it.machine.clone()).collect(),
            is_public: *is_public,
            blueprint: Some(blueprint.clone()),
            publisher: Some(publisher),
            ..PlanFacts::default()
        }
    }

    pub(super) fn found(&self) -> Vec<ResourceState> {
        let networks = &self.scene.networks;
        let machines = self.machines.iter();
        machines.map(|it| plan::found_thing(it, networks)).collect()
    }
}

fn wanted_things(blueprint: &Blueprint, lineup: &Lineup, map: &str) -> Vec<ResourceState> {
    let things = (0..blueprint.replicas).map(|seat| {
        let kept = lineup.kept.get(&seat).map(|it| it.name.clone());
        let name = kept.unwrap_or_else(|| blueprint.name(seat));
        plan::wanted_thing(&name, &blueprint.package, map)
    });
    things.collect()
}

fn has_name(leaving: &Leaving) -> bool {
    leaving.machine.tags.contains_key(NAMES_TAG)
}
