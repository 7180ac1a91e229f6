//! The API server itself: restarts, and a history that is forgotten.

use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};

use super::{Back, Cluster};

/// How long a simulated server is away when it restarts: less than the renew deadline of a lease.
const AWAY: Duration = Duration::from_secs(6);

impl Cluster {
    /// Ends all watches through the journal.
    pub fn break_watches(&self) {
        if let Back::Memory(cluster) = &self.back {
            cluster.api().break_watches();
        } else {
            self.world.faults.cut_streams("kubernetes");
        }
    }

    /// Restarts the API server; it is away for some seconds. Needs [`Sharing::Alone`].
    pub async fn restart(&self) {
        if let Back::Real(real) = &self.back {
            assert!(real.turn.is_some(), "others use this server too");
            real.plane.control("restart kube-apiserver").await;
            return;
        }
        let away = Rule::new(Action::Reset).named("away");
        self.world.faults.add(away).unwrap();
        self.break_watches();
        self.world.faults.cut_streams("kubernetes");
        tokio::time::sleep(AWAY).await;
        self.world.faults.remove("away");
    }

    /// Makes the server forget older versions. A real one only notices at a restart, so it gets
    /// one. Needs [`Sharing::Alone`].
    pub async fn forget_history(&self) {
        match &self.back {
            Back::Memory(cluster) => cluster.api().compact(),
            Back::Real(real) => {
                real.plane.control("compact").await;
                self.restart().await;
            }
        }
    }
}
