//! Random trouble around Services: whatever happens, in the end the cloud is as wanted, nothing of
//! others was touched, nothing leaked, and nothing is left to do.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_http::Random;
use bowline_scenarios::objects::{entrances, finalizers, service};
use bowline_scenarios::seeds::{pick, ports};
use bowline_scenarios::{play_seeds, refuse};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_exoscale::{BalancerInfo, BalancerSpec, Ending, ServiceSpec};
use serde_json::{Value, json};

use super::shop::{Shop, annotation, key, uid};
use crate::stage::{I1, I2, P1, P2, Stage};

/// Seeds that are tried; a failure names its own.
const SEEDS: u64 = 6;
/// Things that happen in one run.
const STRIKES: u32 = 40;
/// Longer than the longest pause between two tries and two comparisons.
const DUST: u64 = 1500;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Something happens to a Service.
async fn strike_service(shop: &Shop, random: &Random) {
    let name = pick(random, &NAMES);
    let Some(there) = shop.find_service(name) else {
        let mut it = service(name);
        it["spec"]["ports"] = ports(random);
        return shop.create_service(it).await;
    };
    if !there["metadata"]["deletionTimestamp"].is_null() {
        return;
    }
    let setting = match random.below(6) {
        0 => return shop.delete_service(name).await,
        1 => {
            let ports = ports(random);
            return shop
                .change_service(name, |it| it["spec"]["ports"] = ports.clone())
                .await;
        }
        2 => ("service-instancepool-id", pick(random, &[P1, P2])),
        3 => (
            "service-strategy",
            pick(random, &["source-hash", "round-robin", "wrong"]),
        ),
        4 => ("service-name", pick(random, &["", "x"])),
        _ => return shop.annotate(name, &key("id"), None).await,
    };
    shop.annotate(name, &key(setting.0), Some(setting.1)).await;
}

/// Something goes wrong.
fn strike_servers(shop: &Shop, random: &Random) {
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
            return shop.cloud.plan("*", ending, Some(times));
        }
        _ => return shop.cluster.break_watches(),
    };
    shop.fault(rule);
}

/// Somebody does something by hand in the cloud, but not to what is others'.
fn strike_cloud(shop: &Shop, random: &Random) {
    let all = shop.cloud.balancers().into_iter();
    let ours: Vec<BalancerInfo> = all.filter(|it| it.name != "foreign").collect();
    if ours.is_empty() {
        return;
    }
    let one = pick(random, &ours.iter().collect::<Vec<_>>());
    match one.services.first() {
        Some(service) if random.below(2) == 0 => {
            let _ = shop.cloud.remove_service(&one.id, &service.id);
        }
        Some(service) => {
            let _ = shop.cloud.retarget_service(&one.id, &service.id, 31999);
        }
        None => {}
    }
}

async fn strike(shop: &mut Shop, random: &Random) {
    match random.below(10) {
        0..=4 => strike_service(shop, random).await,
        5..=7 => strike_servers(shop, random),
        8 => strike_cloud(shop, random),
        _ => {
            shop.kill().await;
            shop.start().await;
        }
    }
    let pause = random.below(4000);
    tokio::time::sleep(Duration::from_millis(pause)).await;
}

/// The load balancer of a Service is what that asks for, and shown.
fn assert_right(shop: &Shop, it: &Value, seed: u64) {
    let name = format!("k8s-{}", uid(it));
    let all = shop.cloud.balancers();
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
    let mut shop = Shop::on(Stage::seeded(seed).await, &[I1, I2]).await;
    let theirs = BalancerSpec::named("foreign").service(ServiceSpec::new("api", P1, 80, 30080));
    shop.cloud.add_balancer(&theirs).unwrap();
    let foreign = |shop: &Shop| {
        let mut all = shop.cloud.balancers().into_iter();
        all.find(|it| it.name == "foreign")
    };
    let before = foreign(&shop);
    // Some clouds refuse a change of what they are still changing.
    let strict = seed % 2 == 1;
    shop.cloud.set_quirks(|it| it.one_change_at_a_time = strict);
    shop.start().await;
    for _ in 0..STRIKES {
        strike(&mut shop, &random).await;
    }
    shop.world.faults.clear();
    shop.cloud.forget_plans();
    for name in NAMES {
        if shop.find_service(name).is_some() {
            shop.annotate(name, &key("service-strategy"), None).await;
        }
    }
    shop.seconds(DUST).await;
    let mark = shop.mark();
    let mut wanted = 1;
    for name in NAMES {
        if let Some(it) = shop.find_service(name) {
            assert_eq!(finalizers(&it).len(), 1, "seed {seed}");
            assert_right(&shop, &it, seed);
            wanted += 1;
        }
    }
    assert_eq!(shop.cloud.balancers().len(), wanted, "seed {seed}");
    assert_eq!(foreign(&shop), before, "seed {seed}");
    shop.restart().await;
    shop.seconds(60).await;
    assert_eq!(shop.changes(mark), [""; 0], "seed {seed}");
}

#[test]
fn after_the_dust_settles_every_service_has_its_load_balancer_and_nobody_elses() {
    play_seeds!("it takes hours of the clock", 0..SEEDS, story);
}
