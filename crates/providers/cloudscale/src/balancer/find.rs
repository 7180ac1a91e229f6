//! Finds the load balancers of a Service, the one in use, and those that it names in vain.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use bowline_core::{
    BalancerRequest, Candidature, CloudError, CloudErrorKind, ClusterMatch, Condition, DraftError,
    Goal, Lookup, Notice, OwnershipVerdict, Problem, SERVICE_MARK, Service, hands_over_to,
    match_by_uid, not_ours, service_mark, standing, unproven,
};
use uuid::Uuid;

use super::LoadBalancers;
use super::observe::Freshness;
use super::ownership::{
    self, SERVICE_TAG, is_adopted, is_named_by, is_shown, mark_of, uid_in_name,
};
use super::settings::table::{NAME, UUID};
use super::settings::{self, TAKE_OVER};
use crate::api::LoadBalancer;

/// The condition that remembers a load balancer which was proven to be the Service's, where tags
/// must not.
const REMEMBERED: &str = "bowline.dev/LoadBalancer";

/// A load balancer that is the Service's, or becomes so.
#[derive(Clone, Debug)]
pub(super) struct Claimed {
    pub(super) balancer: LoadBalancer,
    pub(super) verdict: OwnershipVerdict,
    /// Proven by its content alone.
    by_content: bool,
}

impl Claimed {
    /// Whether no controller made it.
    pub(super) fn is_adopted(&self) -> bool {
        let hand_made =
            mark_of(&self.balancer).is_none() && uid_in_name(&self.balancer.name).is_none();
        is_adopted(&self.balancer) || self.verdict == OwnershipVerdict::Adopted && hand_made
    }

    fn is_marked(&self, service: &Service) -> bool {
        self.balancer.tags.get(SERVICE_TAG) == Some(&service.uid)
    }

    /// Whether it proves that the account is the cluster's: the Service's uid is in its mark or
    /// name.
    pub(super) fn proves_account(&self, service: &Service) -> bool {
        self.is_marked(service) || uid_in_name(&self.balancer.name) == Some(&service.uid)
    }

    /// What has to be remembered of it.
    pub(super) fn record(&self) -> Option<Condition> {
        self.by_content.then(|| Condition {
            kind: REMEMBERED.to_owned(),
            status: "True".to_owned(),
            reason: "Recognised".to_owned(),
            message: self.balancer.uuid.to_string(),
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Claims {
    /// The one in use.
    pub(super) one: Option<Claimed>,
    /// Others that are the Service's by their marks: what is left of a crash.
    pub(super) doubles: Vec<Claimed>,
    /// Others that are the Service's, but by no mark.
    pub(super) others: Vec<Claimed>,
    pub(super) refused: Vec<Problem>,
    pub(super) namesakes: usize,
}

impl Claims {
    /// The refusals, where the rest goes on.
    pub(super) fn warnings(&self) -> Vec<Notice> {
        let refused = self.refused.iter();
        let notice = |it: &Problem| Notice {
            warning: true,
            reason: it.reason,
            message: it.message.clone(),
        };
        refused.map(notice).collect()
    }

    /// Whether several are the Service's and nothing shows which one is in use.
    pub(super) fn is_unclear(&self) -> bool {
        self.one.is_none() && !self.others.is_empty()
    }
}

struct Naming {
    uuid: Option<Uuid>,
    take_over: Option<Uuid>,
    name: String,
}

impl Naming {
    fn of(service: &Service) -> Self {
        let take_over = service.annotation(TAKE_OVER);
        Self {
            uuid: settings::uuid_of(service),
            take_over: take_over.and_then(|text| Uuid::try_parse(text.trim()).ok()),
            name: settings::name_of(service),
        }
    }

    /// The problem if it must not have one; none if it does not name it.
    fn refusal(&self, balancer: &LoadBalancer) -> Option<Problem> {
        let id = Some(balancer.uuid);
        if self.take_over == id {
            Some(not_ours(TAKE_OVER, &balancer.uuid.to_string()))
        } else if self.uuid == id {
            Some(not_ours(UUID.key, &balancer.uuid.to_string()))
        } else if self.name == balancer.name {
            Some(not_ours(NAME.key, &self.name))
        } else {
            None
        }
    }
}

impl LoadBalancers {
    /// Looks by mark, by name and by annotation.
    pub(super) async fn claims(
        &self,
        request: &BalancerRequest,
        fresh: Freshness,
    ) -> Result<Claims, DraftError> {
        let service = &*request.service;
        let naming = Naming::of(service);
        let (default, mark) = (
            settings::default_name(&service.uid),
            service_mark(&service.key),
        );
        let ids: Vec<Uuid> = naming.take_over.into_iter().chain(naming.uuid).collect();
        let may_be = |it: &LoadBalancer| {
            let tag = |key: &str| self.ownership_tags.then(|| it.tags.get(key)).flatten();
            it.name == naming.name
                || it.name == default
                || tag(SERVICE_TAG) == Some(&service.uid)
                || tag(SERVICE_MARK) == Some(&mark)
        };
        let observer = &self.shared.observer;
        let names = [naming.name.as_str(), default.as_str()];
        let found = observer.candidates(fresh, &ids, &names, may_be);
        let (mut mine, mut claims) = (Vec::new(), Claims::default());
        for balancer in found.await? {
            if is_given_away(&balancer, request) {
                continue;
            }
            let asked_for = naming.take_over == Some(balancer.uuid);
            let claimed = self.judge(balancer, asked_for, request, fresh).await?;
            let taken = match claimed.verdict {
                OwnershipVerdict::Ours | OwnershipVerdict::Returned => true,
                // What is not the Service's yet does not go with it.
                OwnershipVerdict::HandedOver(_) | OwnershipVerdict::Adopted => {
                    request.goal == Goal::Present
                }
                OwnershipVerdict::Unproven | OwnershipVerdict::NotOurs => false,
            };
            if taken {
                mine.push(claimed);
                continue;
            }
            claims.namesakes += usize::from(claimed.balancer.name == naming.name);
            let refusal = naming.refusal(&claimed.balancer);
            // Others may have the default name of another's: nobody named them.
            claims.refused.extend(refusal);
        }
        sort_out(mine, request, &naming, &mut claims);
        Ok(claims)
    }

    /// Whether that Service may have that load balancer.
    async fn judge(
        &self,
        balancer: LoadBalancer,
        asked_for: bool,
        request: &BalancerRequest,
        fresh: Freshness,
    ) -> Result<Claimed, DraftError> {
        let service = &request.service;
        let name = balancer.name.clone();
        let mut candidate = Candidature {
            mark: mark_of(&balancer),
            uid_in_name: uid_in_name(&name),
            asked_for,
            used_by: None,
        };
        let mut claimed = Claimed {
            balancer,
            verdict: OwnershipVerdict::NotOurs,
            by_content: false,
        };
        if !self.ownership_tags {
            // Marks are not to be relied on, but another's is respected.
            let mark = candidate.mark.take();
            if mark.is_some_and(|it| it.service_uid != service.uid) {
                return Ok(claimed);
            }
            candidate.asked_for = false;
        }
        claimed.verdict = standing(&candidate, request)?;
        if claimed.verdict == OwnershipVerdict::Unproven {
            claimed.by_content = self
                .is_by_content(&claimed.balancer, request, fresh)
                .await?;
            claimed.verdict = if claimed.by_content {
                OwnershipVerdict::Ours
            } else {
                let user = self.user(&claimed.balancer, request, fresh).await?;
                candidate.used_by = user.as_ref();
                unproven(&candidate, request)
            };
        }
        if !self.ownership_tags && claimed.verdict != OwnershipVerdict::Ours {
            claimed.verdict = OwnershipVerdict::NotOurs;
        }
        Ok(claimed)
    }

    /// Whether everything on it is the Service's, or was found so before.
    async fn is_by_content(
        &self,
        balancer: &LoadBalancer,
        request: &BalancerRequest,
        fresh: Freshness,
    ) -> Result<bool, CloudError> {
        let service = &request.service;
        let id = balancer.uuid.to_string();
        let mut records = service.conditions.iter();
        if !self.ownership_tags && records.any(|it| it.kind == REMEMBERED && it.message == id) {
            return Ok(true);
        }
        let whole = self.shared.observer.whole(balancer.clone(), fresh);
        let there = Box::pin(whole).await?;
        let (nodes, unknown) = self.addresses(request).await;
        if ownership::is_proven(service, &there, &nodes, &request.all) {
            return Ok(true);
        }
        // A server that could not be asked for may be among the members.
        unknown.map_or(Ok(false), Err)
    }

    /// The other Service of this cluster that has it by what is on it.
    async fn user(
        &self,
        balancer: &LoadBalancer,
        request: &BalancerRequest,
        fresh: Freshness,
    ) -> Result<Option<Arc<Service>>, CloudError> {
        let names_it =
            |it: &&Arc<Service>| it.uid != request.service.uid && is_named_by(it, balancer);
        let others: Vec<Arc<Service>> = request.all.iter().filter(names_it).cloned().collect();
        if others.is_empty() {
            return Ok(None);
        }
        let whole = self.shared.observer.whole(balancer.clone(), fresh);
        let there = Box::pin(whole).await?;
        let (nodes, _) = self.addresses(request).await;
        let is_user = |it: &Arc<Service>| ownership::is_proven(it, &there, &nodes, &request.all);
        Ok(others.into_iter().find(is_user))
    }

    /// The addresses of this cluster's servers, and why some are not known.
    async fn addresses(&self, request: &BalancerRequest) -> (BTreeSet<IpAddr>, Option<CloudError>) {
        let (mut known, mut unknown) = (BTreeSet::new(), None);
        for answer in self.servers.servers_of(&request.nodes).await {
            match answer {
                Ok(server) => {
                    let interfaces = server.interfaces.iter();
                    let addresses = interfaces.flat_map(|it| &it.addresses);
                    known.extend(addresses.map(|it| it.ip));
                }
                Err(Lookup::CannotTell(error))
                    if !matches!(
                        error.kind(),
                        CloudErrorKind::Conflict | CloudErrorKind::Invalid
                    ) =>
                {
                    unknown = Some(error);
                }
                Err(_) => {}
            }
        }
        (known, unknown)
    }
}

/// Whether the Service has handed it over, and the other has it now.
fn is_given_away(balancer: &LoadBalancer, request: &BalancerRequest) -> bool {
    let Some(to) = hands_over_to(&request.service) else {
        return false;
    };
    let mut all = request.all.iter();
    let taker = all.find(|it| it.key == to && it.uid != request.service.uid);
    taker.is_some_and(|it| balancer.tags.get(SERVICE_TAG) == Some(&it.uid))
}

/// Which one is in use: what a person asks for, what is remembered, what is marked, what the status
/// shows.
fn sort_out(
    mut mine: Vec<Claimed>,
    request: &BalancerRequest,
    naming: &Naming,
    claims: &mut Claims,
) {
    let service = &*request.service;
    mine.sort_by_key(|it| (it.balancer.created_at.clone(), it.balancer.uuid));
    let id = |it: &Claimed| Some(it.balancer.uuid);
    let returned = |it: &Claimed| it.verdict == OwnershipVerdict::Returned;
    let shown = |it: &Claimed| is_shown(service, &it.balancer);
    let at = |wanted: &dyn Fn(&Claimed) -> bool| mine.iter().position(wanted);
    let unmarked = mine.iter().filter(|it| !returned(it)).count();
    let chosen = at(&|it| naming.take_over.is_some() && id(it) == naming.take_over)
        .or_else(|| at(&|it| naming.uuid.is_some() && id(it) == naming.uuid && !returned(it)))
        .or_else(|| at(&|it| it.is_marked(service) && shown(it)))
        .or_else(|| at(&|it| it.is_marked(service)))
        .or_else(|| at(&|it| !returned(it) && (unmarked == 1 || shown(it))))
        .or_else(|| at(&|it| unmarked == 0 && returned(it)));
    claims.one = chosen.map(|at| mine.remove(at));
    let cluster = request.cluster_uid.as_deref();
    for one in mine {
        if returned(&one) {
            // Left to those who look for orphans.
            continue;
        }
        let of = mark_of(&one.balancer).and_then(|it| it.cluster_uid);
        let same_cluster = match_by_uid(of.as_deref(), cluster) == Some(ClusterMatch::Ours);
        if one.is_marked(service) && same_cluster {
            claims.doubles.push(one);
        } else {
            claims.others.push(one);
        }
    }
}
