//! The manager as a process, against a simulated cluster and cloud on sockets.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use bowline_http::{BaseUrl, Connector, HttpClient, ProxyRules, RetryPolicy, Route, Tls};
use bowline_simulator::World;
use bowline_simulator::journal::Filter;
use bowline_simulator_cloudscale::{Cloudscale, Config, DEFAULT_TOKEN};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::kinds;
use tokio::task::spawn_blocking;

use crate::harness::{
    ANY, CloudHarness, Harness, PATIENCE, cloudscale_kubelet, end, ended, logged,
};
use crate::process::{Running, program, run};

const ORIGINAL: &str = "cloudscale-cloud-controller-manager";
const LEASE: (&str, &str) = ("kube-system", "cloud-controller-manager");

type Setup = CloudHarness<Cloudscale>;

impl Setup {
    async fn new() -> Self {
        let manifest = bowline_simulator_cloudscale::manifest();
        let harness = Harness::new(manifest, LEASE.1, ORIGINAL).await;
        let cloud = Cloudscale::new(&harness.world, Config::default());
        let (server, url) = harness.serve(cloud.clone()).await;
        Self {
            harness,
            cloud,
            url,
            _server: server,
        }
    }

    /// The original's command line, and what a test needs besides.
    fn manager(&self, kubeconfig: &Path, more: &[&str]) -> Command {
        let link = self.path(ORIGINAL);
        let original = [
            "--allow-untagged-cloud",
            "--v=3",
            "--concurrent-service-syncs=2",
        ];
        let mut command = program(&link, &original);
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(more)
            .env("CLOUDSCALE_API_URL", format!("{}/v1/", self.url))
            .env("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN);
        command
    }

    fn start(&self, more: &[&str]) -> Running {
        Running::start(self.manager(&self.path("kubeconfig"), more))
    }

    /// A machine whose kubelet joins as a node of that name.
    fn join(&self, name: &str) {
        let kubelet = cloudscale_kubelet(&self.cloud, name);
        self.fleet.join(kubelet).unwrap();
    }

    async fn initialized(&self, name: &str) {
        self.until(&format!("{name} is initialised"), |test| {
            let node = test.node(name).unwrap_or_default();
            let taints = node["spec"]["taints"].to_string();
            node["spec"]["providerID"].is_string() && !taints.contains("uninitialized")
        })
        .await;
    }

    /// The holder in the Lease; empty if it was released.
    fn holder(&self) -> Option<String> {
        let kind = kinds::by_kind("coordination.k8s.io", "v1", "Lease").unwrap();
        let lease = self.cluster.api().get(kind, LEASE.0, LEASE.1)?;
        Some(
            lease["spec"]["holderIdentity"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    }

    /// Somebody else holds that lease from now on, for so many seconds.
    fn give(&self, lease: &str, holder: &str, seconds: u32) {
        let now = self.world.clock.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ");
        let now = now.to_string();
        let object = serde_json::json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": LEASE.0, "name": lease},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 0,
                "acquireTime": now, "renewTime": now,
            },
        });
        self.cluster.install([object]).unwrap();
    }

    async fn new_holder(&self, old: &str) -> String {
        let new = |holder: &String| !holder.is_empty() && holder != old;
        self.found("somebody leads", |_| self.holder().filter(new))
            .await
    }
}

/// A port that nobody had a moment ago.
pub(crate) fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

/// What is said at that path of the serving port, after its status.
pub(crate) async fn asked(port: u16, path: &'static str) -> String {
    let tls = Tls::new().insecure(true).build().unwrap();
    let base = BaseUrl::parse(&format!("https://127.0.0.1:{port}")).unwrap();
    let connector = Connector::real(tls, ProxyRules::default());
    let client = HttpClient::builder("manager", base, connector);
    let client = client.retry(RetryPolicy::never()).build();
    let (status, body) = match client.get(Route::new(path)).send().await {
        Ok(reply) => (reply.status(), reply.bytes().to_vec()),
        Err(error) => {
            let status = error.status();
            let status = status.unwrap_or_else(|| panic!("/{path}: {error:?}"));
            (status, error.body().to_vec())
        }
    };
    format!("{status} {}", String::from_utf8(body).unwrap())
}

#[tokio::test]
async fn whom_a_manager_waits_for_is_told_in_its_log_and_at_readyz() {
    let test = Setup::new().await;
    // Longer than the test: only the word of its holder ends it.
    test.give("cloud-controller-manager-talos", "original_1", 3600);
    let port = free_port();
    let running = test.start(&[
        "--bind-address=127.0.0.1",
        &format!("--secure-port={port}"),
        "--hold-leases=cloud-controller-manager-talos",
        "--authorization-always-allow-paths=/livez,/readyz/held-leases",
    ]);
    test.join("worker-1");
    let waiting = &["waiting for the lease: it is held by original_1"];
    let running = logged(running, waiting).await;
    let path = "readyz/held-leases";
    let said = asked(port, path).await;
    let words = "waiting for lease kube-system/cloud-controller-manager-talos (--hold-leases): it is held by original_1";
    assert!(said.contains(words) && said.starts_with("500 "), "{said}");
    let said = asked(port, "livez").await;
    assert!(
        said.starts_with("200 "),
        "nothing is wrong with the process: {said}"
    );
    // It is given up: then there is something to do.
    test.give("cloud-controller-manager-talos", "", 1);
    test.initialized("worker-1").await;
    let said = asked(port, path).await;
    assert!(said.starts_with("200 "), "{said}");
    assert_eq!(end(running).await.code, Some(0));
}

#[tokio::test]
async fn a_manager_works_and_ends_on_sigterm_with_its_lease_released() {
    let test = Setup::new().await;
    let running = test.start(&["--bind-address=127.0.0.1", "--secure-port=0"]);
    test.join("worker-1");
    test.initialized("worker-1").await;
    assert_ne!(test.holder().unwrap(), "");
    let flags = &["FLAG: --concurrent-service-syncs=\"2\"", "FLAG: --v=\"3\""];
    let running = logged(running, flags).await;
    let begun = tokio::time::Instant::now();
    let ended = end(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(8), "it took {took:?}");
    assert_eq!(test.holder().as_deref(), Some(""), "the lease is released");
    for line in ["SIGTERM", "lease released", "Bowline ends"] {
        assert!(
            ended.stderr.contains(line),
            "{line} is not in {}",
            ended.stderr
        );
    }
    assert!(
        !ended.stderr.contains(DEFAULT_TOKEN),
        "the token is in the log"
    );
    let denied = Filter::any().server("kubernetes").status(403);
    let mut denied = test.world.journal.matching(&denied);
    // What tells clusters apart: work goes on without it.
    denied.retain(|it| it.path != "/api/v1/namespaces/kube-system");
    assert!(
        denied.is_empty(),
        "the original's role is enough: {denied:?}"
    );
}

#[tokio::test]
async fn cloudscale_case_18_the_version_in_the_url_is_not_doubled() {
    let test = Setup::new().await;
    let running = test.start(&["--secure-port=0"]);
    test.join("worker-1");
    test.initialized("worker-1").await;
    let calls = test
        .world
        .journal
        .matching(&Filter::any().server("cloudscale"));
    assert!(!calls.is_empty() && calls.iter().all(|call| call.path == "/v1/servers"));
    assert_eq!(end(running).await.code, Some(0));
}

#[tokio::test]
async fn cloudscale_defect_d20_no_part_of_the_token_is_logged() {
    let test = Setup::new().await;
    // A wrong one: refusals are told at length.
    let token = "Zk3vQ9pTn1XwYb7RdLs2MhUa8CeGf0Jo";
    let mut command = test.manager(&test.path("kubeconfig"), &["--secure-port=0", "--v=10"]);
    command.env("CLOUDSCALE_ACCESS_TOKEN", token);
    let running = Running::start(command);
    test.join("worker-1");
    let refused = Filter::any().server("cloudscale").status(401);
    let refused = test.world.journal.wait_for(&refused, 3);
    tokio::time::timeout(PATIENCE, refused).await.unwrap();
    let ended = end(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("401"), "{}", ended.stderr);
    for part in [token, &token[..4], "****"] {
        assert!(!ended.stderr.contains(part), "{part} is in the log");
    }
}

#[tokio::test]
async fn a_lost_lease_ends_the_program_with_an_error() {
    let test = Setup::new().await;
    let running = test.start(&["--secure-port=0"]);
    test.new_holder("").await;
    let kind = kinds::by_kind("coordination.k8s.io", "v1", "Lease").unwrap();
    let mut lease = test.cluster.api().get(kind, LEASE.0, LEASE.1).unwrap();
    lease["spec"]["holderIdentity"] = "somebody-else".into();
    lease["spec"]["leaseDurationSeconds"] = 3600.into();
    test.cluster.api().put(kind, lease);
    let ended = ended(running).await;
    ended.failed_with(&["leaderelection lost", "somebody-else"]);
    assert_eq!(
        test.holder().as_deref(),
        Some("somebody-else"),
        "it is left alone"
    );
}

/// Takes ten seconds of real time: that is how long the program waits for the API server.
#[tokio::test]
async fn an_authority_that_did_not_sign_the_api_server_is_named() {
    let test = Setup::new().await;
    // The certificate of another cluster.
    let other = Cluster::on_socket(&World::real(), ANY).await.unwrap();
    let text = other.admin_kubeconfig().unwrap();
    let text = text.replace(other.url(), test.cluster.url());
    let path = test.path("wrong-ca");
    std::fs::write(&path, text).unwrap();
    let command = test.manager(&path, &["--leader-elect=false", "--secure-port=0"]);
    let ended = spawn_blocking(|| run(command)).await.unwrap();
    let address = test.cluster.url().trim_start_matches("https://");
    ended.failed_with(&[address, "certificate"]);
}
