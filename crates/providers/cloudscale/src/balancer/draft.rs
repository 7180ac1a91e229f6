//! From one Service to its plan: gather, decide, and hand over to who carries it out.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    ADOPTED_MARK, BalancerRequest, CloudError, DraftError, Node, Notice, OwnershipVerdict,
    PreparedPlan, Problem, Service, Step, consent, hands_over_to,
};
use futures::try_join;
use uuid::Uuid;

use super::LoadBalancers;
use super::desire::{Desire, Host, ZoneWish, desire};
use super::execute::CloudscaleActions;
use super::find::{Claimed, Claims};
use super::floating::{self, Granted};
use super::notices::{
    DUPLICATE, NO_VALID_NODES, duplicates, hosts_without_address, more_than_one, no_valid_nodes,
    only_problem, private_vips_stay, problem, unknown_floating_ips,
};
use super::observe::Freshness;
use super::ownership::{self, Cluster, SERVICE_TAG, is_shown, uid_in_name};
use super::plan::{self, Action, Circumstances, PlanBuilder, Scope, Seen};
use super::publish::{Publisher, Showing};
use super::resource_states;
use super::settings::table::{TABLE, ZONE};
use super::settings::{self, Fault, INVALID, Settings};
use super::unreadable_nodes::{self, UnreadableNodes};
use crate::api::{FloatingIp, LoadBalancer};

/// How soon it is looked whether a load balancer that is handed over was taken: its former owner
/// gets a new one.
const HAND_OVER_PERIOD: Duration = Duration::from_secs(10);

/// What a draft starts from: one Service, its settings, and what the cloud shows.
struct DraftContext<'a> {
    request: &'a BalancerRequest,
    settings: Settings,
    hosts: Vec<Host>,
    desire: Desire,
    /// Whether the Service's source ranges filter.
    by_service: bool,
    /// The problem of members that stay because some nodes are unknown.
    kept: Option<Problem>,
    /// The nodes whose members stay because their owner is not known.
    held: Vec<String>,
    notices: Vec<Notice>,
    floating_ips: Vec<FloatingIp>,
    floating: Granted,
}

impl LoadBalancers {
    pub(super) async fn plan_absent(
        &self,
        request: &BalancerRequest,
    ) -> Result<PreparedPlan, DraftError> {
        let service = &request.service;
        let fresh = self.shared.observer.freshness(&service.uid);
        let claims = self.claims(request, fresh).await?;
        let mut builder = PlanBuilder::default();
        builder.plan.notices = claims.warnings();
        let all: Vec<Claimed> = claims
            .one
            .into_iter()
            .chain(claims.doubles)
            .chain(claims.others)
            .collect();
        for one in &all {
            self.plan_end(&mut builder, one, &service.uid, fresh)
                .await?;
            builder
                .plan
                .found
                .push(resource_states::found_balancer(&one.balancer));
        }
        let mut draft = self.draft_of(service, builder, None, Publisher::new(Showing::Silent));
        draft.proves_account = all.iter().any(|it| it.proves_account(service));
        Ok(draft)
    }

    /// The end of a load balancer that is the Service's; of one that was there before, only of what
    /// we made on it.
    async fn plan_end(
        &self,
        builder: &mut PlanBuilder,
        one: &Claimed,
        service_uid: &str,
        fresh: Freshness,
    ) -> Result<(), CloudError> {
        if one.is_adopted() {
            let whole = self.shared.observer.whole(one.balancer.clone(), fresh);
            let there = Box::pin(whole).await?;
            plan::release(builder, &there, service_uid);
        } else {
            plan::remove(builder, &one.balancer);
        }
        Ok(())
    }

    pub(super) async fn plan_present(
        &self,
        request: &BalancerRequest,
    ) -> Result<PreparedPlan, DraftError> {
        let service = &request.service;
        let fresh = self.shared.observer.freshness(&service.uid);
        let (settings, faults) = Settings::read(service);
        let context = async {
            let context = self.draft_context(request, settings, faults, fresh).await;
            context.map_err(DraftError::from)
        };
        let (mut context, claims) = try_join!(context, self.claims(request, fresh))?;
        let own = claims.one.as_ref().map(|it| it.balancer.uuid);
        context.grant_floating_ips(&self.shared.observer.balancers(fresh).await?.items, own);
        let mut builder = match &claims.one {
            None if claims.is_unclear() => only_problem(INVALID, more_than_one(&claims.others)),
            None if !claims.refused.is_empty() => {
                let mut builder = PlanBuilder::default();
                builder.plan.problems.clone_from(&claims.refused);
                builder
            }
            None => context.plan_new(),
            Some(one) => {
                let mut builder = self.plan_existing(&mut context, one, fresh).await?;
                builder.plan.notices.extend(claims.warnings());
                let namesakes = claims.namesakes + claims.others.len();
                let name = &context.settings.name;
                builder.plan.notices.extend(duplicates(name, namesakes));
                self.plan_doubles(&mut builder, &claims, request, fresh)
                    .await?;
                builder
            }
        };
        if builder.plan.problems.is_empty() {
            builder.plan.wanted = resource_states::wanted(&context.desire.wanted);
        }
        let publisher = context.publisher(&builder);
        // Nothing else has to wait for these nodes, nor for floating IPs.
        builder.plan.problems.extend(context.kept);
        if claims.one.is_some() || !builder.actions.is_empty() {
            builder.plan.problems.append(&mut context.floating.refused);
        }
        builder.plan.held = context.held;
        let mut notices = context.notices;
        notices.append(&mut context.floating.notices);
        if !builder.plan.held.is_empty() {
            // Some serve it all the same.
            notices.retain(|notice| notice.reason != NO_VALID_NODES);
        }
        let is_problem = |reason| builder.plan.problems.iter().any(|it| it.reason == reason);
        notices.retain(|notice| !is_problem(notice.reason));
        notices.append(&mut builder.plan.notices);
        builder.plan.notices = notices;
        let record = claims.one.as_ref().filter(|_| !self.ownership_tags);
        let record = record.and_then(Claimed::record);
        let proves_account = claims
            .one
            .as_ref()
            .is_some_and(|it| it.proves_account(service));
        let balancer = claims.one.map(|it| it.balancer);
        let waits = balancer.is_some() && is_handing_over(request);
        let publisher = publisher
            .recording(record)
            .again(waits.then_some(HAND_OVER_PERIOD));
        let mut draft = self.draft_of(service, builder, balancer, publisher);
        draft.proves_account = proves_account;
        Ok(draft)
    }

    /// Others with the Service's own mark go when the one in use is as it should be.
    async fn plan_doubles(
        &self,
        builder: &mut PlanBuilder,
        claims: &Claims,
        request: &BalancerRequest,
        fresh: Freshness,
    ) -> Result<(), CloudError> {
        if claims.doubles.is_empty() || !builder.plan.problems.is_empty() {
            return Ok(());
        }
        let names = claims.doubles.iter().map(|it| it.balancer.uuid.to_string());
        let names: Vec<String> = names.collect();
        builder.plan.notices.push(Notice {
            warning: true,
            reason: DUPLICATE,
            message: format!(
                "more than one load balancer was made for this Service; those that are not in use are removed: {}",
                names.join(", ")
            ),
        });
        for double in &claims.doubles {
            self.plan_end(builder, double, &request.service.uid, fresh)
                .await?;
        }
        Ok(())
    }

    /// Whether the Service's status shows a load balancer here that is its own without a consent.
    pub(super) async fn shows_own(&self, request: &BalancerRequest) -> Result<bool, DraftError> {
        let service = &request.service;
        let fresh = self.shared.observer.freshness(&service.uid);
        let claims = self.claims(request, fresh).await?;
        let by_name = service.ingress.iter().all(|it| it.ip.is_none());
        let mut all = claims
            .one
            .iter()
            .chain(&claims.doubles)
            .chain(&claims.others);
        Ok(!service.ingress.is_empty()
            && all.any(|it| {
                it.verdict == OwnershipVerdict::Ours && (by_name || is_shown(service, &it.balancer))
            }))
    }

    fn draft_of(
        &self,
        service: &Service,
        builder: PlanBuilder,
        balancer: Option<LoadBalancer>,
        publisher: Publisher,
    ) -> PreparedPlan {
        let shared = Arc::clone(&self.shared);
        let uid = service.uid.clone();
        let executor = CloudscaleActions::new(shared, uid, &builder, balancer, publisher);
        PreparedPlan::new(builder.plan, Box::new(executor))
    }

    /// What is wanted, which takes a look at servers and, if some are wanted, at floating IPs.
    async fn draft_context<'a>(
        &self,
        request: &'a BalancerRequest,
        settings: Settings,
        faults: Vec<Fault>,
        fresh: Freshness,
    ) -> Result<DraftContext<'a>, CloudError> {
        let service = &request.service;
        let mut notices = TABLE.unknown(service);
        let nodes = request.nodes.iter();
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
        all.extend(unknown_floating_ips(&settings, &floating_ips));
        desire.faults = all;
        notices.append(&mut desire.notices);
        if hosts.is_empty() {
            notices.push(no_valid_nodes(request, &settings));
        }
        notices.extend(hosts_without_address(&settings, &hosts));
        if self.ownership_tags {
            let key = &self.cluster_name_annotation;
            let all = [request.nodes.as_slice(), &request.excluded.held].concat();
            let named = Cluster::of(&request.cluster_name, &all, key);
            notices.extend(named.notice(key));
            (desire.wanted.tags, desire.wanted.child_tags) =
                ownership::tags(service, named.name(), request.cluster_uid.as_deref());
        }
        Ok(DraftContext {
            request,
            settings,
            hosts,
            desire,
            by_service,
            kept: None,
            held: Vec::new(),
            notices,
            floating_ips,
            floating: Granted::default(),
        })
    }

    /// The plan for a load balancer that is there and the Service's. Before anything else is
    /// written it is marked.
    async fn plan_existing(
        &self,
        context: &mut DraftContext<'_>,
        one: &Claimed,
        fresh: Freshness,
    ) -> Result<PlanBuilder, CloudError> {
        let found = &one.balancer;
        let reported = consent(&one.verdict, &found.name);
        if one.is_adopted() {
            context.adopt(found);
        }
        let service = &context.request.service;
        let is_marked = found.tags.get(SERVICE_TAG) == Some(&service.uid);
        // One with this Service's uid in its name is proven whatever becomes of it.
        let is_urgent = uid_in_name(&found.name) != Some(&service.uid);
        let mut faults = context.desire.faults.clone();
        faults.extend(plan::refusals(&context.desire.wanted, found));
        let mut builder = if faults.iter().any(|fault| fault.about_members) {
            let mut builder = PlanBuilder::default();
            builder.plan.found = vec![resource_states::found_balancer(found)];
            builder
        } else {
            let mut there: Seen =
                Box::pin(self.shared.observer.whole(found.clone(), fresh)).await?;
            let whole = resource_states::found(&there, &context.floating_ips);
            if one.is_adopted() {
                there = ownership::own_part(there, &service.uid, &context.desire.wanted);
            }
            context.keep_members(&there);
            let scope = if faults.is_empty() {
                Scope::Everything
            } else {
                Scope::Members
            };
            let around = Circumstances {
                scope,
                marking: !is_marked && (is_urgent || scope == Scope::Everything),
                floating_ips: &context.floating_ips,
            };
            let mut builder = plan::reconcile(&context.desire.wanted, &there, around);
            builder.plan.found = whole;
            builder
        };
        let notices = &mut builder.plan.notices;
        if !builder.actions.is_empty() {
            notices.extend(reported);
        }
        if faults.is_empty() {
            notices.extend(private_vips_stay(&context.settings.vips, found));
        }
        context.report_source_ranges(&mut builder);
        builder.plan.problems = faults.iter().map(problem).collect();
        Ok(builder)
    }
}

/// Whether a Service that is there may take this one's load balancer any moment.
fn is_handing_over(request: &BalancerRequest) -> bool {
    let to = hands_over_to(&request.service);
    let mut all = request.all.iter();
    to.is_some_and(|to| all.any(|it| it.key == to && it.uid != request.service.uid))
}

impl DraftContext<'_> {
    fn grant_floating_ips(&mut self, balancers: &[LoadBalancer], own: Option<Uuid>) {
        let wanted = &self.desire.wanted.floating_ips;
        self.floating = floating::grant(self.request, wanted, &self.floating_ips, balancers, own);
        self.desire
            .wanted
            .floating_ips
            .clone_from(&self.floating.addresses);
    }

    /// A load balancer that no controller made keeps its name, and what we make on it is marked.
    fn adopt(&mut self, found: &LoadBalancer) {
        let wanted = &mut self.desire.wanted;
        wanted.name.clone_from(&found.name);
        wanted
            .tags
            .insert(ADOPTED_MARK.to_owned(), "true".to_owned());
        let uid = self.request.service.uid.clone();
        wanted.child_tags.insert(SERVICE_TAG.to_owned(), uid);
    }

    /// While some nodes are unknown, or have no known owner, members that may be theirs are wanted
    /// as well.
    fn keep_members(&mut self, there: &Seen) {
        let excluded = &self.request.excluded;
        let held = excluded.held.iter().map(|node| &**node);
        let selector = &self.settings.selector;
        let unreadable = UnreadableNodes {
            unknown: &excluded.unknown,
            held: held.filter(|it| selector.matches(&it.labels)).collect(),
        };
        let kept_hosts = unreadable_nodes::kept_hosts(there, &self.hosts, &unreadable);
        if kept_hosts.is_empty() {
            return;
        }
        self.kept = unreadable_nodes::kept(&kept_hosts, &excluded.unknown);
        let held = kept_hosts.iter().filter(|it| it.is_held);
        let held: BTreeSet<&String> = held.map(|it| &it.host.node).collect();
        self.held = held.into_iter().cloned().collect();
        let kept_hosts = kept_hosts.into_iter().map(|it| it.host);
        let hosts: Vec<Host> = self.hosts.iter().cloned().chain(kept_hosts).collect();
        let service = &self.request.service;
        let desire = desire(service, &self.settings, &hosts, self.by_service);
        self.desire.wanted.pools = desire.wanted.pools;
    }

    /// The plan when there is no load balancer: all or nothing.
    fn plan_new(&self) -> PlanBuilder {
        let service = &self.request.service;
        let mut problems: Vec<Problem> = self.desire.faults.iter().map(problem).collect();
        let zone = self.zone().unwrap_or_else(|problem| {
            problems.push(problem);
            ""
        });
        let mut builder = if problems.is_empty() {
            plan::build(&self.desire.wanted, zone, &self.floating_ips)
        } else {
            PlanBuilder::default()
        };
        if let Some(lost) = settings::uuid_of(service)
            && hands_over_to(service).is_none()
            && !service.ingress.is_empty()
            && problems.is_empty()
        {
            builder.plan.notices.push(Notice {
                warning: true,
                reason: "LoadBalancerRecreated",
                message: format!(
                    "load balancer {lost} is gone; a new one is made, with other addresses"
                ),
            });
        }
        self.report_source_ranges(&mut builder);
        builder.plan.problems = problems;
        builder
    }

    fn zone(&self) -> Result<&str, Problem> {
        let key = ZONE.key;
        match &self.desire.wanted.zone {
            ZoneWish::Chosen(zone) | ZoneWish::Common(zone) => Ok(zone),
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
                } = no_valid_nodes(self.request, &self.settings);
                let message = format!(
                    "{message}, and without nodes and annotation {key} the zone is not known"
                );
                Err(Problem { reason, message })
            }
        }
    }

    /// How the load balancer is shown, once that plan is carried out.
    fn publisher(&self, builder: &PlanBuilder) -> Publisher {
        let before = self.request.service.ingress.clone();
        if !builder.plan.problems.is_empty() {
            return Publisher::new(Showing::AsBefore(before));
        }
        let settings = &self.settings;
        let floating: &[IpAddr] = if settings.publish_floating_ips {
            &self.floating.addresses
        } else {
            &[]
        };
        Publisher::new(Showing::Entrances {
            before,
            hostname: settings.force_hostname.clone(),
            ip_mode: self.request.has_ip_mode.then_some(settings.ip_mode),
            floating_ips: floating.to_vec(),
            without_targets: self.desire.wanted.has_no_members(),
        })
    }

    /// A notice once the Service's source ranges take effect.
    fn report_source_ranges(&self, builder: &mut PlanBuilder) {
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
        let mut steps = builder.plan.steps.iter().zip(&builder.actions);
        if filtered.is_empty() || !steps.any(filters) {
            return;
        }
        let ranges = self.request.service.source_ranges.join(", ");
        let whereto = if on_all_ports {
            String::new()
        } else {
            let names: Vec<&str> = filtered.iter().map(String::as_str).collect();
            format!(" to {}", names.join(", "))
        };
        builder.plan.notices.push(Notice {
            warning: false,
            reason: "SourceRangesApplied",
            message: format!(
                "only {ranges} may connect{whereto}, as spec.loadBalancerSourceRanges says"
            ),
        });
    }
}
