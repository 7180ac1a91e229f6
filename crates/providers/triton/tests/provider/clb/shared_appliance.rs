//! Cases on a machine that somebody else looks after.

use bowline_simulator_triton::MachineSpec;
use bowline_test_kit::drive;
use serde_json::Value;

use super::harness::{Harness, named, port, set};

const OTHER: &str = "11111111-7d11-4c55-9a0e-5b2f6f1f0a01";
const MAIL: &str = "tcp://25:mail.example.com:25";

/// Two Services and a machine with an entry of its user's.
fn test() -> Harness {
    let mut test = Harness::new();
    let mut machine = MachineSpec::named("edge").package("lb1.small");
    machine.image = Some("cloud-load-balancer".to_owned());
    for (key, value) in [("loadbalancer", "true"), ("portmap", MAIL)] {
        let key = format!("cloud.tritoncompute:{key}");
        machine.metadata.insert(key, value.into());
    }
    test.sim.add_machine(&machine).unwrap();
    test.service.ports = vec![port("TCP", 80, 30080)];
    test.set("lb_instance", "edge");
    let mut other = named("api", OTHER, &[(8080, 30081)]);
    set(&mut other, "lb_instance", "edge");
    test.others = vec![other];
    test
}

/// What is in the map, by its ports.
fn map(test: &Harness) -> Vec<String> {
    let machine = test.sim.machine("edge").unwrap();
    let map = machine.metadata.get("cloud.tritoncompute:portmap");
    let map = map.and_then(Value::as_str).unwrap_or_default();
    let port = |it: &str| {
        let (port, _) = it.split_once("://")?.1.split_once(':')?;
        Some(port.to_owned())
    };
    let entries = map.split(',').filter(|it| !it.is_empty());
    entries.map(|it| port(it).unwrap()).collect()
}

fn swap(test: &mut Harness) {
    let other = test.others.remove(0);
    let own = std::mem::replace(&mut test.service, other);
    test.others = vec![own];
}

#[tokio::test(start_paused = true)]
async fn triton_case_58_services_share_a_machine_with_each_other_and_its_user() {
    let mut test = test();
    let before = test.sim.machine("edge").unwrap();
    test.ensure().await.good();
    let edge = test.sim.machine("edge").unwrap();
    assert_eq!(test.shown(), format!("{} (Proxy)", edge.addresses[0]));
    assert_eq!(test.get("instances"), edge.id);
    swap(&mut test);
    test.ensure().await.good();
    assert_eq!(map(&test), ["25", "8080", "80"]);
    let edge = test.sim.machine("edge").unwrap();
    assert_eq!(edge.tags, before.tags, "never tagged");
    assert_eq!(edge.name, before.name, "nor renamed");
    let writes = test.writes();
    assert!(!writes.iter().any(|it| it == "createmachine"), "{writes:?}");
    assert!(test.ensure().await.good().plan.is_empty());
    test.wait(10).await;
    let entries = test.sim.appliance("edge").unwrap();
    assert_eq!((entries.entries.len(), entries.dropped.len()), (3, 0));
    test.delete().await.good();
    assert_eq!(map(&test), ["25", "80"]);
    assert!(test.sim.machine("edge").is_some());
    swap(&mut test);
    test.others.clear();
    test.wait(10).await;
    test.delete().await.good();
    assert_eq!(map(&test), ["25"]);
    let edge = test.sim.machine("edge").unwrap();
    assert!(!edge.metadata.contains_key("bowline:portmap"));
}

#[tokio::test(start_paused = true)]
async fn of_two_services_with_one_port_the_older_has_it() {
    let mut test = test();
    test.others[0].ports = vec![port("TCP", 80, 30081)];
    test.others[0].created = "2026-01-01T00:00:00Z".parse().unwrap();
    let outcome = test.ensure().await;
    assert_eq!(outcome.problems(), ["PortConflict"]);
    assert_eq!(map(&test), ["25"]);
    swap(&mut test);
    test.ensure().await.good();
    assert_eq!(map(&test), ["25", "80"]);
}

#[tokio::test(start_paused = true)]
async fn both_at_once_lose_nothing() {
    let mut test = test();
    test.others[0].ports = vec![port("TCP", 8080, 30081)];
    let one = test.draft(bowline_core::Goal::Present).await.unwrap();
    swap(&mut test);
    let two = test.draft(bowline_core::Goal::Present).await.unwrap();
    let (mut mine, mut theirs) = (test.others[0].clone(), test.service.clone());
    let (one, two) = tokio::join!(drive(&mut mine, one, None), drive(&mut theirs, two, None));
    one.good();
    two.good();
    let mut ports = map(&test);
    ports.sort();
    assert_eq!(ports, ["25", "80", "8080"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_no_load_balancer_is_not_used() {
    let mut test = test();
    for name in ["k8s-1", "nonesuch"] {
        test.set("lb_instance", name);
        let outcome = test.ensure().await;
        assert_eq!(outcome.problems(), ["LBInstanceUnusable"], "{name}");
    }
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn from_a_shared_machine_to_one_of_its_own_and_back() {
    let mut test = test();
    test.others.clear();
    test.ensure().await.good();
    test.unset("lb_instance");
    test.wait(10).await;
    test.reconcile().await.good();
    assert_eq!(map(&test), ["25"]);
    assert_eq!(test.names().len(), 1);
    test.wait(10).await;
    test.set("lb_instance", "edge");
    test.reconcile().await.good();
    assert_eq!(map(&test), ["25", "80"]);
    assert_eq!(test.names().len(), 0);
}
