//! One seed, one story: under a paused clock the same seed gives the same calls, byte for byte.

use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::machines::Power;
use bowline_simulator_kubernetes::fleet::{Fleet, Settings};
use bowline_simulator_kubernetes::monitor;

use bowline_scenarios::objects::{SHUTDOWN, taints};
use bowline_scenarios::seeds::assert_same;
use bowline_scenarios::{Setup, TestCluster, only_in_memory, refuse};

/// Runs a story on a runtime of its own, as a process would.
pub(crate) fn run<T>(story: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(story)
}

/// Makes a machine of the cloud `demo` and starts a kubelet on it.
pub(crate) fn join(bench: &TestCluster, fleet: &Fleet, name: &str) {
    bench.cluster.join(fleet, name, &format!("demo://{name}"));
}

pub(crate) fn has_shutdown_taint(bench: &TestCluster, name: &str) -> bool {
    let taint = format!("{SHUTDOWN}:NoSchedule");
    bench
        .find(name)
        .is_some_and(|node| taints(&node).contains(&taint))
}

/// Thirty nodes join while the API server is unwell; then a stop, a destroy and a restart.
async fn thirty_nodes(seed: u64) -> String {
    let mut bench = TestCluster::set_up(Setup {
        seed,
        ..Setup::default()
    })
    .await;
    bench.cloud().follow(&bench.world.machines);
    let fleet = bench.cluster.fleet(Settings::default());
    let _monitor = bench.cluster.monitor(monitor::Settings::default());
    bench.fault(refuse(500, "PATCH", "/api/v1/nodes/*").probability(0.2));
    bench.fault(refuse(409, "PATCH", "/api/v1/nodes/*").probability(0.1));
    bench.fault(
        Rule::new(Action::Reset)
            .on("POST", "/api/v1/nodes")
            .probability(0.2),
    );
    bench.fault(
        Rule::new(Action::LostAnswer)
            .on("PATCH", "/api/v1/nodes/*")
            .probability(0.1),
    );
    let (least, most) = (Duration::from_millis(1), Duration::from_millis(400));
    bench.fault(Rule::new(Action::Delay { least, most }).probability(0.3));
    bench.cloud().fail_with(0.3);
    bench.start();
    let names: Vec<String> = (0..30).map(|number| format!("worker-{number}")).collect();
    for name in &names {
        join(&bench, &fleet, name);
    }
    bench
        .until("all are initialised", |it| {
            names.iter().all(|name| it.is_initialized(name))
        })
        .await;
    bench.seconds(60).await;
    let machines = bench.world.machines.clone();
    machines.set("demo://worker-3", Power::Off);
    bench
        .until("a stop is seen", |it| has_shutdown_taint(it, "worker-3"))
        .await;
    machines.destroy("demo://worker-4");
    bench.until_deleted("worker-4").await;
    bench.stop().await;
    machines.set("demo://worker-3", Power::Running);
    bench.seconds(30).await;
    bench.start();
    bench
        .until("a start is seen", |it| !has_shutdown_taint(it, "worker-3"))
        .await;
    bench.seconds(60).await;
    bench.world.journal.transcript()
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    if !only_in_memory("no two runs on a real clock are the same to the byte") {
        return;
    }
    let (first, second) = (run(thirty_nodes(11)), run(thirty_nodes(11)));
    assert_same(&first, &second);
    assert!(first.lines().count() > 1000);
    assert_ne!(first, run(thirty_nodes(12)), "the seed does not matter");
}
