//! One of several managers of a scenario.

use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::manager::{Manager, ManagerError};
use bowline_controllers::metrics::Metrics;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::names::Names;
use crate::run::is_real;
use crate::test_cluster::{PATIENCE, REAL_PATIENCE};

/// A running manager.
pub struct Replica {
    /// Its name in the journal.
    pub name: String,
    pub(crate) metrics: Arc<Metrics>,
    names: Names,
    stop: CancellationToken,
    task: JoinHandle<Result<(), ManagerError>>,
}

impl Replica {
    pub(crate) fn start(name: &str, it: Manager, names: Names) -> Self {
        let stop = CancellationToken::new();
        Self {
            name: name.to_owned(),
            metrics: it.metrics.clone(),
            names,
            task: tokio::spawn(it.run(stop.clone())),
            stop,
        }
    }

    /// Asks it to stop, and how long that took: what SIGTERM does.
    pub async fn stop(self) -> (Result<(), ManagerError>, Duration) {
        let from = Instant::now();
        self.stop.cancel();
        let ended = self.ended().await;
        (ended, from.elapsed())
    }

    /// Waits until it ends by itself.
    pub async fn ended(self) -> Result<(), ManagerError> {
        let patience = if is_real() { REAL_PATIENCE } else { PATIENCE };
        let ended = timeout(patience, self.task).await;
        ended.expect("it ends").expect("it does not panic")
    }

    /// What SIGKILL does: nothing is finished, nothing is given back.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
        // Its detached tasks see the dropped handle as the signal.
        drop(self.stop);
    }

    /// Whether it still works.
    pub fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// Its metrics, as they are served.
    pub fn metrics(&self) -> String {
        self.names.plain(&self.metrics.text())
    }

    /// The value of a series, by its exact name with labels; none if it is not there.
    pub fn metric(&self, series: &str) -> Option<f64> {
        metric(&self.metrics(), series)
    }

    /// Whether it leads, as its metrics say.
    pub fn leads(&self) -> bool {
        let series = "leader_election_master_status{name=\"cloud-controller-manager\"}";
        self.metric(series) == Some(1.0)
    }
}

/// The value of a series in the text of metrics.
pub(crate) fn metric(text: &str, series: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    lines
        .find(|(name, _)| *name == series)
        .map(|(_, value)| value.parse().unwrap())
}
