//! API servers that restart, forget, refuse and go away while the manager works.

use std::time::Duration;

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{LEASE, Setup, Sharing, TestCluster, is_real, refuse, scenario};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use tokio::time::Instant;

fn say(bench: &TestCluster, name: &str) {
    let found = machine(&format!("demo://{name}"), &["InternalIP:10.0.0.1"]);
    bench.cloud().say(name, Script::Machine(found));
}

/// Joins a node that the cloud knows, and waits for its initialisation.
async fn initialize(bench: &TestCluster, name: &str) -> Duration {
    say(bench, name);
    bench.put(fresh(name)).await;
    let from = Instant::now();
    bench.until_initialized(name).await;
    from.elapsed()
}

/// Everything but the manager, on a server that can be restarted.
async fn alone() -> TestCluster {
    let setup = Setup {
        sharing: Sharing::Alone,
        ..Setup::default()
    };
    TestCluster::set_up(setup).await
}

/// Reads of all nodes whose query has that in it.
fn node_reads(bench: &TestCluster, query: &str) -> Vec<Entry> {
    let entries = bench.entries().into_iter();
    entries
        .filter(|call| call.method == "GET" && call.path == "/api/v1/nodes")
        .filter(|call| call.query.contains(query))
        .collect()
}

#[scenario]
async fn a_broken_watch_is_taken_up_again() {
    let bench = TestCluster::new().await;
    initialize(&bench, "n1").await;
    for name in ["n2", "n3", "n4"] {
        bench.cluster.break_watches();
        let took = initialize(&bench, name).await;
        assert!(
            took < Duration::from_secs(5) + bench.slack(),
            "{name}: {took:?}"
        );
    }
    assert!(node_reads(&bench, "watch=true").len() >= 4);
}

#[scenario]
async fn a_compacted_history_during_initialisation_is_listed_anew() {
    let mut bench = alone().await;
    bench.start();
    initialize(&bench, "n1").await;
    // The watch breaks, nodes come and go unseen, and the history is gone when it returns.
    let away = Rule::new(Action::Reset).named("no nodes");
    bench.fault(away.on("GET", "/api/v1/nodes"));
    bench.cluster.break_watches();
    say(&bench, "n2");
    bench.put(fresh("n2")).await;
    bench.seconds(5).await;
    bench.put(fresh("n3")).await;
    bench.delete("n3").await;
    bench.cluster.forget_history().await;
    bench.world.faults.remove("no nodes");
    bench.until_initialized("n2").await;
    let lists = node_reads(&bench, "sendInitialEvents=true").len();
    assert_eq!(lists, 2, "at the start, and when its version was forgotten");
    initialize(&bench, "n4").await;
    assert!(bench.is_running());
    assert_eq!(bench.calls("n3"), []);
}

#[scenario]
async fn a_server_that_refuses_streaming_lists_is_listed_in_pages() {
    let mut bench = alone().await;
    let old = refuse(422, "GET", "/api/v1/nodes");
    bench.fault(old.query("*sendInitialEvents=true*"));
    bench.start();
    initialize(&bench, "n1").await;
    initialize(&bench, "n2").await;
    let streamed = |it: &TestCluster| node_reads(it, "sendInitialEvents=true").len();
    assert_eq!(streamed(&bench), 1, "asked once, then never again");
    let reads = node_reads(&bench, "").into_iter();
    let lists: Vec<Entry> = reads
        .filter(|call| call.status == 200 && !call.query.contains("watch=true"))
        .collect();
    assert!(
        !lists.is_empty() && lists[0].query.contains("limit="),
        "{lists:?}"
    );
    bench.cluster.break_watches();
    bench.cluster.forget_history().await;
    initialize(&bench, "n3").await;
    assert_eq!(streamed(&bench), 1);
}

#[scenario]
async fn an_api_server_that_restarts_costs_a_pause_and_no_lease() {
    let bench = alone().await;
    // A real server may be away for longer than ten seconds on a loaded machine.
    let patient = [
        "--leader-elect-lease-duration=60s",
        "--leader-elect-renew-deadline=50s",
    ];
    let flags = if is_real() { &patient[..] } else { &[] };
    let manager = bench.replica("a", flags).await;
    initialize(&bench, "n1").await;
    let holder = bench.holder(LEASE);
    bench.cluster.restart().await;
    let took = initialize(&bench, "n2").await;
    assert!(took < Duration::from_secs(20) + bench.slack(), "{took:?}");
    assert_eq!(bench.holder(LEASE), holder);
    assert!(manager.leads());
    manager.stop().await.0.unwrap();
}
