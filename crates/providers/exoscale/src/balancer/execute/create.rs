//! Making a load balancer, and not making a second one.

use std::sync::Arc;

use bowline_core::{CloudError, CloudErrorKind, not_ours};

use super::{ExoscaleActions, Started, is_lost, is_refused};
use crate::api::NewLoadBalancer;
use crate::balancer::publish::Known;
use crate::balancer::settings::table::NAME;

impl ExoscaleActions {
    /// Makes a load balancer; without labels if the cloud takes none. One that is there already,
    /// and ours, is as good.
    pub(super) async fn create(&mut self, body: &NewLoadBalancer) -> Result<Started, CloudError> {
        let shared = Arc::clone(&self.shared);
        let mut body = body.clone();
        let mut result = shared.api.create_load_balancer(&body).await;
        if let Err(error) = &result
            && is_refused(error)
            && !body.labels.is_empty()
        {
            body.labels.clear();
            self.unlabelled = true;
            result = shared.api.create_load_balancer(&body).await;
        }
        let error = match result {
            Ok(operation) => return Ok(Started::Operation(operation)),
            Err(error) => error,
        };
        let taken = error.status() == Some(409);
        if !taken && !is_lost(&error) {
            return Err(error.into());
        }
        let there = match shared.observer.all_if_allowed().await {
            Ok(Some(list)) => list.items,
            Ok(None) | Err(_) => return Err(error.into()),
        };
        let named = there.iter().find(|it| it.name == body.name).cloned();
        let own = there.iter().find(|it| self.context().is_own(it));
        // What has appeared since the lost answer is what was asked for.
        let made = named
            .clone()
            .filter(|it| !taken && self.unlabelled && it.labels.is_empty());
        match own.cloned().or(made) {
            Some(own) => {
                self.is_new = true;
                self.balancer = Some(Known::from(&own));
                Ok(Started::Nothing)
            }
            None => match named.filter(|_| taken) {
                Some(named) => {
                    let message = not_ours(NAME.key, &named.name).message;
                    Err(CloudError::new(CloudErrorKind::Conflict, message).caused_by(error))
                }
                None => Err(error.into()),
            },
        }
    }
}
