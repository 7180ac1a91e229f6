//! Labels on nodes that no Service wants. A plan of any Service takes them away; they are left where there is no
//! Service any more, or where one cannot be understood.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, ClusterMatch, TaggedBalancer};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::api::TagValue;
use crate::balancer::Shared;
use crate::balancer::members::recorded;
use crate::balancer::naming::is_nodes_label;
use crate::tags::{About, NODE, POLL_LIMIT, Settled};

/// What the ids of such labels begin with, to tell them from those of machines.
const ID: &str = "dns-service/";
/// What is said in the place of a uid: tags have no room for it.
const UNKNOWN: &str = "unknown";
/// A list of that age is good enough to look for what is left behind.
const LIST_AGE: Duration = Duration::from_secs(30);

async fn carrying(
    shared: &Shared,
    cluster: &str,
) -> Result<BTreeMap<String, BTreeSet<Uuid>>, CloudError> {
    let listing = shared.site.roll.recent(LIST_AGE).await?;
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

/// All labels that no Service wants, as far as that is known.
pub(crate) async fn marked(shared: &Shared) -> Result<Vec<TaggedBalancer>, CloudError> {
    let Some(cluster) = shared.clb.cluster() else {
        return Ok(Vec::new());
    };
    let labels = carrying(shared, &cluster).await?;
    let left = labels.into_iter().filter(|(label, machines)| {
        let behind = || {
            let mut machines = machines.iter();
            is_nodes_label(label) && machines.any(|it| shared.keeper.wants(*it, label))
        };
        shared.memory.is_unwanted(label) && !behind()
    });
    let mark = |(label, machines): (String, BTreeSet<Uuid>)| TaggedBalancer {
        id: format!("{ID}{label}"),
        name: format!("DNS service {label} on {} machines", machines.len()),
        service_uid: UNKNOWN.to_owned(),
        cluster: ClusterMatch::Ours,
    };
    Ok(left.map(mark).collect())
}

/// Takes a label away from all nodes, if it is one of these and still nobody's; none if it is not one of these.
pub(crate) async fn remove_orphan(
    shared: &Shared,
    orphan: &TaggedBalancer,
) -> Option<Result<(), CloudError>> {
    let label = orphan.id.strip_prefix(ID)?;
    Some(remove(shared, label).await)
}

async fn remove(shared: &Shared, label: &str) -> Result<(), CloudError> {
    let cluster = shared.clb.cluster();
    let Some(cluster) = cluster.filter(|_| shared.memory.is_unwanted(label)) else {
        let text = format!("DNS service {label} may be a Service's and stays");
        return Err(CloudError::new(CloudErrorKind::Conflict, text));
    };
    let mut labels = carrying(shared, &cluster).await?;
    let mut open = labels.remove(label).unwrap_or_default();
    for machine in &open {
        shared.keeper.tell(*machine, label, None);
    }
    let begun = Instant::now();
    loop {
        let about = About::Label(label);
        let answers = shared.keeper.settle_all(&cluster, &open, about).await;
        let mut pause: Option<Duration> = None;
        for (machine, answer) in answers {
            match answer? {
                Settled::Working { after } => {
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
