//! Random trouble around Services: whatever happens, in the end the cloud is as wanted, nothing of
//! others was touched, nothing leaked, and nothing is left to do.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_http::Random;
use bowline_scenarios::objects::{entrances, finalizers, service};
use bowline_scenarios::seeds::{pick, ports};
use bowline_scenarios::{refuse, run_seeds};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_exoscale::{BalancerInfo, BalancerSpec, Ending, ServiceSpec};
use serde_json::{Value, json};

use super::service_harness::{ServiceHarness, annotation, key, uid};
use crate::exoscale::harness::{Harness, I1, I2, P1, P2};

/// Seeds that are tried; a failure names its own.
const SEEDS: u64 = 3;
/// Things that happen in one run.
const STRIKES: u32 = 40;
/// Longer than the longest pause between two tries and two comparisons.
const DUST: u64 = 1500;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Something happens to a Service.
async fn strike_service(test: &ServiceHarness, random: &Random) {
    let name = pick(random, &NAMES);
    let Some(there) = test.find_service(name) else {
        let mut it = service(name);
        it["spec"]["ports"] = ports(random);
        return test.create_service(it).await;
    };
    if !there["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    let setting = match random.below(6) {
        0 => return test.delete_service(name).await,
        1 => {
            let ports = ports(random);
            return test
                .change_service(name, |it| it["spec"]["ports"] = ports.clone())
                .await;
        }
        2 => ("service-instancepool-id", pick(random, &[P1, P2])),
        3 => (
            "service-strategy",
            pick(random, &["source-hash", "round-robin", "wrong"]),
        ),
        4 => ("service-name", pick(random, &["", "x"])),
        _ => return test.annotate(name, &key("id"), None).await,
    };
    test.annotate(name, &key(setting.0), Some(setting.1)).await;
}

/// Something goes wrong.
fn strike_servers(test: &ServiceHarness, random: &Random) {
    let times = random.below(3) + 1;
    let cloud = |action| Rule::new(action).server("exoscale").times(times);
    let unavailable = Action::Status {
        code: 503,
        headers: BTreeMap::new(),
        body: None,
    };
    let rule = match random.below(7) {
        0 => cloud(Action::LostAnswer),
        1 => cloud(Action::Reset),
        2 => cloud(Action::Truncated),
        3 => cloud(unavailable),
        4 => refuse(500, "PATCH", "/api/v1/namespaces/shop/services/*").times(times),
        5 => {
            let ending = if random.below(2) == 0 {
                Ending::failure("busy", "not now")
            } else {
                Ending::timeout()
            };
            return test.cloud.plan("*", ending, Some(times));
        }
        _ => return test.cluster.break_watches(),
    };
    test.fault(rule);
}

/// Somebody does something by hand in the cloud, but not to what is others'.
fn strike_cloud(test: &ServiceHarness, random: &Random) {
    let all = test.cloud.balancers().into_iter();
    let ours: Vec<BalancerInfo> = all.filter(|it| it.name != "foreign").collect();
    if ours.is_empty() {
        return;
    }
    let one = pick(random, &ours.iter().collect::<Vec<_>>());
    match one.services.first() {
        Some(service) if random.below(2) == 0 => {
            let _ = test.cloud.remove_service(&one.id, &service.id);
        }
        Some(service) => {
            let _ = test.cloud.retarget_service(&one.id, &service.id, 31999);
        }
        None => {}
    }
}

async fn strike(test: &mut ServiceHarness, random: &Random) {
    match random.below(10) {
        0..=4 => strike_service(test, random).await,
        5..=7 => strike_servers(test, random),
        8 => strike_cloud(test, random),
        _ => {
            test.kill().await;
            test.start().await;
        }
    }
    let pause = random.below(4000);
    tokio::time::sleep(Duration::from_millis(pause)).await;
}

/// The load balancer of a Service is what that asks for, and shown.
fn assert_right(test: &ServiceHarness, it: &Value, seed: u64) {
    let name = format!("k8s-{}", uid(it));
    let all = test.cloud.balancers();
    let own: Vec<&BalancerInfo> = all.iter().filter(|it| it.name == name).collect();
    let [own] = own.as_slice() else {
        panic!("seed {seed}: {name}: {own:?}");
    };
    assert_eq!(annotation(it, "id"), own.id, "seed {seed}");
    assert_eq!(entrances(it), [format!("{} VIP", own.ip)], "seed {seed}");
    let wanted = it["spec"]["ports"].as_array().unwrap();
    assert_eq!(own.services.len(), wanted.len(), "seed {seed}: {own:?}");
    for port in wanted {
        let protocol = port["protocol"].as_str().unwrap().to_lowercase();
        let mut all = own.services.iter();
        let found = all.find(|it| json!(it.port) == port["port"] && it.protocol == protocol);
        let found = found.unwrap_or_else(|| panic!("seed {seed}: {port}: {own:?}"));
        assert_eq!(json!(found.target_port), port["nodePort"], "seed {seed}");
        let pool = annotation(it, "service-instancepool-id");
        assert_eq!(found.pool, pool, "seed {seed}");
    }
}

async fn story(seed: u64) {
    let random = Random::seeded(seed);
    let mut test = ServiceHarness::on(Harness::seeded(seed).await, &[I1, I2]).await;
    let theirs = BalancerSpec::named("foreign").service(ServiceSpec::new("api", P1, 80, 30080));
    test.cloud.add_balancer(&theirs).unwrap();
    let foreign = |test: &ServiceHarness| {
        let mut all = test.cloud.balancers().into_iter();
        all.find(|it| it.name == "foreign")
    };
    let before = foreign(&test);
    // Some clouds refuse a change of what they are still changing.
    let strict = seed % 2 == 1;
    test.cloud.set_quirks(|it| it.one_change_at_a_time = strict);
    test.start().await;
    for _ in 0..STRIKES {
        strike(&mut test, &random).await;
    }
    test.world.faults.clear();
    test.cloud.forget_plans();
    for name in NAMES {
        if test.find_service(name).is_some() {
            test.annotate(name, &key("service-strategy"), None).await;
        }
    }
    test.seconds(DUST).await;
    let mark = test.mark();
    let mut wanted = 1;
    for name in NAMES {
        if let Some(it) = test.find_service(name) {
            assert_eq!(finalizers(&it).len(), 1, "seed {seed}");
            assert_right(&test, &it, seed);
            wanted += 1;
        }
    }
    assert_eq!(test.cloud.balancers().len(), wanted, "seed {seed}");
    assert_eq!(foreign(&test), before, "seed {seed}");
    test.restart().await;
    test.seconds(60).await;
    assert_eq!(test.changes(mark), [""; 0], "seed {seed}");
}

#[test]
fn after_the_dust_settles_every_service_has_its_load_balancer_and_nobody_elses() {
    run_seeds!("it takes hours of the clock", 0..SEEDS, story);
}
