//! Cases on making load balancers.

use bowline_test_kit::says;
use std::time::Duration;

use bowline_core::{Goal, Ingress, IpMode, Publication, TrafficPolicy};
use bowline_simulator_cloudscale::{BalancerStatus, BalancerTimings, MachineSpec};
use bowline_test_kit::PlanRun;
use serde_json::json;

use super::harness::{Harness, NAME, S1, key, members, monitor, port, proxied, steps};
use crate::harness::node;

#[tokio::test(start_paused = true)]
async fn cloudscale_case_20_a_new_service_gets_a_whole_load_balancer() {
    let mut test = Harness::new();
    let outcome = test.ensure().await;
    outcome.good();
    let balancer = test.balancer();
    assert_eq!(balancer.name, NAME);
    assert_eq!(
        (&*balancer.flavor, &*balancer.zone),
        ("lb-standard", "rma1")
    );
    let pool = test.pool();
    assert_eq!(
        (&*pool.name, &*pool.algorithm, &*pool.protocol),
        ("tcp/http", "round_robin", "tcp")
    );
    assert_eq!(members(&pool), ["10.20.0.11:31080", "10.20.0.12:31080"]);
    for member in &pool.members {
        assert_eq!(member.subnet, S1);
        assert_eq!(
            (member.protocol_port, member.monitor_port),
            (31080, Some(31080))
        );
    }
    let [listener] = pool.listeners.as_slice() else {
        panic!("{:?}", pool.listeners);
    };
    assert_eq!((&*listener.name, listener.protocol_port), ("tcp/80", 80));
    assert!(listener.allowed_cidrs.is_empty());
    assert_eq!(
        [
            listener.timeout_client_data_ms,
            listener.timeout_member_connect_ms,
            listener.timeout_member_data_ms
        ],
        [50_000, 5_000, 50_000]
    );
    assert_eq!(monitor(&pool), "tcp 2/1/2/3");
    assert_eq!(test.get("uuid"), balancer.uuid);
    assert_eq!(
        (test.get("config-version"), test.get("zone")),
        ("1", "rma1")
    );
    let wanted: Vec<Ingress> = balancer
        .vip_addresses
        .iter()
        .map(|ip| proxied(&ip.to_string()))
        .collect();
    assert_eq!(
        (test.service.ingress.len(), &test.service.ingress),
        (2, &wanted)
    );
    assert_eq!(
        steps(&outcome.plan),
        [
            format!("create load balancer {NAME}").as_str(),
            "create pool tcp/http",
            "create member 10.20.0.11:31080 in tcp/http",
            "create member 10.20.0.12:31080 in tcp/http",
            "create listener tcp/80",
            "create health monitor tcp/http",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_uuid_is_published_at_once_and_the_rest_at_the_end() {
    let test = Harness::new();
    let mut run = PlanRun::new(test.draft(Goal::Present).await.unwrap());
    assert_eq!(run.publication(), Publication::default());
    run.carry_out(0).await.unwrap();
    let published = run.publication();
    let uuid = test.balancer().uuid;
    assert_eq!(published.annotations, [(key("uuid"), uuid)].into());
    assert_eq!(published.ingress, []);
    let last = run.plan().steps.len() - 1;
    test.settle().await;
    for step in 1..last {
        run.carry_out(step).await.unwrap();
        assert_eq!(run.publication(), published, "after step {step}");
    }
    test.settle().await;
    run.carry_out(last).await.unwrap();
    let published = run.publication();
    assert_eq!(
        (published.annotations.len(), published.ingress.len()),
        (3, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_21_a_second_run_writes_nothing() {
    let mut test = Harness::new();
    test.ensure().await.good();
    let service = test.service.clone();
    test.calls();
    let outcome = test.ensure().await;
    assert!(outcome.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
    assert_eq!(test.service, service);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_22_a_port_without_a_name_has_a_pool_named_by_its_protocol() {
    let mut test = Harness::new();
    test.service.ports = vec![port("", "TCP", 80, 31080)];
    test.ensure().await.good();
    assert_eq!(test.pool().name, "tcp");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_23_each_port_has_its_own_pool() {
    let mut test = Harness::new();
    test.service.ports.push(port("https", "TCP", 443, 31443));
    test.ensure().await.good();
    let pools = test.balancer().pools;
    let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
    assert_eq!(names, ["tcp/http", "tcp/https"]);
    assert_eq!(members(&pools[1]), ["10.20.0.11:31443", "10.20.0.12:31443"]);
    for (pool, listener) in pools.iter().zip(["tcp/80", "tcp/443"]) {
        assert_eq!((pool.members.len(), pool.listeners.len()), (2, 1));
        assert_eq!(pool.listeners[0].name, listener);
        assert_eq!(monitor(pool), "tcp 2/1/2/3");
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_24_udp_with_a_monitor_of_its_own() {
    let mut test = Harness::new();
    test.service.ports = vec![port("dns", "UDP", 53, 30053)];
    test.set("health-monitor-type", "udp-connect")
        .set("health-monitor-delay-s", "3")
        .set("health-monitor-timeout-s", "2");
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), [""; 0]);
    let pool = test.pool();
    assert_eq!((&*pool.name, &*pool.protocol), ("udp/dns", "udp"));
    assert_eq!(
        (&*pool.listeners[0].name, &*pool.listeners[0].protocol),
        ("udp/53", "udp")
    );
    assert_eq!(monitor(&pool), "udp-connect 3/2/2/3");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_25_udp_and_tcp_on_one_port_number() {
    let ports = || {
        vec![
            port("dns-udp", "UDP", 53, 30053),
            port("dns-tcp", "TCP", 53, 30054),
        ]
    };
    for (kind, wanted) in [
        (None, ["tcp 2/1/2/3", "tcp 2/1/2/3"]),
        (Some("udp-connect"), ["udp-connect 3/2/2/3", "tcp 2/1/2/3"]),
    ] {
        let mut test = Harness::new();
        test.service.ports = ports();
        if let Some(kind) = kind {
            test.set("health-monitor-type", kind);
        }
        test.ensure().await.good();
        let pools = test.balancer().pools;
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        assert_eq!(names, ["udp/dns-udp", "tcp/dns-tcp"]);
        let listeners: Vec<&str> = pools.iter().map(|it| &*it.listeners[0].name).collect();
        assert_eq!(listeners, ["udp/53", "tcp/53"]);
        assert_eq!([monitor(&pools[0]), monitor(&pools[1])], wanted);
        assert!(test.ensure().await.good().plan.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_26_other_protocols_and_unallocated_ports_are_refused() {
    for (bad, words) in [
        (port("sctp", "SCTP", 80, 31080), "only TCP and UDP"),
        (port("http", "TCP", 80, 0), "unknown port"),
    ] {
        let mut test = Harness::new();
        test.service.ports = vec![bad];
        test.refused(words).await;
        assert_eq!(test.writes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_27_the_proxy_protocol_is_for_tcp_ports() {
    let mut test = Harness::new();
    test.service.ports.push(port("dns", "UDP", 53, 30053));
    test.set("pool-protocol", "proxyv2").ensure().await.good();
    let pools = test.balancer().pools;
    let protocols: Vec<&str> = pools.iter().map(|pool| pool.protocol.as_str()).collect();
    assert_eq!(protocols, ["proxyv2", "udp"]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_28_a_private_address() {
    let mut test = Harness::new();
    let vips = format!(r#"[{{"subnet":"{S1}","address":"10.20.0.200"}}]"#);
    test.set("vip-addresses", &vips).ensure().await.good();
    assert_eq!(test.service.ingress, [proxied("10.20.0.200")]);
    assert!(test.ensure().await.good().plan.is_empty());
    // Letter case of keys does not count, and the address may be any.
    for same in [
        format!(r#"[{{"SUBNET":"{S1}","Address":"10.20.0.200","x":1}}]"#),
        format!(r#"[{{"subnet":"{S1}"}}]"#),
    ] {
        test.set("vip-addresses", &same);
        assert!(test.ensure().await.good().plan.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_29_nodes_in_two_zones_need_to_be_told_where() {
    let mut test = Harness::new();
    let far: MachineSpec = serde_json::from_value(json!({"name": "far-1", "zone": "lpg1",
        "interfaces": [{"network": "far", "addresses": ["10.40.0.9"]}]}))
    .unwrap();
    let uuid = test.sim.add_server(&far).unwrap();
    test.nodes.push(node("far-1", Some(&uuid)));
    test.refused("no loadbalancer zone set and nodes in multiple zones")
        .await;
    assert_eq!(test.writes(), [""; 0]);
    test.set("zone", "rma1");
    let outcome = test.ensure().await;
    assert_eq!(outcome.incomplete().reasons(), ["NodeSkipped"]);
    let message = &outcome.notices[0].message;
    says(message, "far-1");
    says(message, "400");
    assert_eq!(test.balancer().zone, "rma1");
    assert_eq!(
        members(&test.pool()),
        ["10.20.0.11:31080", "10.20.0.12:31080"]
    );
    assert_eq!(test.pool().listeners.len(), 1);
    assert_eq!(test.service.ingress.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_30_a_node_in_two_subnets_is_two_members() {
    let mut test = two_subnets();
    test.ensure().await.good();
    assert_eq!(
        members(&test.pool()),
        ["10.20.0.21:31080", "10.30.0.11:31080"]
    );
    test.set("listener-allowed-subnets", &format!("[{S1:?}]"));
    test.ensure().await.good();
    assert_eq!(members(&test.pool()), ["10.20.0.21:31080"]);
    let unknown = "00000000-0000-4000-8000-000000000001";
    test.set("listener-allowed-subnets", &format!("[{unknown:?}]"));
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["NoValidNodes"]);
    assert_eq!(members(&test.pool()), [""; 0]);
}

pub(super) fn two_subnets() -> Harness {
    let mut test = Harness::new();
    let spec: MachineSpec = serde_json::from_value(json!({"name": "two", "interfaces": [
        {"network": "k8s", "addresses": ["10.20.0.21"]},
        {"network": "storage", "addresses": ["10.30.0.11"]}]}))
    .unwrap();
    let uuid = test.sim.add_server(&spec).unwrap();
    test.nodes = vec![node("two", Some(&uuid))];
    test
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_31_local_traffic_is_checked_at_its_own_port() {
    let mut test = Harness::new();
    test.service.traffic_policy = TrafficPolicy::Local;
    test.service.health_check_node_port = Some(32100);
    test.ensure().await.good();
    let pool = test.pool();
    for member in &pool.members {
        assert_eq!(
            (member.protocol_port, member.monitor_port),
            (31080, Some(32100))
        );
    }
    assert_eq!(monitor(&pool), "http 2/1/2/3");
    let http = pool.monitor.unwrap().http.unwrap();
    assert_eq!(
        (&*http.version, &*http.method, &*http.url_path, &http.host),
        ("1.0", "GET", "/livez", &None)
    );
    assert_eq!(http.expected_codes, ["200"]);
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_32_local_traffic_with_http_options() {
    let mut test = Harness::new();
    test.service.traffic_policy = TrafficPolicy::Local;
    test.service.health_check_node_port = Some(32100);
    test.set("health-monitor-http", r#"{"url_path":"/ready"}"#);
    test.ensure().await.good();
    let http = test.pool().monitor.unwrap().http.unwrap();
    assert_eq!(
        (&*http.version, &*http.method, &*http.url_path),
        ("1.1", "GET", "/ready")
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_33_a_selector_chooses_nodes() {
    let mut test = Harness::new();
    for (at, labels) in [
        (0, [("env", "prod"), ("tier", "back")]),
        (1, [("env", "staging"), ("tier", "frontend")]),
    ] {
        let labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned()));
        test.nodes[at].labels = labels.into_iter().collect();
    }
    test.set("node-selector", "env=prod").ensure().await.good();
    assert_eq!(members(&test.pool()), ["10.20.0.11:31080"]);
    let selects = |test: &Harness, at: usize| {
        let node = &test.nodes[at];
        test.balancers().selects(&test.service, node)
    };
    assert_eq!([selects(&test, 0), selects(&test, 1)], [true, false]);
    test.nodes[0]
        .labels
        .insert("tier".into(), "frontend".into());
    test.set("node-selector", "env=prod,tier=frontend");
    assert!(test.ensure().await.good().plan.is_empty(), "AND");
    test.calls();
    test.nodes[1].labels.insert("env".into(), "prod".into());
    test.set("node-selector", "invalid===syntax");
    test.refused("unable to parse selector").await;
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_34_no_node_left_empties_the_pools_of_an_existing_load_balancer() {
    let mut test = Harness::new();
    test.ensure().await.good();
    test.set("node-selector", "env=prod");
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["NoValidNodes"]);
    let message = &outcome.notices[0].message;
    says(message, "node-selector");
    says(message, "env=prod");
    let pool = test.pool();
    assert_eq!((pool.members.len(), pool.listeners.len()), (0, 1));
    assert!(pool.monitor.is_some());
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_35_without_nodes_and_zone_nothing_is_made() {
    let mut test = Harness::new();
    test.set("node-selector", "env=prod");
    let outcome = test.ensure().await;
    outcome.problem_of("NoValidNodes");
    assert_eq!(outcome.reasons(), [""; 0], "reported once");
    assert_eq!(test.writes(), [""; 0]);
    test.nodes[0].labels.insert("env".into(), "prod".into());
    test.ensure().await.good();
    assert_eq!(members(&test.pool()), ["10.20.0.11:31080"]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_37_nothing_is_made_on_a_load_balancer_that_is_not_ready() {
    let mut test = Harness::new();
    let timings = BalancerTimings {
        create: Duration::from_secs(40),
        ..BalancerTimings::default()
    };
    test.sim.set_balancer_timings(timings);
    let before = test.world.clock.now();
    test.ensure().await.good();
    let calls = test.calls();
    let children = calls.iter().filter(|it| it.is_mutating()).skip(1);
    for call in children {
        let waited = call.arrived.duration_since(before);
        assert!(waited.as_secs() >= 40, "{} {}", call.method, call.path);
    }
    assert!(calls.iter().all(|call| call.status < 400));
    assert_eq!(test.pool().members.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_38_a_load_balancer_in_error_is_worked_on() {
    let mut test = Harness::new();
    test.ensure().await.good();
    let uuid = test.balancer().uuid;
    let status = Some(BalancerStatus::Error);
    test.sim.set_balancer_status(&uuid, status).unwrap();
    test.nodes.pop();
    test.ensure().await.good();
    assert_eq!(members(&test.pool()), ["10.20.0.11:31080"]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_40_a_forced_hostname_takes_the_place_of_the_addresses() {
    let mut test = Harness::new();
    test.set("force-hostname", "lb.example.org")
        .ensure()
        .await
        .good();
    let hostname = Ingress {
        hostname: Some("lb.example.org".into()),
        ..Ingress::default()
    };
    assert_eq!(test.service.ingress, [hostname]);
    assert!(
        test.unset("force-hostname")
            .ensure()
            .await
            .good()
            .plan
            .is_empty()
    );
    assert_eq!(test.service.ingress.len(), 2);
    assert!(test.service.ingress.iter().all(|it| it.ip.is_some()));
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_41_the_ip_mode_is_one_of_two() {
    let mut test = Harness::new();
    test.set("ip-mode", "VIP").ensure().await.good();
    let modes: Vec<_> = test.service.ingress.iter().map(|it| it.ip_mode).collect();
    assert_eq!(modes, [Some(IpMode::Vip); 2]);
    test.has_ip_mode = false;
    test.ensure().await.good();
    assert!(test.service.ingress.iter().all(|it| it.ip_mode.is_none()));
    let before = test.service.ingress.clone();
    test.calls();
    test.set("ip-mode", "vip");
    test.refused("unsupported IP mode").await;
    assert_eq!(test.writes(), [""; 0]);
    assert_eq!(test.service.ingress, before, "what is published stays");
    let mut test = Harness::new();
    test.set("ip-mode", "vip")
        .ensure()
        .await
        .problem_of("InvalidLoadBalancerConfig");
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn only_udp_ports_without_a_monitor_type_are_reported() {
    let mut test = Harness::new();
    test.service.ports = vec![port("dns", "UDP", 53, 30053)];
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["UDPHealthMonitor"]);
    assert_eq!(monitor(&test.pool()), "tcp 2/1/2/3");
}

#[tokio::test(start_paused = true)]
async fn floating_ips_are_published_if_somebody_wants_it() {
    let mut test = Harness::new();
    test.set("floating-ips", r#"["203.0.113.77"]"#)
        .ensure()
        .await
        .good();
    assert_eq!(test.service.ingress.len(), 2);
    test.set("publish-floating-ips", "true");
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.service.ingress[2], proxied("203.0.113.77"));
}

#[tokio::test(start_paused = true)]
async fn a_misspelled_key_is_reported_with_what_was_meant() {
    let mut test = Harness::new();
    test.set("helth-monitor-type", "http")
        .set("k8s.cloudscale.ch/volume", "x");
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["UnknownAnnotation"; 2]);
    let text = &outcome.notices[0].message;
    assert!(text.ends_with("did you mean k8s.cloudscale.ch/loadbalancer-health-monitor-type?"));
    assert!(!outcome.notices[1].message.contains("did you mean"));
}
