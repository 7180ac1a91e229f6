//! From one Service to its plan and executor.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_core::{
    ADOPTED_MARK, BalancerRequest, DraftError, Notice, PreparedPlan, Problem, Verb,
};
use futures::try_join;
use uuid::Uuid;

use super::LoadBalancers;
use super::desire::{WantedService, desire};
use super::execute::ExoscaleActions;
use super::find::{DepartingBalancer, Found, Knowledge};
use super::notices;
use super::observe::readable;
use super::ownership::{OwnershipContext, ServiceOwner};
use super::plan::{self, Action, Managed, PlanBuilder, Wanted};
use super::pool::{Confirming, Target};
use super::publish::{Known, Publisher};
use super::record::Record;
use super::resource_states;
use super::settings::table::{ID, OWNED_SERVICES, TABLE};
use super::settings::{self, External, Settings};
use crate::api::{LoadBalancer, LoadBalancerState};

/// When to look again at a load balancer that the cloud is at work on.
const UNSETTLED_PAUSE: Duration = Duration::from_secs(2);

impl LoadBalancers {
    pub(super) async fn plan_present(
        &self,
        request: &BalancerRequest,
    ) -> Result<PreparedPlan, DraftError> {
        let service = &request.service;
        let (settings, mut faults) = Settings::read(service);
        let mut desire = desire(service, &settings, self.local_check);
        faults.append(&mut desire.faults);
        let mut notices = TABLE.unknown(service);
        notices.extend(settings::external_notice(service));
        notices.append(&mut desire.notices);
        if !faults.is_empty() {
            let mut refusal = self.refusal(request, faults, notices, None);
            refusal.plan.unread = true;
            return Ok(refusal);
        }
        let mut known = Knowledge::new(request);
        let target = self.pools.resolve(&settings.pool, &request.nodes);
        let target = async { target.await.map_err(DraftError::from) };
        let (target, found) = try_join!(target, self.find(&mut known, &settings))?;
        let (target, mut found) = match (target, found) {
            (Ok(target), Ok(found)) => (target, found),
            (target, found) => {
                let pool = target.as_ref().ok().copied();
                let seen = found.as_ref().ok().and_then(|it| it.balancer.as_ref());
                let seen = seen.map(resource_states::found).unwrap_or_default();
                let faults = [target.err(), found.err()].into_iter().flatten();
                let mut refusal = self.refusal(request, faults.collect(), notices, pool);
                refusal.plan.found = seen;
                return Ok(refusal);
            }
        };
        notices.append(&mut found.notices);
        let seen = found.balancer.iter().chain(&found.left);
        for there in seen.chain(&found.handed_away) {
            readable(there)?;
            self.know_services(&mut known, there, true).await?;
        }
        let mut draft = self.plan_found(&known, &settings, &desire.services, target, &found)?;
        let adds = |draft: &PreparedPlan| draft.plan.steps.iter().any(|it| it.verb == Verb::Create);
        if adds(&draft) {
            match self.pools.look_at(target.pool, request).await? {
                Some(Confirming::Missing) => {
                    let fault = notices::no_such_pool(target.pool);
                    return Ok(self.refusal(request, vec![fault], notices, None));
                }
                Some(Confirming::WithoutNodes) => {
                    notices.push(notices::pool_without_nodes(target.pool));
                }
                Some(Confirming::HasNodes) | None => {}
            }
        }
        notices.append(&mut draft.plan.notices);
        draft.plan.notices = notices;
        Ok(draft)
    }

    /// Reads what is needed to know the owner of every service of that load balancer.
    async fn know_services(
        &self,
        known: &mut Knowledge<'_>,
        there: &LoadBalancer,
        by_ports: bool,
    ) -> Result<(), DraftError> {
        for service in &there.services.items {
            let judge = |it: OwnershipContext<'_>| it.judge(service).map(|_| ());
            self.decide(known, by_ports, judge).await?;
        }
        Ok(())
    }

    fn plan_found(
        &self,
        known: &Knowledge<'_>,
        settings: &Settings,
        services: &[WantedService],
        target: Target,
        found: &Found,
    ) -> Result<PreparedPlan, DraftError> {
        let context = known.context(true);
        let request = context.request;
        let mut managed = managed(context, settings, found);
        managed.mark_first &= !self.shared.labels_refused.load(Ordering::Relaxed);
        let wanted = Wanted {
            context,
            managed: found.manages.then_some(&managed),
            services,
            pool: target.pool,
            may_reset: !self.shared.resets_denied.load(Ordering::Relaxed),
        };
        let mut builder = match &found.balancer {
            None => plan::build(&wanted, &managed),
            Some(there) => {
                let builder = plan::reconcile(&wanted, there);
                let busy = !builder.actions.is_empty() && plan::is_unsettled(&wanted, there);
                if busy || there.state == LoadBalancerState::Deleting {
                    return Err(unsettled(there));
                }
                builder
            }
        };
        for left in &found.left {
            plan::remove(&mut builder, known.context(false), left, true);
        }
        if let Some(handed_away) = &found.handed_away {
            plan::remove(&mut builder, known.context(false), handed_away, false);
        }
        let seen = found.balancer.iter().chain(&found.left);
        builder.plan.found = seen.flat_map(resource_states::found).collect();
        if builder.plan.problems.is_empty() {
            builder.plan.wanted = resource_states::wanted(wanted.managed, services, target.pool);
        }
        let publisher = Publisher::Present {
            before: request.service.ingress.clone(),
            pool: target.found_out.then_some(target.pool),
        };
        let record = record(&wanted, found, &builder);
        let balancer = found.balancer.as_ref().map(Known::from);
        let mut draft = self.draft_of(request, builder, balancer, record, publisher);
        let mut seen = found.balancer.iter().chain(&found.left);
        draft.proves_account = seen.any(|it| context.is_own(it));
        Ok(draft)
    }

    /// A plan without steps: a person has to fix these faults first.
    fn refusal(
        &self,
        request: &BalancerRequest,
        faults: Vec<Problem>,
        notices: Vec<Notice>,
        target: Option<Target>,
    ) -> PreparedPlan {
        let mut builder = PlanBuilder::default();
        builder.plan.problems = faults;
        builder.plan.notices = notices;
        let publisher = Publisher::Present {
            before: request.service.ingress.clone(),
            pool: target.filter(|it| it.found_out).map(|it| it.pool),
        };
        let record = Record::of(&request.service);
        self.draft_of(request, builder, None, record, publisher)
    }

    fn draft_of(
        &self,
        request: &BalancerRequest,
        builder: PlanBuilder,
        balancer: Option<Known>,
        record: Record,
        publisher: Publisher,
    ) -> PreparedPlan {
        let shared = Arc::clone(&self.shared);
        let executor = ExoscaleActions::new(shared, request, &builder, balancer, record, publisher);
        PreparedPlan::new(builder.plan, Box::new(executor))
    }

    pub(super) async fn plan_absent(
        &self,
        request: &BalancerRequest,
    ) -> Result<PreparedPlan, DraftError> {
        let (settings, _) = Settings::read(&request.service);
        let mut known = Knowledge::new(request);
        let mut builder = PlanBuilder::default();
        let mut withdrawn = BTreeSet::from([OWNED_SERVICES.to_owned()]);
        if settings.external == External::No {
            withdrawn.insert(ID.key.to_owned());
        }
        let mut proves_account = false;
        for doomed in self.doomed(&mut known, &settings).await? {
            let DepartingBalancer {
                balancer: there,
                manages,
                by_ports,
            } = &doomed;
            readable(there)?;
            self.know_services(&mut known, there, *by_ports).await?;
            let context = known.context(*by_ports);
            proves_account |= context.is_own(there);
            if there.state != LoadBalancerState::Deleting && plan::is_at_work(context, there) {
                return Err(unsettled(there));
            }
            plan::remove(&mut builder, context, there, *manages);
            builder.plan.found.extend(resource_states::found(there));
            if settings.id == Some(there.id) && !manages {
                withdrawn.remove(ID.key);
            }
        }
        let publisher = Publisher::Farewell(withdrawn);
        let mut draft = self.draft_of(request, builder, None, known.record.clone(), publisher);
        draft.proves_account = proves_account;
        Ok(draft)
    }
}

/// What a load balancer of the Service's is to be.
fn managed(context: OwnershipContext<'_>, settings: &Settings, found: &Found) -> Managed {
    let mut labels = context.labels();
    let mut name = settings.balancer_name(&context.request.service);
    if found.is_adopted {
        labels.insert(ADOPTED_MARK.to_owned(), "true".to_owned());
        // Somebody gave it a name; only a Service that names another one changes it.
        let there = found.balancer.as_ref().filter(|_| settings.name.is_none());
        name = there.map_or(name, |it| it.name.clone());
    }
    Managed {
        name,
        description: settings.description.clone(),
        asked_labels: settings.labels.clone(),
        labels,
        mark_first: found.mark_first,
    }
}

/// What is to be remembered before the first step.
fn record(wanted: &Wanted<'_>, found: &Found, builder: &PlanBuilder) -> Record {
    let mut record = wanted.context.record.clone();
    let there = found.balancer.as_ref();
    record.services = there.map(|it| remembered(wanted, it)).unwrap_or_default();
    // Before their names stop proving it.
    record
        .services
        .extend(builder.actions.iter().filter_map(|it| match it {
            Action::ChangeService { id, change } => {
                let name = change.name.as_deref()?;
                wanted.context.nameless([(name, *id)]).into_iter().next()
            }
            _ => None,
        }));
    let does = |wanted: fn(&Action) -> bool| builder.actions.iter().any(wanted);
    let described = wanted.managed.is_some_and(|it| !it.description.is_empty());
    record.describes_balancer =
        described || record.describes_balancer && does(|it| matches!(it, Action::ResetDescription));
    let described = wanted.services.iter().any(|it| !it.description.is_empty());
    record.describes_services = described
        || record.describes_services && does(|it| matches!(it, Action::ResetServiceDescription(_)));
    // A consent ends it, as soon as the mark shows it.
    let is_marked = |it: &&LoadBalancer| wanted.context.is_marked(it);
    if let Some(ours) = there.filter(|_| found.manages).filter(is_marked) {
        record.attached.remove(&ours.id);
    }
    record
}

/// The services that are the Service's although not by their names.
fn remembered(wanted: &Wanted<'_>, there: &LoadBalancer) -> BTreeSet<Uuid> {
    let ours = there.services.items.iter().filter(|service| {
        let named_so = wanted
            .services
            .iter()
            .any(|it| plan::is_at(service, &it.entrance) && it.name == service.name);
        match wanted.context.owner(service) {
            ServiceOwner::Ours => true,
            // It has replaced it.
            ServiceOwner::LeftOver => named_so,
            ServiceOwner::Foreign => named_so && wanted.context.may_replace(),
            ServiceOwner::Another(_) => false,
        }
    });
    let ours = ours.map(|it| (it.name.as_str(), it.id));
    wanted.context.nameless(ours)
}

fn unsettled(there: &LoadBalancer) -> DraftError {
    DraftError::Later {
        what: format!("load balancer {:?}, which is changing", there.name),
        after: UNSETTLED_PAUSE,
    }
}
