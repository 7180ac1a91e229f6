//! Random schedules of faults, leaders that are lost, and nodes that come and go, one for each seed:
//! no two nodes ever have the same addresses, and in the end everybody has some and nothing is lost.
//!
//! `BOWLINE_SEED=17` runs that seed alone; `BOWLINE_SEEDS=1000` runs so many.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_http::Random;
use bowline_scenarios::objects::fresh;
use bowline_scenarios::{Replica, Setup, TestCluster, run_seeds};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_kubernetes::kinds;
use serde_json::Value;

use crate::ipam::harness::{ALLOCATE, ranges};

/// Seeds of one ordinary run.
const SEEDS: u64 = 6;
/// Things that happen in one run.
const STEPS: usize = 40;
/// Blocks there are; nodes come until all are used, and some wait.
const BLOCKS: usize = 8;
/// In the end things settle within this time.
const SETTLING: Duration = Duration::from_secs(20 * 60);
const FLAGS: [&str; 3] = [
    ALLOCATE[0],
    ALLOCATE[1],
    "--cluster-cidr=10.244.0.0/21,fd00::/61",
];

#[test]
fn whatever_goes_wrong_no_block_is_given_twice_and_none_is_lost() {
    run_seeds!(
        "each of the seeds takes an hour of the clock",
        0..SEEDS,
        async |seed| Run::new(seed).await.run_scenario().await
    );
}

struct Run {
    seed: u64,
    bench: TestCluster,
    random: Random,
    managers: Vec<Replica>,
    started: usize,
    joined: usize,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let bench = TestCluster::set_up(Setup {
            seed,
            ..Setup::default()
        })
        .await;
        let random = bench.world.random.fork();
        let mut run = Self {
            seed,
            bench,
            random,
            managers: Vec::new(),
            started: 0,
            joined: 0,
        };
        run.keep_two().await;
        run
    }

    async fn run_scenario(mut self) {
        for _ in 0..STEPS {
            self.step().await;
            let pause = Duration::from_millis(self.random.below(12_000));
            self.bench.pass(pause).await;
            self.keep_two().await;
        }
        self.mend().await;
        self.check();
        for manager in self.managers {
            manager.stop().await.0.unwrap();
        }
    }

    async fn step(&mut self) {
        match self.random.below(10) {
            0..4 => {
                let name = format!("n{:03}", self.joined);
                self.joined += 1;
                self.bench.create(fresh(&name)).await;
            }
            4..6 => {
                let nodes = self.bench.cluster.nodes();
                if nodes.is_empty() {
                    return;
                }
                let chosen = self.random.below(nodes.len() as u64);
                let chosen = &nodes[usize::try_from(chosen).unwrap()];
                let name = chosen["metadata"]["name"].as_str().unwrap().to_owned();
                self.bench.delete(&name).await;
                if self.random.below(3) == 0 {
                    self.bench.create(fresh(&name)).await;
                }
            }
            6 => {
                let chosen = self.random.below(self.managers.len() as u64);
                let manager = self.managers.remove(usize::try_from(chosen).unwrap());
                if self.random.below(3) == 0 {
                    let _ = manager.stop().await;
                } else {
                    manager.kill().await;
                }
            }
            7 => self.bench.world.faults.cut_streams("kubernetes"),
            _ => self.trouble(),
        }
    }

    fn trouble(&mut self) {
        let status = |code| Action::Status {
            code,
            headers: BTreeMap::default(),
            body: None,
        };
        let (least, most) = (Duration::from_millis(100), Duration::from_secs(40));
        let action = match self.random.below(7) {
            0 => Action::LostAnswer,
            1 => Action::Reset,
            2 => Action::Hang,
            3 => status(500),
            4 => status(403),
            5 => Action::Truncated,
            _ => Action::Delay { least, most },
        };
        let targets = [
            ("PATCH", "/api/v1/nodes/*"),
            ("PATCH", "/api/v1/nodes/*"),
            ("GET", "/api/v1/nodes/*"),
            ("*", "/apis/coordination.k8s.io/*"),
        ];
        let target = targets[usize::try_from(self.random.below(4)).unwrap()];
        let rule = Rule::new(action)
            .server("kubernetes")
            .on(target.0, target.1)
            .times(1 + self.random.below(8))
            .probability(0.7);
        self.bench.fault(rule);
        if self.random.below(2) == 0 {
            // And nobody can look what became of it.
            let blind = Rule::new(Action::Reset).server("kubernetes");
            let times = 1 + self.random.below(12);
            self.bench
                .fault(blind.on("GET", "/api/v1/nodes/*").times(times));
        }
    }

    async fn keep_two(&mut self) {
        self.managers.retain(Replica::is_running);
        while self.managers.len() < 2 {
            let name = format!("m{}", self.started);
            self.started += 1;
            self.managers.push(self.bench.replica(&name, &FLAGS).await);
        }
    }

    /// Nothing goes wrong any more, and there is a block for everybody.
    async fn mend(&mut self) {
        self.bench.world.faults.clear();
        for (number, node) in self.bench.cluster.nodes().iter().enumerate() {
            if number >= BLOCKS {
                let name = node["metadata"]["name"].as_str().unwrap();
                self.bench.delete(name).await;
            }
        }
        self.bench.pass(SETTLING).await;
        let nodes = self.bench.cluster.nodes();
        for node in &nodes {
            let name = node["metadata"]["name"].as_str().unwrap();
            assert_eq!(
                ranges(&self.bench, name).len(),
                2,
                "seed {}: {name}",
                self.seed
            );
        }
        let leader = self.managers.iter().find(|it| it.leads());
        let leader = leader.unwrap_or_else(|| panic!("seed {}: nobody leads", self.seed));
        for range in ["10.244.0.0/21", "fd00::/61"] {
            let series =
                format!("node_ipam_controller_cidrset_usage_cidrs{{clusterCIDR=\"{range}\"}}");
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let expected = nodes.len() as f64 / BLOCKS as f64;
            let used = leader.metric(&series);
            assert_eq!(used, Some(expected), "seed {}: {range}", self.seed);
        }
    }

    /// Goes through everything that ever happened to nodes.
    fn check(&self) {
        let store = self.bench.cluster.simulated().unwrap().api().store();
        let kind = kinds::by_kind("", "v1", "Node").unwrap();
        let changes = store.with(|state| state.changes(kind, 0, usize::MAX));
        let mut holders: BTreeMap<String, String> = BTreeMap::new();
        let list = |node: &Value| -> Vec<String> {
            let list = node["spec"]["podCIDRs"].as_array().into_iter().flatten();
            list.map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        for change in changes {
            for range in change.before.iter().flat_map(|node| list(node)) {
                holders.remove(&range);
            }
            for range in change.after.iter().flat_map(|node| list(node)) {
                let other = holders.insert(range.clone(), change.path.clone());
                assert_eq!(
                    other, None,
                    "seed {}: {range} is {}'s, too",
                    self.seed, change.path
                );
            }
        }
    }
}
