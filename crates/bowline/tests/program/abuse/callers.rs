//! Callers of the serving port who send more than anybody should take.

use std::sync::Arc;

use bowline_http::{Connector, ProxyRules, Stream, Tls};
use bowline_simulator_cloudscale::{Cloudscale, Config, DEFAULT_TOKEN};
use futures::future::join_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::{Harness, end, logged};
use crate::manager::{asked, free_port};
use crate::process::{Running, bowline};

/// What the manager may ever have, in MB: its own, and 256 connections with some buffers each.
const BOUND: u64 = 160;
const CALLERS: usize = 1000;
/// What each of them tries to send, in pieces of this size.
const PIECES: usize = 64;
const PIECE: usize = 1 << 16;

/// What a caller sends first, and then again and again.
fn manners() -> [(&'static str, String, String); 3] {
    let head = "HTTP/1.1\r\nhost: localhost\r\n";
    [
        (
            "headers",
            format!("GET /livez {head}x-more: "),
            "y".repeat(PIECE),
        ),
        (
            "bodies",
            format!("PUT /debug/flags/v {head}content-length: 1073741824\r\n\r\n"),
            "z".repeat(PIECE),
        ),
        (
            "pipelines",
            String::new(),
            format!("GET /livez {head}\r\n").repeat(1000),
        ),
    ]
}

#[tokio::test]
async fn a_thousand_callers_who_send_without_end_cost_little_memory() {
    let harness = Harness::new(
        bowline_simulator_cloudscale::manifest(),
        "cloud-controller-manager",
        "unused",
    )
    .await;
    std::fs::write(
        harness.path("admin"),
        harness.cluster.admin_kubeconfig().unwrap(),
    )
    .unwrap();
    let (_server, url) = harness
        .serve(Cloudscale::new(&harness.world, Config::default()))
        .await;
    let port = free_port();
    let mut command = bowline(&[
        "--cloud-provider=cloudscale",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
    ]);
    command
        .arg(format!("--secure-port={port}"))
        .arg(harness.flag("kubeconfig", "admin"))
        .env("CLOUDSCALE_API_URL", format!("{url}/v1/"))
        .env("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN);
    let running = logged(Running::start(command), &["serving securely"]).await;
    for (what, first, again) in manners() {
        let (first, again): (Arc<str>, Arc<str>) = (first.into(), again.into());
        let callers = (0..CALLERS).map(|_| {
            let (first, again) = (Arc::clone(&first), Arc::clone(&again));
            tokio::spawn(async move { flood(port, &first, &again).await })
        });
        let sent: u64 = join_all(callers)
            .await
            .into_iter()
            .map(|it| it.unwrap())
            .sum();
        let said = asked(port, "livez").await;
        assert!(said.starts_with("200 "), "{what}: {said}");
        println!(
            "{what}: {CALLERS} connections sent {} MB; peak memory {} MB, bound {BOUND} MB",
            sent / 1_000_000,
            running.peak_memory()
        );
        assert!(sent > 10_000_000, "{what}: nothing was sent: {sent}");
    }
    let peak = running.peak_memory();
    assert!(peak <= BOUND, "peak memory {peak} MB, bound {BOUND} MB");
    let ended = end(running).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

/// Sends until it is cut off or has sent all, without ever reading; gives how much.
async fn flood(port: u16, first: &str, again: &str) -> u64 {
    let Ok(stream) = connect(port).await else {
        return 0;
    };
    let (mut from, mut to) = tokio::io::split(stream.into_wire());
    let mut sent = 0;
    let send = async {
        to.write_all(first.as_bytes()).await?;
        for _ in 0..PIECES {
            to.write_all(again.as_bytes()).await?;
            sent += again.len() as u64;
        }
        to.flush().await
    };
    // The server's own limits of time end it where it only waits.
    let closed = async {
        let mut rest = Vec::new();
        from.read_to_end(&mut rest).await
    };
    tokio::select! {
        _ = send => {}
        _ = closed => {}
    }
    sent
}

async fn connect(port: u16) -> Result<Stream, bowline_http::ConnectError> {
    let tls = Tls::new().insecure(true).build().unwrap();
    let connector = Connector::real(tls, ProxyRules::default());
    let address = format!("https://127.0.0.1:{port}").parse().unwrap();
    connector.connect(address).await
}
