//! Finds the load balancers of a Service.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_core::{
    BalancerRequest, DraftError, Notice, OwnershipVerdict, Problem, TAKE_OVER, consent,
    hands_over_to, not_ours,
};
use uuid::Uuid;

use super::LoadBalancers;
use super::notices::{self, external_is_gone, external_named};
use super::observe::all_readable;
use super::ownership::{
    By, Candidates, Claim, Lack, OwnershipContext, is_adopted, is_unmarked, shows,
};
use super::record::{MOST_ATTACHED, Record};
use super::settings::table::{ID, NAME};
use super::settings::{self, External, Settings, default_name, invalid};
use crate::api::LoadBalancer;

/// What is known beyond the request; more is read when a decision lacks it.
pub(super) struct Knowledge<'a> {
    request: &'a BalancerRequest,
    pub(super) record: Record,
    pools: Option<BTreeSet<Uuid>>,
}

impl<'a> Knowledge<'a> {
    pub(super) fn new(request: &'a BalancerRequest) -> Self {
        Self {
            request,
            record: Record::of(&request.service),
            pools: None,
        }
    }

    /// The Service among others; `by_ports` as in [`OwnershipContext`].
    pub(super) fn context(&self, by_ports: bool) -> OwnershipContext<'_> {
        OwnershipContext {
            request: self.request,
            record: &self.record,
            pools: self.pools.as_ref(),
            by_ports,
        }
    }
}

/// What was found for a Service that is to have a load balancer.
#[derive(Default)]
pub(super) struct Found {
    pub(super) balancer: Option<LoadBalancer>,
    /// Whether the Service may do with it, or with one to be made, as it likes.
    pub(super) manages: bool,
    /// Whether it is to be marked before anything else happens to it.
    pub(super) mark_first: bool,
    /// Whether no controller has made it.
    pub(super) is_adopted: bool,
    /// Load balancers that were made for the Service and that it has left.
    pub(super) left: Vec<LoadBalancer>,
    /// The one that the Service has given to another: only what it still has there goes.
    pub(super) handed_away: Option<LoadBalancer>,
    pub(super) notices: Vec<Notice>,
}

impl Found {
    fn managed(balancer: LoadBalancer, by: &By) -> Self {
        let by_hand = *by == By::Consent(OwnershipVerdict::Adopted)
            && is_unmarked(&balancer)
            && settings::uid_in_name(&balancer.name).is_none();
        let notice = match by {
            By::Consent(verdict) => consent(verdict, &balancer.name),
            _ => None,
        };
        Self {
            manages: true,
            mark_first: by.needs_mark(),
            is_adopted: by_hand || is_adopted(&balancer),
            notices: notice.into_iter().collect(),
            balancer: Some(balancer),
            ..Self::default()
        }
    }

    fn attached(balancer: LoadBalancer, notice: Option<Notice>) -> Self {
        Self {
            balancer: Some(balancer),
            notices: notice.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl LoadBalancers {
    /// What is decided, with all that has to be known for it.
    pub(super) async fn decide<T>(
        &self,
        known: &mut Knowledge<'_>,
        by_ports: bool,
        decision: impl Fn(OwnershipContext<'_>) -> Result<T, Lack>,
    ) -> Result<T, DraftError> {
        loop {
            match decision(known.context(by_ports)) {
                Ok(decided) => return Ok(decided),
                Err(Lack::Pools) if known.pools.is_none() => {
                    known.pools = Some(self.pools.of_cluster(known.request).await?);
                }
                Err(_) => return Err(DraftError::NeedsServices),
            }
        }
    }

    /// Which load balancer is the Service's, and whether it may manage it.
    pub(super) async fn find(
        &self,
        known: &mut Knowledge<'_>,
        settings: &Settings,
    ) -> Result<Result<Found, Problem>, DraftError> {
        let service = &known.request.service;
        if settings.external == External::Yes {
            let there = self.find_external(settings).await?;
            let found = there.and_then(|it| attach(known, it, None));
            return self.with_left(known, found).await;
        }
        let (mut refusal, mut handed_away) = (None, None);
        for (row, id) in [
            (TAKE_OVER, settings::take_over(service)),
            (ID.key, settings.id),
        ] {
            let Some(balancer) = self.named(id).await? else {
                continue;
            };
            let claim = self
                .decide(known, true, |it| it.claim(&balancer, settings))
                .await?;
            match claim {
                Claim::Managed(by) => {
                    let mut found = Found::managed(balancer, &by);
                    found.notices.extend(refusal.map(notices::refused));
                    return self.with_left(known, Ok(found)).await;
                }
                Claim::HandedAway => handed_away = Some(balancer),
                // Asking for one is not using it.
                Claim::NotOurs | Claim::Attached if row == TAKE_OVER => {
                    refusal = Some(not_ours(row, &balancer.id.to_string()));
                }
                Claim::Attached => {
                    let found = attach(known, balancer, refusal.map(notices::refused));
                    return self.with_left(known, found).await;
                }
                Claim::NotOurs => {
                    let notice = notices::attached(row, &balancer);
                    let found = attach(known, balancer, Some(notice));
                    return self.with_left(known, found).await;
                }
            }
        }
        let found = self.adopt(known, settings, refusal).await?;
        Ok(found.map(|it| Found { handed_away, ..it }))
    }

    async fn named(&self, id: Option<Uuid>) -> Result<Option<LoadBalancer>, DraftError> {
        Ok(match id {
            Some(id) => self.shared.observer.read(id).await?,
            None => None,
        })
    }

    /// Adds doubles and what the Service had before. They are looked for as long as it shows no
    /// address, and wherever the one in use was not made for it.
    async fn with_left(
        &self,
        known: &Knowledge<'_>,
        found: Result<Found, Problem>,
    ) -> Result<Result<Found, Problem>, DraftError> {
        let Ok(mut found) = found else {
            return Ok(found);
        };
        let context = known.context(false);
        let own = found.balancer.as_ref().is_some_and(|it| context.is_own(it));
        if own && !known.request.service.ingress.is_empty() {
            return Ok(Ok(found));
        }
        let uid = &known.request.service.uid;
        let Some(all) = self.shared.observer.recent_if_allowed(uid).await? else {
            return Ok(Ok(found));
        };
        let id = found.balancer.as_ref().map(|it| it.id);
        let others = all.items.iter().filter(|it| Some(it.id) != id);
        found.left = self.read_each(others, |it| is_left(known, it)).await?;
        Ok(Ok(found))
    }

    /// Those of a list for which that is true, and still is when they are read by their ids.
    async fn read_each<'l>(
        &self,
        listed: impl Iterator<Item = &'l LoadBalancer>,
        is_wanted: impl Fn(&LoadBalancer) -> bool,
    ) -> Result<Vec<LoadBalancer>, DraftError> {
        let mut read = Vec::new();
        for listed in listed.filter(|it| is_wanted(it)) {
            let there = self.shared.observer.read(listed.id).await?;
            read.extend(there.filter(|it| is_wanted(it)));
        }
        Ok(read)
    }

    async fn find_external(
        &self,
        settings: &Settings,
    ) -> Result<Result<LoadBalancer, Problem>, DraftError> {
        let observer = &self.shared.observer;
        if let Some(id) = settings.id {
            let there = observer.read(id).await?;
            return Ok(there.ok_or_else(|| external_is_gone(id)));
        }
        let Some(name) = settings.name.as_deref() else {
            return Ok(Err(invalid(settings::nothing_to_attach_to())));
        };
        let all = observer.all().await?;
        let named = external_named(&all.items, name).cloned();
        if named.is_err() {
            all_readable("load balancer", &all)?;
        }
        Ok(named)
    }

    /// The load balancer of a Service whose annotations name none that exists and that it may have:
    /// one that was made for it, or none yet.
    async fn adopt(
        &self,
        known: &mut Knowledge<'_>,
        settings: &Settings,
        refusal: Option<Problem>,
    ) -> Result<Result<Found, Problem>, DraftError> {
        let service = &known.request.service;
        let name = settings.balancer_name(service);
        let observer = &self.shared.observer;
        // Another Service may have the name that this one asks for since a moment ago.
        let all = match settings.name {
            Some(_) => observer.all_if_allowed().await?.map(Arc::new),
            None => observer.recent_if_allowed(&service.uid).await?,
        };
        let all = all.unwrap_or_default();
        let candidates = Candidates::of(known.request, settings);
        let candidates = self.read_each(all.items.iter(), |it| candidates.include(it));
        let candidates = candidates.await?;
        let mut ours = Vec::new();
        for balancer in &candidates {
            let claim = self
                .decide(known, true, |it| it.claim(balancer, settings))
                .await?;
            if let Claim::Managed(by) = claim {
                ours.push((balancer, by));
            }
        }
        let best = ours
            .iter()
            .min_by_key(|(it, by)| (it.name != name, *by != By::Mark, it.id));
        if let Some((best, by)) = best {
            let mut found = Found::managed((*best).clone(), by);
            if found.notices.is_empty() {
                found.notices.push(notices::adopted(best));
            }
            let left = candidates.iter().filter(|it| it.id != best.id);
            found.left = left.filter(|it| is_left(known, it)).cloned().collect();
            return Ok(Ok(found));
        }
        if let Some(refusal) = refusal {
            return Ok(Err(refusal));
        }
        if settings.external == External::Misread {
            let there = self.find_external(settings).await?;
            return Ok(there.and_then(|it| attach(known, it, None)));
        }
        let asked_for = all.items.iter().filter(|_| settings.name.is_some());
        let mut there = asked_for.chain(&candidates);
        if there.any(|it| it.name == name) {
            let (key, value) = (NAME.key, settings.name.clone());
            let value = value.unwrap_or_else(|| default_name(&service.uid));
            return Ok(Err(not_ours(key, &value)));
        }
        let is_lost = !service.ingress.is_empty() && hands_over_to(service).is_none();
        let lost = settings.id.filter(|_| is_lost);
        Ok(Ok(Found {
            manages: true,
            notices: lost.map(notices::recreated).into_iter().collect(),
            ..Found::default()
        }))
    }

    /// Whether the Service's status shows the address of a load balancer here that is its own, or
    /// has services of its own.
    pub(super) async fn has_what_is_shown(
        &self,
        request: &BalancerRequest,
    ) -> Result<bool, DraftError> {
        let (settings, _) = Settings::read(&request.service);
        let mut known = Knowledge::new(request);
        let candidates = if let Some(one) = self.named(settings.id).await? {
            vec![one]
        } else {
            let all = self.shared.observer.all_if_allowed().await?;
            all.map(|it| it.items).unwrap_or_default()
        };
        for balancer in candidates.iter().filter(|it| shows(&request.service, it)) {
            let mut services = balancer.services.items.iter();
            if services.any(|it| known.context(false).is_surely_ours(it)) {
                return Ok(true);
            }
            let claim = |it: OwnershipContext<'_>| it.claim(balancer, &settings);
            let claim = self.decide(&mut known, true, claim).await?;
            if matches!(claim, Claim::Managed(By::Mark | By::Name | By::Services)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Everything that the Service has in the cloud.
    pub(super) async fn doomed(
        &self,
        known: &mut Knowledge<'_>,
        settings: &Settings,
    ) -> Result<Vec<DepartingBalancer>, DraftError> {
        let mut doomed = Vec::new();
        if let Some(balancer) = self.named(settings.id).await? {
            let manages = self.goes(known, &balancer, settings).await?;
            doomed.push(DepartingBalancer {
                balancer,
                manages,
                by_ports: true,
            });
        }
        let uid = &known.request.service.uid;
        let Some(all) = self.shared.observer.recent_if_allowed(uid).await? else {
            return Ok(doomed);
        };
        if doomed.is_empty() {
            // One that cannot be read may be the Service's.
            all_readable("load balancer", &all)?;
        }
        let named = doomed.first().map(|it| it.balancer.id);
        let is_named = |it: &LoadBalancer| {
            let by_name = settings.external != External::No && named.is_none();
            by_name && settings.name.as_deref() == Some(&it.name)
        };
        let candidates = Candidates::of(known.request, settings);
        let others = all.items.iter().filter(|it| Some(it.id) != named);
        let others = self.read_each(others, |it| {
            let mut services = it.services.items.iter();
            candidates.include(it)
                || is_named(it)
                || services.any(|it| known.context(false).is_surely_ours(it))
        });
        for balancer in others.await? {
            let manages = self.goes(known, &balancer, settings).await?;
            let by_ports = manages || is_named(&balancer);
            let mut services = balancer.services.items.iter();
            if by_ports || services.any(|it| known.context(false).is_surely_ours(it)) {
                doomed.push(DepartingBalancer {
                    balancer,
                    manages,
                    by_ports,
                });
            }
        }
        Ok(doomed)
    }

    async fn goes(
        &self,
        known: &mut Knowledge<'_>,
        balancer: &LoadBalancer,
        settings: &Settings,
    ) -> Result<bool, DraftError> {
        let claim = self
            .decide(known, true, |it| it.claim(balancer, settings))
            .await?;
        // What it was allowed to take and has not taken yet keeps its owner.
        let untaken = |by: &By| {
            let consents = |it: &OwnershipVerdict| {
                matches!(
                    it,
                    OwnershipVerdict::HandedOver(_) | OwnershipVerdict::Adopted
                )
            };
            matches!(by, By::Consent(verdict) if consents(verdict))
        };
        Ok(matches!(claim, Claim::Managed(by) if !untaken(&by) && !is_adopted(balancer)))
    }
}

/// The ports of the Service go to a load balancer of somebody else's, if the operator allows that.
/// That is remembered before anything is done.
fn attach(
    known: &mut Knowledge<'_>,
    balancer: LoadBalancer,
    notice: Option<Notice>,
) -> Result<Found, Problem> {
    let namespace = &known.request.service.key.namespace;
    if !known.request.rules.external.allows(namespace) {
        return Err(notices::attaching_is_not_allowed());
    }
    known.record.attached.insert(balancer.id);
    if known.record.attached.len() > MOST_ATTACHED {
        return Err(notices::attached_too_often());
    }
    Ok(Found::attached(balancer, notice))
}

/// Whether it was made for the Service, so that it goes when the Service uses another one.
fn is_left(known: &Knowledge<'_>, balancer: &LoadBalancer) -> bool {
    known.context(false).is_marked(balancer)
        && !known.record.attached.contains(&balancer.id)
        && !is_adopted(balancer)
}

pub(super) struct DepartingBalancer {
    pub(super) balancer: LoadBalancer,
    /// Whether it goes as a whole.
    pub(super) manages: bool,
    /// Whether what serves the Service's ports there is its own, as in [`OwnershipContext`].
    pub(super) by_ports: bool,
}
