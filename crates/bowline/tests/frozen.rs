//! The built program as a process among others: stopped and continued, and behind a proxy.

#![cfg(feature = "sandbox")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_simulator::World;
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
use bowline_simulator_cloudscale::{Cloudscale, Config, DEFAULT_TOKEN, MachineSpec};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::kinds;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// No wait is longer. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
const ACCOUNT: &str = "system:serviceaccount:kube-system:cloud-controller-manager";
/// Short terms: a real freeze has to outlast them.
const SHORT: &[&str] = &[
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

/// A cluster and a cloud on sockets.
struct Harness {
    world: World,
    cluster: Cluster,
    cloud: Arc<Cloudscale>,
    server: Server,
    folder: TempDir,
}

/// A process that is ended with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end, on a thread of its own: the cluster has to go on meanwhile.
    async fn exit_code(mut self) -> Option<i32> {
        let waiting = tokio::task::spawn_blocking(move || self.0.wait().unwrap().code());
        let ended = tokio::time::timeout(PATIENCE, waiting).await;
        ended.expect("it ends").unwrap()
    }
}

impl Harness {
    async fn new() -> Self {
        let world = World::real();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let cluster = Cluster::on_socket(&world, any).await.unwrap();
        cluster
            .install(bowline_simulator_cloudscale::manifest())
            .unwrap();
        let cloud = Cloudscale::new(&world, Config::default());
        let server = Server::builder(&world, cloud.clone());
        let server = server.plain(any).await.unwrap();
        Self {
            world,
            cluster,
            cloud,
            server,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn cloud_address(&self) -> SocketAddr {
        self.server.local_addr().unwrap()
    }

    fn file(&self, text: &str) -> PathBuf {
        let file = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
        std::fs::write(file.path(), text).unwrap();
        file.into_temp_path().keep().unwrap()
    }

    fn command(&self, kubeconfig: &str, cloud_url: &str, more: &[&str]) -> Command {
        let kubeconfig = self.file(kubeconfig);
        let mut command = Command::new(env!("CARGO_BIN_EXE_bowline"));
        command
            .env_clear()
            .env("CLOUDSCALE_API_URL", cloud_url)
            .env("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN)
            .args(["--cloud-provider=cloudscale", "--allow-untagged-cloud"])
            .args(["--secure-port=0"])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn account_kubeconfig(&self) -> String {
        let account = ("kube-system", "cloud-controller-manager");
        self.cluster
            .account_kubeconfig(account.0, account.1)
            .unwrap()
    }

    /// A node of a machine of the cloud; one that is not ready is looked at in every round.
    fn add_node(&self, name: &str) {
        let uuid = self.cloud.add_server(&MachineSpec::named(name)).unwrap();
        let node = json!({
            "kind": "Node", "apiVersion": "v1", "metadata": { "name": name },
            "spec": { "providerID": format!("cloudscale://{uuid}") },
            "status": { "conditions": [{ "type": "Ready", "status": "Unknown" }] },
        });
        self.cluster.install([node]).unwrap();
    }

    fn holder(&self) -> String {
        let kind = kinds::by_kind("coordination.k8s.io", "v1", "Lease").unwrap();
        let lease = self
            .cluster
            .api()
            .get(kind, "kube-system", "cloud-controller-manager");
        let holder =
            lease.and_then(|lease| Some(lease["spec"]["holderIdentity"].as_str()?.to_owned()));
        holder.unwrap_or_default()
    }

    /// Waits until somebody else leads.
    async fn new_holder(&self, before: &str) -> String {
        let mut changes = self.cluster.api().store().subscribe();
        let waiting = async {
            loop {
                changes.mark_unchanged();
                let holder = self.holder();
                if !holder.is_empty() && holder != before {
                    return holder;
                }
                changes.changed().await.unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, waiting)
            .await
            .expect("somebody leads")
    }

    async fn called(&self, filter: &Filter, times: usize) {
        let waiting = self.world.journal.wait_for(filter, times);
        tokio::time::timeout(PATIENCE, waiting)
            .await
            .expect("it is called");
    }
}

#[tokio::test]
async fn framework_case_149_a_stopped_and_continued_leader_does_nothing_and_exits_1() {
    let test = Harness::new().await;
    test.add_node("n1");
    let url = format!("http://{}", test.cloud_address());
    let busy = [
        "--node-monitor-period=50ms",
        "--node-status-update-frequency=50ms",
    ];
    let flags = [SHORT, &busy].concat();
    let leader = test
        .command(&test.account_kubeconfig(), &url, &flags)
        .spawn();
    let leader = Process(leader.unwrap());
    let first = test.new_holder("").await;
    let rounds = Filter::any().server("cloudscale").method("GET");
    test.called(&rounds, 10).await;
    // The other replica runs no controller: whatever reaches the cloud later is the first one's.
    let idle = [SHORT, &["--controllers=-service"]].concat();
    let admin = test.cluster.admin_kubeconfig().unwrap();
    let standby = Process(test.command(&admin, &url, &idle).spawn().unwrap());
    leader.signal("STOP");
    let second = test.new_holder(&first).await;
    // The lease ran out seconds after the stop: nothing of the first one is under way any more.
    let mark = test.world.journal.entries().len();
    leader.signal("CONT");
    assert_eq!(leader.exit_code().await, Some(1));
    let after: Vec<_> = test
        .world
        .journal
        .entries()
        .into_iter()
        .skip(mark)
        .collect();
    let cloud = after.iter().filter(|call| call.server == "cloudscale");
    assert_eq!(cloud.count(), 0, "no cloud call after waking");
    for call in after.iter().filter(|call| call.caller == ACCOUNT) {
        assert!(!call.is_mutating(), "{call:?}");
    }
    assert_eq!(test.holder(), second);
    standby.signal("TERM");
    assert_eq!(standby.exit_code().await, Some(0));
    assert_eq!(test.holder(), "", "given back");
}

/// Passes everything on to `target` and notes the first line of each connection.
async fn proxy(target: SocketAddr, seen: Arc<Mutex<Vec<String>>>) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let seen = seen.clone();
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                let size = client.read(&mut head).await.unwrap_or(0);
                let text = String::from_utf8_lossy(&head[..size]).into_owned();
                let line = text.lines().next().unwrap_or_default().to_owned();
                seen.lock().unwrap().push(line.clone());
                let mut server = TcpStream::connect(target).await.unwrap();
                if line.starts_with("CONNECT ") {
                    let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                } else {
                    let _ = server.write_all(&head[..size]).await;
                }
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn framework_case_146_the_cloud_is_reached_through_the_proxy_and_the_api_server_is_not() {
    let test = Harness::new().await;
    test.add_node("n1");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let proxy = proxy(test.cloud_address(), seen.clone()).await;
    let cloud = "http://api.cloudscale.test/";
    let mut command = test.command(&test.account_kubeconfig(), cloud, &[]);
    command
        .env("HTTPS_PROXY", format!("http://{proxy}"))
        .env("HTTP_PROXY", format!("http://{proxy}"))
        .env("NO_PROXY", "127.0.0.1");
    let manager = Process(command.spawn().unwrap());
    let asked = Filter::any().server("cloudscale").method("GET").status(200);
    test.called(&asked, 1).await;
    assert_ne!(test.holder(), "", "the API server is reached, too");
    manager.signal("TERM");
    assert_eq!(manager.exit_code().await, Some(0));
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    assert!(
        seen.iter().all(|line| line.contains("api.cloudscale.test")),
        "{seen:?}"
    );
}
