//! Load balancer machines whose Services are gone.

use bowline_core::{CloudError, CloudErrorKind, ClusterMatch, TaggedBalancer};

use super::machines::{CLUSTER_TAG, UID_TAG, is_ours};
use super::observe;
use crate::api::{Machine, TagValue};
use crate::balancer::Shared;
use crate::id::hyphenated;

/// All load balancer machines of clusters in the account.
pub(crate) async fn marked(shared: &Shared) -> Result<Vec<TaggedBalancer>, CloudError> {
    let cluster = shared.clb.cluster();
    let machines = observe::of_clusters(&shared.data_center).await?;
    Ok(machines
        .iter()
        .filter_map(|it| mark(it, cluster.as_deref()))
        .collect())
}

fn mark(machine: &Machine, cluster: Option<&str>) -> Option<TaggedBalancer> {
    let text = |key: &str| machine.tags.get(key).and_then(TagValue::as_text);
    let owner = text(CLUSTER_TAG)?;
    let cluster = match cluster {
        Some(cluster) if cluster == owner => ClusterMatch::Ours,
        Some(_) => ClusterMatch::Foreign,
        None => ClusterMatch::Unclear("names a cluster, and which one this is is not known yet"),
    };
    Some(TaggedBalancer {
        id: machine.id.to_string(),
        name: machine.name.clone(),
        service_uid: text(UID_TAG)?.to_owned(),
        cluster,
    })
}

/// Removes one that is this cluster's and still bears the same mark; unless somebody protects it.
pub(crate) async fn remove_orphan(
    shared: &Shared,
    orphan: &TaggedBalancer,
) -> Result<(), CloudError> {
    let id = hyphenated(&orphan.id).ok_or_else(|| {
        let message = format!("{:?} is not the id of a machine", orphan.id);
        CloudError::new(CloudErrorKind::Invalid, message)
    })?;
    let Some(cluster) = shared.clb.cluster() else {
        let message = "which cluster this is is not known yet";
        return Err(CloudError::new(CloudErrorKind::Unavailable, message));
    };
    let Some(machine) = observe::one(&shared.data_center, id).await? else {
        return Ok(());
    };
    let why = if !is_ours(&machine, &cluster, &orphan.service_uid) {
        "has another mark now"
    } else if machine.deletion_protection {
        "is protected from deletion"
    } else {
        shared.data_center.api.delete_machine(id).await?;
        return Ok(());
    };
    let message = format!("machine {} ({id}) {why} and stays", machine.name);
    Err(CloudError::new(CloudErrorKind::Conflict, message))
}
