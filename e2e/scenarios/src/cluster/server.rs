//! The API server itself: restarts, and a history that is forgotten.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};

use super::{Back, Cluster};
use crate::plane::ControlPlane;

/// How long a simulated server is away when it restarts: less than the renew deadline of a lease.
const AWAY: Duration = Duration::from_secs(6);

/// An earlier state of the server.
pub enum Backup {
    /// Of a simulated one.
    Revision(u64),
    /// Of a real one: what etcd keeps.
    Folder(tempfile::TempDir),
}

async fn stop(plane: &ControlPlane) {
    plane.control("kill kube-apiserver").await;
    plane.control("stop etcd").await;
}

async fn start(plane: &ControlPlane) {
    plane.control("start etcd").await;
    plane.control("start kube-apiserver").await;
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

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

    /// The state of the server now, for [`restore`](Self::restore). A real one is away for some seconds. Needs
    /// [`Sharing::Alone`].
    pub async fn backup(&self) -> Backup {
        match &self.back {
            Back::Memory(cluster) => Backup::Revision(cluster.api().store().revision()),
            Back::Real(real) => {
                assert!(real.turn.is_some(), "others use this server too");
                let folder = tempfile::tempdir().unwrap();
                stop(&real.plane).await;
                copy(&real.plane.data(), &folder.path().join("etcd"));
                start(&real.plane).await;
                Backup::Folder(folder)
            }
        }
    }

    /// Restores the server to an earlier state. It is away for some seconds, as at a restart.
    pub async fn restore(&self, backup: &Backup) {
        match (&self.back, backup) {
            (Back::Memory(cluster), Backup::Revision(revision)) => {
                assert!(cluster.api().restore(*revision));
                self.restart().await;
            }
            (Back::Real(real), Backup::Folder(folder)) => {
                stop(&real.plane).await;
                std::fs::remove_dir_all(real.plane.data()).unwrap();
                copy(&folder.path().join("etcd"), &real.plane.data());
                start(&real.plane).await;
                real.mirror.begin_anew().await;
            }
            _ => panic!("a backup of another kind of server"),
        }
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
