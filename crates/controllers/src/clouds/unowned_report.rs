//! Reports unmanaged nodes: how many in a metric, which in the log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Node, Ownership};
use tokio::time::timeout;
use tracing::info;

use crate::clouds::resolver::OwnershipResolver;
use crate::kube::nodes::Nodes;
use crate::metrics::Metrics;
use crate::report::Reported;
use tokio_util::sync::CancellationToken;

/// How often it is looked at. Nobody waits for it, and it costs no call.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// Nodes that one line of the log names.
const NAMED_LIMIT: usize = 20;

/// Reports until `stop`, in configurations with several clouds: where there is one, and was no other, nodes of others are no
/// surprise.
pub(crate) async fn report(
    resolver: OwnershipResolver,
    nodes: Nodes,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) {
    let is_alone = resolver.clouds().len() < 2 && !resolver.remembers();
    if is_alone || stop.run_until_cancelled(nodes.synced()).await.is_none() {
        return;
    }
    let reported = Reported::new(Ownership::UNOWNED.len());
    let mut changes = resolver.changes();
    loop {
        let all = unowned(&resolver, &nodes.all());
        for why in Ownership::UNOWNED {
            let names = all.get(why).map_or(0, Vec::len);
            metrics.clouds.left_alone(why, names);
        }
        for (why, names) in &all {
            if !reported.is_new(*why, names) {
                continue;
            }
            let (count, first) = (names.len(), names.iter().take(NAMED_LIMIT));
            let first: Vec<&str> = first.map(String::as_str).collect();
            info!(why, count, "unmanaged nodes: {}", first.join(", "));
        }
        reported.end_round(true);
        // Owners that were found out are counted at once.
        let pause = timeout(LOOK_EVERY, changes.changed());
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

/// The names of nodes that have no owner, by why.
fn unowned(
    resolver: &OwnershipResolver,
    nodes: &[Arc<Node>],
) -> BTreeMap<&'static str, Vec<String>> {
    let mut all: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for node in nodes.iter().filter(|it| !resolver.is_to_be_asked(it)) {
        let why = match resolver.ownership(node) {
            Some(ownership) => ownership.unowned(),
            None => Some(Ownership::UNIDENTIFIED),
        };
        if let Some(why) = why {
            all.entry(why).or_default().push(node.name.clone());
        }
    }
    all
}
