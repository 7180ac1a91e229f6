//! Random schedules of faults, managers that die, nodes that come and go and routes that somebody else
//! changes, one for each seed: what is not ours is never touched, no node that is there loses its route
//! by us, and in the end everybody has one and nothing is left over.
//!
//! `BOWLINE_SEED=17` runs that seed alone; `BOWLINE_SEEDS=1000` runs so many.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_core::CloudErrorKind;
use bowline_core::routes::PodRoute;
use bowline_http::Random;
use bowline_scenarios::cloud::route;
use bowline_scenarios::{Setup, TestCluster, refuse, run_seeds};

use crate::routes::harness::{RANGE, UP, network, node, routes_of};

/// Seeds of one ordinary run.
const SEEDS: u64 = 20;
/// Things that happen in one run.
const STEPS: usize = 40;
/// In the end things settle within this time: of the routes that nobody needs three go in ten minutes.
const SETTLING: u64 = 3 * 3600;
/// Of others, or not of the cluster.
const FOREIGN: [&str; 3] = ["192.168.7.0/24 !", "10.1.2.0/24 x", "10.120.200.0/24 other"];

#[test]
fn whatever_goes_wrong_nobody_loses_a_route_and_nothing_is_left_over() {
    run_seeds!(
        "each of the seeds takes hours of the clock",
        0..SEEDS,
        async |seed| Run::new(seed).await.run_scenario().await
    );
}

struct Run {
    seed: u64,
    bench: TestCluster,
    random: Random,
    /// Numbers of the nodes that are there; none is ever used twice.
    nodes: BTreeSet<usize>,
    joined: usize,
    /// Writes that were looked at.
    checked: usize,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let flags = ["--controllers=route", RANGE];
        let bench = TestCluster::set_up(Setup {
            seed,
            flags: &flags,
            ..Setup::default()
        })
        .await;
        let routes = bench.cloud().offer_routes();
        routes.have(FOREIGN.map(route));
        routes.take(Duration::from_millis(300));
        if seed % 2 == 1 {
            routes.write_tables();
        }
        let mut other = node("other", &["10.120.200.0/24"]);
        other["spec"]["providerID"] = "other://1".into();
        bench.create(other).await;
        let random = bench.world.random.fork();
        let mut run = Self {
            seed,
            bench,
            random,
            nodes: BTreeSet::new(),
            joined: 0,
            checked: 0,
        };
        run.bench.start();
        run
    }

    async fn run_scenario(mut self) {
        for _ in 0..STEPS {
            self.check();
            self.step().await;
            let pause = Duration::from_millis(self.random.below(30_000));
            self.bench.pass(pause).await;
        }
        self.check();
        routes_of(&self.bench).hide(None);
        for number in 0..self.joined {
            routes_of(&self.bench).fail(&range(number), CloudErrorKind::Unknown, "", 0);
        }
        if !self.bench.is_running() {
            self.bench.start();
        }
        self.bench.long(SETTLING).await;
        self.check();
        let mut expected: Vec<String> = FOREIGN.iter().map(|&it| it.to_owned()).collect();
        expected.extend(self.nodes.iter().map(|&number| right(number)));
        expected.sort();
        assert_eq!(routes_of(&self.bench).all(), expected, "seed {}", self.seed);
        for number in &self.nodes {
            let name = format!("n{number}");
            assert_eq!(
                network(&self.bench, &name),
                UP,
                "seed {}: {name}",
                self.seed
            );
        }
        assert_eq!(network(&self.bench, "other"), "", "seed {}", self.seed);
    }

    async fn step(&mut self) {
        match self.random.below(12) {
            0..4 => {
                let number = self.joined;
                self.joined += 1;
                self.nodes.insert(number);
                let name = format!("n{number}");
                self.bench.create(node(&name, &[&range(number)])).await;
            }
            4..6 => {
                if let Some(number) = self.any() {
                    self.nodes.remove(&number);
                    self.bench.delete(&format!("n{number}")).await;
                }
            }
            6 => self.tamper(),
            7 => {
                let kinds = [
                    CloudErrorKind::Conflict,
                    CloudErrorKind::Denied,
                    CloudErrorKind::Unavailable,
                ];
                let number = self.random.below(self.joined as u64 + 1);
                let number = usize::try_from(number).unwrap();
                let kind = kinds[number % kinds.len()];
                let times = usize::try_from(self.random.below(7)).unwrap();
                routes_of(&self.bench).fail(&range(number), kind, "trouble", times);
            }
            8 => {
                let down = (CloudErrorKind::Unavailable, "no answer");
                routes_of(&self.bench).hide(Some(down));
            }
            9 => routes_of(&self.bench).hide(None),
            10 => {
                let path = "/api/v1/nodes/*/status";
                self.bench.fault(refuse(500, "PATCH", path).times(2));
            }
            _ => {
                self.bench.kill().await;
                self.bench.start();
            }
        }
    }

    fn any(&self) -> Option<usize> {
        let chosen = self.random.below(self.nodes.len().max(1) as u64);
        let chosen = usize::try_from(chosen).unwrap();
        self.nodes.iter().nth(chosen).copied()
    }

    /// Somebody else removes a node's route, or makes one that leads nowhere.
    fn tamper(&self) {
        let routes = routes_of(&self.bench);
        let mut all: Vec<PodRoute> = routes.all().iter().map(|text| route(text)).collect();
        match self.any() {
            Some(number) if self.random.below(2) == 0 => {
                all.retain(|it| it.destination != range(number));
            }
            _ => {
                let number = 100 + self.random.below(50);
                all.push(route(&format!("10.120.{number}.0/24 gone")));
            }
        }
        for (at, route) in all.iter_mut().enumerate() {
            route.name = format!("t{at}");
        }
        routes.have(all);
    }

    /// What is not ours is there, and nobody who is there lost a route by us.
    fn check(&mut self) {
        let all = routes_of(&self.bench).all();
        for foreign in FOREIGN {
            assert!(
                all.iter().any(|it| it == foreign),
                "seed {}: {all:?}",
                self.seed
            );
        }
        let writes = routes_of(&self.bench).writes();
        let alive: BTreeSet<String> = self.nodes.iter().map(|&it| right(it)).collect();
        for step in writes[self.checked..].iter().flat_map(|it| it.split("; ")) {
            if let Some(deleted) = step.strip_prefix("delete ") {
                assert!(!alive.contains(deleted), "seed {}: {step}", self.seed);
            }
        }
        self.checked = writes.len();
    }
}

fn range(number: usize) -> String {
    format!("10.120.{number}.0/24")
}

fn right(number: usize) -> String {
    format!("{} n{number}", range(number))
}
