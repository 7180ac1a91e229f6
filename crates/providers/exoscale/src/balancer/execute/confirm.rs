//! Waits for the result of a step to show: an address, a new object, the end of one.

use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use tokio::time::Instant;

use super::{ExoscaleActions, Outcome, UnderWay};
use crate::api::{LoadBalancer, NewLoadBalancer, NewService};
use crate::balancer::desire::Entrance;
use crate::balancer::plan::{Action, is_at};
use crate::balancer::publish::Known;
use crate::operation::next_look;

/// How long the address of a new load balancer is waited for, and how long a new object may not
/// show; then the next plan looks again.
const CONFIRM_LIMIT: Duration = Duration::from_secs(60);

impl ExoscaleActions {
    pub(super) async fn confirm(
        &mut self,
        action: &Action,
        since: Instant,
    ) -> Result<Outcome, CloudError> {
        let missing = match action {
            Action::AwaitAddress => self.address().await?,
            Action::AwaitEnd(id) => {
                let there = self.shared.observer.read(*id).await?;
                there.map(|it| format!("load balancer {:?} to be gone", it.name))
            }
            Action::CreateBalancer(body) => self.made(body).await?,
            Action::AddService(body) => self.added(body).await?,
            _ => None,
        };
        let Some(what) = missing else {
            return Ok(Outcome::Done);
        };
        let elapsed = since.elapsed();
        let limited = !matches!(action, Action::AwaitEnd(_));
        let Some(after) = next_look(elapsed).filter(|_| !limited || elapsed < CONFIRM_LIMIT) else {
            let seconds = elapsed.as_secs();
            let message = format!("still waiting for {what} after {seconds} s");
            return Err(CloudError::new(CloudErrorKind::Unavailable, message));
        };
        let under_way = Some(UnderWay::Confirming(since));
        Ok(Outcome::Wait(what, after, under_way))
    }

    /// What is still waited for until the load balancer has an address.
    async fn address(&mut self) -> Result<Option<String>, CloudError> {
        let id = self.balancer_id()?;
        let Some(balancer) = self.shared.observer.read(id).await? else {
            if self.is_new {
                return Ok(Some(format!("load balancer {id} to be seen")));
            }
            let message = format!("load balancer {id} is gone; the plan is made anew");
            return Err(CloudError::new(CloudErrorKind::Conflict, message));
        };
        self.balancer = Some(Known::from(&balancer));
        let ready = balancer.address().is_some();
        Ok((!ready).then(|| format!("an address of load balancer {:?}", balancer.name)))
    }

    /// The answer does not name the new load balancer: it is found by its name.
    async fn made(&mut self, body: &NewLoadBalancer) -> Result<Option<String>, CloudError> {
        let list = self.shared.observer.all().await?;
        let found = list.items.iter().find(|it| it.name == body.name);
        self.balancer = found.map(Known::from);
        let missing = self.balancer.is_none();
        Ok(missing.then(|| format!("load balancer {:?} to be seen", body.name)))
    }

    /// The operation does not name the new service: it is found by its port.
    async fn added(&mut self, body: &NewService) -> Result<Option<String>, CloudError> {
        let id = self.balancer_id()?;
        let balancer: Option<LoadBalancer> = self.shared.observer.read(id).await?;
        let entrance = Entrance {
            port: body.port,
            protocol: body.protocol.clone(),
        };
        let services = balancer.map(|it| it.services.items).unwrap_or_default();
        let found = services.into_iter().find(|it| is_at(it, &entrance));
        let Some(found) = found else {
            return Ok(Some(format!("service {} to be seen", body.name)));
        };
        self.remember(&found.name, found.id);
        Ok(None)
    }
}
