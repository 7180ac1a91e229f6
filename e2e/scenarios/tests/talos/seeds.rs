//! Random schedules of trouble with machines, connections and the API server, one for each seed: no node ever
//! has an id or a block that is not its own, and in the end all are initialised.
//!
//! `BOWLINE_SEED=17` runs that seed alone; `BOWLINE_SEEDS=1000` runs so many.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_http::Random;
use bowline_scenarios::objects::{UNINITIALIZED, has_taint, labels};
use bowline_scenarios::seeds::assert_same;
use bowline_scenarios::talos::{Beginning, ENDPOINT};
use bowline_scenarios::{TestCluster, only_in_memory, refuse, run_scenario, run_seeds};
use bowline_simulator_talos::{Access, MachineSpec, Stage};
use jiff::Timestamp;
use serde_json::Value;

use crate::talos::harness::{Harness, OFTEN, cloud_platform};

/// Seeds of one ordinary run.
const SEEDS: u64 = 3;
/// Things that happen in one run.
const STEPS: usize = 30;
const FLAGS: &[&str] = &[
    "--controllers=cloud-node,node-ipam-controller",
    "--allocate-node-cidrs",
    "--cidr-allocator-type=CloudAllocator",
    OFTEN,
];
const CLUSTER: &str = "networks: {pods: [10.32.0.0/12, 'fd00:10:32::/64'], services: []}";
const RACK: &str = "x.example/rack";
/// Each machine's zone is its rack.
const RULES: &str = "transformations: [{taints: {x.example/rack: '{{ .Zone }}:NoSchedule'}}]";
/// How long a machine may not know itself; five minutes are what it is waited for.
const PATIENCE: Duration = Duration::from_secs(240);
/// Short, so that it has to be renewed all the time.
const LIFETIME: Duration = Duration::from_secs(120);

struct Run {
    harness: Harness,
    random: Random,
    joined: u64,
    /// When machines joined that may not know themselves yet.
    early: Vec<(String, Timestamp)>,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let mut harness = Harness::idle(Beginning {
            seed,
            cluster: CLUSTER,
            config: RULES,
            flags: FLAGS,
            ..Beginning::default()
        })
        .await;
        let second = MachineSpec::named("cp2", &["eth0/10.0.0.2/24"]).control_plane();
        harness.cloud.add_machine(&second).unwrap();
        harness.cloud.serve("cp2", "10.0.0.2");
        let random = harness.world.random.fork();
        renew(&harness);
        harness.start().await;
        Self {
            harness,
            random,
            joined: 0,
            early: Vec::new(),
        }
    }

    async fn run_scenario(mut self) -> String {
        for _ in 0..STEPS {
            self.step().await;
            let pause = Duration::from_millis(self.random.below(20_000));
            self.harness.pass(pause).await;
            // Talos renews what it issues in time.
            renew(&self.harness);
            self.learn();
        }
        self.mend().await;
        self.check();
        let journal = self.harness.world.journal.clone();
        self.harness.end().await;
        journal.transcript()
    }

    async fn step(&mut self) {
        match self.random.below(10) {
            0..4 => self.join(),
            4 => self.with_one(|harness, name| harness.cloud.hang(name, true).unwrap()),
            5 => self.with_one(|harness, name| harness.cloud.hang(name, false).unwrap()),
            6 => {
                self.with_one(|harness, name| harness.cloud.set_stage(name, Stage::Ready).unwrap());
            }
            7 => self.harness.cloud.drop_connections(),
            8 => {
                let code = [409, 500, 503][usize::try_from(self.random.below(3)).unwrap()];
                let rule = refuse(code, "PATCH", "/api/v1/nodes/*");
                self.harness.fault(rule.times(1 + self.random.below(4)));
            }
            _ => {
                self.harness.kill().await;
                // Whoever was killed holds the lease until it ends.
                self.harness.start().await;
            }
        }
    }

    /// Another machine, which may take a while to know itself.
    fn join(&mut self) {
        let number = self.joined;
        self.joined += 1;
        let (name, id) = (format!("w{number}"), format!("hcloud://{number}"));
        let mut reported = cloud_platform("hcloud", &id);
        reported.zone = format!("z{}", number % 3);
        let own = [
            format!("eth0/10.8.0.{}/24", 10 + number),
            format!("eth0/2001:db8:a:{}::{:x}/64", number % 2, 16 + number),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let machine = MachineSpec::named(&name, &own).platform(reported);
        let early = self.random.below(2) == 0;
        let machine = machine.stage(if early {
            Stage::MetadataPartial
        } else {
            Stage::Ready
        });
        self.harness.cloud.add_machine(&machine).unwrap();
        self.harness.join(&name);
        let now = self.harness.world.clock.now();
        self.early.extend(early.then_some((name, now)));
    }

    /// Clouds tell machines what they are before anybody loses patience.
    fn learn(&mut self) {
        let harness = &self.harness;
        self.early.retain(|(name, joined)| {
            let waits = harness.since(*joined) < PATIENCE;
            if !waits {
                harness.cloud.set_stage(name, Stage::Ready).unwrap();
            }
            waits
        });
    }

    fn with_one(&self, work: impl FnOnce(&Harness, &str)) {
        if self.joined > 0 {
            let name = format!("w{}", self.random.below(self.joined));
            work(&self.harness, &name);
        }
    }

    /// Nothing is wrong any more, and everything comes right.
    async fn mend(&self) {
        self.harness.world.faults.clear();
        for number in 0..self.joined {
            let name = format!("w{number}");
            self.harness.cloud.hang(&name, false).unwrap();
            self.harness.cloud.set_stage(&name, Stage::Ready).unwrap();
        }
        let is_done = |it: &TestCluster, name: &str| {
            let ranges = it.find(name).unwrap_or_default()["spec"]["podCIDRs"].is_array();
            ranges && it.is_initialized(name)
        };
        for number in 0..self.joined {
            let name = format!("w{number}");
            let what = format!("{name} is initialised and has pod ranges");
            self.harness.until(&what, |it| is_done(it, &name)).await;
            renew(&self.harness);
        }
    }

    fn check(&self) {
        let mut blocks = BTreeSet::new();
        for number in 0..self.joined {
            let name = format!("w{number}");
            let node = self.harness.node(&name);
            let network = ["2001:db8:a:", "2001:db8:a:1:"][usize::try_from(number % 2).unwrap()];
            let given = node["spec"]["podCIDRs"].as_array().unwrap();
            let block = given[1].as_str().unwrap();
            assert!(block.starts_with(network), "{name}: {block}");
            for block in given {
                assert!(blocks.insert(block.to_string()), "{block} is given twice");
            }
            let zone = format!("z{}", number % 3);
            assert_eq!(labels(&node)["topology.kubernetes.io/zone"], zone);
            for version in self.harness.versions(&name) {
                assert_own(&version, number);
            }
        }
    }
}

/// At no time has the node an id of its own making, nor can pods get there without its rule's taint.
fn assert_own(node: &Value, number: u64) {
    if let Some(id) = node["spec"]["providerID"].as_str() {
        assert_eq!(id, format!("hcloud://{number}"));
    }
    assert!(has_taint(node, UNINITIALIZED) || has_taint(node, RACK));
}

fn renew(harness: &Harness) {
    let access = Access::reader(&[ENDPOINT, "10.0.0.2"]).lifetime(LIFETIME);
    harness.cloud.give(&access);
}

async fn run(seed: u64) -> String {
    let run = Run::new(seed).await;
    Box::pin(run.run_scenario()).await
}

/// Plays one seed, and gives its transcript.
fn ended(seed: u64) -> String {
    run_scenario!(async || run(seed).await)
}

#[test]
fn whatever_goes_wrong_every_node_gets_what_is_its_own() {
    let reason = "each of the seeds takes minutes of the clock";
    run_seeds!(reason, 0..SEEDS, async |seed| run(seed).await);
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    if !only_in_memory("a real server never does the same twice") {
        return;
    }
    let (first, second) = (ended(4), ended(4));
    assert_same(&first, &second);
    assert!(first.lines().count() > 500);
}
