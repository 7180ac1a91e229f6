//! Random trouble around Services: whatever happens, in the end the cloud is as wanted, nothing of
//! others was touched, nothing leaked, and nothing is left to do.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_http::Random;
use bowline_scenarios::objects::{entrances, finalizers, service};
use bowline_scenarios::seeds::{pick, ports};
use bowline_scenarios::{refuse, run_seeds, status};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_cloudscale::{BalancerInfo, BalancerSpec, MachineSpec};
use serde_json::Value;

use super::service_harness::{C, ServiceHarness, UUID, annotation, pool, uid};
use crate::cloudscale::harness::Harness;

/// Seeds that are tried; a failure names its own.
const SEEDS: u64 = 3;
/// Things that happen in one run.
const STRIKES: u32 = 40;
/// Longer than the longest pause between two tries and two comparisons.
const DUST: u64 = 1200;
const NAMES: [&str; 3] = ["a", "b", "c"];
const CIDRS: &str = "k8s.cloudscale.ch/loadbalancer-listener-allowed-cidrs";
const ALGORITHM: &str = "k8s.cloudscale.ch/loadbalancer-pool-algorithm";
const EXCLUSION: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

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
    let is_balancer = there["spec"]["type"] == "LoadBalancer";
    match random.below(6) {
        0 => test.delete_service(name).await,
        1 => {
            let kind = pick(random, &["LoadBalancer", "LoadBalancer", "ClusterIP"]);
            test.change_service(name, |it| {
                it["spec"]["type"] = kind.into();
                if kind == "ClusterIP" {
                    let spec = it["spec"].as_object_mut().unwrap();
                    spec.remove("allocateLoadBalancerNodePorts");
                    spec.remove("externalTrafficPolicy");
                    for port in spec["ports"].as_array_mut().unwrap() {
                        port.as_object_mut().unwrap().remove("nodePort");
                    }
                }
            })
            .await;
        }
        2 if is_balancer => {
            let ports = ports(random);
            test.change_service(name, |it| it["spec"]["ports"] = ports.clone())
                .await;
        }
        3 => {
            let value = pick(random, &[r#"["198.51.100.0/24"]"#, "[]", "wrong"]);
            test.annotate(name, CIDRS, Some(value)).await;
        }
        4 => {
            let value = pick(random, &["round_robin", "source_ip", "robin_round"]);
            test.annotate(name, ALGORITHM, Some(value)).await;
        }
        _ => test.annotate(name, UUID, None).await,
    }
}

/// Something happens to nodes.
async fn strike_nodes(test: &ServiceHarness, random: &Random) {
    match random.below(3) {
        0 if test.find("worker-c").is_some() => test.delete("worker-c").await,
        0 => test.add_node("worker-c", C, 13).await,
        number => {
            let excluded = pick(random, &["true", "false"]);
            let name = ["worker-a", "worker-b"][usize::try_from(number - 1).unwrap()];
            test.change(name, |node| {
                node["metadata"]["labels"][EXCLUSION] = excluded.into();
            })
            .await;
        }
    }
}

/// Something goes wrong.
fn strike_servers(test: &ServiceHarness, random: &Random) {
    let times = random.below(3) + 1;
    let cloud = |action| Rule::new(action).server("cloudscale").times(times);
    let status_path = "/api/v1/namespaces/shop/services/*";
    let rule = match random.below(6) {
        0 => cloud(Action::LostAnswer),
        1 => cloud(Action::Reset),
        2 => cloud(status(503)),
        3 => cloud(Action::Html { code: 404 }).on("GET", "*"),
        4 => refuse(500, "PATCH", status_path).times(times),
        _ => return test.cluster.break_watches(),
    };
    test.fault(rule);
}

/// Somebody does something by hand in the cloud, but not to what is others'.
fn strike_cloud(test: &ServiceHarness, random: &Random) {
    let all = test.cloud.balancers().into_iter();
    let ours: Vec<BalancerInfo> = all.filter(|it| it.name != "foreign").collect();
    let pools = ours.iter().flat_map(|it| &it.pools);
    let members: Vec<&str> = pools
        .flat_map(|it| &it.members)
        .map(|it| &*it.uuid)
        .collect();
    if !members.is_empty() {
        test.cloud.remove(pick(random, &members)).unwrap();
    }
}

async fn strike(test: &mut ServiceHarness, random: &Random) {
    match random.below(10) {
        0..=4 => strike_service(test, random).await,
        5 => strike_nodes(test, random).await,
        6 | 7 => strike_servers(test, random),
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
fn assert_right(test: &ServiceHarness, it: &Value, hosts: &BTreeSet<String>, seed: u64) {
    let name = format!("k8s-service-{}", uid(it));
    let all = test.cloud.balancers();
    let own: Vec<&BalancerInfo> = all.iter().filter(|it| it.name == name).collect();
    let [own] = own.as_slice() else {
        panic!("seed {seed}: {name}: {own:?}");
    };
    assert_eq!(annotation(it, UUID), own.uuid, "seed {seed}");
    let addresses = own.vip_addresses.iter().map(|it| format!("{it} Proxy"));
    assert_eq!(entrances(it), addresses.collect::<Vec<_>>(), "seed {seed}");
    let wanted = it["spec"]["ports"].as_array().unwrap();
    assert_eq!(own.pools.len(), wanted.len(), "seed {seed}: {own:?}");
    for port in wanted {
        let number = port["port"].as_u64();
        let serves = |pool: &&bowline_simulator_cloudscale::PoolInfo| {
            let listeners: Vec<Option<u64>> = pool
                .listeners
                .iter()
                .map(|it| Some(u64::from(it.protocol_port)))
                .collect();
            listeners == [number]
        };
        let pool = own.pools.iter().find(serves);
        let pool = pool.unwrap_or_else(|| panic!("seed {seed}: {number:?}: {own:?}"));
        assert!(pool.monitor.is_some(), "seed {seed}");
        let node_port = port["nodePort"].as_u64().unwrap();
        let members = pool.members.iter();
        let members: Vec<String> = members
            .map(|it| format!("{}:{}", it.address, it.protocol_port))
            .collect();
        let wanted: Vec<String> = hosts.iter().map(|it| format!("{it}:{node_port}")).collect();
        let found: BTreeSet<&String> = members.iter().collect();
        assert_eq!(found.len(), members.len(), "seed {seed}: twice");
        assert_eq!(found, wanted.iter().collect(), "seed {seed}");
    }
}

/// The addresses of nodes that may be members.
fn hosts(test: &ServiceHarness) -> BTreeSet<String> {
    let all = [("worker-a", 11), ("worker-b", 12), ("worker-c", 13)].into_iter();
    let takes_part = |name: &str| {
        let node = test.find(name);
        node.is_some_and(|node| node["metadata"]["labels"][EXCLUSION] != "true")
    };
    all.filter(|(name, _)| takes_part(name))
        .map(|(_, last)| format!("10.20.0.{last}"))
        .collect()
}

async fn story(seed: u64) {
    let period = ("CLOUDSCALE_DRIFT_CHECK_PERIOD", "60s");
    let mut test = ServiceHarness::on(Harness::seeded(seed, &[period], &[]).await).await;
    let machine = MachineSpec::named("worker-c").uuid(C);
    let address = "10.20.0.13".parse().unwrap();
    test.add_server(&machine.interface("k8s", Some(vec![address])));
    let foreign = BalancerSpec::named("foreign").pool(pool(31080, &[11, 12]));
    test.cloud.add_balancer(&foreign).unwrap();
    let foreign = test.balancer();
    let random = test.world.random.fork();
    test.start().await;
    for _ in 0..STRIKES {
        strike(&mut test, &random).await;
    }
    test.world.faults.clear();
    // Without any node there would rightly be no new load balancer.
    test.change("worker-a", |node| {
        node["metadata"]["labels"][EXCLUSION] = "false".into();
    })
    .await;
    for name in NAMES {
        if test.find_service(name).is_some() {
            test.annotate(name, CIDRS, None).await;
            test.annotate(name, ALGORITHM, None).await;
        }
    }
    test.seconds(DUST).await;
    let (mark, hosts) = (test.mark(), hosts(&test));
    let mut wanted = 1;
    for it in test.cluster.services() {
        if it["metadata"]["namespace"] != "shop" {
            continue;
        }
        assert!(it["metadata"]["deletionTimestamp"].is_null(), "seed {seed}");
        if it["spec"]["type"] == "LoadBalancer" {
            wanted += 1;
            assert_right(&test, &it, &hosts, seed);
        } else {
            assert_eq!(finalizers(&it), [""; 0], "seed {seed}");
            assert_eq!(entrances(&it), [""; 0], "seed {seed}");
        }
    }
    let all = test.cloud.balancers();
    assert_eq!(all.len(), wanted, "seed {seed}: {all:?}");
    let kept = all.iter().find(|it| it.name == "foreign");
    assert_eq!(kept, Some(&foreign), "seed {seed}");
    // Several comparisons later nothing is left to do.
    test.seconds(300).await;
    assert_eq!(test.changes_from(mark), [""; 0], "seed {seed}");
    test.end().await;
}

#[test]
fn after_random_trouble_every_service_has_its_load_balancer_and_nothing_else_is_there() {
    run_seeds!(
        "each of the seeds takes half an hour of the clock",
        1..SEEDS + 1,
        story
    );
}
