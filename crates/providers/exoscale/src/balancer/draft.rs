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
use super::inventory;
use super::observe::{all_readable, readable};
use super::ownership::{Family, Whose, not_ours};
use super::plan::{self, Managed, Sketch, Wanted};
use super::pool::Target;
use super::publish::{Known, Publisher};
use super::remarks::{self, external_is_gone, external_named};
use super::settings::table::{ID, OWNED_SERVICES};
use super::settings::{self, Fault, Settings};
use crate::api::{LoadBalancer, LoadBalancerState};

/// When to look again at a load balancer that the cloud is at work on.
const UNSETTLED_PAUSE: Duration = Duration::from_secs(2);

/// What was found for a Service that is to have a load balancer.
#[derive(Default)]
struct Found {
    balancer: Option<LoadBalancer>,
    /// Whether the Service may do with it, or with one to be made, as it likes.
    manages: bool,
    /// Load balancers that were made for the Service and that it has left.
    left: Vec<LoadBalancer>,
    notices: Vec<Notice>,
}

impl Found {
    fn managed(balancer: LoadBalancer, notice: Option<Notice>) -> Self {
        Self {
            balancer: Some(balancer),
            manages: true,
            notices: notice.into_iter().collect(),
            ..Self::default()
        }
    }

    fn external(balancer: LoadBalancer, notice: Option<Notice>) -> Self {
        Self {
            manages: false,
            ..Self::managed(balancer, notice)
        }
    }
}

impl LoadBalancers {
    pub(super) async fn plan_present(&self, wish: &Wish) -> Result<Draft, DraftError> {
        let service = &wish.service;
        let (settings, mut faults) = Settings::read(service);
        let mut desire = desire(service, &settings, self.local_check);
        faults.append(&mut desire.faults);
        let mut notices = settings::unknown_keys(service);
        notices.append(&mut desire.notices);
        if !faults.is_empty() {
            return Ok(self.refusal(wish, faults, notices, None));
        }
        let (target, found) = try_join!(
            self.pools.resolve(&settings.pool, &wish.nodes),
            self.find(wish, &settings)
        )?;
        let (target, mut found) = match (target, found) {
            (Ok(target), Ok(found)) => (target, found),
            (target, found) => {
                let pool = target.as_ref().ok().copied();
                let faults = [target.err(), found.err()].into_iter().flatten();
                return Ok(self.refusal(wish, faults.collect(), notices, pool));
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
        Draft {
            plan: sketch.plan,
            executor: Box::new(hands),
        }
    }

    /// Which load balancer is the Service's, and whether it may manage it.
    async fn find(
        &self,
        wish: &Wish,
        settings: &Settings,
    ) -> Result<Result<Found, Fault>, CloudError> {
        let family = family(wish);
        let observer = &self.shared.observer;
        let found = if settings.external {
            match self.find_external(settings).await? {
                Ok(balancer) => Found::external(balancer, None),
                Err(fault) => return Ok(Err(fault)),
            }
        } else {
            let name = settings.balancer_name(&wish.service);
            let said = match settings.id {
                Some(id) => observer.read(id).await?,
                None => None,
            };
            match said {
                Some(balancer) if family.may_manage(&balancer, &name) => {
                    Found::managed(balancer, None)
                }
                Some(balancer) => {
                    let notice = not_ours(&balancer);
                    Found::external(balancer, Some(notice))
                }
                None => return self.adopt(wish, settings, &name).await,
            }
        };
        let mut found = found;
        let own = found.balancer.as_ref().is_some_and(|it| family.is_own(it));
        if !own && let Some(all) = observer.all_if_allowed().await? {
            let id = found.balancer.as_ref().map(|it| it.id);
            let left = all.items.into_iter();
            found.left = left
                .filter(|it| Some(it.id) != id && family.is_labelled(it))
                .collect();
        }
        Ok(Ok(found))
    }

    async fn find_external(
        &self,
        settings: &Settings,
    ) -> Result<Result<LoadBalancer, Fault>, CloudError> {
        let observer = &self.shared.observer;
        if let Some(id) = settings.id {
            let there = observer.read(id).await?;
            return Ok(there.ok_or_else(|| external_is_gone(id)));
        }
        let name = settings.name.as_deref().unwrap_or_default();
        let all = observer.all().await?;
        let named = external_named(&all.items, name).cloned();
        if named.is_err() {
            all_readable("load balancer", &all)?;
        }
        Ok(named)
    }

    /// The load balancer of a Service whose annotation names none that exists: one that was made for
    /// it, or that a person says is its own, or none yet.
    async fn adopt(
        &self,
        wish: &Wish,
        settings: &Settings,
        name: &str,
    ) -> Result<Result<Found, Fault>, CloudError> {
        let (service, family) = (&wish.service, family(wish));
        let observer = &self.shared.observer;
        if let Some(id) = settings::take_over(service).filter(|id| settings.id != Some(*id))
            && let Some(balancer) = observer.read(id).await?
        {
            let notice = remarks::taken_over(&balancer);
            return Ok(Ok(Found::managed(balancer, Some(notice))));
        }
        let all = observer.all_if_allowed().await?;
        let all = all.map(|it| it.items).unwrap_or_default();
        let best = all
            .iter()
            .filter(|it| family.is_own(it))
            .min_by_key(|it| (it.name != name, !family.is_labelled(it), it.id));
        if let Some(best) = best {
            let notice = remarks::adopted(best);
            let mut found = Found::managed(best.clone(), Some(notice));
            let left = all.iter().filter(|it| it.id != best.id);
            found.left = left.filter(|it| family.is_labelled(it)).cloned().collect();
            return Ok(Ok(found));
        }
        if let Some(other) = all.iter().find(|it| it.name == name) {
            return Ok(Err(remarks::name_taken(other)));
        }
        let lost = settings.id.filter(|_| !service.ingress.is_empty());
        Ok(Ok(Found {
            manages: true,
            notices: lost.map(remarks::recreated).into_iter().collect(),
            ..Found::default()
        }))
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
            if plan::is_in_doubt(family, there) {
                return Err(in_doubt(there).into());
            }
            let entrances: &[_] = if *by_ports { &entrances } else { &[] };
            plan::remove(&mut sketch, family, there, *manages, entrances);
            sketch.plan.found.extend(inventory::found(there));
            if settings.id == Some(there.id) && !manages {
                withdrawn.remove(ID.key);
            }
        }
        let publisher = Publisher::Farewell(withdrawn);
        Ok(self.draft_of(wish, sketch, None, BTreeSet::new(), publisher))
    }

    /// Everything that the Service has in the cloud.
    async fn doomed(&self, wish: &Wish, settings: &Settings) -> Result<Vec<Doomed>, CloudError> {
        let family = family(wish);
        let name = settings.balancer_name(&wish.service);
        let observer = &self.shared.observer;
        let mut doomed = Vec::new();
        let said = settings.id.or_else(|| settings::take_over(&wish.service));
        if let Some(id) = said
            && let Some(balancer) = observer.read(id).await?
        {
            let manages = !settings.external && family.may_manage(&balancer, &name);
            if manages && family.is_own(&balancer) {
                return Ok(vec![Doomed::named(balancer, manages)]);
            }
            doomed.push(Doomed::named(balancer, manages));
        }
        let Some(all) = observer.all_if_allowed().await? else {
            return Ok(doomed);
        };
        if doomed.is_empty() {
            // One that cannot be read may be the Service's.
            all_readable("load balancer", &all)?;
        }
        let known = doomed.first().map(|it| it.balancer.id);
        let others = all.items.into_iter().filter(|it| Some(it.id) != known);
        doomed.extend(others.filter_map(|it| {
            let is_meant = settings.external && known.is_none() && it.name == name;
            let has_ours = |it: &LoadBalancer| {
                let mut all = it.services.items.iter();
                all.any(|service| family.whose(service) == Whose::Ours)
            };
            if family.is_own(&it) {
                Some(Doomed::left(it, true))
            } else if is_meant {
                Some(Doomed::named(it, false))
            } else {
                has_ours(&it).then(|| Doomed::left(it, false))
            }
        }));
        Ok(doomed)
    }
}

/// A load balancer that the Service leaves.
struct Doomed {
    balancer: LoadBalancer,
    /// Whether it goes as a whole.
    manages: bool,
    /// Whether what is at the Service's ports goes, whatever its name.
    by_ports: bool,
}

impl Doomed {
    /// The one that the Service names.
    fn named(balancer: LoadBalancer, manages: bool) -> Self {
        Self {
            balancer,
            manages,
            by_ports: true,
        }
    }

    /// Another one with something of the Service's.
    fn left(balancer: LoadBalancer, manages: bool) -> Self {
        Self {
            balancer,
            manages,
            by_ports: manages,
        }
    }
}

fn family(wish: &Wish) -> Family<'_> {
    Family {
        service: &wish.service,
        all: &wish.all,
        all_known: wish.all_known,
        cluster_name: &wish.cluster_name,
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
        "load balancer {:?} ({}) has services that may be those of a Service that cannot be read",
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
