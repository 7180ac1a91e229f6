//! Defects of the original that this provider does not have, by their numbers in the specification.
//! Those about events, finalizers and writes to Services are the service controller's.

use std::time::Duration;

use bowline_core::{Goal, TrafficPolicy};
use bowline_simulator::faults::Rule;
use bowline_simulator_cloudscale::{BalancerTimings, MachineSpec};
use bowline_test_kit::{says, status};
use serde_json::json;
use tokio::time::Instant;

use super::harness::{Harness, NAME, members, monitor, named, open, port, set, steps};
use crate::harness::node;

const ALL_READS: &str = "*";

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d01_failed_reads_are_not_taken_for_absence() {
    let mut test = open().await;
    test.world
        .faults
        .add(Rule::new(status(503)).on("GET", ALL_READS).named("outage"))
        .unwrap();
    assert!(test.ensure().await.error.is_some());
    assert!(
        test.delete().await.error.is_some(),
        "the finalizer must stay"
    );
    assert_eq!(test.writes(), [""; 0]);
    test.world.faults.remove("outage");
    test.delete().await.good();
    assert_eq!(test.all(), []);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d02_a_load_balancer_that_vanishes_midway_is_an_error() {
    let mut test = open().await;
    test.set("name", "other");
    let draft = test.draft(Goal::Present).await.unwrap();
    let uuid = test.balancer().uuid;
    test.fault("GET", &format!("/v1/load-balancers/{uuid}"), 1, status(404));
    let error = test.carry_out(draft).await.error.unwrap();
    assert!(error.contains("is gone"), "{error}");
    test.ensure().await.good();
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d03_http_options_of_null_crash_nobody() {
    let mut test = Harness::new();
    test.set("health-monitor-http", "null");
    test.ensure().await.problem_of("InvalidLoadBalancerConfig");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d04_one_foreign_or_vanished_node_fails_no_service() {
    let mut test = Harness::new();
    test.nodes.push(node("gone", Some(crate::harness::NOBODY)));
    let mut foreign = node("foreign", None);
    foreign.provider_id = Some("bigcorp://1".into());
    test.nodes.push(foreign);
    assert_eq!(test.ensure().await.good().reasons(), ["NodeSkipped"]);
    assert_eq!(test.pool().members.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d05_two_plans_of_one_new_service_make_one_load_balancer() {
    let mut test = Harness::new();
    let first = test.draft(Goal::Present).await.unwrap();
    let second = test.draft(Goal::Present).await.unwrap();
    test.carry_out(first).await.good();
    let error = test.carry_out(second).await.error.unwrap();
    assert!(error.contains("has appeared since"), "{error}");
    assert_eq!(test.pool().members.len(), 2);
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d06_nothing_is_deleted_because_of_a_typo() {
    for (suffix, typo) in [
        ("pool-algorithm", "robin_round"),
        ("pool-protocol", "proxyv3"),
        ("listener-protocol", "http"),
        ("health-monitor-type", "htpp"),
        ("health-monitor-http", "{"),
        ("listener-allowed-cidrs", "10.0.0.0/8"),
    ] {
        let mut test = open().await;
        test.set(suffix, typo);
        test.ensure().await.problem_of("InvalidLoadBalancerConfig");
        assert_eq!(test.writes(), [""; 0], "{suffix}");
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d07_all_nodes_are_replaced_without_an_outage() {
    let mut test = open().await;
    let spec: MachineSpec = serde_json::from_value(json!({"name": "new", "count": 2,
        "interfaces": [{"network": "k8s"}]}))
    .unwrap();
    let uuids = test.sim.add_servers(&spec).unwrap();
    test.nodes = (1..)
        .zip(&uuids)
        .map(|(number, uuid)| node(&format!("new-{number}"), Some(uuid)))
        .collect();
    test.service.ports[0].node_port = 31999;
    let start = Instant::now();
    let outcome = test.ensure().await;
    let verbs: Vec<String> = steps(&outcome.good().plan)
        .iter()
        .map(|step| step.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(verbs, ["create", "create", "delete", "delete"]);
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "and without pauses"
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d08_deletion_checks_no_annotation() {
    let mut test = open().await;
    test.set("floating-ips", r#"["203.0.113.77"]"#)
        .set("ip-mode", "x");
    let mut other = named("other", "b0000000-0000-4000-8000-000000000002");
    set(&mut other, "floating-ips", r#"["203.0.113.77"]"#);
    test.others = vec![other];
    test.delete().await.good();
    assert_eq!(test.all(), []);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d09_without_a_zone_nothing_is_made() {
    let mut test = Harness::new();
    test.nodes.clear();
    test.ensure().await.problem_of("NoValidNodes");
    assert_eq!(test.writes(), [""; 0]);
    test.set("zone", "lpg1");
    assert_eq!(test.ensure().await.good().reasons(), ["NoValidNodes"]);
    assert_eq!(test.balancer().zone, "lpg1");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d10_equal_settings_are_never_written_again() {
    let mut test = Harness::new();
    test.set("health-monitor-type", "http")
        .set("health-monitor-http", r#"{"host":"app.example.org"}"#)
        .set(
            "listener-allowed-cidrs",
            r#"["10.0.0.0/8","2001:DB8::/32"]"#,
        )
        .set("floating-ips", r#"["203.0.113.77"]"#);
    test.ensure().await.good();
    test.calls();
    test.set(
        "listener-allowed-cidrs",
        r#"["2001:db8:0::/32","10.1.2.3/8"]"#,
    );
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d11_zero_and_null_are_told() {
    for (suffix, value) in [
        ("timeout-client-data-ms", "0"),
        ("health-monitor-delay-s", "0"),
        ("listener-allowed-cidrs", "null"),
        ("floating-ips", "null"),
        ("vip-addresses", "null"),
    ] {
        let mut test = Harness::new();
        test.set(suffix, value);
        test.refused(suffix).await;
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d12_bare_addresses_are_networks() {
    let mut test = Harness::new();
    test.set(
        "listener-allowed-cidrs",
        r#"["198.51.100.7","2001:db8::1"]"#,
    );
    test.ensure().await.good();
    let listener = &test.pool().listeners[0];
    assert_eq!(
        listener.allowed_cidrs,
        ["198.51.100.7/32", "2001:db8::1/128"]
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d13_source_ranges_of_the_service_filter() {
    let mut test = Harness::new();
    test.service.source_ranges = vec!["192.0.2.0/24".into()];
    test.ensure().await.good();
    assert_eq!(test.pool().listeners[0].allowed_cidrs, ["192.0.2.0/24"]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d14_what_was_removed_by_hand_is_found_and_repaired() {
    let mut test = open().await;
    let pool = test.pool();
    for id in [
        pool.members[0].uuid.clone(),
        pool.listeners[0].uuid.clone(),
        pool.monitor.unwrap().uuid,
        pool.uuid,
        test.balancer().uuid,
    ] {
        test.sim.remove(&id).unwrap();
        test.settle().await;
        test.ensure().await.good();
        let pool = test.pool();
        assert_eq!((pool.members.len(), pool.listeners.len()), (2, 1));
        assert!(pool.monitor.is_some());
    }
    let period = test.balancers().audit_period();
    assert_eq!(period, Some(Duration::from_secs(600)));
    let never = Harness::with(&[("CLOUDSCALE_DRIFT_CHECK_PERIOD", "0")]);
    assert_eq!(never.balancers().audit_period(), None);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d15_nothing_waits_but_for_the_cloud() {
    let mut test = Harness::new();
    test.sim.set_balancer_timings(BalancerTimings::INSTANT);
    let start = Instant::now();
    for number in 0..3 {
        test.service.ports.push(port(
            &format!("p{number}"),
            "TCP",
            8000 + number,
            32000 + number,
        ));
        test.ensure().await.good();
    }
    assert!(
        start.elapsed() < Duration::from_secs(1),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d16_two_services_of_one_name_do_not_fight() {
    let mut test = Harness::new();
    test.set("name", "shared").ensure().await.good();
    let before = test.pool();
    let mut other = named("other", "b0000000-0000-4000-8000-000000000002");
    other.ports = vec![port("other", "TCP", 81, 31081)];
    set(&mut other, "name", "shared");
    let first = std::mem::replace(&mut test.service, other);
    test.others = vec![first];
    test.calls();
    test.ensure().await.problem_of("LoadBalancerNotOurs");
    assert_eq!(
        test.delete().await.good().reasons(),
        ["LoadBalancerNotOurs"]
    );
    assert_eq!(test.writes(), [""; 0]);
    assert_eq!(test.pool().uuid, before.uuid);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d17_emptied_addresses_and_subnets_without_members_are_told() {
    let mut test = Harness::new();
    test.set(
        "vip-addresses",
        r#"[{"subnet":"7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d"}]"#,
    );
    test.ensure().await.good();
    test.unset("vip-addresses");
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["InvalidLoadBalancerConfig"]);
    assert!(outcome.notices[0].message.contains("vip-addresses"));
    let mut test = Harness::new();
    test.set(
        "listener-allowed-subnets",
        r#"["00000000-0000-4000-8000-000000000001"]"#,
    );
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["NoValidNodes"]);
    assert!(outcome.notices[0].message.contains("allowed-subnets"));
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d19_errors_say_what_was_wrong_with_what() {
    for (suffix, value) in [
        ("health-monitor-up-threshold", "many"),
        ("listener-allowed-subnets", "S1"),
    ] {
        let mut test = Harness::new();
        test.set(suffix, value);
        let outcome = test.ensure().await;
        let problem = outcome.problem_of("InvalidLoadBalancerConfig");
        says(problem, suffix);
        says(problem, value);
    }
    let mut test = Harness::new();
    test.fault("POST", "/v1/load-balancers", 1, status(403));
    let error = test.ensure().await.error.unwrap();
    says(&error, "POST v1/load-balancers");
    says(&error, "403");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d21_ports_have_settings_of_their_own() {
    let mut test = Harness::new();
    test.service.ports = vec![
        port("dns", "UDP", 53, 30053),
        port("http", "TCP", 80, 31080),
        port("https", "TCP", 443, 31443),
    ];
    test.set(
        "port-settings",
        r#"{"dns": {"health-monitor-type": "udp-connect"},
            "80": {"health-monitor-type": "http", "pool-algorithm": "least_connections"},
            "443/tcp": {"pool-protocol": "proxyv2"}}"#,
    );
    test.ensure().await.good();
    let pools = test.balancer().pools;
    let kinds: Vec<[&str; 2]> = pools
        .iter()
        .map(|it| [&*it.algorithm, &*it.protocol])
        .collect();
    assert_eq!(
        kinds,
        [
            ["round_robin", "udp"],
            ["least_connections", "tcp"],
            ["round_robin", "proxyv2"]
        ]
    );
    let monitors: Vec<String> = pools.iter().map(monitor).collect();
    assert_eq!(
        monitors,
        ["udp-connect 3/2/2/3", "http 2/1/2/3", "tcp 2/1/2/3"]
    );
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d22_udp_connect_has_times_that_the_cloud_takes() {
    let mut test = Harness::new();
    test.service.ports = vec![
        port("dns", "UDP", 53, 30053),
        port("http", "TCP", 80, 31080),
    ];
    test.set("health-monitor-type", "udp-connect");
    test.ensure().await.good();
    let pools = test.balancer().pools;
    assert_eq!(monitor(&pools[0]), "udp-connect 3/2/2/3");
    assert_eq!(monitor(&pools[1]), "tcp 2/1/2/3");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d25_http_options_replace_no_tcp_monitor() {
    let mut test = open().await;
    test.set("health-monitor-http", r#"{"version":"1.0"}"#);
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d27_removed_http_options_do_not_stay() {
    let mut test = Harness::new();
    test.service.traffic_policy = TrafficPolicy::Local;
    test.service.health_check_node_port = Some(32100);
    test.set(
        "health-monitor-http",
        r#"{"url_path":"/x","version":"1.0","expected_codes":["204"]}"#,
    );
    test.ensure().await.good();
    test.unset("health-monitor-http").ensure().await.good();
    let http = test.pool().monitor.unwrap().http.unwrap();
    assert_eq!(
        (&*http.url_path, &*http.expected_codes),
        ("/livez", &["200".to_owned()][..])
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_defect_d28_floating_ips_on_private_addresses_are_told_before_anything_is_made()
{
    let mut test = Harness::new();
    test.place(json!({"name": "somebody's"}));
    test.set(
        "vip-addresses",
        r#"[{"subnet":"7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d"}]"#,
    )
    .set("floating-ips", r#"["203.0.113.77"]"#);
    test.ensure().await.problem_of("InvalidLoadBalancerConfig");
    assert_eq!(test.writes(), [""; 0]);
    assert!(test.all().iter().all(|it| it.name != NAME));
    test.unset("floating-ips").ensure().await.good();
    let made = test.all().into_iter().find(|it| it.name == NAME).unwrap();
    assert_eq!(members(&made.pools[0]).len(), 2);
}
