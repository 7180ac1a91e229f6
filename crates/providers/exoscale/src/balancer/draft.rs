//! From one Service to its plan: gather, decide, and hand over to who carries it out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, Draft, DraftError, Notice, Problem, Wish};
use futures::try_join;
use uuid::Uuid;

use super::LoadBalancers;
use super::desire::{WantedService, desire};
use super::execute::Hands;
use super::find::{Doomed, Found, family};
use super::inventory;
use super::observe::readable;
use super::ownership::Whose;
use super::plan::{self, Managed, Sketch, Wanted};
use super::pool::Target;
use super::publish::{Known, Publisher};
use super::settings::table::{ID, OWNED_SERVICES};
use super::settings::{self, Fault, Settings};
use crate::api::{LoadBalancer, LoadBalancerState};

/// When to look again at a load balancer that the cloud is at work on.
const UNSETTLED_PAUSE: Duration = Duration::from_secs(2);

impl LoadBalancers {
    pub(super) async fn plan_present(&self, wish: &Wish) -> Result<Draft, DraftError> {
        let service = &wish.service;
        let (settings, mut faults) = Settings::read(service);
        let mut desire = desire(service, &settings, self.local_check);
        faults.append(&mut desire.faults);
        let mut notices = settings::unknown_keys(service);
        notices.append(&mut desire.notices);
        if !faults.is_empty() {
            let mut refusal = self.refusal(wish, faults, notices, None);
            refusal.plan.unread = true;
            return Ok(refusal);
        }
        let (target, found) = try_join!(
            self.pools.resolve(&settings.pool, &wish.nodes),
            self.find(wish, &settings)
        )?;
        let (target, mut found) = match (target, found) {
            (Ok(target), Ok(found)) => (target, found),
            (target, found) => {
                let pool = target.as_ref().ok().copied();
                let seen = found.as_ref().ok().and_then(|it| it.balancer.as_ref());
                let seen = seen.map(inventory::found).unwrap_or_default();
                let faults = [target.err(), found.err()].into_iter().flatten();
                let mut refusal = self.refusal(wish, faults.collect(), notices, pool);
                refusal.plan.found = seen;
                return Ok(refusal);
            }
        };
        notices.append(&mut found.notices);
        let mut draft = self.plan_found(wish, &settings, &desire.services, target, &found)?;
        notices.append(&mut draft.plan.notices);
        draft.plan.notices = notices;
        Ok(draft)
    }

    /// The plan, once everything is known.
    fn plan_found(
        &self,
        wish: &Wish,
        settings: &Settings,
        services: &[WantedService],
        target: Target,
        found: &Found,
    ) -> Result<Draft, DraftError> {
        let family = family(wish);
        let managed = Managed {
            name: settings.balancer_name(&wish.service),
            description: settings.description.clone(),
            labels: family.labels(),
        };
        let wanted = Wanted {
            family,
            managed: found.manages.then_some(&managed),
            services,
            pool: target.pool,
            may_reset: !self.shared.resets_denied.load(Ordering::Relaxed),
        };
        let mut sketch = match &found.balancer {
            None => plan::build(&wanted, &managed),
            Some(there) => {
                readable(there)?;
                let sketch = plan::reconcile(&wanted, there);
                let busy = !sketch.actions.is_empty() && plan::is_unsettled(&wanted, there);
                if busy || there.state == LoadBalancerState::Deleting {
                    return Err(unsettled(there));
                }
                sketch
            }
        };
        for left in &found.left {
            readable(left)?;
            plan::remove(&mut sketch, family, left, true, &[]);
        }
        let seen = found.balancer.iter().chain(&found.left);
        sketch.plan.found = seen.flat_map(inventory::found).collect();
        if sketch.plan.problems.is_empty() {
            sketch.plan.wanted = inventory::wanted(wanted.managed, services, target.pool);
        }
        let remembered = found.balancer.as_ref().map(|it| remembered(&wanted, it));
        let publisher = Publisher::Present {
            before: wish.service.ingress.clone(),
            pool: target.found_out.then_some(target.pool),
            remembers: wish.service.annotation(OWNED_SERVICES).is_some(),
        };
        let known = found.balancer.as_ref().map(Known::from);
        Ok(self.draft_of(
            wish,
            sketch,
            known,
            remembered.unwrap_or_default(),
            publisher,
        ))
    }

    /// Nothing is done while a person has to put something right.
    fn refusal(
        &self,
        wish: &Wish,
        faults: Vec<Fault>,
        notices: Vec<Notice>,
        target: Option<Target>,
    ) -> Draft {
        let mut sketch = Sketch::default();
        sketch.plan.problems = faults.into_iter().map(Problem::from).collect();
        sketch.plan.notices = notices;
        let publisher = Publisher::Present {
            before: wish.service.ingress.clone(),
            pool: target.filter(|it| it.found_out).map(|it| it.pool),
            remembers: false,
        };
        self.draft_of(wish, sketch, None, BTreeSet::new(), publisher)
    }

    fn draft_of(
        &self,
        wish: &Wish,
        sketch: Sketch,
        balancer: Option<Known>,
        remembered: BTreeSet<Uuid>,
        publisher: Publisher,
    ) -> Draft {
        let shared = Arc::clone(&self.shared);
        let hands = Hands::new(shared, wish, &sketch, balancer, remembered, publisher);
        Draft::new(sketch.plan, Box::new(hands))
    }

    pub(super) async fn plan_absent(&self, wish: &Wish) -> Result<Draft, DraftError> {
        let (settings, _) = Settings::read(&wish.service);
        let family = family(wish);
        let entrances = plan::entrances(&wish.service);
        let mut sketch = Sketch::default();
        let mut withdrawn = BTreeSet::from([OWNED_SERVICES.to_owned()]);
        if !settings.external {
            withdrawn.insert(ID.key.to_owned());
        }
        for doomed in self.doomed(wish, &settings).await? {
            let Doomed {
                balancer: there,
                manages,
                by_ports,
            } = &doomed;
            readable(there)?;
            if there.state != LoadBalancerState::Deleting && plan::is_at_work(family, there) {
                return Err(unsettled(there));
            }
            let entrances: &[_] = if *by_ports { &entrances } else { &[] };
            if plan::is_in_doubt(family, there, entrances) {
                return Err(in_doubt(there).into());
            }
            plan::remove(&mut sketch, family, there, *manages, entrances);
            sketch.plan.found.extend(inventory::found(there));
            if settings.id == Some(there.id) && !manages {
                withdrawn.remove(ID.key);
            }
        }
        let publisher = Publisher::Farewell(withdrawn);
        Ok(self.draft_of(wish, sketch, None, BTreeSet::new(), publisher))
    }
}

/// The services that are the Service's although their names do not say so.
fn remembered(wanted: &Wanted<'_>, there: &LoadBalancer) -> BTreeSet<Uuid> {
    let ours = there.services.items.iter().filter(|service| {
        let named_so = wanted
            .services
            .iter()
            .any(|it| plan::is_at(service, &it.entrance) && it.name == service.name);
        match wanted.family.whose(service) {
            Whose::Ours => true,
            Whose::Foreign => named_so,
            Whose::Another(_) | Whose::Unclear => false,
        }
    });
    let ours = ours.map(|it| (it.name.as_str(), it.id));
    wanted.family.nameless(ours)
}

/// What is not known to be nobody's must not be left behind, and must not go either.
fn in_doubt(there: &LoadBalancer) -> CloudError {
    let message = format!(
        "load balancer {:?} ({}) has a service at a port of this Service that may be that of one that cannot be read",
        there.name, there.id
    );
    CloudError::new(CloudErrorKind::Conflict, message)
}

fn unsettled(there: &LoadBalancer) -> DraftError {
    DraftError::Later {
        what: format!("load balancer {:?}, which is changing", there.name),
        after: UNSETTLED_PAUSE,
    }
}
