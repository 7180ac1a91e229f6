//! Random changes on a cloud that fails at random: after the dust settles all is as wanted, nothing
//! exists twice, and nothing of others was touched.

use std::collections::BTreeMap;

use bowline_core::TrafficPolicy;
use bowline_http::Random;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_cloudscale::{BalancerInfo, MachineSpec};
use serde_json::json;

use super::shop::{Shop, port};
use crate::stage::{Stage, node};

/// Seeds that are tried; a failure names its own.
const SEEDS: u64 = 20;
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
        ("unavailable", unavailable),
    ] {
        let mut rule = Rule::new(action).named(name);
        rule.probability = 0.05;
        shop.stage.world.faults.add(rule).unwrap();
    }
}

/// Changes something that a person may change.
fn change(shop: &mut Shop, random: &Random, fleet: &[(String, String)]) {
    match random.below(7) {
        0 => {
            let names = ["http", "web", "api"];
            let ports = [80, 443, 8080];
            shop.service.ports = (0..=random.below(3))
                .map(|at| usize::try_from(at).unwrap())
                .map(|at| port(names[at], "TCP", ports[(at + 1) % 3], 31080))
                .collect();
        }
        1 => {
            let value = pick(random, &["round_robin", "source_ip", "robin_round"]);
            shop.set("pool-algorithm", value);
        }
        2 => {
            let value = pick(random, &["tcp", "http", "ping"]);
            shop.set("health-monitor-type", value);
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
            let value = pick(random, &["[]", r#"["10.0.0.0/8"]"#, r#"["192.0.2.1"]"#]);
            shop.set("listener-allowed-cidrs", value);
        }
        5 => {
            let value = pick(random, &["shop-web", "web-shop"]);
            shop.set("name", value);
        }
        _ => {
            let count = 1 + usize::try_from(random.below(fleet.len() as u64)).unwrap();
            let chosen = fleet.iter().rev().take(count);
            shop.nodes = chosen.map(|(name, uuid)| node(name, Some(uuid))).collect();
        }
    }
}

/// What does not change by itself.
fn frozen(mut balancer: BalancerInfo) -> BalancerInfo {
    balancer.changes = 0;
    balancer
}

async fn run(seed: u64) -> String {
    let mut shop = Shop::on(Stage::seeded(seed, &[], None));
    let random = Random::seeded(seed);
    let spec: MachineSpec = serde_json::from_value(json!({"name": "w", "count": 4,
        "interfaces": [{"network": "k8s"}]}))
    .unwrap();
    let uuids = shop.stage.sim.add_servers(&spec).unwrap();
    let names = (1..=uuids.len()).map(|number| format!("w-{number}"));
    let fleet: Vec<(String, String)> = names.zip(uuids).collect();
    let foreign = shop.place(json!({"name": "theirs", "tags": {"k8s-service-uid": "x"},
        "pools": [{"name": "tcp/http", "listeners": [{"protocol_port": 80}]}]}));
    let of = |shop: &Shop| {
        let mut all = shop.all().into_iter();
        frozen(all.find(|it| it.uuid == foreign).unwrap())
    };
    let theirs = of(&shop);
    for _ in 0..CHANGES {
        change(&mut shop, &random, &fleet);
        trouble(&shop);
        for _ in 0..TRIES {
            shop.ensure().await;
        }
        shop.stage.world.faults.clear();
        shop.settle().await;
    }
    shop.set("pool-algorithm", "source_ip");
    for _ in 0..TRIES {
        shop.ensure().await;
        shop.settle().await;
    }
    let last = shop.ensure().await;
    assert!(
        last.good().plan.is_empty(),
        "seed {seed}: {:?}",
        last.plan.steps
    );
    let own: Vec<BalancerInfo> = shop
        .all()
        .into_iter()
        .filter(|it| it.uuid != foreign)
        .collect();
    let [own] = own.as_slice() else {
        panic!("seed {seed}: {} load balancers", own.len());
    };
    assert_eq!(own.pools.len(), shop.service.ports.len(), "seed {seed}");
    for pool in &own.pools {
        assert_eq!(pool.members.len(), shop.nodes.len(), "seed {seed}");
        assert_eq!(
            (pool.listeners.len(), pool.monitor.is_some()),
            (1, true),
            "seed {seed}"
        );
    }
    assert_eq!(of(&shop), theirs, "seed {seed}");
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
