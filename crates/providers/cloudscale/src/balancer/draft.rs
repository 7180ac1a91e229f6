//! From one Service to its plan: gather, decide, and hand over to who carries it out.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use bowline_core::{
    CloudError, CloudErrorKind, Draft, DraftError, Node, Notice, Problem, Service, Step, Wish,
};
use futures::try_join;

use super::LoadBalancers;
use super::desire::{Desire, Host, ZoneWish, desire};
use super::doubt::{self, Doubtful};
use super::execute::Hands;
use super::inventory;
use super::observe::{Freshness, Identity};
use super::ownership::{self, Cluster, SERVICE_TAG, Standing};
use super::plan::{self, Action, Circumstances, Scope, Seen, Sketch};
use super::publish::Publisher;
use super::remarks::{
    NO_VALID_NODES, OWNED_BY_OTHER, duplicates, floating_ip_conflict, hosts_without_address,
    no_valid_nodes, only_problem, private_vips_stay, problem, unknown_floating_ips,
};
use super::settings::table::ZONE;
use super::settings::{self, Fault, INVALID, Settings};
use crate::api::{FloatingIp, LoadBalancer};

/// Everything that is known about one Service when its plan is made.
struct Ground<'a> {
    wish: &'a Wish,
    settings: Settings,
    hosts: Vec<Host>,
    desire: Desire,
    /// Whether the Service's source ranges filter.
    by_service: bool,
    /// What is told about members that stay because some nodes are unknown.
    kept: Option<Problem>,
    /// The nodes whose members stay because their owner is not known.
    held: Vec<String>,
    notices: Vec<Notice>,
    cluster: Option<String>,
    floating_ips: Vec<FloatingIp>,
}

impl LoadBalancers {
    pub(super) async fn plan_absent(&self, wish: &Wish) -> Result<Draft, DraftError> {
        let service = &wish.service;
        let fresh = self.shared.observer.freshness(&service.uid);
        let name = settings::name_of(service);
        let mut sketch = Sketch::default();
        let mut balancer = None;
        match self.identify(service, &name, fresh).await? {
            Identity::Absent => {}
            Identity::Unclear(message) => {
                return Err(CloudError::new(CloudErrorKind::Conflict, message).into());
            }
            Identity::One(found, others) => match self.standing(&found, wish, None) {
                Standing::Other(message) => {
                    sketch.plan.found = vec![inventory::found_balancer(&found)];
                    sketch.plan.notices.push(Notice {
                        warning: true,
                        reason: OWNED_BY_OTHER,
                        message: format!("{message}; it stays"),
                    });
                }
                Standing::Ours | Standing::TakenOver(_) => {
                    sketch = plan::remove(&found);
                    sketch.plan.found = vec![inventory::found_balancer(&found)];
                    sketch.plan.notices.extend(duplicates(&name, &others));
                    balancer = Some(*found);
                }
            },
        }
        Ok(self.draft_of(service, sketch, balancer, Publisher::Silent))
    }

    pub(super) async fn plan_present(&self, wish: &Wish) -> Result<Draft, DraftError> {
        let service = &wish.service;
        let fresh = self.shared.observer.freshness(&service.uid);
        let (settings, faults) = Settings::read(service);
        let (mut ground, identity) = try_join!(
            self.ground(wish, settings.clone(), faults, fresh),
            self.identify(service, &settings.name, fresh),
        )?;
        let (mut sketch, balancer) = match identity {
            Identity::Absent => (ground.plan_new(), None),
            Identity::Unclear(message) => (only_problem(INVALID, message), None),
            Identity::One(found, others) => {
                let standing = self.standing(&found, wish, ground.cluster.as_deref());
                if let Standing::Other(message) = standing {
                    let mut sketch = only_problem(OWNED_BY_OTHER, message);
                    sketch.plan.found = vec![inventory::found_balancer(&found)];
                    (sketch, None)
                } else {
                    let existing = self.plan_existing(&mut ground, &found, standing, fresh);
                    let mut sketch = existing.await?;
                    let name = &ground.settings.name;
                    sketch.plan.notices.extend(duplicates(name, &others));
                    (sketch, Some(*found))
                }
            }
        };
        if sketch.plan.problems.is_empty() {
            sketch.plan.wanted = inventory::wanted(&ground.desire.wanted);
        }
        let publisher = ground.publisher(&sketch);
        // Nothing else has to wait for these nodes.
        sketch.plan.problems.extend(ground.kept);
        sketch.plan.held = ground.held;
        let mut notices = ground.notices;
        if !sketch.plan.held.is_empty() {
            // Some serve it all the same.
            notices.retain(|notice| notice.reason != NO_VALID_NODES);
        }
        let is_problem = |reason| sketch.plan.problems.iter().any(|it| it.reason == reason);
        notices.retain(|notice| !is_problem(notice.reason));
        notices.append(&mut sketch.plan.notices);
        sketch.plan.notices = notices;
        Ok(self.draft_of(service, sketch, balancer, publisher))
    }

    fn draft_of(
        &self,
        service: &Service,
        sketch: Sketch,
        balancer: Option<LoadBalancer>,
        publisher: Publisher,
    ) -> Draft {
        let shared = Arc::clone(&self.shared);
        let uid = service.uid.clone();
        let hands = Hands::new(shared, uid, &sketch, balancer, publisher);
        Draft::new(sketch.plan, Box::new(hands))
    }

    /// Which load balancer is the Service's.
    async fn identify(
        &self,
        service: &Service,
        name: &str,
        fresh: Freshness,
    ) -> Result<Identity, CloudError> {
        let uuid = settings::uuid_of(service);
        let observer = &self.shared.observer;
        let candidates = observer.candidates(fresh, uuid, name).await?;
        Ok(candidates.identify(name, |balancer| {
            self.ownership_tags && balancer.tags.get(SERVICE_TAG) == Some(&service.uid)
        }))
    }

    fn standing(&self, found: &LoadBalancer, wish: &Wish, cluster: Option<&str>) -> Standing {
        if self.ownership_tags {
            ownership::judge(found, wish, cluster)
        } else {
            Standing::Ours
        }
    }

    /// What is wanted, which takes a look at servers and, if some are wanted, at floating IPs.
    async fn ground<'a>(
        &self,
        wish: &'a Wish,
        settings: Settings,
        faults: Vec<Fault>,
        fresh: Freshness,
    ) -> Result<Ground<'a>, CloudError> {
        let service = &wish.service;
        let mut notices = settings::unknown_keys(service);
        let nodes = wish.nodes.iter();
        let nodes: Vec<Arc<Node>> = nodes
            .filter(|node| settings.selector.matches(&node.labels))
            .cloned()
            .collect();
        let (hosts, floating_ips) = try_join!(
            self.hosts(&nodes, &mut notices),
            self.floating_ips(&settings, fresh)
        )?;
        let by_service = self.service_source_ranges;
        let mut desire = desire(service, &settings, &hosts, by_service);
        let mut all = faults;
        all.append(&mut desire.faults);
        all.extend(floating_ip_conflict(wish, &settings));
        all.extend(unknown_floating_ips(&settings, &floating_ips));
        desire.faults = all;
        notices.append(&mut desire.notices);
        if hosts.is_empty() {
            notices.push(no_valid_nodes(wish, &settings));
        }
        notices.extend(hosts_without_address(&settings, &hosts));
        let mut cluster = None;
        if self.ownership_tags {
            let key = &self.cluster_name_annotation;
            let all = [wish.nodes.as_slice(), &wish.census.held].concat();
            let named = Cluster::of(&wish.cluster_name, &all, key);
            notices.extend(named.notice(key));
            (desire.wanted.tags, desire.wanted.child_tags) = ownership::tags(service, named.name());
            cluster = named.name().map(str::to_owned);
        }
        Ok(Ground {
            wish,
            settings,
            hosts,
            desire,
            by_service,
            kept: None,
            held: Vec::new(),
            notices,
            cluster,
            floating_ips,
        })
    }

    /// The plan for a load balancer that is there and the Service's.
    async fn plan_existing(
        &self,
        ground: &mut Ground<'_>,
        found: &LoadBalancer,
        standing: Standing,
        fresh: Freshness,
    ) -> Result<Sketch, CloudError> {
        let told = match standing {
            Standing::TakenOver(notice) => Some(notice),
            Standing::Ours | Standing::Other(_) => None,
        };
        let mut faults = ground.desire.faults.clone();
        faults.extend(plan::refusals(&ground.desire.wanted, found));
        let mut sketch = if faults.iter().any(|fault| fault.about_members) {
            let mut sketch = Sketch::default();
            sketch.plan.found = vec![inventory::found_balancer(found)];
            sketch
        } else {
            let there: Seen = Box::pin(self.shared.observer.whole(found.clone(), fresh)).await?;
            ground.keep_members(&there);
            let scope = if faults.is_empty() {
                Scope::Everything
            } else {
                Scope::Members
            };
            let around = Circumstances {
                scope,
                taking_over: told.is_some(),
                floating_ips: &ground.floating_ips,
            };
            let mut sketch = plan::reconcile(&ground.desire.wanted, &there, around);
            sketch.plan.found = inventory::found(&there, &ground.floating_ips);
            sketch
        };
        let notices = &mut sketch.plan.notices;
        if !sketch.actions.is_empty() {
            notices.extend(told);
        }
        if faults.is_empty() {
            notices.extend(private_vips_stay(&ground.settings.vips, found));
        }
        ground.tell_source_ranges(&mut sketch);
        sketch.plan.problems = faults.iter().map(problem).collect();
        Ok(sketch)
    }
}

impl Ground<'_> {
    /// While some nodes are unknown, or have no known owner, members that may be theirs are wanted as well.
    fn keep_members(&mut self, there: &Seen) {
        let census = &self.wish.census;
        let held = census.held.iter().map(|node| &**node);
        let selector = &self.settings.selector;
        let doubtful = Doubtful {
            unknown: &census.unknown,
            held: held.filter(|it| selector.matches(&it.labels)).collect(),
        };
        let strangers = doubt::strangers(there, &self.hosts, &doubtful);
        if strangers.is_empty() {
            return;
        }
        self.kept = doubt::kept(&strangers, &census.unknown);
        let held = strangers.iter().filter(|it| it.is_held);
        let held: BTreeSet<&String> = held.map(|it| &it.host.node).collect();
        self.held = held.into_iter().cloned().collect();
        let strangers = strangers.into_iter().map(|it| it.host);
        let hosts: Vec<Host> = self.hosts.iter().cloned().chain(strangers).collect();
        let service = &self.wish.service;
        let desire = desire(service, &self.settings, &hosts, self.by_service);
        self.desire.wanted.pools = desire.wanted.pools;
    }

    /// The plan when there is no load balancer: all or nothing.
    fn plan_new(&self) -> Sketch {
        let service = &self.wish.service;
        let mut problems: Vec<Problem> = self.desire.faults.iter().map(problem).collect();
        let zone = self.zone().unwrap_or_else(|problem| {
            problems.push(problem);
            ""
        });
        let mut sketch = if problems.is_empty() {
            plan::build(&self.desire.wanted, zone, &self.floating_ips)
        } else {
            Sketch::default()
        };
        if let Some(lost) = settings::uuid_of(service)
            && !service.ingress.is_empty()
            && problems.is_empty()
        {
            sketch.plan.notices.push(Notice {
                warning: true,
                reason: "LoadBalancerRecreated",
                message: format!(
                    "load balancer {lost} is gone; a new one is made, with other addresses"
                ),
            });
        }
        self.tell_source_ranges(&mut sketch);
        sketch.plan.problems = problems;
        sketch
    }

    /// Where a new load balancer belongs.
    fn zone(&self) -> Result<&str, Problem> {
        let key = ZONE.key;
        match &self.desire.wanted.zone {
            ZoneWish::Said(zone) | ZoneWish::Common(zone) => Ok(zone),
            ZoneWish::Several(zones) => {
                let zones: Vec<&str> = zones.iter().map(String::as_str).collect();
                Err(Problem {
                    reason: INVALID,
                    message: format!(
                        "no loadbalancer zone set and nodes in multiple zones ({}); annotation {key} \
                         says which",
                        zones.join(", ")
                    ),
                })
            }
            ZoneWish::Unknown if !self.hosts.is_empty() => Err(Problem {
                reason: INVALID,
                message: format!(
                    "the API tells no zone of the nodes' servers; annotation {key} says which"
                ),
            }),
            ZoneWish::Unknown => {
                let Notice {
                    reason, message, ..
                } = no_valid_nodes(self.wish, &self.settings);
                let message = format!(
                    "{message}, and without nodes and annotation {key} the zone is not known"
                );
                Err(Problem { reason, message })
            }
        }
    }

    /// How the load balancer is shown, once that plan is carried out.
    fn publisher(&self, sketch: &Sketch) -> Publisher {
        let before = self.wish.service.ingress.clone();
        if !sketch.plan.problems.is_empty() {
            return Publisher::AsBefore(before);
        }
        let settings = &self.settings;
        let floating: &[IpAddr] = if settings.publish_floating_ips {
            &settings.floating_ips
        } else {
            &[]
        };
        Publisher::Entrances {
            before,
            hostname: settings.force_hostname.clone(),
            ip_mode: self.wish.has_ip_mode.then_some(settings.ip_mode),
            floating_ips: floating.to_vec(),
            without_targets: self.desire.wanted.has_no_members(),
        }
    }

    /// Says it when the Service's source ranges take effect.
    fn tell_source_ranges(&self, sketch: &mut Sketch) {
        let wanted = &self.desire.wanted;
        let filtered = &wanted.filtered_by_service;
        let on_all_ports = filtered.len() == wanted.pools.len();
        let filters = |(step, action): (&Step, &Action)| match action {
            Action::CreateListener { body, .. } | Action::ChangeListener { body, .. } => {
                body.contains_key("allowed_cidrs")
                    && (on_all_ports || filtered.contains(&step.object.name))
            }
            _ => false,
        };
        let mut steps = sketch.plan.steps.iter().zip(&sketch.actions);
        if filtered.is_empty() || !steps.any(filters) {
            return;
        }
        let ranges = self.wish.service.source_ranges.join(", ");
        let whereto = if on_all_ports {
            String::new()
        } else {
            let names: Vec<&str> = filtered.iter().map(String::as_str).collect();
            format!(" to {}", names.join(", "))
        };
        sketch.plan.notices.push(Notice {
            warning: false,
            reason: "SourceRangesApplied",
            message: format!(
                "only {ranges} may connect{whereto}, as spec.loadBalancerSourceRanges says"
            ),
        });
    }
}
