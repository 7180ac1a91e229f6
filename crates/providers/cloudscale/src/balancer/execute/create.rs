//! Creates objects: what is refused for want of room is tried again, and what may have been made
//! although the answer got lost is looked for.

use bowline_core::{CloudError, CloudErrorKind, Notice, StepId, StepOutcome};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::notices::NODE_SKIPPED;
use super::{CloudscaleActions, is_lost, is_refused, recover, with};

impl CloudscaleActions {
    /// Looks for the name once more, with a list of this very moment: nothing is made twice because
    /// somebody else, or an answer that got lost, was faster.
    pub(super) async fn create_balancer(
        &mut self,
        body: &Map<String, Value>,
    ) -> Result<StepOutcome, CloudError> {
        let api = &self.shared.api;
        if let Some(there) = recover::balancer(api, body).await? {
            let message = format!(
                "load balancer {:?} has appeared since the plan was made; it is made anew",
                there.name
            );
            return Err(CloudError::new(CloudErrorKind::Conflict, message));
        }
        let balancer = match api.create_load_balancer(body).await {
            Ok(balancer) => balancer,
            Err(error) if is_lost(&error) => match recover::balancer(api, body).await {
                Ok(Some(balancer)) if recover::carries(&balancer, body) => balancer,
                Ok(_) | Err(_) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        };
        self.balancer = Some(balancer);
        self.is_new = true;
        Ok(StepOutcome::Done)
    }

    pub(super) async fn create_pool(
        &mut self,
        step: StepId,
        body: &Map<String, Value>,
    ) -> Result<StepOutcome, CloudError> {
        let api = &self.shared.api;
        let body = with(body, "load_balancer", self.balancer_id()?);
        let pool = match api.create_pool(&body).await {
            Ok(pool) => pool.uuid,
            Err(error) => recover::pool(api, &body, error).await?,
        };
        self.made.insert(step, pool);
        Ok(StepOutcome::Done)
    }

    /// A member that the cloud does not take is a node less, not the end of the others.
    pub(super) async fn create_member(
        &mut self,
        step: StepId,
        pool: Uuid,
        body: &Map<String, Value>,
        node: &str,
        after_delete: bool,
    ) -> Result<StepOutcome, CloudError> {
        let api = &self.shared.api;
        match api.create_member(pool, body).await {
            Ok(_) => Ok(StepOutcome::Done),
            Err(error) if is_refused(&error) && after_delete => self.wait_for_room(step, error),
            // Refused because it is there, perhaps by a request whose answer got lost.
            Err(error) if is_refused(&error) && recover::is_member(api, pool, body).await => {
                tracing::debug!(%error, node, "it is a member already");
                Ok(StepOutcome::Done)
            }
            Err(error) if is_refused(&error) => {
                let name = body.get("name").and_then(Value::as_str).unwrap_or_default();
                Ok(StepOutcome::Skipped(Notice {
                    warning: true,
                    reason: NODE_SKIPPED,
                    message: format!("node {node} is no member as {name}: {error}"),
                }))
            }
            Err(error) => recover::member(api, pool, body, error).await,
        }
    }

    pub(super) async fn create_listener(
        &mut self,
        step: StepId,
        pool: Uuid,
        body: &Map<String, Value>,
        after_delete: bool,
    ) -> Result<StepOutcome, CloudError> {
        let api = &self.shared.api;
        let body = with(body, "pool", pool);
        match api.create_listener(&body).await {
            Ok(_) => Ok(StepOutcome::Done),
            Err(error) if is_refused(&error) && after_delete => self.wait_for_room(step, error),
            Err(error) => recover::listener(api, &body, error).await,
        }
    }

    pub(super) async fn create_monitor(
        &mut self,
        step: StepId,
        pool: Uuid,
        body: &Map<String, Value>,
        after_delete: bool,
    ) -> Result<StepOutcome, CloudError> {
        let api = &self.shared.api;
        match api.create_monitor(&with(body, "pool", pool)).await {
            Ok(_) => Ok(StepOutcome::Done),
            Err(error) if is_refused(&error) && after_delete => self.wait_for_room(step, error),
            Err(error) => recover::monitor(api, pool, error).await,
        }
    }
}
