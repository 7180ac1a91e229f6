//! One cloud fails, and nothing of that is felt in the others: their new nodes, new Services and lost machines are
//! handled as soon as ever, and nobody is asked about what is not its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Duration;

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::{is_real, run_scenario, status};
use bowline_simulator::faults::{Action, Rule};
use futures::future::join_all;
use serde_json::Value;

use crate::many::harness::{
    BALANCING, CLOUDS, EAST, EXOSCALE, Harness, TALOS, TRITON, Telling, WEST, XEN,
};
use crate::many::machines::Machine;

/// How a cloud fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Connections are cut, and what is answered is 500.
    Down,
    /// Answers come, after [`AGES`].
    Slow,
    /// Whatever is asked is refused: 401 and 403.
    Denying,
}

/// How late a slow cloud answers: just in time for clients that wait for half a minute.
const AGES: Duration = Duration::from_secs(25);
/// How much later than without a failure something may be: jitter of back-offs and of rounds, whose draws differ
/// between two runs.
const JITTER: Duration = Duration::from_secs(2);
/// On the real clock, where nothing can be compared: a new node at once, a new Service after some answers of its cloud,
/// a lost machine after the guard's two looks; and all of it beside others on a busy machine.
const REAL_LIMITS: [Duration; 3] = [
    Duration::from_secs(40),
    Duration::from_secs(60),
    Duration::from_secs(90),
];

/// What came of a cloud's new node, new Service and lost machine, each with the time that it took.
type Times = BTreeMap<&'static str, Vec<Duration>>;

/// Everybody's nodes and Services as they are when a cloud begins to fail.
struct Story {
    test: Harness,
    machines: Vec<Machine>,
}

/// What happens in every cloud while one fails.
struct News {
    machine: Machine,
    service: Option<String>,
    lost: String,
}

impl Harness {
    /// Lets a cloud fail from now on.
    fn fail(&self, cloud: &str, failure: Failure) {
        let (delay, reset) = (
            Action::Delay {
                least: AGES,
                most: AGES,
            },
            Action::Reset,
        );
        let rules = match failure {
            Failure::Down => vec![Rule::new(status(500)).probability(0.5), Rule::new(reset)],
            Failure::Slow => vec![Rule::new(delay)],
            Failure::Denying => vec![
                Rule::new(status(401)).probability(0.5),
                Rule::new(status(403)),
            ],
        };
        for (number, rule) in rules.into_iter().enumerate() {
            let rule = rule.server(cloud).named(&format!("failing-{number}"));
            self.world.faults.add(rule).unwrap();
        }
        // Whoever listens to events is cut off too.
        self.world.faults.cut_streams(cloud);
    }

    /// Lets all clouds work again.
    fn heal(&self) {
        self.world.faults.clear();
    }
}

impl Story {
    async fn begin() -> Self {
        let mut test = Harness::idle(Telling::Selectors).await;
        let machines = test.populate().await;
        test.start().await;
        for machine in &machines {
            test.until_initialized(&machine.name).await;
        }
        for cloud in BALANCING {
            test.order(&format!("old-{cloud}"), cloud).await;
        }
        let served = BALANCING.map(|cloud| {
            let (test, machines) = (&test, &machines);
            async move { test.served(&format!("old-{cloud}"), cloud, machines).await }
        });
        join_all(served).await;
        Self { test, machines }
    }

    /// A machine and a Service come in that cloud, and a machine goes.
    async fn news(&self, cloud: &'static str) -> News {
        let tens = CLOUDS.iter().position(|it| *it == cloud).unwrap();
        let number = u8::try_from(10 * (tens + 1) + 5).unwrap();
        let lost = self.test.lost(cloud, number + 1).await;
        let machine = self.test.machine(cloud, number);
        self.test.create(machine.node()).await;
        let service = BALANCING.contains(&cloud).then(|| format!("new-{cloud}"));
        if let Some(name) = &service {
            self.test.order(name, cloud).await;
        }
        News {
            machine,
            service,
            lost,
        }
    }

    /// Waits until all of it is done, and tells how long each took.
    async fn done(&self, cloud: &'static str, news: &News) -> Vec<Duration> {
        let begun = self.test.world.clock.now();
        let joined = async {
            self.test.until_initialized(&news.machine.name).await;
            self.test.assert_right(&news.machine);
            self.test.since(begun)
        };
        let mut machines = self.machines.clone();
        machines.push(news.machine.clone());
        let served = async {
            if let Some(name) = &news.service {
                self.test.served(name, cloud, &machines).await;
            }
            self.test.since(begun)
        };
        let deleted = async {
            self.test.until_deleted(&news.lost).await;
            self.test.since(begun)
        };
        let (joined, served, deleted) = futures::join!(joined, served, deleted);
        vec![joined, served, deleted]
    }

    /// What the manager could have spoilt of a cloud: its nodes, and its Service.
    fn possessions(&self, cloud: &str) -> Vec<Value> {
        let own = self.machines.iter().filter(|it| it.owner == cloud);
        let mut all: Vec<Value> = own.map(|it| self.test.content(&it.name)).collect();
        if BALANCING.contains(&cloud) {
            let service = self.test.service(&format!("old-{cloud}"));
            all.push(service["status"]["loadBalancer"].clone());
            all.push(service["metadata"]["finalizers"].clone());
        }
        all
    }

    /// Checks that from that entry of the journal on no cloud was asked about a machine or a Service that is not its
    /// own.
    fn assert_no_cross_talk(&self, mark: usize, news: &[(&'static str, News)]) {
        let mut ids: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let all = self
            .machines
            .iter()
            .chain(news.iter().map(|(_, it)| &it.machine));
        for machine in all {
            for cloud in [machine.owner, machine.describer] {
                let own = ids.entry(cloud).or_default();
                own.extend([machine.id.clone(), machine.name.clone()]);
            }
        }
        for cloud in CLOUDS {
            let others = ids.iter().filter(|(owner, _)| **owner != cloud);
            let others: BTreeSet<&String> = others.flat_map(|(_, ids)| ids).collect();
            let foreign: Vec<&String> = others
                .difference(&ids[cloud].iter().collect())
                .copied()
                .collect();
            for call in self.test.asked(cloud, mark) {
                let said = format!("{}?{} {}", call.path, call.query, call.body);
                let strange = foreign.iter().find(|id| said.contains(id.as_str()));
                assert_eq!(strange, None, "{cloud} was asked {said}");
            }
        }
    }
}

/// How long everything takes where nobody fails.
fn healthy_times() -> &'static Times {
    static TIMES: OnceLock<Times> = OnceLock::new();
    TIMES.get_or_init(|| run_scenario!(async || without_failure().await))
}

async fn without_failure() -> Times {
    let story = Story::begin().await;
    let mut all = Vec::new();
    for cloud in CLOUDS {
        all.push((cloud, story.news(cloud).await));
    }
    let done = all.iter().map(|(cloud, news)| story.done(cloud, news));
    let times = join_all(done).await;
    CLOUDS.into_iter().zip(times).collect()
}

/// The whole story of a cloud that fails like that.
async fn others_work_on(failing: &'static str, failure: Failure, healthy: Option<&Times>) {
    let mut story = Story::begin().await;
    let foreign = story.test.put_foreign().await;
    story.test.settle().await;
    let before = story.possessions(failing);
    let mark = story.test.mark();
    story.test.fail(failing, failure);
    // The failing one first, so that the others' would be behind it in any queue they shared.
    let mut all = vec![(failing, story.news(failing).await)];
    for cloud in CLOUDS.into_iter().filter(|it| *it != failing) {
        all.push((cloud, story.news(cloud).await));
    }
    let others = all[1..].iter().map(|(cloud, news)| story.done(cloud, news));
    for ((cloud, _), took) in all[1..].iter().zip(join_all(others).await) {
        let limits = healthy.map_or(REAL_LIMITS.to_vec(), |it| {
            it[cloud].iter().map(|it| *it + JITTER).collect()
        });
        let in_time = took.iter().zip(&limits).all(|(took, limit)| took <= limit);
        assert!(
            in_time,
            "{cloud} took {took:?}, and at most {limits:?} are fine"
        );
    }
    story.test.catch_up().await;
    story.assert_no_cross_talk(mark, &all);
    assert_eq!(story.possessions(failing), before);
    story.test.assert_untouched(&foreign);
    let (_, own) = &all[0];
    if failure != Failure::Slow {
        let node = story.test.node(&own.machine.name);
        assert!(is_uninitialized(&node), "nobody could tell what it is");
        assert!(story.test.find(&own.lost).is_some(), "nobody proved it");
    }
    story.test.heal();
    story.test.until_initialized(&own.machine.name).await;
    story.test.assert_right(&own.machine);
    if !is_real() {
        story.done(failing, own).await;
    }
    story.test.stop().await;
}

fn fail(failing: &'static str, failure: Failure) {
    let healthy = (!is_real()).then(healthy_times);
    run_scenario!(async || others_work_on(failing, failure, healthy).await);
}

/// One scenario for each cloud and each way to fail.
macro_rules! scenarios {
    ($($name:ident: $cloud:expr, $failure:ident;)*) => {
        $(#[test]
        fn $name() {
            fail($cloud, Failure::$failure);
        })*
    };
}

scenarios! {
    one_account_of_cloudscale_is_down: EAST, Down;
    one_account_of_cloudscale_is_slow: EAST, Slow;
    one_account_of_cloudscale_denies: EAST, Denying;
    the_other_account_of_cloudscale_is_down: WEST, Down;
    the_other_account_of_cloudscale_is_slow: WEST, Slow;
    the_other_account_of_cloudscale_denies: WEST, Denying;
    exoscale_is_down: EXOSCALE, Down;
    exoscale_is_slow: EXOSCALE, Slow;
    exoscale_denies: EXOSCALE, Denying;
    talos_is_down: TALOS, Down;
    talos_is_slow: TALOS, Slow;
    talos_denies: TALOS, Denying;
    xen_orchestra_is_down: XEN, Down;
    xen_orchestra_is_slow: XEN, Slow;
    xen_orchestra_denies: XEN, Denying;
    triton_is_down: TRITON, Down;
    triton_is_slow: TRITON, Slow;
    triton_denies: TRITON, Denying;
}
