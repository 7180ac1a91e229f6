//! Where the load balancer of a Service is that names no cloud: not always at the default.
//!
//! A Service that another controller manager served before has an address in its status, and whichever configured cloud
//! has a load balancer of its own with that address is the Service's. That is found once, and remembered in a condition
//! of the Service's status, which tenants cannot write. Only a person's word moves it.

use bowline_core::{
    BalancerRequest, CLOUD, CLOUD_CONDITION, CloudName, Condition, DraftError, Goal,
    Responsibility, Service,
};
use tracing::info;

use super::ServiceController;
use super::clouds::ServiceClouds;
use super::errors::ReconcileError;
use crate::kube::events::EventType;

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
        wish: impl Fn(&CloudName) -> BalancerRequest,
    ) -> Result<Option<CloudName>, DraftError> {
        if self.recognises(default, &wish(default)).await? {
            return Ok(None);
        }
        let others = self.names().all().iter().filter(|it| *it != default);
        for cloud in others {
            if self.recognises(cloud, &wish(cloud)).await? {
                return Ok(Some(cloud.clone()));
            }
        }
        Ok(None)
    }
}

impl ServiceController {
    /// What is to be done about a Service, once it is known where its load balancer is. An observer can remember
    /// nothing, and looks each time.
    pub(super) async fn at_home(
        &self,
        service: &std::sync::Arc<Service>,
        responsibility: Responsibility,
    ) -> Result<Responsibility, ReconcileError> {
        let Responsibility::Ensure(default) = &responsibility else {
            return Ok(responsibility);
        };
        self.tell_misnamed(service);
        let is_new = self.clouds.is_observing() || !self.memory.knows(&service.key);
        if !is_new || !self.clouds.is_home_open(service) {
            return Ok(responsibility);
        }
        let wish = |cloud: &CloudName| {
            let roster = self.clouds.roster(cloud, &self.parts.nodes.view());
            self.wish(service.clone(), Goal::Present, cloud, roster)
        };
        let home = match self.clouds.home(default, wish).await {
            Ok(home) => home,
            Err(DraftError::Cloud(error)) => return Err(ReconcileError::Look(error)),
            // None of its own, then: only another's is not to be told from this.
            Err(
                DraftError::Elsewhere
                | DraftError::NeedsServices
                | DraftError::Account { .. }
                | DraftError::Later { .. },
            ) => None,
        };
        let Some(home) = home else {
            return Ok(responsibility);
        };
        let text = format!(
            "The load balancer that the status shows is in cloud {home}, which serves this Service from now on. Annotation \
             {CLOUD} moves it to another cloud, which interrupts its traffic"
        );
        info!(service = %service.key, cloud = %home, "{text}");
        self.tell(service, EventType::Normal, "LoadBalancerFound", &text);
        self.record(service, vec![record(&home)]).await?;
        Ok(Responsibility::Ensure(home))
    }

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
