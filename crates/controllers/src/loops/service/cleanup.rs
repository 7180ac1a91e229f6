//! A Service is to have no load balancer any more, or is no more itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_core::{CloudName, DraftError, Fingerprint, Goal, Service, ServiceKey, Unserved};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tracing::warn;

use super::ServiceController;
use super::conditions;
use super::errors::ReconcileError;
use super::reconcile::{Outcome, Ran};
use super::requirements::SERVICES_PAUSE;
use super::state::{InFlightPlan, Triggers};
use crate::kube::events::EventType;
use crate::stop::Stop;

/// How far the removal of a load balancer has come.
enum TornDown {
    /// Something is left to be done.
    NotYet(Outcome),
    /// Nothing is left; these annotations name what is gone.
    Entirely(BTreeSet<String>),
}

impl ServiceController {
    /// Removes the load balancer of a Service that is to have none any more.
    pub(super) async fn clean_up(
        &self,
        service: Arc<Service>,
        clouds: Vec<CloudName>,
        in_flight: Option<InFlightPlan>,
        stop: &Stop,
    ) -> Result<Outcome, ReconcileError> {
        // Where it was made is better known to us than to a Service that lost its class.
        let recalled = self.memory.recall(&service.key).map(|it| it.1);
        let known = recalled.is_some() || service.is_load_balancer || service.was_served_by_us();
        let clouds = recalled.unwrap_or(clouds);
        if !known && let Some(outcome) = self.unless_found(&service, &clouds).await? {
            return Ok(outcome);
        }
        self.memory.remember(&service, &clouds);
        if !service.is_load_balancer && !service.was_served_by_us() {
            // Who goes on after a crash finds no load balancer any more, and has to know whose finalizer it is.
            self.tell_state(&service, conditions::removing()).await;
        }
        self.memory.set_members(&service.key, None);
        let withdrawn = match self.tear_down(&service, &clouds, in_flight, stop).await? {
            TornDown::NotYet(outcome) => return Ok(outcome),
            TornDown::Entirely(withdrawn) => withdrawn,
        };
        if self.clouds.is_observing() {
            // It is there as before, and what would be done was told.
            return Ok(Outcome::Done);
        }
        // While it is held: whatever fails here is tried again.
        self.clear_status(&service.key, &service.uid).await?;
        self.withdraw(&service, withdrawn).await?;
        self.release(&service).await?;
        self.tell(
            &service,
            EventType::Normal,
            "DeletedLoadBalancer",
            "Deleted load balancer",
        );
        self.forget(&service.key);
        Ok(Outcome::Done)
    }

    /// Nothing, if one of these clouds has something that it would remove for that Service. Otherwise the finalizer
    /// is somebody else's, or that is not known yet.
    async fn unless_found(
        &self,
        service: &Arc<Service>,
        clouds: &[CloudName],
    ) -> Result<Option<Outcome>, ReconcileError> {
        let look = async |cloud: &CloudName| {
            self.check_known(cloud)?;
            let roster = self.clouds.roster(cloud, &self.parts.nodes.view());
            let mut wish = self.wish(service.clone(), Goal::Absent, cloud, roster);
            self.drafted(cloud, &mut wish).await
        };
        // Together: one that does not answer keeps nobody waiting for what another has.
        let mut looks: FuturesUnordered<_> = clouds.iter().map(look).collect();
        let mut open = None;
        while let Some(drafted) = looks.next().await {
            match drafted {
                Ok(draft) if !draft.plan.is_empty() => return Ok(None),
                Ok(_) | Err(DraftError::Elsewhere) => {}
                Err(DraftError::Later { after, .. } | DraftError::Account { after, .. }) => {
                    open = Some(Ok(Outcome::Later(after)));
                }
                Err(DraftError::NeedsServices) => open = Some(Ok(Outcome::Later(SERVICES_PAUSE))),
                Err(DraftError::Cloud(error)) => open = Some(Err(ReconcileError::Check(error))),
            }
        }
        let open = open.unwrap_or_else(|| Ok(self.complain(service, &Unserved::Unproven)));
        open.map(Some)
    }

    /// Removes the load balancer of a Service that vanished, or that another one of the same name
    /// replaced, or that is somebody else's by now. The Service that is there now is not written.
    pub(super) async fn remove_old(
        &self,
        old: &Arc<Service>,
        clouds: &[CloudName],
        in_flight: Option<InFlightPlan>,
        stop: &Stop,
    ) -> Result<Option<Outcome>, ReconcileError> {
        if let TornDown::NotYet(outcome) = self.tear_down(old, clouds, in_flight, stop).await? {
            return Ok(Some(outcome));
        }
        if self.clouds.is_observing() {
            self.memory.forget(&old.key);
        } else {
            self.tell(
                old,
                EventType::Normal,
                "DeletedLoadBalancer",
                "Deleted load balancer",
            );
            self.forget(&old.key);
        }
        Ok(None)
    }

    /// Makes sure that none of these clouds has a load balancer for that Service.
    async fn tear_down(
        &self,
        service: &Arc<Service>,
        clouds: &[CloudName],
        in_flight: Option<InFlightPlan>,
        stop: &Stop,
    ) -> Result<TornDown, ReconcileError> {
        let mut withdrawn = BTreeSet::new();
        let in_flight = in_flight.filter(|it| clouds.contains(&it.cloud));
        let mut in_flight = match self.still_good(in_flight, Goal::Absent) {
            Some(in_flight) => match self.not_yet(in_flight) {
                Ok(in_flight) => Some(in_flight),
                Err(outcome) => return Ok(TornDown::NotYet(outcome)),
            },
            None => None,
        };
        let waiting = in_flight.as_ref().map(|it| it.cloud.clone());
        // All of them are looked at together: one that does not answer keeps none of the others waiting, and what is
        // wrong with one is told when the others are done.
        let mut looks: FuturesUnordered<_> = clouds
            .iter()
            .filter(|cloud| waiting.as_ref() != Some(*cloud))
            .map(|cloud| self.draft_removal(service, cloud))
            .collect();
        let (mut open, mut held, mut is_found) = (None, None, false);
        loop {
            let looked = match in_flight.take() {
                Some(in_flight) => Ok(in_flight),
                None => match looks.next().await {
                    Some(looked) => looked,
                    None => break,
                },
            };
            let in_flight = match looked {
                Ok(in_flight) => in_flight,
                Err(DraftError::Elsewhere) => continue,
                Err(DraftError::Later { what, after }) => {
                    self.tell_waiting(service, &format!("waiting for {what}"))
                        .await;
                    open.get_or_insert(Ok(Outcome::Later(after)));
                    continue;
                }
                Err(DraftError::Account { what, after }) => {
                    held.get_or_insert((what, after));
                    continue;
                }
                Err(DraftError::NeedsServices) => {
                    open.get_or_insert(Ok(Outcome::Later(SERVICES_PAUSE)));
                    continue;
                }
                Err(DraftError::Cloud(error)) => {
                    open.get_or_insert(Err(ReconcileError::Check(error)));
                    continue;
                }
            };
            is_found |= !in_flight.run.plan().found.is_empty();
            if self.clouds.is_observing() {
                self.show(&in_flight);
                continue;
            }
            match Box::pin(self.carry_on(in_flight, stop)).await? {
                Ran::Not(outcome) => return Ok(TornDown::NotYet(outcome)),
                Ran::ToItsEnd(in_flight) => {
                    self.memory.all_is_said(&service.key);
                    in_flight.check()?;
                    withdrawn.extend(in_flight.executor.publication().withdrawn);
                }
            }
        }
        // One of several clouds had it: the others need not be asked whether they would know it.
        if let Some((what, after)) = held.filter(|_| !is_found) {
            self.tell_waiting(service, &format!("waiting for {what}"))
                .await;
            open.get_or_insert(Ok(Outcome::Later(after)));
        }
        match open {
            None => Ok(TornDown::Entirely(withdrawn)),
            Some(open) => Ok(TornDown::NotYet(open?)),
        }
    }

    async fn draft_removal(
        &self,
        service: &Arc<Service>,
        cloud: &CloudName,
    ) -> Result<InFlightPlan, DraftError> {
        self.check_known(cloud)?;
        // Also of what goes the targets say whose it is.
        let roster = self.clouds.roster(cloud, &self.parts.nodes.view());
        let mut wish = self.wish(service.clone(), Goal::Absent, cloud, roster);
        let draft = self.drafted(cloud, &mut wish).await?;
        let in_flight = self.in_flight(
            wish,
            cloud,
            Fingerprint::default(),
            draft,
            &Triggers::service(),
        );
        self.tell_plan(service, &in_flight);
        Ok(in_flight)
    }

    /// Forgets a Service that the API server lacks since it was restored to an earlier state: nobody deleted it, so
    /// that its load balancer stays, and is reported like one without a Service. Says whether there was one.
    pub(super) fn let_go_of_lost(&self, key: &ServiceKey) -> bool {
        let Some((old, clouds)) = self.memory.recall(key) else {
            return false;
        };
        if !self.parts.services.is_lost(&old.uid) {
            return false;
        }
        self.memory.forget(key);
        let clouds: Vec<&str> = clouds.iter().map(CloudName::as_str).collect();
        let text = format!(
            "Service {key} (uid {}) is missing since the API server was restored to an earlier state. Its load balancer in \
             cloud {} is kept: apply the Service again, or remove the load balancer in the cloud",
            old.uid,
            clouds.join(", ")
        );
        warn!(service = %key, "{text}");
        self.tell_on_lease(EventType::Warning, "ServiceLost", text);
        true
    }

    /// Forgets a Service whose load balancer is gone. What it used may be what others lacked (an
    /// address, a name, a quota), so that those in trouble are looked at again at once.
    fn forget(&self, key: &ServiceKey) {
        self.memory.forget(key);
        for troubled in self.memory.troubled() {
            self.memory.add_cause(&troubled, Triggers::service());
            self.queue.add(troubled);
        }
    }
}
