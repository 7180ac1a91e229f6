//! A cloud that wants to exhaust the manager, or to get its credentials.

use std::process::Command;

use bowline_scenarios::objects::{fresh, silent};
use bowline_simulator_cloudscale::DEFAULT_TOKEN;
use bowline_simulator_triton::{DEFAULT_ACCOUNT, DEFAULT_PRIVATE_KEY};
use serde_json::Value;

use super::hostile::{Hostile, Manner};
use crate::harness::{Harness, end, logged};
use crate::manager::{asked, free_port};
use crate::process::{Running, bowline};

/// What a manager may ever have, in MB: its own, one answer at its limit, and what is made of it.
const BOUND: u64 = 160;
/// The same where a list comes in pages, of which all are kept: their limit as text, and what is made of it.
const BOUND_OF_PAGES: u64 = 300;
/// Nodes whose machines are asked for.
const NODES: u32 = 12;
/// Longer than a round over the nodes.
const SECONDS: &str = "2";

/// A manager before a hostile cloud, and nodes that it would like to know something about.
struct Siege {
    harness: Harness,
    cloud: Hostile,
    port: u16,
}

impl Siege {
    async fn new(manner: Manner, scheme: &str) -> Self {
        let harness = Harness::new(
            bowline_simulator_cloudscale::manifest(),
            "cloud-controller-manager",
            "unused",
        )
        .await;
        let admin = harness.cluster.admin_kubeconfig().unwrap();
        std::fs::write(harness.path("admin"), admin).unwrap();
        let old = (1..=NODES).map(|number| {
            let id = format!("{scheme}://5b1e2d3c-0000-4000-9000-{number:012}");
            silent(&format!("old-{number}"), Some(&id))
        });
        let nodes: Vec<Value> = old.chain([fresh("new")]).collect();
        harness.cluster.install(nodes).unwrap();
        Self {
            harness,
            cloud: Hostile::start(manner).await,
            port: free_port(),
        }
    }

    fn command(&self, provider: &str) -> Command {
        let mut command = bowline(&[
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--node-monitor-period=1s",
            "--v=4",
        ]);
        command
            .arg(format!("--cloud-provider={provider}"))
            .arg(format!("--secure-port={}", self.port))
            .arg(self.harness.flag("kubeconfig", "admin"));
        command
    }

    fn cloudscale(&self) -> Running {
        let mut command = self.command("cloudscale");
        command
            .env(
                "CLOUDSCALE_API_URL",
                format!("http://{}/v1/", self.cloud.address),
            )
            .env("CLOUDSCALE_API_TIMEOUT", SECONDS)
            .env("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN);
        Running::start(command)
    }

    fn triton(&self) -> Running {
        let mut command = self.command("triton");
        command
            .env("SDC_ENDPOINT", format!("http://{}", self.cloud.address))
            .env("SDC_ACCOUNT", DEFAULT_ACCOUNT)
            .env("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY);
        Running::start(command)
    }

    /// Waits until the log says why nothing comes of it, several times; then the process is well, has no more memory than
    /// that, and no Node is gone.
    async fn withstand(
        self,
        running: Running,
        reasons: &'static [&'static str],
        bound: u64,
    ) -> Self {
        let running = logged(running, reasons).await;
        let said = asked(self.port, "livez").await;
        assert!(said.starts_with("200 "), "{said}");
        let peak = running.peak_memory();
        println!("{reasons:?}: peak memory {peak} MB, bound {bound} MB");
        let ended = end(running).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(!ended.stderr.contains("panicked"), "{ended:?}");
        assert!(peak <= bound, "peak memory {peak} MB, bound {bound} MB");
        for number in 1..=NODES {
            let name = format!("old-{number}");
            assert!(self.harness.node(&name).is_some(), "{name}");
        }
        self
    }
}

#[tokio::test]
async fn a_gigabyte_of_an_answer_is_cut_off_however_it_is_sent() {
    for manner in [Manner::Streamed, Manner::Announced, Manner::Machines] {
        let siege = Siege::new(manner, "cloudscale").await;
        let running = siege.cloudscale();
        let reasons = &["answered with more than 33554432 bytes"; 3];
        siege.withstand(running, reasons, BOUND).await;
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed_and_nobody_there_is_called() {
    let thief = Hostile::start(Manner::Streamed).await;
    let siege = Siege::new(Manner::Elsewhere(thief.address), "cloudscale").await;
    let running = siege.cloudscale();
    let reasons = &["was redirected (307) and not followed"; 3];
    siege.withstand(running, reasons, BOUND).await;
    assert_eq!(thief.connections(), 0);
}

#[tokio::test]
async fn what_is_compressed_unasked_is_not_unpacked() {
    let siege = Siege::new(Manner::Bomb, "cloudscale").await;
    let running = siege.cloudscale();
    siege
        .withstand(running, &["with what is not understood"; 3], BOUND)
        .await;
}

#[tokio::test]
async fn headers_without_an_end_are_cut_off() {
    let siege = Siege::new(Manner::Headers, "cloudscale").await;
    let running = siege.cloudscale();
    siege.withstand(running, &["got no answer"; 3], BOUND).await;
}

#[tokio::test]
async fn a_byte_a_second_is_given_up() {
    let siege = Siege::new(Manner::Dripping, "cloudscale").await;
    let running = siege.cloudscale();
    let reasons = &["got no complete answer within 2 s"; 2];
    siege.withstand(running, reasons, BOUND).await;
}

#[tokio::test]
async fn pages_without_an_end_are_given_up() {
    let siege = Siege::new(Manner::Pages, "triton").await;
    let running = siege.triton();
    let reasons = &["listing machines: more than 67108864 bytes"];
    siege.withstand(running, reasons, BOUND_OF_PAGES).await;
}
