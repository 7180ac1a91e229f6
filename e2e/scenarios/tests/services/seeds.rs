//! Random trouble: whatever happens, in the end the cloud is as wanted, nothing foreign was
//! touched, nothing leaked; and one seed is one story.

use std::time::Duration;

use bowline_http::Random;
use bowline_scenarios::cloud::{Balancer, ID, Look, Trouble};
use bowline_scenarios::objects::service;
use bowline_scenarios::seeds::assert_same;
use bowline_scenarios::{Setup, TestCluster, only_in_memory, refuse, run_scenario, run_seeds};
use bowline_simulator::faults::{Action, Rule};
use serde_json::json;

use crate::services::harness::{join, set_up};

const SERVICES: &[&str] = &["a", "b", "c"];

/// Something happens: to a Service, a node, the cloud, the API server or the manager.
async fn strike(bench: &mut TestCluster, random: &Random) {
    let name = SERVICES[usize::try_from(random.below(3)).unwrap()];
    let number = random.below(9) + 1;
    let exists = bench.find_service(name).is_some();
    match random.below(12) {
        0 | 1 if !exists => bench.create_service(service(name)).await,
        2 if exists => bench.delete_service(name).await,
        3 if exists => {
            let kind = ["LoadBalancer", "ClusterIP"][usize::from(random.below(3) == 0)];
            bench
                .patch_service(name, json!({ "spec": { "type": kind } }))
                .await;
        }
        4 if exists => {
            let ports = json!([{ "name": "p", "port": 8000 + number }]);
            bench
                .patch_service(name, json!({ "spec": { "ports": ports } }))
                .await;
        }
        5 => join(bench, &format!("n{number}")).await,
        6 if number > 3 && bench.find(&format!("n{number}")).is_some() => {
            bench.delete(&format!("n{number}")).await;
        }
        7 => bench.balancers().fail("create", Trouble::Lost, number % 3),
        8 => bench
            .balancers()
            .fail("", Trouble::Error("trouble"), number % 4),
        9 => bench.balancers().say([
            Look::Error("trouble"),
            Look::Later("it", Duration::from_secs(3)),
        ]),
        10 => bench.cluster.break_watches(),
        11 if number < 4 => {
            bench.kill().await;
            bench.start();
        }
        _ => {}
    }
    tokio::time::sleep(Duration::from_millis(random.below(4000))).await;
}

async fn story(seed: u64) -> String {
    let mut bench = set_up(Setup {
        seed,
        flags: &["--concurrent-service-syncs=2"],
        ..Setup::default()
    })
    .await;
    let foreign = Balancer {
        id: "foreign".into(),
        cluster: Some("another".into()),
        ..Balancer::default()
    };
    let planted = foreign.clone();
    bench.balancers().tamper(|all| {
        all.insert("foreign".into(), planted);
    });
    bench.balancers().take(Duration::from_millis(50));
    bench.balancers().build_for(Duration::from_secs(3));
    let path = "/api/v1/namespaces/shop/services/*";
    bench.fault(refuse(500, "PATCH", path).probability(0.1));
    bench.fault(
        Rule::new(Action::LostAnswer)
            .on("PATCH", "/api/v1/namespaces/shop/services/*")
            .probability(0.1),
    );
    bench.start();
    let random = Random::seeded(seed);
    for _ in 0..60 {
        strike(&mut bench, &random).await;
    }
    // The dust settles: more than the longest back-off.
    bench.world.faults.clear();
    bench.balancers().calm_down();
    bench.seconds(1800).await;
    check(&bench, &foreign, seed);
    bench.balancers().clear();
    bench.stop().await;
    bench.start();
    bench.seconds(300).await;
    assert_eq!(
        bench.balancers().writes(),
        [""; 0],
        "seed {seed}: a second plan is empty"
    );
    bench.world.journal.transcript()
}

fn check(bench: &TestCluster, foreign: &Balancer, seed: u64) {
    let mut balancers = bench.balancers().all();
    let at = balancers.iter().position(|it| it == foreign);
    balancers.remove(at.unwrap_or_else(|| panic!("seed {seed}: a foreign one was touched")));
    let nodes = bench.cluster.nodes();
    let mut served = 0;
    for name in SERVICES {
        let Some(service) = bench.find_service(name) else {
            continue;
        };
        if service["spec"]["type"] != "LoadBalancer" {
            assert_eq!(bench.finalizers(name), [""; 0], "seed {seed}: {name}");
            continue;
        }
        served += 1;
        let id = &service["metadata"]["annotations"][ID];
        let own = balancers.iter().find(|it| *id == it.id.as_str());
        let own = own.unwrap_or_else(|| panic!("seed {seed}: {name} has no load balancer"));
        let shown = format!("{} VIP", own.address);
        assert_eq!(bench.entrances(name), [shown], "seed {seed}");
        assert_eq!(own.members.len(), nodes.len(), "seed {seed}: {name}");
        let port = format!("TCP/{}", service["spec"]["ports"][0]["port"]);
        assert_eq!(
            own.ports.iter().collect::<Vec<_>>(),
            [&port],
            "seed {seed}: {name}"
        );
    }
    assert_eq!(balancers.len(), served, "seed {seed}: nothing leaked");
}

/// Plays one seed, and gives its transcript.
fn ended(seed: u64) -> String {
    run_scenario!(async || story(seed).await)
}

#[test]
fn whatever_happens_the_cloud_ends_as_wanted() {
    let reason = "each of the seeds takes more than half an hour of the clock";
    run_seeds!(reason, 0..15, story);
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    if !only_in_memory("no two runs on a real clock are the same to the byte") {
        return;
    }
    let (first, second) = (ended(5), ended(5));
    assert_same(&first, &second);
    assert_ne!(first, ended(6), "the seed does not matter");
}
