//! Other people's tools at work on the same machines at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_http::Random;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::super::*;
use super::harness::{CLUSTER, Harness, id, ids, port, put, put_done};
use crate::api::{Api, TagValue};

const GROUP: &str = "k8s-kubernetes";

/// Somebody else's tool that manages one machine: it has tags of its own, and entries of its own in
/// the lists. It reads, puts its own to what is there, writes, and looks until it shows.
struct Tool {
    api: Arc<Api>,
    machine: Uuid,
    random: Random,
    tags: BTreeMap<String, TagValue>,
    lists: BTreeMap<&'static str, BTreeSet<String>>,
}

/// What tools call their entries.
const PREFIX: &str = "tool-";
/// Those that are there from the beginning.
const OLD: &str = "tool-old-";

fn seconds(random: &Random, least: u64, most: u64) -> Duration {
    Duration::from_millis(least * 1000 + random.below((most - least) * 1000 + 1))
}

impl Tool {
    async fn run(mut self, changes: u32) -> Self {
        for number in 0..changes {
            sleep(seconds(&self.random, 0, 20)).await;
            match self.random.below(6) {
                0 => self.tag(self.random.below(3)).await,
                1 => {
                    let entry = format!("{PREFIX}{number}:{}", 1 + number);
                    self.add(SERVICES, &entry).await;
                }
                2 => {
                    let entry = format!("{PREFIX}Odd{number}:1:weight=5");
                    self.add(SERVICES, &entry).await;
                }
                3 => self.add(GROUPS, &format!("{PREFIX}{number}")).await,
                4 => self.remove_old(SERVICES).await,
                _ => self.remove_old(GROUPS).await,
            }
        }
        self
    }

    async fn add(&mut self, list: &'static str, entry: &str) {
        self.lists.entry(list).or_default().insert(entry.to_owned());
        self.write(list).await;
    }

    /// Removes an entry that was there from the beginning. (Who takes back what he has just put
    /// there may find that it is not there, because of a write of ours that is then restored.)
    async fn remove_old(&mut self, list: &'static str) {
        let own = self.lists.entry(list).or_default();
        let old = own.iter().find(|it| it.starts_with(OLD)).cloned();
        if let Some(old) = old {
            own.remove(&old);
            self.write(list).await;
        }
    }

    async fn tag(&mut self, number: u64) {
        let key = format!("{PREFIX}tag-{number}");
        if self.tags.remove(&key).is_some() {
            self.api.delete_tag(self.machine, &key).await.unwrap();
        } else {
            let value = match number {
                0 => TagValue::Boolean(true),
                1 => TagValue::Number(7.into()),
                _ => format!("value {number}").as_str().into(),
            };
            let tags = Tags::from([(key.clone(), value.clone())]);
            self.api.add_tags(self.machine, &tags).await.unwrap();
            self.tags.insert(key.clone(), value);
        }
        self.wait(|tool, tags| tags.get(&key) == tool.tags.get(&key))
            .await;
    }

    /// Brings its own entries to a list.
    async fn write(&self, list: &'static str) {
        loop {
            let tags = self.api.tags(self.machine).await.unwrap();
            if self.is_in(list, &tags) {
                return;
            }
            let text = tags
                .get(list)
                .and_then(TagValue::as_text)
                .unwrap_or_default();
            let others = text.split(',').filter(|it| !it.is_empty());
            let others = others
                .filter(|it| !it.starts_with(PREFIX))
                .map(ToOwned::to_owned);
            let mut all: Vec<String> = others.collect();
            let own = self.lists[list].iter().cloned();
            if self.random.below(2) == 0 {
                all.extend(own);
            } else {
                all.splice(0..0, own);
            }
            if all.is_empty() {
                self.api.delete_tag(self.machine, list).await.unwrap();
            } else {
                let tags = Tags::from([(list.to_owned(), all.join(",").as_str().into())]);
                self.api.add_tags(self.machine, &tags).await.unwrap();
            }
            if self.wait(|tool, tags| tool.is_in(list, tags)).await {
                return;
            }
        }
    }

    fn is_in(&self, list: &str, tags: &Tags) -> bool {
        let text = tags
            .get(list)
            .and_then(TagValue::as_text)
            .unwrap_or_default();
        let own = text.split(',').filter(|it| it.starts_with(PREFIX));
        own.map(ToOwned::to_owned).collect::<BTreeSet<_>>() == self.lists[list]
    }

    /// Looks for half a minute until something shows.
    async fn wait(&self, shows: impl Fn(&Self, &Tags) -> bool) -> bool {
        for _ in 0..30 {
            sleep(Duration::from_secs(1)).await;
            let tags = self.api.tags(self.machine).await.unwrap();
            if shows(self, &tags) {
                return true;
            }
        }
        false
    }
}

/// A Service that changes its ports and its targets.
struct Service {
    reconciler: Arc<TagReconciler>,
    label: &'static str,
    machines: BTreeSet<Uuid>,
    random: Random,
    wanted: BTreeMap<Uuid, Option<Ports>>,
}

impl Service {
    async fn run(mut self, changes: u32) -> Self {
        for _ in 0..changes {
            let ports = port(30_000 + u16::try_from(self.random.below(5)).unwrap());
            for machine in &self.machines {
                let target = self.random.below(4) > 0;
                let ports = ports.clone().filter(|_| target);
                self.reconciler.want(*machine, self.label, ports.clone());
                self.wanted.insert(*machine, ports);
            }
            super::harness::reconcile(&self.reconciler, &self.machines, About::Label(self.label))
                .await;
            sleep(seconds(&self.random, 0, 20)).await;
        }
        self
    }

    /// Checks whether all is as wanted, and repairs what is not.
    async fn compare(&self) -> bool {
        let machine_cache = self.reconciler.data_center().machines();
        let listing = machine_cache.since(Instant::now()).await.unwrap();
        let mut good = true;
        for (machine, ports) in &self.wanted {
            let tags = &listing.machines[machine].tags;
            let shows = |ports: Option<&Ports>| {
                let at = (*machine, tags);
                self.reconciler.shows(CLUSTER, at, self.label, ports)
            };
            if !shows(ports.as_ref()) {
                good = false;
                let one = BTreeSet::from([*machine]);
                put_done(&self.reconciler, &one, self.label, ports.clone()).await;
            }
        }
        good
    }
}

fn entries(tags: &Tags, key: &str) -> Vec<String> {
    let text = tags
        .get(key)
        .and_then(TagValue::as_text)
        .unwrap_or_default();
    let mut entries: Vec<String> = text
        .split(',')
        .filter(|it| !it.is_empty())
        .map(ToOwned::to_owned)
        .collect();
    entries.sort();
    entries
}

/// Two Services, groups, and somebody else's tool on each of so many machines, all at the same
/// time.
async fn everybody_at_once(count: u32, seed: u64, qps: u32) {
    let test = Harness::new(count, seed);
    let random = Random::seeded(seed);
    let old: BTreeSet<String> = (1..=3).map(|it| format!("{OLD}{it}")).collect();
    let start: Vec<String> = old.iter().cloned().collect();
    let start = start.join(",");
    for number in 1..=count {
        test.set_tag(number, GROUPS, start.clone());
        test.set_tag(number, SERVICES, start.clone());
    }
    for number in (1..=count).step_by(3) {
        let list = format!("k8s-api:6443,OLD:1:weight=5,{start}");
        test.set_tag(number, SERVICES, list);
        test.set_tag(number, "env", "prod");
    }
    let reconciler = test.reconciler_at(qps);
    let machines = ids(1..=count);
    let service = |label| Service {
        reconciler: Arc::clone(&reconciler),
        label,
        machines: machines.clone(),
        random: random.fork(),
        wanted: BTreeMap::new(),
    };
    let services = [service("web.prod"), service("api.prod")].map(|it| tokio::spawn(it.run(4)));
    for machine in &machines {
        reconciler.want_groups(*machine, Role::Node, BTreeSet::from([GROUP.to_owned()]));
    }
    let api = test.api(1000);
    let tools = machines.iter().map(|machine| {
        let tool = Tool {
            api: Arc::clone(&api),
            machine: *machine,
            random: random.fork(),
            tags: BTreeMap::new(),
            lists: BTreeMap::from([(SERVICES, old.clone()), (GROUPS, old.clone())]),
        };
        tokio::spawn(tool.run(4))
    });
    let tools: Vec<_> = tools.collect();
    let (cloud, dice) = (test.sim.clone(), random.fork());
    let weather = bowline_http::Background::start(async move {
        loop {
            let job = seconds(&dice, 1, 10);
            cloud.set_timings(|timings| timings.job = job);
            sleep(Duration::from_millis(700)).await;
        }
    });
    let tools = futures::future::join_all(tools).await;
    let services = futures::future::join_all(services).await;
    drop(weather);
    let services: Vec<Service> = services.into_iter().map(Result::unwrap).collect();
    // As at every resync.
    for round in 0.. {
        assert!(round < 5, "it does not come to rest");
        let mut good = true;
        for service in &services {
            good &= service.compare().await;
        }
        super::harness::all_done(
            &super::harness::reconcile(&reconciler, &machines, About::Groups).await,
        );
        if good {
            break;
        }
    }
    for tool in tools {
        check(&test, &tool.unwrap(), &services, seed);
    }
    assert!(test.writes().iter().all(|it| it.method != "PUT"));
}

fn transcript(test: &Harness, machine: Uuid) -> String {
    let machine = machine.to_string();
    let writes = test.writes();
    let writes = writes.iter().filter(|it| it.path.contains(&machine));
    let line = |it: &bowline_simulator::journal::Entry| {
        let last = it.path.rsplit('/').next().unwrap_or_default();
        format!("{} {} {last} {}\n", it.time, it.method, it.body)
    };
    writes.map(line).collect()
}

/// Nothing of ours is missing, nothing of theirs is, and there is nothing else.
fn check(test: &Harness, tool: &Tool, services: &[Service], seed: u64) {
    let number = (1..100).find(|it| id(*it) == tool.machine).unwrap();
    let tags = test.tags(number);
    let at = format!(
        "seed {seed}, machine {number}:\n{}",
        transcript(test, tool.machine)
    );
    let own = (number - 1) % 3 == 0;
    let mut list: Vec<String> = tool.lists[SERVICES].iter().cloned().collect();
    if own {
        list.extend(["k8s-api:6443".to_owned(), "OLD:1:weight=5".to_owned()]);
    }
    let mut record = BTreeSet::new();
    for service in services {
        for port in service.wanted[&tool.machine].iter().flatten() {
            list.push(format!("{}:{}", service.label, port.unwrap()));
            record.insert(service.label.to_owned());
        }
    }
    list.sort();
    assert_eq!(entries(&tags, SERVICES), list, "{at}");
    let record: Vec<String> = record.into_iter().collect();
    assert_eq!(entries(&tags, SERVICES_RECORD), record, "{at}");
    let mut groups: Vec<String> = tool.lists[GROUPS].iter().cloned().collect();
    groups.push(GROUP.to_owned());
    groups.sort();
    assert_eq!(entries(&tags, GROUPS), groups, "{at}");
    assert_eq!(entries(&tags, GROUPS_RECORD), [GROUP], "{at}");
    assert_eq!(tags.get(NODE), Some(&CLUSTER.into()), "{at}");
    let lists = [SERVICES, SERVICES_RECORD, GROUPS, GROUPS_RECORD, NODE];
    let mut rest = tags.clone();
    rest.retain(|key, _| !lists.contains(&key.as_str()));
    let mut theirs = tool.tags.clone();
    if own {
        theirs.insert("env".to_owned(), "prod".into());
    }
    assert_eq!(rest, theirs, "{at}");
}

#[tokio::test(start_paused = true)]
async fn two_services_and_others_tools_on_fifty_machines_lose_and_touch_nothing() {
    everybody_at_once(50, 1, 500).await;
}

#[tokio::test(start_paused = true)]
async fn many_seeds_of_a_few_machines_lose_and_touch_nothing() {
    for seed in 100..106 {
        everybody_at_once(5, seed, 500).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_others_add_or_remove_while_a_write_is_on_its_way_is_made_good() {
    let test = Harness::new(1, 7);
    test.set_tag(1, SERVICES, "mail:25,ftp:21");
    test.sim
        .set_timings(|timings| timings.job = Duration::from_secs(4));
    let reconciler = test.reconciler();
    let others = async {
        sleep(Duration::from_secs(2)).await;
        // Without a job, in the midst of ours.
        test.set_tag(1, SERVICES, "mail:25,smtp:587");
    };
    let one = ids([1]);
    let (outcomes, ()) = tokio::join!(put(&reconciler, &one, "web", port(80)), others);
    super::harness::all_done(&outcomes);
    assert_eq!(test.tag(1, SERVICES).unwrap(), "mail:25,smtp:587,web:80");
    assert_eq!(test.writes().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_somebody_overtakes_is_made_again_and_the_machine_is_not_unwritable() {
    let test = Harness::new(1, 7);
    test.sim
        .set_timings(|timings| timings.job = Duration::from_secs(2));
    let reconciler = test.reconciler();
    reconciler.want(id(1), "web", port(80));
    reconciler
        .reconcile(CLUSTER, id(1), About::Label("web"))
        .await
        .unwrap();
    // Ours comes about and is replaced before anybody looks.
    sleep(Duration::from_millis(2100)).await;
    let theirs = [(SERVICES.to_owned(), "mail:25".into())]
        .into_iter()
        .collect();
    test.sim.replace_tags(&id(1).to_string(), theirs).unwrap();
    let start = Instant::now();
    put_done(&reconciler, &ids([1]), "web", port(80)).await;
    assert!(
        start.elapsed() < Duration::from_secs(25),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(test.tag(1, SERVICES).unwrap(), "mail:25,web:80");
}
