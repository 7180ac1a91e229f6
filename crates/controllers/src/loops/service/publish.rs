//! Writes to a Service: finalizer, annotations, status, conditions.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_core::reconcile::Event;
use bowline_core::{
    CLEANUP_FINALIZER, CONDITION_PREFIX, Condition, Goal, Ingress, READY_CONDITION, Service,
    ServiceKey, ingress_to_write,
};
use tracing::{debug, info};

use super::ServiceController;
use super::conditions;
use super::errors::ReconcileError;
use super::reconcile::Reconcile;

impl ServiceController {
    /// Makes sure that the Service stays until its load balancer is gone.
    pub(super) async fn add_finalizer(
        &self,
        service: Arc<Service>,
    ) -> Result<Arc<Service>, ReconcileError> {
        if service.has_finalizer() || self.clouds.is_observing() {
            return Ok(service);
        }
        self.announce(&service, "EnsuringLoadBalancer", "Ensuring load balancer");
        let written = self.parts.writer.add_finalizer(&service).await;
        let written = written.map_err(ReconcileError::AddFinalizer)?;
        debug!(service = %service.key, finalizer = CLEANUP_FINALIZER, "held");
        self.parts.services.note(written.clone());
        Ok(written)
    }

    /// Lets the Service go.
    pub(super) async fn remove_finalizer(&self, service: &Service) -> Result<(), ReconcileError> {
        if !service.has_finalizer() || self.clouds.is_observing() {
            return Ok(());
        }
        match self.parts.writer.remove_finalizer(service).await {
            Ok(written) => {
                self.parts.services.note(written);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(ReconcileError::RemoveFinalizer(error)),
        }
    }

    /// A Service that stays, without a load balancer, shows no address.
    pub(super) async fn clear_status(
        &self,
        key: &ServiceKey,
        uid: &str,
    ) -> Result<(), ReconcileError> {
        let current = self.parts.services.get(key);
        let Some(service) = current.filter(|it| it.uid == uid && !it.deleting) else {
            return Ok(());
        };
        let ingress: Option<&[Ingress]> = (!service.ingress.is_empty()).then_some(&[]);
        let condition = conditions::if_there(&service, conditions::removed());
        self.set_status(&service, ingress, condition.as_slice())
            .await?;
        self.withdraw_records(&service).await
    }

    /// What was remembered in conditions is about a load balancer that is gone.
    async fn withdraw_records(&self, service: &Service) -> Result<(), ReconcileError> {
        let records = service.conditions.iter().map(|it| &it.kind);
        let records =
            records.filter(|it| it.starts_with(CONDITION_PREFIX) && *it != READY_CONDITION);
        let records: Vec<String> = records.cloned().collect();
        if records.is_empty() || self.clouds.is_observing() {
            return Ok(());
        }
        let writer = &self.parts.writer;
        match writer.remove_conditions(service, &records).await {
            Ok(written) => {
                self.parts.services.note(written);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(ReconcileError::Status(error)),
        }
    }

    /// Writes what has to be remembered and what tenants must not write, if it is not there.
    pub(super) async fn record(
        &self,
        service: &Service,
        mut records: Vec<Condition>,
    ) -> Result<(), ReconcileError> {
        records.retain(|it| !service.conditions.contains(it));
        self.set_status(service, None, &records).await
    }

    /// Takes away, from a Service that stays, the annotations that name what is gone.
    pub(super) async fn withdraw(
        &self,
        service: &Service,
        annotations: BTreeSet<String>,
    ) -> Result<(), ReconcileError> {
        let current = self.current(service).filter(|it| !it.deleting);
        let Some(service) = current else {
            return Ok(());
        };
        let there = annotations.into_iter();
        let there: Vec<String> = there
            .filter(|it| service.annotation(it).is_some())
            .collect();
        if there.is_empty() || self.clouds.is_observing() {
            return Ok(());
        }
        match self.parts.writer.remove_annotations(&service, &there).await {
            Ok(written) => {
                debug!(service = %service.key, annotations = ?there, "annotations removed");
                self.parts.services.note(written);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(ReconcileError::Annotations(error)),
        }
    }

    /// Writes the condition if it says something new. It is no failure if that cannot be done.
    pub(super) async fn set_condition(&self, service: &Service, condition: Condition) {
        let Some(condition) = conditions::if_changed(service, condition) else {
            return;
        };
        if let Err(error) = self.set_status(service, None, &[condition]).await {
            debug!(service = %service.key, error = error.text(), "condition not written");
        }
    }

    async fn set_status(
        &self,
        service: &Service,
        ingress: Option<&[Ingress]>,
        conditions: &[Condition],
    ) -> Result<(), ReconcileError> {
        if ingress.is_none() && conditions.is_empty() || self.clouds.is_observing() {
            return Ok(());
        }
        let now = self.parts.clock.now();
        let writer = &self.parts.writer;
        match writer.set_status(service, ingress, conditions, now).await {
            Ok(written) => {
                if let Some(ingress) = ingress {
                    let shown: Vec<String> = ingress.iter().map(ToString::to_string).collect();
                    info!(service = %service.key, ingress = ?shown, "published");
                }
                self.parts.services.note(written);
                Ok(())
            }
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(ReconcileError::Status(error)),
        }
    }

    /// The same Service as it is now; none if it is gone, or another one of its name is there.
    pub(super) fn current(&self, service: &Service) -> Option<Arc<Service>> {
        let current = self.parts.services.get(&service.key);
        current.filter(|it| it.uid == service.uid)
    }
}

impl Reconcile<'_> {
    /// Writes what the cloud wants to be remembered, as soon as it is known.
    pub(super) async fn publish_annotations(&mut self) -> Result<(), ReconcileError> {
        let controller = self.controller;
        let (Some(in_flight), Some(plan)) = (&self.in_flight, &self.state.plan) else {
            return Ok(());
        };
        if in_flight.request.goal == Goal::Absent {
            return Ok(());
        }
        let Some(service) = controller.current(&in_flight.request.service) else {
            return Ok(());
        };
        let publication = in_flight.executor.publication(plan.run.is_finished());
        controller.record(&service, publication.records).await?;
        let mut annotations = publication.annotations;
        annotations.retain(|key, value| service.annotation(key) != Some(value));
        if annotations.is_empty() {
            return Ok(());
        }
        // Before the write: its echo must be known for what it is.
        controller.states.set_published(&service.key, &annotations);
        let written = controller
            .parts
            .writer
            .set_annotations(&service, &annotations)
            .await;
        let written = written.map_err(ReconcileError::Annotations)?;
        debug!(service = %service.key, ?annotations, "annotated");
        controller.parts.services.note(written);
        Ok(())
    }

    /// The end of a plan: address, condition, events.
    pub(super) async fn publish(&mut self) -> Result<Event, ReconcileError> {
        let controller = self.controller;
        controller.states.end_reports(&self.key, true);
        self.publish_annotations().await?;
        let (Some(in_flight), Some(plan)) = (&mut self.in_flight, &self.state.plan) else {
            return Ok(Event::Published(None));
        };
        let Some(service) = controller.current(&plan.service) else {
            return Ok(Event::Published(None));
        };
        let reached = plan.is_good();
        let publication = in_flight.executor.publication(true);
        let wanted = &publication.ingress;
        let ingress = ingress_to_write(&service.ingress, wanted, controller.has_ip_mode());
        // What works is not taken away because something else is wrong.
        let ingress = ingress.filter(|it| reached || !it.is_empty());
        let without_targets = publication.without_targets
            || controller.is_without_targets(in_flight, plan.run.plan());
        let condition = match &ingress {
            _ if !reached => None,
            _ if without_targets => {
                let reasons = in_flight.request.excluded.reasons();
                conditions::if_changed(&service, conditions::no_targets(&reasons))
            }
            Some(_) => conditions::if_changed(&service, conditions::ready()),
            None => conditions::if_there(&service, conditions::ready()),
        };
        controller
            .set_status(&service, ingress.as_deref(), condition.as_slice())
            .await?;
        controller.report_end(&service, in_flight, plan.run.plan(), reached);
        Ok(Event::Published(in_flight.executor.again()))
    }
}
