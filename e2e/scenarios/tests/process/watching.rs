//! API servers that restart, forget, refuse and go away while the manager works.

use std::time::Duration;

use bowline_scenarios::objects::fresh;
use bowline_scenarios::{Bench, LEASE, Setup, Sharing, refuse, scenario};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use tokio::time::Instant;

use crate::{PLAIN, check, join, stop};

const NODES: &str = "/api/v1/nodes";

/// Joins a node that the cloud knows, and waits for its initialisation.
async fn initialize(bench: &Bench, name: &str) -> Duration {
    join(bench, name).await;
    let from = Instant::now();
    bench.until_initialized(name).await;
    from.elapsed()
}

fn node_watches(bench: &Bench) -> usize {
    let watches = Filter::any().path(NODES).query("*watch=true*");
    bench.count(&watches)
}

#[test]
fn a_broken_watch_is_taken_up_again() {
    scenario!(async || {
        let bench = Bench::for_replicas(1).await;
        let manager = bench.replica("a", PLAIN).await;
        initialize(&bench, "n1").await;
        for name in ["n2", "n3", "n4"] {
            bench.cluster.break_watches();
            let took = initialize(&bench, name).await;
            check(&bench, took, 0..=4);
        }
        assert!(node_watches(&bench) >= 4);
        stop(&bench, manager).await;
    });
}

#[test]
fn a_compacted_history_during_initialisation_is_listed_anew() {
    scenario!(async || {
        // To forget, a real server is restarted.
        let bench = Bench::set_up(Setup {
            seed: 2,
            elects: true,
            sharing: Sharing::Alone,
            ..Setup::default()
        })
        .await;
        let manager = bench.replica("a", PLAIN).await;
        initialize(&bench, "n1").await;
        // The watch breaks, nodes come and go unseen, and the history is gone when it returns.
        let away = Rule::new(Action::Reset).named("away").on("GET", NODES);
        bench.fault(away);
        bench.cluster.break_watches();
        join(&bench, "n2").await;
        bench.seconds(5).await;
        bench.put(fresh("n3")).await;
        bench.delete("n3").await;
        bench.cluster.compact().await;
        bench.world.faults.remove("away");
        bench.until_initialized("n2").await;
        initialize(&bench, "n4").await;
        stop(&bench, manager).await;
    });
}

#[test]
fn a_server_that_refuses_streaming_lists_is_listed_in_pages() {
    scenario!(async || {
        let bench = Bench::for_replicas(3).await;
        let old = refuse(422, "GET", NODES);
        bench.fault(old.query("*sendInitialEvents=true*"));
        let manager = bench.replica("a", PLAIN).await;
        initialize(&bench, "n1").await;
        initialize(&bench, "n2").await;
        let streamed = Filter::any().path(NODES).query("*sendInitialEvents=true*");
        assert_eq!(bench.count(&streamed), 1, "asked once, then never again");
        let good = Filter::any().method("GET").path(NODES).status(200);
        let lists: Vec<_> = bench
            .matching(&good)
            .into_iter()
            .filter(|call| !call.query.contains("watch=true"))
            .collect();
        assert!(
            !lists.is_empty() && lists[0].query.contains("limit="),
            "{lists:?}"
        );
        bench.cluster.break_watches();
        // Even with nothing to go on from.
        if let Some(simulated) = bench.cluster.simulated() {
            simulated.api().compact();
        }
        initialize(&bench, "n3").await;
        assert_eq!(bench.count(&streamed), 1);
        stop(&bench, manager).await;
    });
}

#[test]
fn an_api_server_that_restarts_costs_a_pause_and_no_lease() {
    scenario!(async || {
        let bench = Bench::for_replicas(4).await;
        let manager = bench.replica("a", PLAIN).await;
        initialize(&bench, "n1").await;
        let holder = bench.holder(LEASE);
        // Gone for six seconds: less than the renew deadline.
        let away = Rule::new(Action::Reset).named("away").on("*", "*");
        bench.fault(away);
        bench.cluster.break_watches();
        bench.world.faults.cut_streams("kubernetes");
        bench.seconds(6).await;
        bench.world.faults.remove("away");
        let took = initialize(&bench, "n2").await;
        check(&bench, took, 0..=19);
        assert_eq!(bench.holder(LEASE), holder);
        assert!(manager.leads());
        stop(&bench, manager).await;
    });
}
