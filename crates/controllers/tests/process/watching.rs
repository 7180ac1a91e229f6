//! API servers that restart, forget, refuse and go away while the manager works.

use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use tokio::time::Instant;

use crate::cloud::Answer;
use crate::stage::{LEASE, Stage, pass};

const PLAIN: &[&str] = &["--secure-port=0"];

/// Joins a node that the cloud knows, and waits for its initialisation.
async fn initialize(stage: &Stage, name: &'static str) -> Duration {
    stage.cloud.say(name, Answer::Runs("10.0.0.1"));
    stage.join(name);
    let from = Instant::now();
    stage.until_initialized(name).await;
    from.elapsed()
}

fn node_watches(stage: &Stage) -> usize {
    let watches = Filter::any().path("/api/v1/nodes").query("*watch=true*");
    stage.world.journal.count(&watches)
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_is_taken_up_again() {
    let stage = Stage::on_pipe(1);
    let manager = stage.start("a", PLAIN);
    initialize(&stage, "n1").await;
    for name in ["n2", "n3", "n4"] {
        stage.cluster.api().break_watches();
        let took = initialize(&stage, name).await;
        assert!(took < Duration::from_secs(5), "{name}: {took:?}");
    }
    assert!(node_watches(&stage) >= 4);
    manager.stop().await.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_compacted_history_during_initialisation_is_listed_anew() {
    let stage = Stage::on_pipe(2);
    let manager = stage.start("a", PLAIN);
    initialize(&stage, "n1").await;
    // The watch breaks, nodes come and go unseen, and the history is gone when it returns.
    let away = Rule::new(Action::Reset)
        .named("away")
        .on("GET", "/api/v1/nodes");
    stage.world.faults.add(away).unwrap();
    stage.cluster.api().break_watches();
    stage.cloud.say("n2", Answer::Runs("10.0.0.2"));
    stage.join("n2");
    pass(5).await;
    stage.cluster.api().compact();
    stage.join("n3");
    stage
        .cluster
        .api()
        .delete(crate::stage::kind("Node"), "", "n3");
    stage.cluster.api().compact();
    stage.world.faults.remove("away");
    stage.until_initialized("n2").await;
    initialize(&stage, "n4").await;
    manager.stop().await.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_streaming_lists_is_listed_in_pages() {
    let stage = Stage::on_pipe(3);
    let old = Action::Status {
        code: 422,
        headers: [].into(),
        body: None,
    };
    let old = Rule::new(old)
        .on("GET", "/api/v1/nodes")
        .query("*sendInitialEvents=true*");
    stage.world.faults.add(old).unwrap();
    let manager = stage.start("a", PLAIN);
    initialize(&stage, "n1").await;
    initialize(&stage, "n2").await;
    let streamed = Filter::any()
        .path("/api/v1/nodes")
        .query("*sendInitialEvents=true*");
    assert_eq!(
        stage.world.journal.count(&streamed),
        1,
        "asked once, then never again"
    );
    let lists: Vec<_> = stage
        .world
        .journal
        .matching(
            &Filter::any()
                .method("GET")
                .path("/api/v1/nodes")
                .status(200),
        )
        .into_iter()
        .filter(|call| !call.query.contains("watch=true"))
        .collect();
    assert!(
        !lists.is_empty() && lists[0].query.contains("limit="),
        "{lists:?}"
    );
    stage.cluster.api().break_watches();
    stage.cluster.api().compact();
    initialize(&stage, "n3").await;
    assert_eq!(stage.world.journal.count(&streamed), 1);
    manager.stop().await.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_restarts_costs_a_pause_and_no_lease() {
    let stage = Stage::on_pipe(4);
    let manager = stage.start("a", PLAIN);
    initialize(&stage, "n1").await;
    let holder = stage.holder(LEASE);
    // Gone for six seconds: less than the renew deadline.
    let away = Rule::new(Action::Reset).named("away").on("*", "*");
    stage.world.faults.add(away).unwrap();
    stage.cluster.api().break_watches();
    stage.world.faults.cut_streams("kubernetes");
    pass(6).await;
    stage.world.faults.remove("away");
    let took = initialize(&stage, "n2").await;
    assert!(took < Duration::from_secs(20), "{took:?}");
    assert_eq!(stage.holder(LEASE), holder);
    let status = "leader_election_master_status{name=\"cloud-controller-manager\"}";
    assert_eq!(manager.metric(status).as_deref(), Some("1"));
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn a_manager_survives_a_restart_of_the_api_server_on_real_sockets() {
    let stage = Stage::on_socket().await;
    let manager = stage.start("a", &["--secure-port=0", "--leader-elect=false"]);
    initialize(&stage, "n1").await;
    // Every connection is cut, as when the process goes away.
    let away = Rule::new(Action::Reset).named("away").on("*", "*").times(3);
    stage.world.faults.add(away).unwrap();
    stage.world.faults.cut_streams("kubernetes");
    initialize(&stage, "n2").await;
    manager.stop().await.0.unwrap();
}
