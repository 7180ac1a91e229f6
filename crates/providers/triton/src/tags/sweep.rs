//! Cleans machines that no Service asks about any more: unwritable when their last Service went, or
//! with a write in flight at that time. Once a minute, while the manager leads.

use std::time::Duration;

use bowline_core::Cluster;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::{About, TagOutcome, TagReconciler};

pub const SWEEP: Duration = Duration::from_secs(60);
/// How long writes in flight are followed: until the next look.
const FOLLOWED: Duration = SWEEP;

/// Brings machines to what is wanted on them, until it is dropped.
pub(crate) async fn sweep(reconciler: &TagReconciler, cluster: &dyn Cluster) {
    loop {
        sleep(SWEEP).await;
        if cluster.is_observing() || reconciler.unreconciled().is_empty() {
            continue;
        }
        match cluster.uid().await {
            Ok(uid) => reconcile(reconciler, &uid).await,
            Err(error) => warn!(%error, "tags of machines stay as they are"),
        }
    }
}

async fn reconcile(reconciler: &TagReconciler, cluster: &str) {
    let begun = Instant::now();
    loop {
        let open = reconciler.unreconciled();
        if open.is_empty() {
            return;
        }
        let mut pause: Option<Duration> = None;
        for (machine, answer) in reconciler
            .reconcile_all(cluster, &open, About::Machine)
            .await
        {
            match answer {
                Ok(TagOutcome::Working { after }) => {
                    pause = Some(pause.map_or(after, |pause| pause.min(after)));
                }
                Ok(outcome) => debug!(%machine, ?outcome, "tags reconciled"),
                Err(error) => debug!(%machine, error = error.chain(), "tags not reconciled"),
            }
        }
        let Some(pause) = pause.filter(|_| begun.elapsed() < FOLLOWED) else {
            return;
        };
        sleep(pause).await;
    }
}
