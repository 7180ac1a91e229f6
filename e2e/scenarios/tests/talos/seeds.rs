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
use bowline_scenarios::{TestCluster, only_in_memory, play, play_seeds, refuse};
use bowline_simulator_talos::{Access, MachineSpec, Stage as At};
use jiff::Timestamp;
use serde_json::Value;

use crate::stage::{OFTEN, Stage, cloud_platform};

/// Seeds of one ordinary run.
const SEEDS: u64 = 5;
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
    stage: Stage,
    random: Random,
    joined: u64,
    /// When machines joined that may not know themselves yet.
    early: Vec<(String, Timestamp)>,
}

impl Run {
    async fn new(seed: u64) -> Self {
        let mut stage = Stage::idle(Beginning {
            seed,
            cluster: CLUSTER,
            config: RULES,
            flags: FLAGS,
            ..Beginning::default()
        })
        .await;
        let second = MachineSpec::named("cp2", &["eth0/10.0.0.2/24"]).control_plane();
        stage.cloud.add_machine(&second).unwrap();
        stage.cloud.serve("cp2", "10.0.0.2");
        let random = stage.world.random.fork();
        renew(&stage);
        stage.start().await;
        Self {
            stage,
            random,
            joined: 0,
            early: Vec::new(),
        }
    }

    async fn play(mut self) -> String {
        for _ in 0..STEPS {
            self.step().await;
            let pause = Duration::from_millis(self.random.below(20_000));
            self.stage.pass(pause).await;
            // Talos renews what it issues in time.
            renew(&self.stage);
            self.learn();
        }
        self.mend().await;
        self.check();
        let journal = self.stage.world.journal.clone();
        self.stage.end().await;
        journal.transcript()
    }

    async fn step(&mut self) {
        match self.random.below(10) {
            0..4 => self.join(),
            4 => self.with_one(|stage, name| stage.cloud.hang(name, true).unwrap()),
            5 => self.with_one(|stage, name| stage.cloud.hang(name, false).unwrap()),
            6 => self.with_one(|stage, name| stage.cloud.set_stage(name, At::Ready).unwrap()),
            7 => self.stage.cloud.drop_connections(),
            8 => {
                let code = [409, 500, 503][usize::try_from(self.random.below(3)).unwrap()];
                let rule = refuse(code, "PATCH", "/api/v1/nodes/*");
                self.stage.fault(rule.times(1 + self.random.below(4)));
            }
            _ => {
                self.stage.kill().await;
                // Whoever was killed holds the lease until it ends.
                self.stage.start().await;
            }
        }
    }

    /// Another machine, which may take a while to know itself.
    fn join(&mut self) {
        let number = self.joined;
        self.joined += 1;
        let (name, id) = (format!("w{number}"), format!("hcloud://{number}"));
        let mut told = cloud_platform("hcloud", &id);
        told.zone = format!("z{}", number % 3);
        let own = [
            format!("eth0/10.8.0.{}/24", 10 + number),
            format!("eth0/2001:db8:a:{}::{:x}/64", number % 2, 16 + number),
        ];
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let machine = MachineSpec::named(&name, &own).platform(told);
        let early = self.random.below(2) == 0;
        let machine = machine.stage(if early {
            At::MetadataPartial
        } else {
            At::Ready
        });
        self.stage.cloud.add_machine(&machine).unwrap();
        self.stage.join(&name);
        let now = self.stage.world.clock.now();
        self.early.extend(early.then_some((name, now)));
    }

    /// Clouds tell machines what they are before anybody loses patience.
    fn learn(&mut self) {
        let stage = &self.stage;
        self.early.retain(|(name, joined)| {
            let waits = stage.since(*joined) < PATIENCE;
            if !waits {
                stage.cloud.set_stage(name, At::Ready).unwrap();
            }
            waits
        });
    }

    fn with_one(&self, work: impl FnOnce(&Stage, &str)) {
        if self.joined > 0 {
            let name = format!("w{}", self.random.below(self.joined));
            work(&self.stage, &name);
        }
    }

    /// Nothing is wrong any more, and everything comes right.
    async fn mend(&self) {
        self.stage.world.faults.clear();
        for number in 0..self.joined {
            let name = format!("w{number}");
            self.stage.cloud.hang(&name, false).unwrap();
            self.stage.cloud.set_stage(&name, At::Ready).unwrap();
        }
        let is_done = |it: &TestCluster, name: &str| {
            let ranges = it.find(name).unwrap_or_default()["spec"]["podCIDRs"].is_array();
            ranges && it.is_initialized(name)
        };
        for number in 0..self.joined {
            let name = format!("w{number}");
            let what = format!("{name} is initialised and has pod ranges");
            self.stage.until(&what, |it| is_done(it, &name)).await;
            renew(&self.stage);
        }
    }

    fn check(&self) {
        let mut blocks = BTreeSet::new();
        for number in 0..self.joined {
            let name = format!("w{number}");
            let node = self.stage.node(&name);
            let network = ["2001:db8:a:", "2001:db8:a:1:"][usize::try_from(number % 2).unwrap()];
            let given = node["spec"]["podCIDRs"].as_array().unwrap();
            let block = given[1].as_str().unwrap();
            assert!(block.starts_with(network), "{name}: {block}");
            for block in given {
                assert!(blocks.insert(block.to_string()), "{block} is given twice");
            }
            let zone = format!("z{}", number % 3);
            assert_eq!(labels(&node)["topology.kubernetes.io/zone"], zone);
            for version in self.stage.versions(&name) {
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

fn renew(stage: &Stage) {
    let access = Access::reader(&[ENDPOINT, "10.0.0.2"]).lifetime(LIFETIME);
    stage.cloud.give(&access);
}

async fn run(seed: u64) -> String {
    let run = Run::new(seed).await;
    Box::pin(run.play()).await
}

/// Plays one seed, and gives its transcript.
fn played(seed: u64) -> String {
    play!(async || run(seed).await)
}

#[test]
fn whatever_goes_wrong_every_node_gets_what_is_its_own() {
    let reason = "each of the seeds takes minutes of the clock";
    play_seeds!(reason, 0..SEEDS, async |seed| run(seed).await);
}

#[test]
fn the_same_seed_gives_the_same_transcript() {
    if !only_in_memory("a real server never does the same twice") {
        return;
    }
    let (first, second) = (played(4), played(4));
    assert_same(&first, &second);
    assert!(first.lines().count() > 500);
}
