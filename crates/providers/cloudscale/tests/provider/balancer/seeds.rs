//! Random changes on a cloud that fails at random.

use bowline_http::Random;
use bowline_simulator::World;
use bowline_simulator_cloudscale::{BalancerInfo, MachineSpec};
use bowline_test_kit::Outcome;
use bowline_test_kit::seeds::{Life, pick, run, traffic_policy};
use serde_json::json;

use super::harness::{Harness, port};
use crate::harness::{Harness as NodeHarness, node};

/// Seeds that are tried; a failure names its own.
const SEEDS: u64 = 20;

struct Web {
    test: Harness,
    fleet: Vec<(String, String)>,
    /// Somebody else's load balancer, as it was.
    theirs: BalancerInfo,
}

/// The load balancer without what changes by itself.
fn frozen(test: &Harness, uuid: &str) -> BalancerInfo {
    let mut all = test.all().into_iter();
    let mut balancer = all.find(|it| it.uuid == uuid).unwrap();
    balancer.changes = 0;
    balancer
}

impl Life for Web {
    async fn begin(seed: u64) -> Self {
        let test = Harness::on(NodeHarness::seeded(seed, &[], None));
        let spec: MachineSpec = serde_json::from_value(json!({"name": "w", "count": 4,
            "interfaces": [{"network": "k8s"}]}))
        .unwrap();
        let uuids = test.sim.add_servers(&spec).unwrap();
        let names = (1..=uuids.len()).map(|number| format!("w-{number}"));
        let foreign = test.place(json!({"name": "theirs", "tags": {"k8s-service-uid": "x"},
            "pools": [{"name": "tcp/http", "listeners": [{"protocol_port": 80}]}]}));
        Self {
            theirs: frozen(&test, &foreign),
            fleet: names.zip(uuids).collect(),
            test,
        }
    }

    fn world(&self) -> &World {
        &self.test.world
    }

    fn change(&mut self, random: &Random) {
        match random.below(7) {
            0 => {
                let names = ["http", "web", "api"];
                let ports = [80, 443, 8080];
                self.test.service.ports = (0..=random.below(3))
                    .map(|at| usize::try_from(at).unwrap())
                    .map(|at| port(names[at], "TCP", ports[(at + 1) % 3], 31080))
                    .collect();
            }
            1 => {
                let value = pick(random, &["round_robin", "source_ip", "robin_round"]);
                self.test.set("pool-algorithm", value);
            }
            2 => {
                let value = pick(random, &["tcp", "http", "ping"]);
                self.test.set("health-monitor-type", value);
            }
            3 => {
                let service = &mut self.test.service;
                (service.traffic_policy, service.health_check_node_port) = traffic_policy(random);
            }
            4 => {
                let value = pick(random, &["[]", r#"["10.0.0.0/8"]"#, r#"["192.0.2.1"]"#]);
                self.test.set("listener-allowed-cidrs", value);
            }
            5 => {
                let value = pick(random, &["shop-web", "web-shop"]);
                self.test.set("name", value);
            }
            _ => {
                let count = 1 + usize::try_from(random.below(self.fleet.len() as u64)).unwrap();
                let chosen = self.fleet.iter().rev().take(count);
                self.test.nodes = chosen.map(|(name, uuid)| node(name, Some(uuid))).collect();
            }
        }
    }

    async fn attempt(&mut self, _: &Random) {
        self.test.ensure().await;
    }

    async fn recover(&mut self) {
        self.test.settle().await;
    }

    async fn ensure_repaired(&mut self) -> Outcome {
        self.test.set("pool-algorithm", "source_ip");
        let outcome = self.test.ensure().await;
        self.test.settle().await;
        outcome
    }

    fn check(&self, seed: u64) {
        let mut own = self.test.all();
        own.retain(|it| it.uuid != self.theirs.uuid);
        let [own] = own.as_slice() else {
            panic!("seed {seed}: {} load balancers", own.len());
        };
        let service = &self.test.service;
        assert_eq!(own.pools.len(), service.ports.len(), "seed {seed}");
        for pool in &own.pools {
            assert_eq!(pool.members.len(), self.test.nodes.len(), "seed {seed}");
            assert_eq!(
                (pool.listeners.len(), pool.monitor.is_some()),
                (1, true),
                "seed {seed}"
            );
        }
        let theirs = frozen(&self.test, &self.theirs.uuid);
        assert_eq!(theirs, self.theirs, "seed {seed}");
    }

    async fn end(mut self, seed: u64) -> World {
        self.test.delete().await.good();
        assert_eq!(self.test.all().len(), 1, "seed {seed}");
        self.test.world.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_dust_settles_all_is_as_wanted() {
    for seed in 0..SEEDS {
        run::<Web>(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_transcript() {
    assert_eq!(run::<Web>(3).await, run::<Web>(3).await);
}
