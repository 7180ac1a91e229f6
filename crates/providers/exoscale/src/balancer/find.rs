//! Which load balancers are a Service's.

use bowline_core::{CloudError, Notice, Wish};

use super::LoadBalancers;
use super::observe::all_readable;
use super::ownership::{Family, Whose, not_ours};
use super::remarks::{self, external_is_gone, external_named};
use super::settings::{self, Fault, Settings};
use crate::api::LoadBalancer;

/// What was found for a Service that is to have a load balancer.
#[derive(Default)]
pub(super) struct Found {
    pub(super) balancer: Option<LoadBalancer>,
    /// Whether the Service may do with it, or with one to be made, as it likes.
    pub(super) manages: bool,
    /// Load balancers that were made for the Service and that it has left.
    pub(super) left: Vec<LoadBalancer>,
    pub(super) notices: Vec<Notice>,
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
    /// Which load balancer is the Service's, and whether it may manage it.
    pub(super) async fn find(
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

    /// Everything that the Service has in the cloud.
    pub(super) async fn doomed(
        &self,
        wish: &Wish,
        settings: &Settings,
    ) -> Result<Vec<Doomed>, CloudError> {
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
pub(super) struct Doomed {
    pub(super) balancer: LoadBalancer,
    /// Whether it goes as a whole.
    pub(super) manages: bool,
    /// Whether what is at the Service's ports goes, whatever its name.
    pub(super) by_ports: bool,
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

pub(super) fn family(wish: &Wish) -> Family<'_> {
    Family {
        service: &wish.service,
        all: &wish.all,
        all_known: wish.all_known,
        cluster_name: &wish.cluster_name,
    }
}
