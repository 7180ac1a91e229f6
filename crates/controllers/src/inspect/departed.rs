//! Accounts that left the configuration, as the manager noted them on its lease: nodes and load balancers may still be theirs.

use std::sync::Arc;

use bowline_core::Cloud;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;

use super::explain::{ExplainError, unread};
use crate::clouds::accounts::{Accounts, Departed};
use crate::kube::election::LeaseName;

/// Those that are not among these clouds; none, if the manager has no lease.
pub(super) async fn departed(
    client: &kube::Client,
    lease: &LeaseName,
    clouds: &[Arc<dyn Cloud>],
) -> Result<Departed, ExplainError> {
    let api: Api<Lease> = Api::namespaced(client.clone(), &lease.namespace);
    let found = api.get_opt(&lease.name).await;
    let found = found.map_err(unread(format!("the lease {lease}")))?;
    let accounts = Accounts::default();
    if let Some(lease) = found {
        accounts.notes().learn(&lease);
    }
    Ok(accounts.departed(clouds))
}
