//! Gathers what a decision needs: the Service, its cloud and targets, and the plan that the cloud prepares.

use std::sync::Arc;

use bowline_core::reconcile::{Event, NotDrafted, Observed, Phase, PlanState, ServicePresence};
use bowline_core::{
    BalancerRequest, CloudName, DraftError, Fingerprint, Goal, PlanProgress, PreparedPlan,
    Responsibility, Service,
};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;
use tracing::debug;

use super::ServiceController;
use super::errors::ReconcileError;
use super::execute::InFlightPlan;
use super::reconcile::Reconcile;
use crate::kube::store::Found;
use tokio_util::sync::CancellationToken;

/// How far apart two comparisons with the cloud may be drawn: up to a quarter longer than asked.
const AUDIT_JITTER: f64 = 0.25;

/// What a cloud drafted, for what.
pub(super) type Drafted =
    Result<(BalancerRequest, CloudName, Fingerprint, PreparedPlan), DraftError>;

impl Reconcile<'_> {
    /// The world as it is now.
    pub(super) fn observe<'s>(
        &self,
        found: &'s Found<Service>,
        stop: &CancellationToken,
    ) -> Observed<'s> {
        let controller = self.controller;
        let (clouds, states) = (&controller.clouds, &controller.states);
        let (service, there) = match found {
            Found::Object(service) => (ServicePresence::There(service), Some(service)),
            Found::Nothing => (ServicePresence::Gone, None),
            Found::Lost => (ServicePresence::Lost, None),
            Found::Unreadable => (ServicePresence::Unreadable, None),
        };
        let responsibility = there.map_or(Responsibility::Nothing, |it| self.responsibility(it));
        let serves = match (there, &responsibility) {
            (Some(service), Responsibility::Ensure(cloud)) => {
                let balancers = clouds.balancers(cloud);
                balancers.is_none_or(|it| it.serves(service))
            }
            _ => true,
        };
        let remembered = self.state.remembered.as_ref();
        let plan = self.state.plan.as_ref();
        let targets = plan.filter(|it| it.is_risky()).map(|it| {
            let roster = clouds.roster(&it.cloud, &controller.parts.nodes.view());
            controller.fingerprint(&it.service, &it.cloud, &roster)
        });
        Observed {
            service,
            former: there.and_then(|it| controller.former_home(it, &responsibility)),
            responsibility,
            is_lost: remembered
                .is_some_and(|it| controller.parts.services.is_lost(&it.service.uid)),
            serves,
            own_annotations: plan.map_or(&[], |it| clouds.own_annotations(&it.cloud)),
            published: states.published(&self.key),
            targets_changed: states.has_node_trigger(&self.key),
            targets,
            is_observing: clouds.is_observing(),
            is_stopping: stop.is_cancelled(),
            audit: self.audit(),
            now: Instant::now().into_std(),
        }
    }

    /// Who serves it. An observer can remember nowhere but here in which cloud its load balancer was found.
    fn responsibility(&self, service: &Service) -> Responsibility {
        match self.controller.clouds.names().responsibility(service) {
            Responsibility::Ensure(named) => {
                let home = self.home.clone();
                Responsibility::Ensure(home.unwrap_or(named))
            }
            other => other,
        }
    }

    /// When the Service is compared with the cloud next, although nothing is known to have changed.
    fn audit(&self) -> Option<std::time::Duration> {
        if !matches!(self.state.phase, Phase::Published(_) | Phase::Shown(_)) {
            return None;
        }
        let cloud = self.state.remembered.as_ref()?.clouds.first()?;
        let period = self.controller.clouds.balancers(cloud)?.audit_period()?;
        Some(self.controller.parts.random.jitter(period, AUDIT_JITTER))
    }

    /// Makes a plan, or looks at the next cloud of a removal.
    pub(super) async fn draft(&mut self) -> Event {
        let controller = self.controller;
        let drafted = if let Some(removal) = &self.state.removal {
            let (service, clouds) = (removal.service.clone(), removal.clouds.clone());
            let continued = self.in_flight.take().map(|it| it.cloud);
            // All of them are looked at together: one that does not answer keeps none of the others waiting, and what is
            // wrong with one is reported when the others are done.
            let looks = self.looks.get_or_insert_with(|| {
                let others = clouds
                    .into_iter()
                    .filter(|it| continued.as_ref() != Some(it));
                let look = |cloud| controller.draft_removal(service.clone(), cloud);
                let looks = others.map(|cloud| Box::pin(look(cloud)) as _);
                looks.collect::<FuturesUnordered<_>>()
            });
            match looks.next().await {
                Some(drafted) => drafted,
                None => return Event::AllLooked,
            }
        } else {
            let remembered = self.state.remembered.clone();
            let Some((service, cloud)) =
                remembered.and_then(|it| Some((it.service, it.clouds.into_iter().next()?)))
            else {
                return Event::NotDrafted(NotDrafted::Elsewhere);
            };
            controller.draft_presence(service, cloud).await
        };
        match drafted {
            Ok((request, cloud, targets, prepared)) => {
                Event::Drafted(Box::new(self.prepared(request, &cloud, targets, prepared)))
            }
            Err(error) => self.not_drafted(error).await,
        }
    }

    fn prepared(
        &mut self,
        request: BalancerRequest,
        cloud: &CloudName,
        targets: Fingerprint,
        prepared: PreparedPlan,
    ) -> PlanState {
        let now = Instant::now();
        let triggers = match request.goal {
            Goal::Present => self.triggers.clone(),
            Goal::Absent => super::triggers::Triggers::service(),
        };
        if triggers.is_nodes_alone() {
            self.controller.parts.metrics.services.syncs.inc();
        }
        let about = (request.goal, cloud.clone(), request.service.clone());
        let run = PlanProgress::new(prepared.plan);
        let plan = PlanState::new(about, targets, run, now.into_std());
        let in_flight = InFlightPlan {
            request,
            cloud: cloud.clone(),
            executor: prepared.executor,
            triggers,
            begun: now,
            reported: now,
        };
        self.controller.report_plan(&in_flight, plan.run.plan());
        self.in_flight = Some(in_flight);
        plan
    }

    /// Reports what a draft waits for. What is wrong with one cloud of a removal is kept until the others are done.
    async fn not_drafted(&mut self, error: DraftError) -> Event {
        let why = NotDrafted::from(&error);
        let service = match (&self.state.removal, &self.state.remembered) {
            (Some(removal), _) => Some(removal.service.clone()),
            (None, remembered) => remembered.as_ref().map(|it| it.service.clone()),
        };
        let is_known = self
            .state
            .removal
            .as_ref()
            .is_some_and(|it| it.unproven.is_some());
        match (error, service) {
            (DraftError::Account { .. }, _) if is_known => {}
            (DraftError::Later { what, .. } | DraftError::Account { what, .. }, Some(service)) => {
                let what = format!("waiting for {what}");
                self.controller.report_waiting(&service, &what).await;
            }
            (DraftError::Cloud(error), _) => {
                let error = match self.state.removal {
                    Some(_) => ReconcileError::Check(error),
                    None => ReconcileError::Look(error),
                };
                self.error.get_or_insert(error);
            }
            (DraftError::Elsewhere, _) => {
                debug!(service = %self.key, "another program serves it");
            }
            _ => {}
        }
        Event::NotDrafted(why)
    }

    /// Whether one of these clouds has something that it would remove for that Service. Otherwise the finalizer is
    /// somebody else's, or that is not known yet.
    pub(super) async fn prove(&mut self, service: &Arc<Service>, clouds: &[CloudName]) -> Event {
        let look = |cloud: &CloudName| {
            self.controller
                .draft_removal(service.clone(), cloud.clone())
        };
        // Together: one that does not answer keeps nobody waiting for what another has.
        let mut looks: FuturesUnordered<_> = clouds.iter().map(look).collect();
        let mut open = None;
        while let Some(drafted) = looks.next().await {
            match drafted {
                Ok((.., prepared)) if !prepared.plan.is_empty() => return Event::Proven(true),
                Ok(_) | Err(DraftError::Elsewhere) => {}
                Err(error) => open = Some(error),
            }
        }
        drop(looks);
        let Some(error) = open else {
            return Event::Proven(false);
        };
        let why = NotDrafted::from(&error);
        if let DraftError::Cloud(error) = error {
            self.error = Some(ReconcileError::Check(error));
        }
        Event::NotDrafted(why)
    }
}

impl ServiceController {
    /// Plans a load balancer as the Service describes it, with the targets as of now.
    async fn draft_presence(&self, service: Arc<Service>, cloud: CloudName) -> Drafted {
        self.check_known(&cloud)?;
        let roster = self.clouds.roster(&cloud, &self.parts.nodes.view());
        let targets = self.fingerprint(&service, &cloud, &roster);
        self.states.set_targets(&service.key, Some(targets.clone()));
        let mut request = self.request(service, Goal::Present, &cloud, roster);
        let prepared = self.drafted(&cloud, &mut request).await?;
        Ok((request, cloud, targets, prepared))
    }

    /// Plans the removal of whatever that cloud has for a Service.
    async fn draft_removal(&self, service: Arc<Service>, cloud: CloudName) -> Drafted {
        self.check_known(&cloud)?;
        // Also of what goes the targets say who owns it.
        let roster = self.clouds.roster(&cloud, &self.parts.nodes.view());
        let mut request = self.request(service, Goal::Absent, &cloud, roster);
        let prepared = self.drafted(&cloud, &mut request).await?;
        Ok((request, cloud, Fingerprint::default(), prepared))
    }
}
