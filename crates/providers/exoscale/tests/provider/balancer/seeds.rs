//! Random changes on a cloud that fails at random, and crashes: after the dust settles all is as wanted,
//! nothing exists twice, and nothing of others was touched.

use std::collections::BTreeMap;

use bowline_core::{Goal, TrafficPolicy};
use bowline_http::Random;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_exoscale::BalancerInfo;

use super::shop::{L1, Shop, port};
use crate::stage::{I3, P1, P2, of};

/// Seeds that are tried; a failure names its own.
const SEEDS: u64 = 25;
/// Changes of the Service in one run.
const CHANGES: u64 = 6;
/// Tries for each change while the cloud fails, and once it does not.
const TRIES: u32 = 3;

fn pick<T: Clone>(random: &Random, choices: &[T]) -> T {
    let at = usize::try_from(random.below(choices.len() as u64)).unwrap();
    choices[at].clone()
}

/// Everything goes wrong now and then.
fn trouble(shop: &Shop) {
    let unavailable = Action::Status {
        code: 503,
        headers: BTreeMap::new(),
        body: None,
    };
    for (name, action) in [
        ("lost", Action::LostAnswer),
        ("reset", Action::Reset),
        ("page", Action::Html { code: 502 }),
        ("half", Action::Truncated),
        ("unavailable", unavailable),
    ] {
        let rule = Rule::new(action).named(name).probability(0.05);
        shop.stage.world.faults.add(rule).unwrap();
    }
}

/// Changes something that a person may change.
fn change(shop: &mut Shop, random: &Random) {
    match random.below(8) {
        0 => {
            let all = [
                port("TCP", 80, 30080),
                port("TCP", 443, 30443),
                port("UDP", 443, 31443),
            ];
            let count = 1 + usize::try_from(random.below(3)).unwrap();
            let from = usize::try_from(random.below(3)).unwrap();
            let chosen = (0..count).map(|at| all[(from + at) % 3].clone());
            shop.service.ports = chosen.collect();
        }
        1 => {
            let node_port = pick(random, &[30080, 30090]);
            shop.service.ports[0].node_port = node_port;
        }
        2 => {
            let value = pick(random, &["round-robin", "source-hash", "hash"]);
            shop.set("service-strategy", value);
        }
        3 => {
            let local = random.below(2) == 1;
            shop.service.traffic_policy = if local {
                TrafficPolicy::Local
            } else {
                TrafficPolicy::Cluster
            };
            shop.service.health_check_node_port = local.then_some(32100);
        }
        4 => {
            let pool = pick(random, &[P1, P2]);
            shop.set("service-instancepool-id", pool);
        }
        5 => {
            let value = pick(random, &["", "shop-web", "web-shop"]);
            shop.set("name", value);
        }
        6 => {
            let value = pick(random, &["", "front", "back"]);
            shop.set("description", value)
                .set("service-description", value);
        }
        _ => {
            let value = pick(random, &["", "x", "y"]);
            shop.set("service-name", value);
        }
    }
}

async fn run(seed: u64) -> String {
    let mut shop = Shop::seeded(seed, "").await;
    let random = Random::seeded(seed);
    // Both pools have nodes of the cluster.
    shop.nodes.push(of(I3));
    shop.set("service-instancepool-id", P1);
    shop.place("theirs", &[("a", 80), ("b", 443)]);
    let theirs = |shop: &Shop| -> BalancerInfo {
        let mut all = shop.all().into_iter();
        all.find(|it| it.id == L1).unwrap()
    };
    let before = theirs(&shop);
    for _ in 0..CHANGES {
        change(&mut shop, &random);
        trouble(&shop);
        for _ in 0..TRIES {
            let looks = random.below(20);
            let kept = shop.service.clone();
            shop.until_crash(Goal::Present, looks).await;
            match random.below(4) {
                // The last writes to the cluster were lost with the process.
                0 => {
                    shop.service.annotations = kept.annotations;
                    shop.service.conditions = kept.conditions;
                }
                1 => {
                    shop.stage.world.faults.clear();
                    shop.stage.restart().await;
                    trouble(&shop);
                }
                _ => {}
            }
        }
        shop.stage.world.faults.clear();
        shop.wait(5).await;
        // A service with a chosen name is known again once it was seen in its place: what is changed before that leaves
        // it behind, and that is not what is tried here.
        let strategy = shop.get("service-strategy").to_owned();
        shop.set("service-strategy", "source-hash");
        for _ in 0..TRIES {
            shop.ensure().await;
        }
        shop.set("service-strategy", &strategy);
    }
    shop.set("service-strategy", "source-hash");
    for _ in 0..TRIES {
        shop.ensure().await;
    }
    let last = shop.ensure().await;
    assert!(
        last.good().plan.is_empty(),
        "seed {seed}: {:?}",
        last.plan.steps
    );
    let own: Vec<BalancerInfo> = shop.all().into_iter().filter(|it| it.id != L1).collect();
    let [own] = own.as_slice() else {
        panic!("seed {seed}: {} load balancers", own.len());
    };
    assert_eq!(own.services.len(), shop.service.ports.len(), "seed {seed}");
    assert_eq!(shop.address(), own.ip.to_string(), "seed {seed}");
    for (port, service) in shop.service.ports.iter().map(|port| {
        let mut all = own.services.iter();
        let protocol = port.protocol.as_str().to_lowercase();
        let found = all.find(|it| it.port == port.port && it.protocol == protocol);
        (port, found.unwrap())
    }) {
        assert_eq!(service.target_port, port.node_port, "seed {seed}");
        assert_eq!(
            service.pool,
            shop.get("service-instancepool-id"),
            "seed {seed}"
        );
    }
    assert_eq!(theirs(&shop), before, "seed {seed}");
    shop.delete().await.good();
    assert_eq!(shop.all().len(), 1, "seed {seed}");
    shop.stage.world.journal.transcript()
}

#[tokio::test(start_paused = true)]
async fn after_the_dust_settles_all_is_as_wanted() {
    for seed in 0..SEEDS {
        run(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_transcript() {
    assert_eq!(run(3).await, run(3).await);
}
