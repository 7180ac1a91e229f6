//! Random trouble around Services: whatever happens, in the end every Service is as wanted, nothing of others was
//! touched, nothing leaked, and nothing is left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_http::Random;
use bowline_scenarios::objects::{entrances, finalizers, service, text};
use bowline_scenarios::seeds::pick;
use bowline_scenarios::triton::section;
use bowline_scenarios::{refuse, run_seeds};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_triton::MachineInfo;
use serde_json::{Value, json};

use crate::triton::harness::{id, name};
use crate::triton::service_harness::{PREFIX, ServiceHarness, outside};

/// Seeds that are tried; a failure names its own.
const SEEDS: u64 = 3;
/// Things that happen in one run.
const STRIKES: u32 = 40;
/// Longer than the longest pause between two tries and two comparisons.
const DUST: u64 = 1500;
const NAMES: [&str; 3] = ["a", "b", "c"];
/// What somebody else has on the first machine.
const THEIRS: &str = "k8s-api:6443";

fn key(suffix: &str) -> String {
    format!("{PREFIX}{suffix}")
}

/// Something happens to a Service.
async fn strike_service(test: &ServiceHarness, random: &Random) {
    let name = pick(random, &NAMES);
    let Some(there) = test.find_service(name) else {
        return test.create_service(service(name)).await;
    };
    if !there["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    let (suffix, value) = match random.below(6) {
        0 => return test.delete_service(name).await,
        1 => {
            let port = json!(80 + random.below(3));
            return test
                .change_service(name, |it| it["spec"]["ports"][0]["port"] = port.clone())
                .await;
        }
        2 => ("mode", pick(random, &["cns", "clb"])),
        3 => (
            "cns_port_mode",
            pick(random, &["nodeport", "service", "wrong"]),
        ),
        4 => ("publish", pick(random, &["hostname", "both"])),
        _ => ("cns_service", pick(random, &["shared", "store"])),
    };
    // No two Services may share a label that they name themselves.
    let value = match suffix {
        "cns_service" => format!("{value}-{name}"),
        _ => value.to_owned(),
    };
    test.annotate(name, &key(suffix), Some(&value)).await;
}

/// Something goes wrong.
fn strike_servers(test: &ServiceHarness, random: &Random) {
    let times = random.below(3) + 1;
    let cloud = |action| Rule::new(action).server("triton").times(times);
    let status = |code| Action::Status {
        code,
        headers: BTreeMap::new(),
        body: None,
    };
    let rule = match random.below(8) {
        0 => cloud(Action::LostAnswer),
        1 => cloud(Action::Reset),
        2 => cloud(Action::Truncated),
        3 => cloud(status(503)),
        4 => cloud(status(429)),
        5 => refuse(500, "PATCH", "/api/v1/namespaces/shop/services/*").times(times),
        6 => return test.cloud.drop_feeds(),
        _ => return test.cluster.break_watches(),
    };
    test.fault(rule);
}

/// Somebody's tool brings the tags of a machine to what it knows, and nodes come and go.
async fn strike_machines(test: &ServiceHarness, random: &Random) {
    let number = pick(random, &[1, 2, 3]);
    match random.below(4) {
        0 => {
            let tags = theirs(number);
            test.cloud.replace_tags(&id(number), tags).unwrap();
        }
        1 => test.cloud.set_quirks(|it| it.names_down = !it.names_down),
        2 => test.set_ready(&name(number), "Unknown").await,
        _ => test.set_ready(&name(number), "True").await,
    }
}

/// The tags of a machine that are somebody else's.
fn theirs(number: u32) -> serde_json::Map<String, Value> {
    let mut tags = json!({ "role": "worker", "team": 7, "spare": true });
    if number == 1 {
        tags["triton.cns.services"] = THEIRS.into();
    }
    tags.as_object().unwrap().clone()
}

async fn strike(test: &mut ServiceHarness, random: &Random) {
    match random.below(10) {
        0..=4 => strike_service(test, random).await,
        5..=6 => strike_servers(test, random),
        7..=8 => strike_machines(test, random).await,
        _ => {
            test.kill().await;
            test.start().await;
        }
    }
    let pause = random.below(8000);
    tokio::time::sleep(Duration::from_millis(pause)).await;
}

/// All is well again, and nothing is wrong with any Service.
async fn calm_down(test: &ServiceHarness) {
    test.world.faults.clear();
    test.cloud.set_quirks(|it| it.names_down = false);
    for number in 1..=3 {
        test.set_ready(&name(number), "True").await;
    }
    for name in NAMES {
        if test.find_service(name).is_some() {
            test.annotate(name, &key("cns_port_mode"), None).await;
        }
    }
}

fn annotation<'a>(service: &'a Value, suffix: &str) -> &'a str {
    text(&service["metadata"]["annotations"][key(suffix)])
}

/// The entry of a Service in the tag of each node, if it is served by its name; otherwise its machine is checked.
fn entry(test: &ServiceHarness, it: &Value, seed: u64) -> Option<String> {
    let service = text(&it["metadata"]["name"]);
    let label = match annotation(it, "cns_service") {
        "" => format!("{service}.shop"),
        label => label.to_owned(),
    };
    let shown = entrances(it);
    let own = machines_of(test, text(&it["metadata"]["uid"]));
    if annotation(it, "mode") != "clb" {
        assert_eq!(own, [], "seed {seed}");
        assert_eq!(shown[0], outside(&label), "seed {seed}");
        let port = &it["spec"]["ports"][0]["nodePort"];
        return Some(format!("{label}:{port}"));
    }
    let [machine] = &own[..] else {
        panic!("seed {seed}: {service}: {own:?}");
    };
    let address = format!("{} Proxy", machine.addresses[0]);
    let wanted = match annotation(it, "publish") {
        "hostname" => vec![outside(&label)],
        "both" => vec![outside(&label), address],
        _ => vec![address],
    };
    assert_eq!(shown, wanted, "seed {seed}");
    assert_eq!(annotation(it, "instances"), machine.id, "seed {seed}");
    let map = text(&machine.metadata["cloud.tritoncompute:portmap"]);
    let front = format!("tcp://{}:", it["spec"]["ports"][0]["port"]);
    let back = format!(":{}", it["spec"]["ports"][0]["nodePort"]);
    assert!(
        map.starts_with(&front) && map.ends_with(&back),
        "seed {seed}: {map}"
    );
    None
}

fn machines_of(test: &ServiceHarness, uid: &str) -> Vec<MachineInfo> {
    let mut machines = test.cloud.machines();
    machines.retain(|it| it.tag("bowline.uid") == Some(uid));
    machines
}

/// The machines of nodes carry these entries, what is not ours, and nothing else.
fn assert_machines(test: &ServiceHarness, entries: &BTreeSet<String>, seed: u64) {
    for number in 1..=3 {
        let tags = test.cloud.machine(&id(number)).unwrap().tags;
        let theirs = theirs(number);
        for (key, value) in &theirs {
            if key != "triton.cns.services" {
                assert_eq!(tags.get(key), Some(value), "seed {seed}: {key}");
            }
        }
        let mut wanted = entries.clone();
        wanted.extend((number == 1).then(|| THEIRS.to_owned()));
        let tag = tags.get("triton.cns.services").map_or("", text);
        let carried = tag.split(',').filter(|it| !it.is_empty());
        let carried: BTreeSet<String> = carried.map(str::to_owned).collect();
        assert_eq!(carried, wanted, "seed {seed}: machine {number}");
    }
}

async fn story(seed: u64) {
    let random = Random::seeded(seed);
    let file = section("LoadBalancer", &[("clb-package", "lb1.small")]);
    let mut test = ServiceHarness::configured(&file).await;
    for number in 1..=3 {
        test.cloud
            .replace_tags(&id(number), theirs(number))
            .unwrap();
    }
    for _ in 0..STRIKES {
        strike(&mut test, &random).await;
    }
    calm_down(&test).await;
    test.seconds(DUST).await;
    let mark = test.mark();
    let mut entries = BTreeSet::new();
    let (mut balanced, mut uids) = (0, Vec::new());
    let mut cluster = String::new();
    for name in NAMES {
        if let Some(it) = test.find_service(name) {
            assert_eq!(finalizers(&it).len(), 1, "seed {seed}");
            match entry(&test, &it, seed) {
                Some(entry) => drop(entries.insert(entry)),
                None => balanced += 1,
            }
            uids.push(text(&it["metadata"]["uid"]).to_owned());
        }
    }
    let machines = test.cloud.machines().into_iter();
    for machine in machines.filter(|it| it.tag("bowline.clb").is_some()) {
        machine.tag("bowline.clb").unwrap()[..8].clone_into(&mut cluster);
        let uid = machine.tag("bowline.uid").unwrap_or_default().to_owned();
        assert!(uids.contains(&uid), "seed {seed}: nobody's {machine:?}");
    }
    if balanced > 0 {
        entries.insert(format!("k8s-nodes-{cluster}"));
    }
    assert_machines(&test, &entries, seed);
    test.stop().await;
    test.start().await;
    test.seconds(120).await;
    let changes = test.changes(mark);
    assert!(changes.is_empty(), "seed {seed}: {changes:?}");
}

#[test]
fn after_the_dust_settles_every_service_is_served_and_nobody_elses_tag_is_lost() {
    run_seeds!("it takes hours of the clock", 0..SEEDS, story);
}
