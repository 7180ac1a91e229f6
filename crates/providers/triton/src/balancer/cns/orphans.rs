//! Labels on nodes that no Service wants. The plan of any Service removes them; they remain if
//! there is no Service any more, or if one has invalid settings.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, ClusterMatch, TaggedBalancer};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::api::TagValue;
use crate::balancer::Shared;
use crate::balancer::naming::is_nodes_label;
use crate::balancer::targets::recorded;
use crate::tags::{About, NODE, POLL_LIMIT, TagOutcome};

/// Prefix of the ids of such labels, which distinguishes them from ids of machines.
const ID: &str = "dns-service/";
/// Stands in for the Service's uid, which tags have no room for.
const UNKNOWN: &str = "unknown";
/// A list of that age is good enough to find orphans.
const LIST_AGE: Duration = Duration::from_secs(30);

async fn carrying(
    shared: &Shared,
    cluster: &str,
) -> Result<BTreeMap<String, BTreeSet<Uuid>>, CloudError> {
    let listing = shared.data_center.machines.recent(LIST_AGE).await?;
    let ours = TagValue::from(cluster);
    let mut found: BTreeMap<String, BTreeSet<Uuid>> = BTreeMap::new();
    let machines = listing.machines.values();
    for machine in machines.filter(|it| it.tags.get(NODE) == Some(&ours)) {
        for label in recorded(&machine.tags) {
            let machines = found.entry(label.to_owned()).or_default();
            machines.insert(machine.id);
        }
    }
    Ok(found)
}

/// All labels that are known to be unwanted.
pub(crate) async fn marked(shared: &Shared) -> Result<Vec<TaggedBalancer>, CloudError> {
    let Some(cluster) = shared.clb.cluster() else {
        return Ok(Vec::new());
    };
    let labels = carrying(shared, &cluster).await?;
    let left = labels.into_iter().filter(|(label, machines)| {
        let is_backend = || {
            let mut machines = machines.iter();
            is_nodes_label(label) && machines.any(|it| shared.tags.wants(*it, label))
        };
        shared.state.is_unwanted(label) && !is_backend()
    });
    let mark = |(label, machines): (String, BTreeSet<Uuid>)| TaggedBalancer {
        id: format!("{ID}{label}"),
        name: format!("DNS service {label} on {} machines", machines.len()),
        service_uid: UNKNOWN.to_owned(),
        cluster: ClusterMatch::Ours,
    };
    Ok(left.map(mark).collect())
}

/// Removes such a label from all nodes, if it is still unwanted; none if the orphan is no label.
pub(crate) async fn remove_orphan(
    shared: &Shared,
    orphan: &TaggedBalancer,
) -> Option<Result<(), CloudError>> {
    let label = orphan.id.strip_prefix(ID)?;
    Some(remove(shared, label).await)
}

async fn remove(shared: &Shared, label: &str) -> Result<(), CloudError> {
    let cluster = shared.clb.cluster();
    let Some(cluster) = cluster.filter(|_| shared.state.is_unwanted(label)) else {
        let text = format!("DNS service {label} may be a Service's and stays");
        return Err(CloudError::new(CloudErrorKind::Conflict, text));
    };
    let mut labels = carrying(shared, &cluster).await?;
    let mut open = labels.remove(label).unwrap_or_default();
    for machine in &open {
        shared.tags.want(*machine, label, None);
    }
    let begun = Instant::now();
    loop {
        let about = About::Label(label);
        let answers = shared.tags.reconcile_all(&cluster, &open, about).await;
        let mut pause: Option<Duration> = None;
        for (machine, answer) in answers {
            match answer? {
                TagOutcome::Working { after } => {
                    pause = Some(pause.map_or(after, |pause| pause.min(after)));
                }
                _ => {
                    open.remove(&machine);
                }
            }
        }
        match pause.filter(|_| begun.elapsed() < POLL_LIMIT) {
            Some(pause) => sleep(pause).await,
            None => return Ok(()),
        }
    }
}
