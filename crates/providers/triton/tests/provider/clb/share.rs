//! Cases on a machine that somebody else looks after.

use bowline_simulator_triton::MachineSpec;
use bowline_test_kit::drive;
use serde_json::Value;

use super::shop::{Shop, named, port, set};

const OTHER: &str = "11111111-7d11-4c55-9a0e-5b2f6f1f0a01";
const MAIL: &str = "tcp://25:mail.example.com:25";

/// Two Services and a machine with an entry of its user's.
fn shop() -> Shop {
    let mut shop = Shop::new();
    let mut machine = MachineSpec::named("edge").package("lb1.small");
    machine.image = Some("cloud-load-balancer".to_owned());
    for (key, value) in [("loadbalancer", "true"), ("portmap", MAIL)] {
        let key = format!("cloud.tritoncompute:{key}");
        machine.metadata.insert(key, value.into());
    }
    shop.sim.add_machine(&machine).unwrap();
    shop.service.ports = vec![port("TCP", 80, 30080)];
    shop.set("lb_instance", "edge");
    let mut other = named("api", OTHER, &[(8080, 30081)]);
    set(&mut other, "lb_instance", "edge");
    shop.others = vec![other];
    shop
}

/// What is in the map, by its ports.
fn map(shop: &Shop) -> Vec<String> {
    let machine = shop.sim.machine("edge").unwrap();
    let map = machine.metadata.get("cloud.tritoncompute:portmap");
    let map = map.and_then(Value::as_str).unwrap_or_default();
    let port = |it: &str| {
        let (port, _) = it.split_once("://")?.1.split_once(':')?;
        Some(port.to_owned())
    };
    let entries = map.split(',').filter(|it| !it.is_empty());
    entries.map(|it| port(it).unwrap()).collect()
}

fn swap(shop: &mut Shop) {
    let other = shop.others.remove(0);
    let own = std::mem::replace(&mut shop.service, other);
    shop.others = vec![own];
}

#[tokio::test(start_paused = true)]
async fn triton_case_58_services_share_a_machine_with_each_other_and_its_user() {
    let mut shop = shop();
    let before = shop.sim.machine("edge").unwrap();
    shop.ensure().await.good();
    let edge = shop.sim.machine("edge").unwrap();
    assert_eq!(shop.shown(), format!("{} (Proxy)", edge.addresses[0]));
    assert_eq!(shop.get("instances"), edge.id);
    swap(&mut shop);
    shop.ensure().await.good();
    assert_eq!(map(&shop), ["25", "8080", "80"]);
    let edge = shop.sim.machine("edge").unwrap();
    assert_eq!(edge.tags, before.tags, "never tagged");
    assert_eq!(edge.name, before.name, "nor renamed");
    let writes = shop.writes();
    assert!(!writes.iter().any(|it| it == "createmachine"), "{writes:?}");
    assert!(shop.ensure().await.good().plan.is_empty());
    shop.wait(10).await;
    let entries = shop.sim.appliance("edge").unwrap();
    assert_eq!((entries.entries.len(), entries.dropped.len()), (3, 0));
    shop.delete().await.good();
    assert_eq!(map(&shop), ["25", "80"]);
    assert!(shop.sim.machine("edge").is_some());
    swap(&mut shop);
    shop.others.clear();
    shop.wait(10).await;
    shop.delete().await.good();
    assert_eq!(map(&shop), ["25"]);
    let edge = shop.sim.machine("edge").unwrap();
    assert!(!edge.metadata.contains_key("bowline:portmap"));
}

#[tokio::test(start_paused = true)]
async fn of_two_services_with_one_port_the_older_has_it() {
    let mut shop = shop();
    shop.others[0].ports = vec![port("TCP", 80, 30081)];
    shop.others[0].created = "2026-01-01T00:00:00Z".parse().unwrap();
    let outcome = shop.ensure().await;
    assert_eq!(outcome.problems(), ["PortConflict"]);
    assert_eq!(map(&shop), ["25"]);
    swap(&mut shop);
    shop.ensure().await.good();
    assert_eq!(map(&shop), ["25", "80"]);
}

#[tokio::test(start_paused = true)]
async fn both_at_once_lose_nothing() {
    let mut shop = shop();
    shop.others[0].ports = vec![port("TCP", 8080, 30081)];
    let one = shop.draft(bowline_core::Goal::Present).await.unwrap();
    swap(&mut shop);
    let two = shop.draft(bowline_core::Goal::Present).await.unwrap();
    let (mut mine, mut theirs) = (shop.others[0].clone(), shop.service.clone());
    let (one, two) = tokio::join!(drive(&mut mine, one, None), drive(&mut theirs, two, None));
    one.good();
    two.good();
    let mut ports = map(&shop);
    ports.sort();
    assert_eq!(ports, ["25", "80", "8080"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_no_load_balancer_is_not_used() {
    let mut shop = shop();
    for name in ["k8s-1", "nonesuch"] {
        shop.set("lb_instance", name);
        let outcome = shop.ensure().await;
        assert_eq!(outcome.problems(), ["LBInstanceUnusable"], "{name}");
    }
    assert_eq!(shop.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn from_a_shared_machine_to_one_of_its_own_and_back() {
    let mut shop = shop();
    shop.others.clear();
    shop.ensure().await.good();
    shop.unset("lb_instance");
    shop.wait(10).await;
    shop.settle().await.good();
    assert_eq!(map(&shop), ["25"]);
    assert_eq!(shop.names().len(), 1);
    shop.wait(10).await;
    shop.set("lb_instance", "edge");
    shop.settle().await.good();
    assert_eq!(map(&shop), ["25", "80"]);
    assert_eq!(shop.names().len(), 0);
}
