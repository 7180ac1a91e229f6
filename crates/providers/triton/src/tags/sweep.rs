//! What nobody asks about any more: machines that could not be written when their last Service went, or that
//! were on their way when it did. They are seen to once a minute, for as long as the manager leads.

use std::time::Duration;

use bowline_core::Cluster;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::{About, Settled, TagReconciler};

pub const SWEEP: Duration = Duration::from_secs(60);
/// For how long what is on its way is followed: until the next look.
const FOLLOWED: Duration = SWEEP;

/// Brings machines to what is wanted on them, until it is dropped.
pub(crate) async fn sweep(keeper: &TagReconciler, cluster: &dyn Cluster) {
    loop {
        sleep(SWEEP).await;
        if cluster.is_observing() || keeper.unsettled().is_empty() {
            continue;
        }
        match cluster.uid().await {
            Ok(uid) => settle(keeper, &uid).await,
            Err(error) => warn!(%error, "tags of machines are left as they are"),
        }
    }
}

async fn settle(keeper: &TagReconciler, cluster: &str) {
    let begun = Instant::now();
    loop {
        let open = keeper.unsettled();
        if open.is_empty() {
            return;
        }
        let mut pause: Option<Duration> = None;
        for (machine, answer) in keeper.settle_all(cluster, &open, About::Machine).await {
            match answer {
                Ok(Settled::Working { after }) => {
                    pause = Some(pause.map_or(after, |pause| pause.min(after)));
                }
                Ok(settled) => debug!(%machine, ?settled, "seen to"),
                Err(error) => debug!(%machine, error = error.chain(), "not seen to"),
            }
        }
        let Some(pause) = pause.filter(|_| begun.elapsed() < FOLLOWED) else {
            return;
        };
        sleep(pause).await;
    }
}
