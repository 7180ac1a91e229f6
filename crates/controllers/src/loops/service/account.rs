//! Holds plans back until the account is proven: what an unproven account does not show may exist.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    AccountHold, AccountState, BalancerRequest, CLEANUP_FINALIZER, Cloud, CloudName, DraftError,
    Known, PlanBasis, PreparedPlan, Responsibility, Service, account_hold, remembers,
};

use super::ServiceController;
use super::conditions;
use crate::clouds::accounts::{AccountKey, Accounts, BalancerLook};
use crate::kube::events::EventType;

/// When a Service is looked at again that waits for the account. When the account changes it is at once.
const HELD_PAUSE: Duration = Duration::from_secs(30);
/// The same before the first look at the account, which takes a moment.
const SETTLING_PAUSE: Duration = Duration::from_secs(1);

impl ServiceController {
    pub(crate) fn accounts(&self) -> &Accounts {
        &self.parts.metrics.accounts
    }

    /// Whether that cloud's credentials see the cluster's account.
    pub(crate) fn account_state(&self, cloud: &CloudName) -> AccountState {
        let cloud = self.clouds.cloud(cloud);
        cloud.map_or(AccountState::Proven, |it| self.accounts().state(it))
    }

    /// Lets a draft pass, if nothing in it rests on what an account says that is not proven. `key` is that of the
    /// credentials with which it was begun.
    pub(crate) fn check_account(
        &self,
        cloud: &Arc<dyn Cloud>,
        request: &BalancerRequest,
        key: Option<AccountKey>,
        drafted: Result<PreparedPlan, DraftError>,
    ) -> Result<PreparedPlan, DraftError> {
        let (service, name) = (&request.service, cloud.name());
        let may_have_departed = self.clouds.may_have_departed(service);
        let began = self.removal_began(service);
        if self.accounts().state(cloud) == AccountState::Proven {
            let is_missed = !began && self.is_missed(name, service, &drafted);
            if let Some(waited) = is_missed.then(|| self.accounts().doubt(cloud)).flatten() {
                let what = waits_for(AccountHold::Settling, name);
                let is_soon = waited < HELD_PAUSE;
                let after = if is_soon { SETTLING_PAUSE } else { HELD_PAUSE };
                return Err(DraftError::Account { what, after });
            }
            if !may_have_departed {
                return drafted;
            }
        }
        let remembering = self.remembering(name);
        let (state, is_settling) = {
            let (known, is_certain) = noted(service, &drafted);
            // Where several clouds may have it, one that has it not proves nothing.
            let is_its_own = remembering.contains(&service.uid) || known != Known::Missing;
            let known = match known {
                Known::Missing if began || !is_its_own => Known::Unclear,
                known => known,
            };
            let look = BalancerLook {
                service,
                known,
                is_certain,
                remembering: &remembering,
            };
            self.accounts().saw_balancer(cloud, key, &look)
        };
        let draft = drafted?;
        let basis = PlanBasis {
            goal: request.goal,
            balancer: draft.plan.balancer(),
            remembers: remembers(service, self.clouds.naming_annotation(name)),
            removal_began: began,
            is_settling,
            may_have_departed,
        };
        match account_hold(state, basis) {
            None => Ok(draft),
            Some(hold) => Err(self.held(cloud, service, hold)),
        }
    }

    /// Whether a draft rests on it that a cloud has the load balancer of a Service no more. Then the account, proven or
    /// not, has to show first that it sees anything at all.
    fn is_missed(
        &self,
        cloud: &CloudName,
        service: &Service,
        drafted: &Result<PreparedPlan, DraftError>,
    ) -> bool {
        let naming = self.clouds.naming_annotation(cloud);
        noted(service, drafted).0 == Known::Missing && remembers(service, naming)
    }

    fn held(&self, cloud: &Arc<dyn Cloud>, service: &Service, hold: AccountHold) -> DraftError {
        let name = cloud.name();
        let what = waits_for(hold, name);
        let after = if hold == AccountHold::Settling {
            SETTLING_PAUSE
        } else {
            self.accounts().want(cloud);
            let text = format!("Waiting for {what}");
            self.report_once(service, EventType::Warning, hold.reason(), &text);
            HELD_PAUSE
        };
        DraftError::Account { what, after }
    }

    /// The uids of Services that had a load balancer in that cloud, by their own word.
    fn remembering(&self, cloud: &CloudName) -> BTreeSet<String> {
        let naming = self.clouds.naming_annotation(cloud);
        let is_there = |service: &Service| match self.clouds.names().responsibility(service) {
            Responsibility::Ensure(by) => by == *cloud,
            Responsibility::CleanUp(clouds) => clouds.as_slice() == [cloud.clone()],
            Responsibility::Nothing => false,
        };
        // One that the cloud leaves to another program is never looked for.
        let balancers = self.clouds.balancers(cloud);
        let is_served = |service: &Service| {
            service.has_finalizer() || balancers.is_some_and(|it| it.serves(service))
        };
        let all = self.parts.services.all().into_iter();
        all.filter(|it| remembers(it, naming) && is_there(it) && is_served(it))
            .map(|it| it.uid.clone())
            .collect()
    }

    /// Whether we began to remove its load balancer, as we remember or as its condition shows.
    fn removal_began(&self, service: &Service) -> bool {
        let current = self.current(service);
        let current = current.as_deref().unwrap_or(service);
        self.states.is_removing(&service.key) || conditions::is_removing(current)
    }

    /// Announces a removal before its first step: should it be cut off, whoever goes on with it knows why nothing is
    /// left. Where the account is proven nobody needs to know.
    pub(crate) async fn announce_removal(&self, service: &Service, cloud: &CloudName) {
        if self.states.is_removing(&service.key) {
            return;
        }
        self.states.set_removing(&service.key, true);
        let may_have_departed = self.clouds.may_have_departed(service);
        if self.account_state(cloud) != AccountState::Proven || may_have_departed {
            self.report_condition(service, conditions::removing()).await;
        }
    }
}

/// What a plan waits for, in words that follow "waiting for".
pub(crate) fn waits_for(hold: AccountHold, cloud: &CloudName) -> String {
    match hold {
        AccountHold::Contradicted => format!(
            "the right credentials: those of cloud {cloud} seem to be of another account, or to have lost permissions, which \
             event AccountContradicted on the lease explains"
        ),
        AccountHold::Unproven => format!(
            "proof that the credentials of cloud {cloud} see the account of this cluster: the load balancer that the \
             Service had is not found there, which event AccountUnproven on the lease explains"
        ),
        AccountHold::Departed => format!(
            "an account that is not configured any more: the load balancer that the Service had is not in cloud {cloud}, and \
             may be there. Configure that account again, or make sure that nothing is left of the load balancer, and remove \
             the finalizer {CLEANUP_FINALIZER} by hand"
        ),
        AccountHold::Settling => format!("a look at the account of cloud {cloud}"),
    }
}

/// What a draft says about the load balancer of a Service, and whether it is certainly the Service's.
fn noted(service: &Service, drafted: &Result<PreparedPlan, DraftError>) -> (Known, bool) {
    let Ok(draft) = drafted else {
        return (Known::Unclear, false);
    };
    let plan = &draft.plan;
    let carries_uid = plan.found.iter().any(|it| it.carries(&service.uid));
    let known = match plan.balancer() {
        // What is wrong may be the reason why nothing was looked for.
        Known::Missing if !plan.problems.is_empty() => Known::Unclear,
        known => known,
    };
    (known, draft.proves_account || carries_uid)
}
