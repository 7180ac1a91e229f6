//! Several managers as processes, and what happens to them when others die: the leader, or the
//! API server. On a simulated cluster, or on a real one if `BOWLINE_CONTROL_PLANE` names it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::UNINITIALIZED_TAINT;
use bowline_scenarios::plane::ControlPlane;
use bowline_scenarios::{is_real, rights, tell};
use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use bowline_simulator::serve::Server;
use bowline_simulator_cloudscale::{Cloudscale, Config, DEFAULT_TOKEN};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::fleet::{self, Fleet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::harness::cloudscale_kubelet;
use crate::process::{Running, program};

/// No wait is longer. The machine may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
const LEASE: (&str, &str) = ("kube-system", "cloud-controller-manager");
const ACCOUNT: &str = "system:serviceaccount:kube-system:cloud-controller-manager";
/// Terms that outlast a restart of the API server on a busy machine.
const LONG_TERMS: &[&str] = &[
    "--leader-elect-lease-duration=90s",
    "--leader-elect-renew-deadline=80s",
    "--leader-elect-retry-period=2s",
];

/// Where the managers find their cluster.
enum Back {
    Memory(Box<Cluster>),
    Real(Arc<ControlPlane>),
}

/// A cluster with the original's role, a cloud, and kubelets.
struct Setup {
    world: World,
    back: Back,
    admin: Client,
    kubeconfig: PathBuf,
    cloud: Arc<Cloudscale>,
    cloud_url: String,
    fleet: Fleet,
    _folder: TempDir,
    _server: Server,
}

impl Setup {
    async fn new() -> Self {
        let world = World::real();
        let folder = tempfile::tempdir().unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (back, admin, kubeconfig) = if is_real() {
            on_a_real_server().await
        } else {
            let cluster = Cluster::on_socket(&world, any).await.unwrap();
            cluster
                .install(bowline_simulator_cloudscale::manifest())
                .unwrap();
            let text = cluster.account_kubeconfig(LEASE.0, LEASE.1).unwrap();
            let path = folder.path().join("kubeconfig");
            std::fs::write(&path, text).unwrap();
            let admin = cluster.admin().unwrap();
            (Back::Memory(Box::new(cluster)), admin, path)
        };
        let cloud = Cloudscale::new(&world, Config::default());
        let server = Server::builder(&world, cloud.clone());
        let server = server.plain(any).await.unwrap();
        Self {
            fleet: Fleet::new(&world, admin.clone(), fleet::Settings::default()),
            world,
            back,
            admin,
            kubeconfig,
            cloud,
            cloud_url: format!("http://{}/", server.local_addr().unwrap()),
            _folder: folder,
            _server: server,
        }
    }

    /// A manager with the original's environment.
    fn start(&self, more: &[&str]) -> Running {
        let original = ["--cloud-provider=cloudscale", "--allow-untagged-cloud"];
        let mut command = program(env!("CARGO_BIN_EXE_bowline").as_ref(), &original);
        command
            .args(["--secure-port=0", "--v=2"])
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .args(more)
            .env("CLOUDSCALE_API_URL", &self.cloud_url)
            .env("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN);
        Running::start(command)
    }

    /// A machine whose kubelet joins as a node of that name.
    fn join(&self, name: &str) {
        let kubelet = cloudscale_kubelet(&self.cloud, name);
        self.fleet.join(kubelet).unwrap();
    }

    async fn initialized(&self, name: &str) {
        let nodes: Api<Node> = Api::all(self.admin.clone());
        let initialized = |node: Option<&Node>| {
            node.and_then(|node| node.spec.as_ref())
                .is_some_and(|spec| {
                    let taints = spec.taints.iter().flatten();
                    let fresh = taints.into_iter().any(|it| it.key == UNINITIALIZED_TAINT);
                    spec.provider_id.is_some() && !fresh
                })
        };
        let waiting = await_condition(nodes, name, initialized);
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        let waited = waited.unwrap_or_else(|_| panic!("{name} is not initialised"));
        waited.unwrap();
    }

    /// Waits until somebody else than `old` leads.
    async fn new_holder(&self, old: &str) -> String {
        let leases: Api<Lease> = Api::namespaced(self.admin.clone(), LEASE.0);
        let other = |lease: Option<&Lease>| {
            holder(lease).is_some_and(|holder| !holder.is_empty() && holder != old)
        };
        let waiting = await_condition(leases, LEASE.1, other);
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        let lease = waited.expect("nobody leads").unwrap();
        holder(lease.as_ref()).unwrap().to_owned()
    }

    /// The leader, and another that waits; and the leader's name.
    async fn two(&self) -> (Running, Running, String) {
        let leader = self.start(&[]);
        let name = self.new_holder("").await;
        let standby = logged(self.start(&[]), "waiting for the lease: it is held by").await;
        (leader, standby, name)
    }

    fn plane(&self) -> &ControlPlane {
        match &self.back {
            Back::Real(plane) => plane,
            Back::Memory(cluster) => panic!("{} is simulated", cluster.url()),
        }
    }
}

async fn on_a_real_server() -> (Back, Client, PathBuf) {
    let plane = ControlPlane::start();
    let admin = Client::try_from(plane.admin().await).unwrap();
    for object in bowline_simulator_cloudscale::manifest() {
        rights::apply(admin.clone(), object).await;
    }
    let leases = ("create", "coordination.k8s.io", "leases");
    rights::until_allowed(admin.clone(), ACCOUNT, leases.0, leases.1, leases.2).await;
    rights::until_allowed(admin.clone(), ACCOUNT, "watch", "", "nodes").await;
    let command = format!("account {} {}", LEASE.0, LEASE.1);
    let answer = plane.control(&command).await;
    let kubeconfig = answer["kubeconfig"].as_str().unwrap().into();
    (Back::Real(plane), admin, kubeconfig)
}

fn holder(lease: Option<&Lease>) -> Option<&str> {
    lease?.spec.as_ref()?.holder_identity.as_deref()
}

/// Waits for a line of the log, on a thread of its own: the servers here have to go on meanwhile.
async fn logged(mut running: Running, text: &'static str) -> Running {
    let waiting = move || {
        running.logs(text);
        running
    };
    spawn_blocking(waiting).await.unwrap()
}

/// Ends it the way a pod is ended.
async fn terminate(running: Running) {
    end_with(running, "TERM").await;
}

async fn end_with(running: Running, signal: &str) {
    running.signal(signal);
    let ended = spawn_blocking(|| running.end()).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[tokio::test]
async fn framework_case_118_a_leader_that_is_killed_is_replaced_when_its_lease_has_run_out() {
    let test = Setup::new().await;
    let (leader, standby, name) = test.two().await;
    let killed = Instant::now();
    leader.signal("KILL");
    test.new_holder(&name).await;
    let took = killed.elapsed();
    tell(&format!(
        "take-over after SIGKILL: {:.1} s",
        took.as_secs_f64()
    ));
    test.join("worker-1");
    test.initialized("worker-1").await;
    terminate(standby).await;
}

#[tokio::test]
async fn framework_case_118_a_leader_that_is_asked_to_stop_is_replaced_at_once() {
    let test = Setup::new().await;
    let (leader, standby, name) = test.two().await;
    let asked = Instant::now();
    leader.signal("TERM");
    test.new_holder(&name).await;
    let took = asked.elapsed();
    tell(&format!(
        "take-over after SIGTERM: {:.1} s",
        took.as_secs_f64()
    ));
    let ended = spawn_blocking(|| leader.end()).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    test.join("worker-1");
    test.initialized("worker-1").await;
    // Ctrl-C ends it as well.
    end_with(standby, "INT").await;
}

#[tokio::test]
#[ignore = "needs a real control plane: e2e/run has one"]
async fn nodes_are_initialised_although_the_api_server_dies_in_the_middle() {
    let test = Setup::new().await;
    let (least, most) = (Duration::from_secs(2), Duration::from_secs(2));
    let slow = Rule::new(Action::Delay { least, most }).server("cloudscale");
    test.world.faults.add(slow).unwrap();
    let manager = test.start(LONG_TERMS);
    let leader = test.new_holder("").await;
    let names: Vec<String> = (0..20).map(|number| format!("worker-{number}")).collect();
    for name in &names {
        test.join(name);
    }
    // The cloud is about to answer; what follows from that meets no server.
    let asked = Filter::any().server("cloudscale").path("/v1/servers*");
    let asked = test.world.journal.wait_for(&asked, 1);
    tokio::time::timeout(PATIENCE, asked).await.unwrap();
    test.plane().control("kill kube-apiserver").await;
    let down = Instant::now();
    test.plane().control("start kube-apiserver").await;
    tell(&format!(
        "API server gone for {:.1} s",
        down.elapsed().as_secs_f64()
    ));
    for name in &names {
        test.initialized(name).await;
    }
    assert_eq!(test.new_holder("").await, leader, "it never gave up");
    terminate(manager).await;
}

#[tokio::test]
#[ignore = "needs a real control plane: e2e/run has one"]
async fn a_watch_whose_past_is_compacted_away_begins_anew() {
    let test = Setup::new().await;
    let manager = test.start(LONG_TERMS);
    test.join("worker-1");
    test.initialized("worker-1").await;
    // What others write makes the version that the watch knows an old one.
    let maps: Api<ConfigMap> = Api::namespaced(test.admin.clone(), "default");
    for number in 0..10 {
        let map = json!({ "metadata": { "name": format!("filler-{number}") } });
        let map = serde_json::from_value(map).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    test.plane().control("compact").await;
    test.plane().control("restart kube-apiserver").await;
    let manager = logged(manager, "too old resource version").await;
    test.join("worker-2");
    test.initialized("worker-2").await;
    terminate(manager).await;
}
