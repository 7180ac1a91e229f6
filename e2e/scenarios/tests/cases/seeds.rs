//! Random schedules of faults, one for each seed: whatever goes wrong, nothing is destroyed or
//! written that should not be, and in the end everything is as it should be.
//!
//! `BOWLINE_SEED=17` runs that seed alone; `BOWLINE_SEEDS=1000` runs so many.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::{MetadataPolicy, NodeMetadata, Taint};
use bowline_http::Random;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::machines::Power;
use bowline_simulator::{KubeletSpec, World};
use bowline_simulator_kubernetes::fleet::{Fleet, Settings};
use bowline_simulator_kubernetes::kinds::{self, Kind};
use bowline_simulator_kubernetes::monitor::{self, Monitor};
use bowline_simulator_kubernetes::store::{Change, Store};
use serde_json::Value;

use crate::cases::story::{has_shutdown_taint, join, run};
use bowline_scenarios::objects::{addresses, is_uninitialized, labels, taints};
use bowline_scenarios::{MANAGER, Setup, TestCluster, only_in_memory};

/// Seeds of one ordinary run; the whole takes some seconds.
const SEEDS: u64 = 8;
/// Things that happen in one run.
const STEPS: usize = 30;
/// In the end things settle within this time: three nodes can be deleted in ten minutes.
const SETTLING: Duration = Duration::from_secs(90 * 60);
/// Machines at the start; more join.
const MACHINES: usize = 8;
/// A node of another cloud.
const FOREIGN: &str = "foreign";
/// A label and a taint that the cloud wants on its nodes.
const MARK: &str = "demo.test/mark";

/// Requests that a fault can mean.
const TARGETS: [(&str, &str); 8] = [
    ("*", "*"),
    ("PATCH", "/api/v1/nodes/*"),
    ("PATCH", "/api/v1/nodes/*/status"),
    ("DELETE", "/api/v1/nodes/*"),
    ("GET", "/api/v1/nodes*"),
    ("POST", "/api/v1/nodes"),
    ("*", "/api/v1/namespaces/default/events*"),
    ("*", "/apis/coordination.k8s.io/*"),
];

#[test]
fn whatever_goes_wrong_nothing_is_destroyed_and_all_is_well_in_the_end() {
    if !only_in_memory("each of the seeds takes hours of the clock") {
        return;
    }
    let seeds = bowline_scenarios::seeds::chosen(0..SEEDS);
    // Seeds do not know of each other: each has a runtime of its own, on one of the cores.
    let next = AtomicU64::new(seeds.start);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    run_or_name(seed);
                }
            });
        }
    });
}

/// Plays one seed; a failure names it.
fn run_or_name(seed: u64) {
    if let Err(cause) = catch_unwind(AssertUnwindSafe(|| run(run_scenario(seed)))) {
        let text = cause
            .downcast_ref::<String>()
            .map_or("it panicked", String::as_str);
        panic!("seed {seed} (BOWLINE_SEED={seed} runs it alone): {text}");
    }
}

/// Sees every change of every node, and writes down what must not be.
#[derive(Clone, Default)]
struct Observer(Arc<Mutex<Vec<String>>>);

impl Observer {
    fn watch(&self, world: &World, store: &Arc<Store>) -> tokio::task::JoinHandle<()> {
        let (this, world, store) = (self.clone(), world.clone(), store.clone());
        tokio::spawn(async move {
            let mut pulse = store.subscribe();
            let mut seen = store.revision();
            while pulse.changed().await.is_ok() {
                let changes = store.with(|state| state.changes(nodes(), seen, usize::MAX));
                for change in changes {
                    seen = change.revision;
                    this.check(&world, &change);
                }
            }
        })
    }

    fn check(&self, world: &World, change: &Change) {
        let name = &change.path;
        let was_fresh = change
            .before
            .as_ref()
            .is_some_and(|node| is_uninitialized(node));
        let problem = match &change.after {
            None if name == FOREIGN => "a foreign node was deleted",
            None if world.machines.power(&format!("demo://{name}")).is_some() => {
                "a node was deleted whose machine exists"
            }
            Some(node) if was_fresh && !is_uninitialized(node) && !has_address(node) => {
                "a node became schedulable without an address"
            }
            Some(node) if was_fresh && !is_uninitialized(node) && !has_marks(node) => {
                "a node became schedulable without its marks"
            }
            _ => return,
        };
        self.0.lock().unwrap().push(format!("{problem}: {name}"));
    }

    fn assert_content(&self) {
        let problems = self.0.lock().unwrap();
        assert!(problems.is_empty(), "{problems:?}");
    }
}

fn nodes() -> &'static Kind {
    kinds::by_kind("", "v1", "Node").unwrap()
}

fn has_address(node: &Value) -> bool {
    addresses(node)
        .iter()
        .any(|address| address.starts_with("InternalIP:"))
}

fn has_marks(node: &Value) -> bool {
    let is_marked = labels(node).contains_key(MARK);
    is_marked && taints(node).contains(&format!("{MARK}:NoSchedule"))
}

/// What every node is to have, added or owned.
fn marks(seed: u64) -> NodeMetadata {
    NodeMetadata {
        labels: [(MARK.to_owned(), "1".to_owned())].into(),
        taints: vec![Taint::new(MARK, "", "NoSchedule")],
        keeping: [MetadataPolicy::Add, MetadataPolicy::Own][usize::from(seed % 2 == 1)],
        ..NodeMetadata::default()
    }
}

fn readiness(node: &Value) -> &str {
    let mut conditions = node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let ready = conditions.find(|it| it["type"] == "Ready");
    ready
        .and_then(|it| it["status"].as_str())
        .unwrap_or_default()
}

fn is_ready(node: &Value) -> bool {
    readiness(node) == "True"
}

/// What should be of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Runs,
    Off,
    Destroyed(jiff::Timestamp),
}

struct Run {
    bench: TestCluster,
    fleet: Fleet,
    _monitor: Monitor,
    observer: Observer,
    random: Random,
    machines: BTreeMap<String, Fate>,
}

async fn run_scenario(seed: u64) {
    let mut run = Run::new(seed).await;
    run.join_foreign();
    for _ in 0..MACHINES {
        run.join();
    }
    for _ in 0..STEPS {
        run.step().await;
        let pause = Duration::from_secs(1 + run.random.below(20));
        run.bench.pass(pause).await;
        run.observer.assert_content();
        run.restart_if_it_gave_up();
    }
    run.mend().await;
    run.observer.assert_content();
    run.check_journal();
}

impl Run {
    async fn new(seed: u64) -> Self {
        let mut bench = TestCluster::set_up(Setup {
            seed,
            ..Setup::default()
        })
        .await;
        bench.cloud().follow(&bench.world.machines);
        bench.cloud().mark(marks(seed));
        // Half as often as usual, so that most of the calls are the manager's.
        let settings = Settings {
            renew_interval: Duration::from_secs(20),
            ..Settings::default()
        };
        let fleet = bench.cluster.fleet(settings);
        let monitor = bench.cluster.monitor(monitor::Settings::default());
        let observer = Observer::default();
        observer.watch(
            &bench.world,
            bench.cluster.simulated().unwrap().api().store(),
        );
        bench.start();
        Self {
            random: bench.world.random.fork(),
            machines: BTreeMap::new(),
            _monitor: monitor,
            observer,
            fleet,
            bench,
        }
    }

    fn join(&mut self) {
        let name = format!("worker-{}", self.machines.len());
        join(&self.bench, &self.fleet, &name);
        self.machines.insert(name, Fate::Runs);
    }

    fn join_foreign(&self) {
        let id = format!("other://{FOREIGN}");
        self.bench.world.machines.set(&id, Power::Running);
        let kubelet = KubeletSpec {
            node_name: FOREIGN.to_owned(),
            machine_id: id.clone(),
            provider_id: Some(id),
            ..KubeletSpec::default()
        };
        self.fleet.join(kubelet).unwrap();
    }

    async fn step(&mut self) {
        match self.random.below(14) {
            0..5 => {
                self.bench.fault(self.rule());
            }
            5 => self.bench.world.faults.clear(),
            6 => {
                let chance = [0.0, 0.2, 1.0][usize::try_from(self.random.below(3)).unwrap()];
                self.bench.cloud().fail_with(chance);
            }
            7 => {
                let latency = Duration::from_millis(self.random.below(20_000));
                self.bench.cloud().take(latency);
            }
            8 => self
                .bench
                .cluster
                .simulated()
                .unwrap()
                .api()
                .break_watches(),
            9 => {
                self.bench.cluster.simulated().unwrap().api().compact();
                self.bench.world.faults.cut_streams("kubernetes");
            }
            10 => self.join(),
            11 => self
                .bench
                .world
                .machines
                .destroy(&format!("other://{FOREIGN}")),
            12 => self.restart().await,
            _ => self.change_a_machine(),
        }
    }

    /// Any fault of the API server.
    fn rule(&self) -> Rule {
        let draw = |bound| usize::try_from(self.random.below(bound)).unwrap();
        let status = |code: u16, wait: Option<&str>| Action::Status {
            code,
            headers: wait
                .map(|it| ("retry-after".to_owned(), it.to_owned()))
                .into_iter()
                .collect(),
            body: None,
        };
        let action = match draw(12) {
            0 => status(500, None),
            1 => status(503, Some("2")),
            2 => status(429, Some("1")),
            3 => status(429, None),
            4 => status(409, None),
            5 => status(403, None),
            6 => Action::Reset,
            7 | 8 => Action::LostAnswer,
            9 => Action::Hang,
            10 => Action::CutStream {
                after: Duration::from_secs(3),
            },
            _ => Action::Delay {
                least: Duration::ZERO,
                most: Duration::from_secs(8),
            },
        };
        let (method, path) = TARGETS[draw(8)];
        let times = 1 + self.random.below(40);
        let chance = [0.2, 0.5, 1.0][draw(3)];
        let hangs_watches = action == Action::Hang && matches!(method, "*" | "GET");
        let rule = Rule::new(action)
            .server("kubernetes")
            .times(times)
            .probability(chance);
        if hangs_watches {
            // Only the manager's: the simulated kubelets wait for their watches for ever.
            rule.on("GET", "/api/v1/nodes")
                .query("*sendInitialEvents=true*")
        } else {
            rule.on(method, path)
        }
    }

    fn change_a_machine(&mut self) {
        let there: Vec<&String> = self
            .machines
            .iter()
            .filter(|(_, fate)| matches!(fate, Fate::Runs | Fate::Off))
            .map(|(name, _)| name)
            .collect();
        if there.is_empty() {
            return;
        }
        let count = u64::try_from(there.len()).unwrap();
        let name = there[usize::try_from(self.random.below(count)).unwrap()].clone();
        let id = format!("demo://{name}");
        let machines = &self.bench.world.machines;
        let fate = match self.random.below(3) {
            0 => {
                machines.set(&id, Power::Off);
                Fate::Off
            }
            1 => {
                machines.set(&id, Power::Running);
                Fate::Runs
            }
            _ => {
                machines.destroy(&id);
                Fate::Destroyed(self.bench.world.clock.now())
            }
        };
        self.machines.insert(name, fate);
    }

    /// The process ends, well or not, and starts again.
    async fn restart(&mut self) {
        if self.bench.is_running() {
            if self.random.below(2) == 0 {
                self.bench.kill().await;
            } else {
                self.bench.stop().await;
            }
        }
        self.bench.start();
    }

    /// An API server that is down when the manager starts makes it give up; then its pod starts
    /// again.
    fn restart_if_it_gave_up(&mut self) {
        if !self.bench.is_running() {
            self.bench.start();
        }
    }

    /// Takes all faults away and waits until everything is as it should be.
    async fn mend(&mut self) {
        self.bench.world.faults.clear();
        self.bench.cloud().fail_with(0.0);
        self.bench.cloud().take(Duration::ZERO);
        self.bench.seconds(15).await;
        self.restart_if_it_gave_up();
        let machines = self.machines.clone();
        let unsettled = |it: &TestCluster| -> Vec<(String, Fate, Option<String>)> {
            let open = machines
                .iter()
                .filter(|(name, fate)| !is_settled(it, name, **fate));
            let state = |node: Value| {
                let (ready, taints) = (readiness(&node), taints(&node));
                format!("Ready {ready}, {taints:?}, {:?}", addresses(&node))
            };
            open.map(|(name, fate)| (name.clone(), *fate, it.find(name).map(state)))
                .collect()
        };
        let wait = self
            .bench
            .until("everything has settled", |it| unsettled(it).is_empty());
        let _ = tokio::time::timeout(SETTLING, wait).await;
        assert_eq!(unsettled(&self.bench), [], "these never settle");
        // And stays so, without a further write: one slow round may still be due.
        self.bench.seconds(330).await;
        let before = self.bench.node_writes().len();
        self.bench.seconds(600).await;
        assert_eq!(unsettled(&self.bench), [], "settled only for a while");
        assert_eq!(
            self.bench.node_writes()[before..],
            [""; 0],
            "written without need"
        );
    }

    fn check_journal(&self) {
        let journal = &self.bench.world.journal;
        assert_eq!(journal.dropped(), 0);
        for call in journal.entries().iter().filter(|call| call.is_mutating()) {
            let Some(name) = call.path.strip_prefix("/api/v1/nodes/") else {
                continue;
            };
            let name = name.trim_end_matches("/status");
            assert!(
                name != FOREIGN || call.caller != MANAGER,
                "wrote a foreign node: {call:?}"
            );
            if call.method == "DELETE" {
                let gone = match self.machines.get(name) {
                    Some(Fate::Destroyed(at)) => *at <= call.arrived,
                    _ => false,
                };
                assert!(
                    gone,
                    "asked to delete a node whose machine exists: {call:?}"
                );
            }
        }
    }
}

fn is_settled(bench: &TestCluster, name: &str, fate: Fate) -> bool {
    let node = bench.find(name);
    match (fate, &node) {
        (Fate::Runs, Some(node)) => {
            is_ready(node) && !is_uninitialized(node) && !has_shutdown_taint(bench, name)
        }
        // A node that was never initialised is left alone; nobody knows whose it was.
        (Fate::Off, Some(node)) => {
            !is_ready(node) && !is_uninitialized(node) && has_shutdown_taint(bench, name)
        }
        (Fate::Destroyed(_), Some(node)) => is_uninitialized(node),
        // Its kubelet never came so far.
        (Fate::Off | Fate::Destroyed(_), None) => true,
        (Fate::Runs, None) => false,
    }
}
