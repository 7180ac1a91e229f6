//! What processes work on: a cluster on a socket, kubelets, and a folder with what they read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::serve::{Api, Server};
use bowline_simulator::{KubeletSpec, World};
use bowline_simulator_cloudscale::{Cloudscale, MachineSpec};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::fleet::{self, Fleet};
use bowline_simulator_kubernetes::kinds;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use crate::process::{Ended, Running};

/// No wait on the cluster's state is longer. The machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Any port of this machine.
pub(crate) const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

pub(crate) struct Harness {
    pub(crate) world: World,
    pub(crate) cluster: Cluster,
    pub(crate) fleet: Fleet,
    pub(crate) folder: TempDir,
}

impl Harness {
    /// With the objects of an original's manifest, a kubeconfig of that account of it, and the program under the name
    /// of its command.
    pub(crate) async fn new(manifest: Vec<Value>, account: &str, command: &str) -> Self {
        let world = World::real();
        let cluster = Cluster::on_socket(&world, ANY).await.unwrap();
        cluster.install(manifest).unwrap();
        let fleet = Fleet::new(&world, cluster.admin().unwrap(), fleet::Settings::default());
        let folder = tempfile::tempdir().unwrap();
        let text = cluster.account_kubeconfig("kube-system", account).unwrap();
        std::fs::write(folder.path().join("kubeconfig"), text).unwrap();
        let link = folder.path().join(command);
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bowline"), link).unwrap();
        Self {
            world,
            cluster,
            fleet,
            folder,
        }
    }

    /// Serves a cloud, and gives its URL.
    pub(crate) async fn serve(&self, cloud: Arc<dyn Api>) -> (Server, String) {
        let server = Server::builder(&self.world, cloud);
        let server = server.plain(ANY).await.unwrap();
        let url = format!("http://{}", server.local_addr().unwrap());
        (server, url)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A flag whose value is one of the files.
    pub(crate) fn flag(&self, flag: &str, file: &str) -> String {
        format!("--{flag}={}", self.path(file).display())
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        let kind = kinds::by_kind("", "v1", "Node").unwrap();
        self.cluster.api().get(kind, "", name)
    }

    pub(crate) async fn until(&self, what: &str, is: impl Fn(&Self) -> bool) {
        self.found(what, |it| is(it).then_some(())).await;
    }

    /// Waits until that is found in the cluster.
    pub(crate) async fn found<T>(&self, what: &str, find: impl Fn(&Self) -> Option<T>) -> T {
        let mut writes = self.cluster.api().store().subscribe();
        let waiting = async {
            loop {
                writes.mark_unchanged();
                if let Some(found) = find(self) {
                    return found;
                }
                writes.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(PATIENCE, waiting).await;
        found.unwrap_or_else(|_| panic!("{what}: not within {PATIENCE:?}"))
    }
}

/// The same with a simulated cloud that is served.
pub(crate) struct CloudHarness<C> {
    pub(crate) harness: Harness,
    pub(crate) cloud: Arc<C>,
    pub(crate) url: String,
    pub(crate) _server: Server,
}

impl<C> Deref for CloudHarness<C> {
    type Target = Harness;

    fn deref(&self) -> &Harness {
        &self.harness
    }
}

/// A server of cloudscale.ch, and the kubelet on it.
pub(crate) fn cloudscale_kubelet(cloud: &Cloudscale, name: &str) -> KubeletSpec {
    let uuid = cloud.add_server(&MachineSpec::named(name)).unwrap();
    KubeletSpec {
        node_name: name.to_owned(),
        machine_id: format!("cloudscale://{uuid}"),
        ..KubeletSpec::default()
    }
}

/// Asks the process to end, and waits for it.
pub(crate) async fn end(running: Running) -> Ended {
    running.signal("TERM");
    ended(running).await
}

/// Waits for the end on a thread of its own: the cluster has to go on meanwhile.
pub(crate) async fn ended(running: Running) -> Ended {
    spawn_blocking(|| running.end()).await.unwrap()
}

/// Waits the same way for lines of the log.
pub(crate) async fn logged(mut running: Running, lines: &'static [&'static str]) -> Running {
    let waiting = move || {
        for line in lines {
            running.logs(line);
        }
        running
    };
    spawn_blocking(waiting).await.unwrap()
}
