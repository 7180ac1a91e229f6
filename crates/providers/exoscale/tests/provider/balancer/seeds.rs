//! Random changes on a cloud that fails at random, and crashes.

use bowline_core::Goal;
use bowline_http::Random;
use bowline_simulator::World;
use bowline_simulator_exoscale::BalancerInfo;
use bowline_test_kit::Outcome;
use bowline_test_kit::seeds::{Life, TRIES, pick, run, traffic_policy, trouble};

use super::harness::{Harness, L1, port};
use crate::harness::{I3, P1, P2, of};

/// Seeds that are tried; a failure names its own.
const SEEDS: u64 = 25;

struct Web {
    test: Harness,
    /// Somebody else's load balancer, as it was.
    theirs: BalancerInfo,
}

fn theirs(test: &Harness) -> BalancerInfo {
    let mut all = test.all().into_iter();
    all.find(|it| it.id == L1).unwrap()
}

impl Life for Web {
    async fn begin(seed: u64) -> Self {
        let mut test = Harness::seeded(seed, "").await;
        // Both pools have nodes of the cluster.
        test.nodes.push(of(I3));
        test.set("service-instancepool-id", P1);
        test.place("theirs", &[("a", 80), ("b", 443)]);
        Self {
            theirs: theirs(&test),
            test,
        }
    }

    fn world(&self) -> &World {
        &self.test.world
    }

    fn change(&mut self, random: &Random) {
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
                self.test.service.ports = chosen.collect();
            }
            1 => {
                let node_port = pick(random, &[30080, 30090]);
                self.test.service.ports[0].node_port = node_port;
            }
            2 => {
                let value = pick(random, &["round-robin", "source-hash", "hash"]);
                self.test.set("service-strategy", value);
            }
            3 => {
                let service = &mut self.test.service;
                (service.traffic_policy, service.health_check_node_port) = traffic_policy(random);
            }
            4 => {
                let pool = pick(random, &[P1, P2]);
                self.test.set("service-instancepool-id", pool);
            }
            5 => {
                let value = pick(random, &["", "shop-web", "web-shop"]);
                self.test.set("name", value);
            }
            6 => {
                let value = pick(random, &["", "front", "back"]);
                self.test
                    .set("description", value)
                    .set("service-description", value);
            }
            _ => {
                let value = pick(random, &["", "x", "y"]);
                self.test.set("service-name", value);
            }
        }
    }

    async fn attempt(&mut self, random: &Random) {
        let looks = random.below(20);
        let kept = self.test.service.clone();
        self.test.until_crash(Goal::Present, looks).await;
        match random.below(4) {
            // The last writes to the cluster were lost with the process.
            0 => {
                self.test.service.annotations = kept.annotations;
                self.test.service.conditions = kept.conditions;
            }
            1 => {
                self.test.world.faults.clear();
                self.test.restart().await;
                trouble(&self.test.world);
            }
            _ => {}
        }
    }

    async fn recover(&mut self) {
        self.test.wait(5).await;
        // A service with a chosen name is known again once it was seen in its place: what is
        // changed before that leaves it behind, and that is not what is tried here.
        let strategy = self.test.get("service-strategy").to_owned();
        for _ in 0..TRIES {
            self.ensure_repaired().await;
        }
        self.test.set("service-strategy", &strategy);
    }

    async fn ensure_repaired(&mut self) -> Outcome {
        self.test.set("service-strategy", "source-hash");
        self.test.ensure().await
    }

    fn check(&self, seed: u64) {
        let test = &self.test;
        let mut own = test.all();
        own.retain(|it| it.id != L1);
        let [own] = own.as_slice() else {
            panic!("seed {seed}: {} load balancers", own.len());
        };
        assert_eq!(own.services.len(), test.service.ports.len(), "seed {seed}");
        assert_eq!(test.address(), own.ip.to_string(), "seed {seed}");
        let pool = test.get("service-instancepool-id");
        for port in &test.service.ports {
            let mut all = own.services.iter();
            let protocol = port.protocol.as_str().to_lowercase();
            let found = all.find(|it| it.port == port.port && it.protocol == protocol);
            let service = found.unwrap();
            assert_eq!(service.target_port, port.node_port, "seed {seed}");
            assert_eq!(service.pool, pool, "seed {seed}");
        }
        assert_eq!(theirs(test), self.theirs, "seed {seed}");
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
