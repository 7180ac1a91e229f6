//! Random trouble: whatever happens, in the end what is right is approved, once, and nothing else is
//! ever decided.

use std::time::Duration;

use bowline_http::Random;
use bowline_scenarios::certificates::Ask;
use bowline_scenarios::cloud::{Script, runs};
use bowline_scenarios::{Setup, TestCluster, refuse, run_seeds};
use bowline_simulator::faults::{Action, Rule};

use crate::certificates::harness::{self, ALONE, APPROVED};

const APPROVALS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests/*";
const NODES: u64 = 6;

fn address(node: u64) -> String {
    format!("10.0.1.{node}")
}

/// Something happens: a node asks, rightly or not, or the cloud, the API server or the manager
/// stumbles. What was asked for rightly is remembered.
async fn strike(
    bench: &mut TestCluster,
    random: &Random,
    at: u64,
    asked: &mut Vec<(String, bool)>,
) {
    let (node, other) = (random.below(NODES), random.below(NODES));
    let name = format!("n{node}");
    let request = format!("c{at}");
    match random.below(9) {
        0..=2 => {
            bench
                .put_request(&Ask::new(&request, &name, &[&address(node)]))
                .await;
            asked.push((request, true));
        }
        3 => {
            // Of another node, which is its own now and then.
            bench
                .put_request(&Ask::new(&request, &name, &[&address(other)]))
                .await;
            asked.push((request, node == other));
        }
        4 => {
            let ask = Ask::new(&request, &name, &[]);
            bench
                .put_request(&ask.with(|it| it.user = format!("system:node:n{other}")))
                .await;
            asked.push((request, node == other));
        }
        5 => bench.cloud().say(&name, Script::Error("trouble")),
        6 => bench.cloud().say(&name, runs(&name, &address(node))),
        7 => bench.cluster.break_watches(),
        _ if random.below(3) == 0 => {
            bench.kill().await;
            bench.start();
        }
        _ => {}
    }
    tokio::time::sleep(Duration::from_millis(random.below(3000))).await;
}

async fn story(seed: u64) {
    let mut bench = harness::set_up(Setup {
        seed,
        flags: &[ALONE],
        ..Setup::default()
    })
    .await;
    for node in 0..NODES {
        let name = format!("n{node}");
        bench.cloud().say(&name, runs(&name, &address(node)));
        let shown = format!("InternalIP:{}", address(node));
        bench.put(harness::node(&name, &[&shown])).await;
    }
    bench.fault(refuse(500, "PUT", APPROVALS).probability(0.2));
    bench.fault(refuse(409, "PUT", APPROVALS).probability(0.2));
    let lost = Rule::new(Action::LostAnswer).on("PUT", APPROVALS);
    bench.fault(lost.probability(0.2));
    bench.start();
    let (random, mut asked) = (Random::seeded(seed), Vec::new());
    for at in 0..60 {
        strike(&mut bench, &random, at, &mut asked).await;
    }
    bench.world.faults.clear();
    for node in 0..NODES {
        let name = format!("n{node}");
        bench.cloud().say(&name, runs(&name, &address(node)));
    }
    // More than the longest wait.
    bench.seconds(300).await;
    assert!(asked.iter().any(|(_, is_right)| *is_right), "seed {seed}");
    for (name, is_right) in asked {
        let wanted: &[&str] = if is_right { &[APPROVED] } else { &[] };
        assert_eq!(bench.decided(&name), wanted, "seed {seed}: {name}");
        if !is_right {
            assert!(bench.decisions(&name).is_empty(), "seed {seed}: {name}");
        }
    }
}

#[test]
fn whatever_happens_what_is_right_is_approved_and_nothing_else() {
    let reason = "hours of trouble take seconds under a paused clock";
    run_seeds!(reason, 0..6, story);
}
