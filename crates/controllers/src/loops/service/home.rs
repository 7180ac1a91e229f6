//! Finds the cloud that already has the load balancer of a Service that names none: not always the default.
//!
//! Another controller manager may have served the Service before: its status shows an address. The cloud
//! with a load balancer of its own at that address serves it from now on. That is recorded once, in a
//! condition of the status, which tenants cannot write. Only an annotation moves the Service away.

use bowline_core::{
    BalancerRequest, CLOUD, CLOUD_CONDITION, CloudName, Condition, DraftError, Goal,
    Responsibility, Service,
};

use super::ServiceController;
use super::clouds::ServiceClouds;
use super::errors::ReconcileError;
use super::reconcile::Reconcile;
use crate::kube::events::service_reference;
use crate::kube::store::Found;
use crate::report::{Fact, emit};

/// What is remembered of a Service whose load balancer is in that cloud.
pub(super) fn record(cloud: &CloudName) -> Condition {
    Condition {
        kind: CLOUD_CONDITION.to_owned(),
        status: "True".to_owned(),
        reason: "Found".to_owned(),
        message: cloud.to_string(),
    }
}

impl ServiceClouds {
    /// Whether it may be open in which cloud a Service's load balancer is.
    pub(crate) fn is_home_open(&self, service: &Service) -> bool {
        self.names().all().len() > 1
            && !service.ingress.is_empty()
            && self.names().names_no_cloud(service)
    }

    /// The cloud whose load balancer the Service's status shows, if that is not the default. One that cannot be
    /// asked may be it.
    pub(crate) async fn home(
        &self,
        default: &CloudName,
        request: impl Fn(&CloudName) -> BalancerRequest,
    ) -> Result<Option<CloudName>, DraftError> {
        if self.recognises(default, &request(default)).await? {
            return Ok(None);
        }
        let others = self.names().all().iter().filter(|it| *it != default);
        for cloud in others {
            if self.recognises(cloud, &request(cloud)).await? {
                return Ok(Some(cloud.clone()));
            }
        }
        Ok(None)
    }
}

impl Reconcile<'_> {
    /// Finds out where the load balancer of a Service is that names no cloud, before anything is decided. An observer can
    /// remember nothing, and looks each time.
    pub(super) async fn find_home(&mut self) -> Result<(), ReconcileError> {
        let controller = self.controller;
        let Found::Object(service) = controller.parts.services.find(&self.key) else {
            return Ok(());
        };
        let names = controller.clouds.names();
        let Responsibility::Ensure(default) = names.responsibility(&service) else {
            return Ok(());
        };
        controller.report_misnamed(&service);
        let is_observing = controller.clouds.is_observing();
        let is_new = is_observing || !controller.states.knows(&service.key);
        if !is_new || !controller.clouds.is_home_open(&service) {
            return Ok(());
        }
        let request = |cloud: &CloudName| {
            let roster = controller
                .clouds
                .roster(cloud, &controller.parts.nodes.view());
            controller.request(service.clone(), Goal::Present, cloud, roster)
        };
        let home = match controller.clouds.home(&default, request).await {
            Ok(home) => home,
            Err(DraftError::Cloud(error)) => return Err(ReconcileError::Look(error)),
            // None of its own, then: only another's cannot be distinguished from this.
            Err(
                DraftError::Elsewhere
                | DraftError::NeedsServices
                | DraftError::Account { .. }
                | DraftError::Later { .. },
            ) => None,
        };
        let Some(home) = home else {
            return Ok(());
        };
        let text = format!(
            "The load balancer that the status shows is in cloud {home}, which serves this Service from now on. Annotation \
             {CLOUD} moves it to another cloud, which interrupts its traffic"
        );
        let fact = Fact::normal(service_reference(&service), "LoadBalancerFound", text);
        emit!(controller.parts.recorder, fact, service = %service.key, cloud = %home);
        controller.record(&service, vec![record(&home)]).await?;
        self.home = is_observing.then_some(home);
        Ok(())
    }
}

impl ServiceController {
    /// The cloud that a Service has to leave, because a person has named another one.
    pub(super) fn former_home(
        &self,
        service: &Service,
        responsibility: &Responsibility,
    ) -> Option<CloudName> {
        let Responsibility::Ensure(cloud) = responsibility else {
            return None;
        };
        let recorded = self.clouds.names().recorded(service)?;
        (recorded != cloud).then(|| recorded.clone())
    }
}
