//! Random trouble: whatever happens, in the end the cloud is as wanted, nothing foreign was
//! touched, nothing leaked; and one seed is one story.

use std::time::Duration;

use bowline_http::Random;
use bowline_simulator::faults::{Action, Rule};
use serde_json::{Value, json};

use crate::bench::{Bench, refuse};
use crate::cloud::{Balancer, Fault, Look};

const SERVICES: &[&str] = &["a", "b", "c"];

fn run<T>(story: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(story)
}

/// Something happens: to a Service, a node, the cloud, the API server or the manager.
async fn strike(bench: &mut Bench, random: &Random) {
    let name = SERVICES[usize::try_from(random.below(3)).unwrap()];
    let number = random.below(9) + 1;
    let exists = bench.service(name).is_some();
    match random.below(12) {
        0 | 1 if !exists => bench.create(name).await,
        2 if exists => bench.delete(name).await,
        3 if exists => {
            let kind = ["LoadBalancer", "ClusterIP"][usize::from(random.below(3) == 0)];
            bench.patch(name, json!({ "spec": { "type": kind } })).await;
        }
        4 if exists => {
            let ports = json!([{ "name": "p", "port": 8000 + number }]);
            bench
                .patch(name, json!({ "spec": { "ports": ports } }))
                .await;
        }
        5 => bench.add_node(&format!("n{number}")),
        6 if number > 3 && bench.has_node(&format!("n{number}")) => {
            bench.delete_node(&format!("n{number}"));
        }
        7 => bench.cloud().fault("create", Fault::Lost, number % 3),
        8 => bench.cloud().fault("", Fault::Error("trouble"), number % 4),
        9 => bench.cloud().say([
            Look::Error("trouble"),
            Look::Later("it", Duration::from_secs(3)),
        ]),
        10 => bench.cluster.api().break_watches(),
        11 if number < 4 => {
            bench.kill().await;
            bench.start();
        }
        _ => {}
    }
    tokio::time::sleep(Duration::from_millis(random.below(4000))).await;
}

async fn story(seed: u64) -> String {
    let mut bench = Bench::idle(seed, &["demo"], &["--concurrent-service-syncs=2"]);
    let foreign = Balancer {
        id: "foreign".into(),
        cluster: Some("another".into()),
        ..Balancer::default()
    };
    let planted = foreign.clone();
    bench.cloud().tamper(|all| {
        all.insert("foreign".into(), planted);
    });
    bench.cloud().take(Duration::from_millis(50));
    bench.cloud().build_for(Duration::from_secs(3));
    let path = "/api/v1/namespaces/default/services/*";
    bench.fault(refuse(500, "PATCH", path).probability(0.1));
    bench.fault(
        Rule::new(Action::LostAnswer)
            .on("PATCH", "/api/v1/namespaces/default/services/*")
            .probability(0.1),
    );
    bench.start();
    let random = Random::seeded(seed);
    for _ in 0..60 {
        strike(&mut bench, &random).await;
    }
    // The dust settles: more than the longest back-off.
    bench.world.faults.clear();
    bench.cloud().calm_down();
    bench.seconds(1800).await;
    check(&bench, &foreign, seed);
    bench.cloud().clear();
    bench.stop().await;
    bench.start();
    bench.seconds(300).await;
    assert_eq!(
        bench.cloud().writes(),
        [""; 0],
        "seed {seed}: a second plan is empty"
    );
    bench.world.journal.transcript()
}

fn check(bench: &Bench, foreign: &Balancer, seed: u64) {
    let mut balancers = bench.cloud().balancers();
    let at = balancers.iter().position(|it| it == foreign);
    balancers.remove(at.unwrap_or_else(|| panic!("seed {seed}: a foreign one was touched")));
    let nodes = bench.cluster.api().list(crate::bench::kind("Node"), None);
    let mut served = 0;
    for name in SERVICES {
        let Some(service) = bench.service(name) else {
            continue;
        };
        let finalizers = &service["metadata"]["finalizers"];
        if service["spec"]["type"] != "LoadBalancer" {
            assert_eq!(*finalizers, Value::Null, "seed {seed}: {name}");
            continue;
        }
        served += 1;
        let id = &service["metadata"]["annotations"]["demo.test/id"];
        let own = balancers.iter().find(|it| *id == it.id.as_str());
        let own = own.unwrap_or_else(|| panic!("seed {seed}: {name} has no load balancer"));
        assert_eq!(
            bench.ingress(name)[0]["ip"],
            own.address.as_str(),
            "seed {seed}"
        );
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

#[test]
fn whatever_happens_the_cloud_ends_as_wanted() {
    for seed in 0..40 {
        run(story(seed));
    }
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    let (first, second) = (run(story(5)), run(story(5)));
    for (number, (one, other)) in first.lines().zip(second.lines()).enumerate() {
        assert_eq!(one, other, "the runs part at call {number}");
    }
    assert_eq!(first.len(), second.len());
    assert_ne!(first, run(story(6)), "the seed does not matter");
}
