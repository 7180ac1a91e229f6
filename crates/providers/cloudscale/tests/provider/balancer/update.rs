//! Cases on changing load balancers.

use bowline_core::TrafficPolicy;
use bowline_simulator::journal::Entry;
use bowline_simulator_cloudscale::{BalancerInfo, MachineSpec, Quirks};
use serde_json::json;

use super::create::two_subnets;
use super::harness::{Harness, S2, members, monitor, named, open, port, set, steps};
use crate::harness::node;

/// Everything but what changes by itself.
fn frozen(mut balancer: BalancerInfo) -> BalancerInfo {
    balancer.changes = 0;
    balancer
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_43_another_port_number_replaces_only_the_listener() {
    let mut test = open().await;
    let before = test.pool();
    test.service.ports[0].port = 8080;
    test.does(&["delete listener tcp/80", "create listener tcp/8080"])
        .await;
    let after = test.pool();
    assert_eq!((after.uuid, after.members), (before.uuid, before.members));
    assert_eq!(after.listeners[0].name, "tcp/8080");
    assert_eq!(after.monitor, before.monitor);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_44_another_port_name_replaces_the_pool() {
    let mut test = open().await;
    test.service.ports[0].name = "web".into();
    let outcome = test.ensure().await;
    assert_eq!(
        steps(&outcome.good().plan),
        [
            "create pool tcp/web",
            "create member 10.20.0.11:31080 in tcp/web",
            "create member 10.20.0.12:31080 in tcp/web",
            "delete listener tcp/80",
            "create listener tcp/80",
            "create health monitor tcp/web",
            "delete pool tcp/http",
        ],
        "the new pool is filled before the listener moves"
    );
    let pool = test.pool();
    assert_eq!((&*pool.name, pool.members.len()), ("tcp/web", 2));
    assert_eq!(
        (pool.listeners.len(), monitor(&pool).as_str()),
        (1, "tcp 2/1/2/3")
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_45_a_typo_in_the_algorithm_deletes_nothing() {
    let mut test = open().await;
    test.set("pool-algorithm", "robin_round");
    let outcome = test.ensure().await;
    let problem = outcome.problem_of("InvalidLoadBalancerConfig");
    assert!(
        problem.contains("pool-algorithm") && problem.contains("robin_round"),
        "{problem}"
    );
    assert_eq!(test.writes(), [""; 0]);
    let before = test.pool().uuid;
    test.set("pool-algorithm", "source_ip")
        .ensure()
        .await
        .good();
    let pool = test.pool();
    assert_eq!((&*pool.algorithm, pool.members.len()), ("source_ip", 2));
    assert_ne!(pool.uuid, before);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_46_sources_are_filtered_in_place() {
    let mut test = open().await;
    test.service.ports.push(port("https", "TCP", 443, 31443));
    test.ensure().await.good();
    test.calls();
    let patch =
        |cidrs: &str| format!("PATCH load-balancers/listeners {{\"allowed_cidrs\":{cidrs}}}");
    test.set("listener-allowed-cidrs", r#"["198.51.100.0/24"]"#)
        .ensure()
        .await
        .good();
    assert_eq!(
        test.changes(),
        [
            patch(r#"["198.51.100.0/24"]"#),
            patch(r#"["198.51.100.0/24"]"#)
        ]
    );
    test.unset("listener-allowed-cidrs").ensure().await.good();
    assert_eq!(test.changes(), [patch("[]"), patch("[]")]);
    test.service.ports.pop();
    test.set(
        "listener-allowed-cidrs",
        r#"["198.51.100.7", "2001:DB8:0::/48"]"#,
    )
    .ensure()
    .await
    .good();
    test.calls();
    assert_eq!(
        test.pool().listeners[0].allowed_cidrs,
        ["198.51.100.7/32", "2001:db8::/48"]
    );
    test.set(
        "listener-allowed-cidrs",
        r#"["2001:db8::/48", "198.51.100.7/32"]"#,
    );
    assert!(test.ensure().await.good().plan.is_empty());
    test.set("listener-allowed-cidrs", " ")
        .ensure()
        .await
        .good();
    assert_eq!(test.changes(), [patch("[]")]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_47_three_timeouts_are_three_changes() {
    let mut test = open().await;
    test.set("timeout-client-data-ms", "60000")
        .set("timeout-member-connect-ms", "6000")
        .set("timeout-member-data-ms", "+70000")
        .ensure()
        .await
        .good();
    assert_eq!(
        test.changes(),
        [
            r#"PATCH load-balancers/listeners {"timeout_client_data_ms":60000}"#,
            r#"PATCH load-balancers/listeners {"timeout_member_connect_ms":6000}"#,
            r#"PATCH load-balancers/listeners {"timeout_member_data_ms":70000}"#,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_51_a_name_is_changed_in_place() {
    let mut test = open().await;
    let before = test.balancer();
    test.set("name", "shop-web").ensure().await.good();
    assert_eq!(
        test.changes(),
        [r#"PATCH load-balancers {"name":"shop-web"}"#]
    );
    assert_eq!(test.balancer().uuid, before.uuid);
    assert_eq!(test.balancer().name, "shop-web");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_52_flavor_zone_and_addresses_cannot_be_changed() {
    for (suffix, value, restored) in [
        ("flavor", "lb-large", "lb-standard"),
        ("zone", "lpg1", "rma1"),
        (
            "vip-addresses",
            r#"[{"subnet":"7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d"}]"#,
            "[]",
        ),
    ] {
        let mut test = open().await;
        let before = frozen(test.balancer());
        test.set(suffix, value);
        test.refused(suffix).await;
        assert_eq!(test.writes(), [""; 0]);
        test.set(suffix, restored);
        assert!(test.ensure().await.good().plan.is_empty());
        assert_eq!(frozen(test.balancer()), before);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_53_members_come_before_others_go() {
    let mut test = open().await;
    test.service.ports.push(port("https", "TCP", 443, 31443));
    test.ensure().await.good();
    test.calls();
    let spec: MachineSpec = serde_json::from_value(json!({"name": "worker-c", "interfaces": [
        {"network": "k8s", "addresses": ["10.20.0.13"]}]}))
    .unwrap();
    let uuid = test.sim.add_server(&spec).unwrap();
    test.nodes.push(node("worker-c", Some(&uuid)));
    test.does(&[
        "create member 10.20.0.13:31080 in tcp/http",
        "create member 10.20.0.13:31443 in tcp/https",
    ])
    .await;
    let b = test.nodes.remove(1);
    test.does(&[
        "delete member 10.20.0.12:31080 in tcp/http",
        "delete member 10.20.0.12:31443 in tcp/https",
    ])
    .await;
    test.nodes = vec![test.nodes.remove(0), b];
    let outcome = test.ensure().await;
    assert_eq!(
        steps(&outcome.good().plan)[..2],
        [
            "create member 10.20.0.12:31080 in tcp/http",
            "delete member 10.20.0.13:31080 in tcp/http"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_55_at_most_one_member_is_missing_while_all_are_replaced() {
    let mut test = open().await;
    let spec: MachineSpec = serde_json::from_value(json!({"name": "w", "count": 3, "interfaces": [
        {"network": "k8s"}]}))
    .unwrap();
    let uuids = test.sim.add_servers(&spec).unwrap();
    for (number, uuid) in uuids.iter().enumerate() {
        test.nodes
            .push(node(&format!("w-{}", number + 1), Some(uuid)));
    }
    test.ensure().await.good();
    let all = test.nodes.len();
    for (policy, health_port, kind) in [
        (TrafficPolicy::Local, Some(32100), "http 2/1/2/3"),
        (TrafficPolicy::Local, Some(32200), "http 2/1/2/3"),
        (TrafficPolicy::Cluster, None, "tcp 2/1/2/3"),
    ] {
        test.service.traffic_policy = policy;
        test.service.health_check_node_port = health_port;
        test.calls();
        test.ensure().await.good();
        let mut present = all;
        let mut least = all;
        for call in test.calls() {
            let member = call.path.contains("/members");
            match (call.method.as_str(), call.status) {
                ("DELETE", 204) if member => present -= 1,
                ("POST", 201) if member => present += 1,
                _ => {}
            }
            least = least.min(present);
        }
        assert_eq!((present, least), (all, all - 1));
        let pool = test.pool();
        assert_eq!(monitor(&pool), kind);
        let port = health_port.unwrap_or(31080);
        assert!(pool.members.iter().all(|it| it.monitor_port == Some(port)));
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_56_floating_ips_are_moved_and_stay() {
    let mut test = open().await;
    let uuid = test.balancer().uuid;
    test.set("floating-ips", r#"["203.0.113.77/32"]"#)
        .ensure()
        .await
        .good();
    let call = test.calls().into_iter().find(Entry::is_mutating).unwrap();
    assert_eq!(
        (&*call.method, &*call.path),
        ("PATCH", "/v1/floating-ips/203.0.113.77")
    );
    assert_eq!(call.body, json!({"load_balancer": uuid}));
    test.set("floating-ips", "[]").ensure().await.good();
    assert_eq!(test.writes(), [""; 0]);
    test.set("floating-ips", r#"["2001:DB8:f:0::77/128"]"#)
        .ensure()
        .await
        .good();
    assert_eq!(test.writes(), ["PATCH /v1/floating-ips/2001:db8:f::77"]);
    assert_eq!(test.balancer().floating_ips.len(), 2);
    for same in [
        r#"["2001:db8:f::77"]"#,
        r#"["203.0.113.77", "203.0.113.77/32"]"#,
    ] {
        test.set("floating-ips", same);
        assert!(test.ensure().await.good().plan.is_empty());
    }
    test.calls();
    test.set("floating-ips", r#"["203.0.113.99"]"#);
    test.refused("203.0.113.99").await;
    assert_eq!(test.writes(), [""; 0]);
}

/// Case 57 of cloudscale froze both; case 25 of the proof lets one have it and the rest of both go
/// on.
#[tokio::test(start_paused = true)]
async fn cloudscale_case_57_proof_case_25_two_services_cannot_have_one_floating_ip() {
    let mut test = open().await;
    test.set("floating-ips", r#"["203.0.113.77/32"]"#);
    let mut other = named("api", "b0000000-0000-4000-8000-000000000002");
    other.ports[0].node_port = 31081;
    set(&mut other, "floating-ips", r#"["203.0.113.77"]"#);
    let mut broken = named("broken", "b0000000-0000-4000-8000-000000000003");
    set(&mut broken, "floating-ips", r#"["203.0.113.77"#);
    test.others = vec![other.clone(), broken];
    // Nobody holds it: the older one gets it, and hears of the other.
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["FloatingIPConflict"]);
    assert!(outcome.notices[0].message.contains("shop/api"));
    assert_eq!(test.writes(), ["PATCH /v1/floating-ips/203.0.113.77"]);
    // The other is refused that one, and has its load balancer all the same.
    let web = std::mem::replace(&mut test.service, other);
    test.others[0] = web.clone();
    let outcome = test.ensure().await;
    let problem = outcome.problem_of("FloatingIPConflict");
    assert!(problem.contains("assigned to another service"), "{problem}");
    assert!(
        !test
            .writes()
            .iter()
            .any(|call| call.contains("floating-ips"))
    );
    assert_eq!(test.all().len(), 2);
    // An older one does not take it from the holder.
    test.service.created = "2026-01-01T00:00:00Z".parse().unwrap();
    test.others[0].class = Some("bowline.dev/cloudscale".into());
    test.ensure().await.problem_of("FloatingIPConflict");
    // In the same namespace what nobody wants any more can be had; from elsewhere it cannot.
    let mut elsewhere = web.clone();
    set(&mut elsewhere, "floating-ips", "[]");
    elsewhere.key.namespace = "infra".into();
    test.others[0] = elsewhere;
    test.ensure().await.problem_of("FloatingIPInUse");
    assert_eq!(test.writes(), [""; 0]);
    for change in [
        |it: &mut bowline_core::Service| it.deleting = true,
        |it: &mut bowline_core::Service| it.is_load_balancer = false,
        |it: &mut bowline_core::Service| it.class = Some("other".into()),
    ] {
        let mut harmless = web.clone();
        change(&mut harmless);
        test.others[0] = harmless;
        test.ensure().await.good();
    }
    let held = test.all().into_iter().map(|it| it.floating_ips.len());
    assert_eq!(held.sum::<usize>(), 1);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_89_another_subnet_comes_before_the_old_one_goes() {
    let mut test = two_subnets();
    test.set(
        "listener-allowed-subnets",
        &format!("[{:?}]", super::harness::S1),
    );
    test.ensure().await.good();
    let before = test.pool();
    test.set("listener-allowed-subnets", &format!("[{S2:?}]"));
    test.does(&[
        "create member 10.30.0.11:31080 in tcp/http",
        "delete member 10.20.0.21:31080 in tcp/http",
    ])
    .await;
    let after = test.pool();
    assert_eq!(members(&after), ["10.30.0.11:31080"]);
    assert_eq!(
        (after.uuid, after.listeners, after.monitor),
        (before.uuid, before.listeners, before.monitor)
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_node_port_is_served_before_the_old_one_goes() {
    let mut test = open().await;
    test.service.ports[0].node_port = 31999;
    test.does(&[
        "create member 10.20.0.11:31999 in tcp/http",
        "create member 10.20.0.12:31999 in tcp/http",
        "delete member 10.20.0.11:31080 in tcp/http",
        "delete member 10.20.0.12:31080 in tcp/http",
    ])
    .await;
}

#[tokio::test(start_paused = true)]
async fn no_listener_is_left_behind_where_the_cloud_does_not_remove_it_with_its_pool() {
    let mut test = open().await;
    let quirks = Quirks {
        listeners_survive: true,
        ..Quirks::default()
    };
    test.sim.set_quirks(quirks);
    test.service.ports.push(port("https", "TCP", 443, 31443));
    test.ensure().await.good();
    test.service.ports[0].name = "web".into();
    test.service.ports.pop();
    let outcome = test.ensure().await;
    assert_eq!(
        steps(&outcome.good().plan)[..2],
        ["delete listener tcp/443", "delete pool tcp/https"]
    );
    assert_eq!(test.balancer().loose_listeners, []);
    assert_eq!(test.pool().name, "tcp/web");
}

#[tokio::test(start_paused = true)]
async fn ports_that_change_places_find_them_free() {
    let mut test = Harness::new();
    test.service.ports.push(port("alt", "TCP", 8080, 31081));
    test.ensure().await.good();
    test.settle().await;
    let before = test.balancer();
    test.service.ports[0].port = 8080;
    test.service.ports[1].port = 80;
    test.ensure().await.good();
    let after = test.balancer();
    for (was, is, name) in [
        (&before.pools[0], &after.pools[0], "tcp/8080"),
        (&before.pools[1], &after.pools[1], "tcp/80"),
    ] {
        assert_eq!((&was.uuid, &was.members), (&is.uuid, &is.members));
        assert_eq!(is.listeners[0].name, name);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_setting_does_not_keep_members_from_being_updated() {
    let mut test = open().await;
    test.set("pool-algorithm", "robin_round");
    test.nodes.pop();
    let outcome = test.ensure().await;
    outcome.problem_of("InvalidLoadBalancerConfig");
    assert_eq!(
        steps(&outcome.plan),
        ["delete member 10.20.0.12:31080 in tcp/http"]
    );
    assert_eq!(members(&test.pool()), ["10.20.0.11:31080"]);
    // Unless it is open which members are wanted.
    test.set("listener-allowed-subnets", r#"["S1"]"#);
    test.nodes.clear();
    let outcome = test.ensure().await;
    assert_eq!(outcome.plan.problems.len(), 2);
    assert!(outcome.plan.is_empty());
}
