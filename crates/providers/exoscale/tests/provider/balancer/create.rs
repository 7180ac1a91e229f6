//! Cases on making load balancers.

use bowline_core::{Goal, Impact, TrafficPolicy};
use bowline_simulator::journal::Entry;
use bowline_test_kit::PlanRun;
use serde_json::json;

use super::harness::{Harness, NAME, UID, port, steps};
use crate::harness::{I1, I2, I3, I4, P1, P2, node, of};

#[tokio::test(start_paused = true)]
async fn exoscale_case_39_a_new_service_gets_a_whole_load_balancer() {
    let mut test = Harness::new().await;
    let outcome = test.ensure().await;
    outcome.good();
    let changes = test.changes();
    let [(first, balancer), (second, service)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(
        [&**first, &**second],
        ["create-load-balancer", "add-service-to-load-balancer"]
    );
    assert_eq!(
        *balancer,
        json!({"name": NAME, "labels": {"bowline-service-uid": UID, "k8s-service": "default.web",
               "bowline-service": "default.web", "bowline-cluster": "kubernetes",
               "k8s-cluster-uid": "blue"}})
    );
    assert_eq!(
        *service,
        json!({"name": format!("{UID}-80"), "protocol": "tcp", "port": 80, "target-port": 30080,
               "strategy": "round-robin", "instance-pool": {"id": P1},
               "healthcheck": {"mode": "tcp", "port": 30080, "interval": 10, "timeout": 5,
                               "retries": 1}})
    );
    let made = test.balancer();
    assert_eq!(
        (test.get("id"), test.get("service-instancepool-id")),
        (&*made.id, P1)
    );
    assert_eq!(test.address(), made.ip.to_string());
    assert_eq!(test.service.ingress[0].ip_mode, None);
    assert_eq!(
        steps(&outcome.plan),
        [
            format!("create load balancer {NAME}"),
            format!("create service {UID}-80")
        ]
    );
    assert_eq!(outcome.plan.impact(), Impact::None);
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_40_names_and_descriptions_are_carried_over() {
    let mut test = Harness::new().await;
    test.set("name", "edge")
        .set("description", "d1")
        .set("service-description", "sd");
    test.ensure().await.good();
    let balancer = test.balancer();
    assert_eq!(
        (&*balancer.name, balancer.description.as_deref()),
        ("edge", Some("d1"))
    );
    assert_eq!(test.listener().description.as_deref(), Some("sd"));
    let changes = test.changes();
    assert_eq!(changes[0].1["name"], "edge");
    assert_eq!(changes[0].1["description"], "d1");
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_41_with_two_ports_the_name_and_description_of_one_do_not_count() {
    let mut test = Harness::new().await;
    test.service.ports.push(port("TCP", 443, 30443));
    test.set("service-name", "x")
        .set("service-description", "y");
    test.ensure().await.good();
    assert_eq!(
        test.listeners(),
        [
            format!("{UID}-80 80/tcp→30080 tcp:30080"),
            format!("{UID}-443 443/tcp→30443 tcp:30443")
        ]
    );
    let services = test.balancer().services;
    assert!(services.iter().all(|it| it.description.is_none()));
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_42_one_port_may_have_a_name_of_its_own_and_is_remembered() {
    let mut test = Harness::new().await;
    test.set("service-name", "x");
    test.ensure().await.good();
    let listener = test.listener();
    assert_eq!(listener.name, "x");
    assert!(test.record().contains(&listener.id), "{}", test.record());
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_43_tcp_and_udp_share_a_port_number() {
    let mut test = Harness::new().await;
    test.service.ports = vec![port("TCP", 8080, 31621), port("UDP", 8080, 31700)];
    test.set("service-healthcheck-port", "31621");
    test.ensure().await.good();
    assert_eq!(
        test.listeners(),
        [
            format!("{UID}-8080 8080/tcp→31621 tcp:31621"),
            format!("{UID}-8080-udp 8080/udp→31700 tcp:31621")
        ]
    );
}

/// Nothing was asked of the cloud, and the one problem has these words.
#[track_caller]
fn refused(test: &Harness, outcome: &bowline_test_kit::Outcome, text: &str) {
    let problem = outcome.problem();
    assert!(problem.contains(text), "{problem}");
    assert!(test.all().is_empty());
    assert_eq!(test.calls().iter().filter(|it| it.is_mutating()).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_44_sctp_is_refused() {
    let mut test = Harness::new().await;
    test.service.ports = vec![port("SCTP", 80, 30080)];
    let outcome = test.ensure().await;
    let text = "only TCP and UDP are supported as service port protocols";
    refused(&test, &outcome, text);
    test.service.ports = vec![port("TCP", 80, 0)];
    let outcome = test.ensure().await;
    refused(&test, &outcome, "no node port");
    test.service.ports = (1..=11).map(|it| port("TCP", it, 30_000 + it)).collect();
    let outcome = test.ensure().await;
    refused(&test, &outcome, "at most 10");
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_45_nodes_of_two_pools_leave_it_open() {
    let mut test = Harness::new().await;
    test.nodes = vec![of(I1), of(I3)];
    let outcome = test.ensure().await;
    let text = format!("{P1} (workers), {P2} (others)");
    refused(
        &test,
        &outcome,
        "multiple Instance Pools detected across cluster Nodes",
    );
    assert!(outcome.problem().contains(&text), "{}", outcome.problem());
    assert_eq!(test.get("service-instancepool-id"), "");
}

#[tokio::test(start_paused = true)]
async fn a_default_pool_decides_what_the_nodes_leave_open() {
    let file = format!("loadBalancer: {{defaultInstancePoolID: {P2}}}");
    for (nodes, pool) in [
        (vec![of(I1), of(I3)], P2),
        (vec![of(I4)], P2),
        (vec![of(I1), of(I2)], P1),
    ] {
        let mut test = Harness::with(&file).await;
        test.nodes = nodes;
        test.ensure().await.good();
        assert_eq!(test.listener().pool, pool);
        assert_eq!(test.get("service-instancepool-id"), pool);
    }
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_46_instances_without_a_pool_do_not_count() {
    let mut test = Harness::new().await;
    test.nodes = vec![of(I1), of(I4)];
    test.ensure().await.good();
    assert_eq!(test.listener().pool, P1);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_47_no_pool_at_all_is_an_error() {
    let mut test = Harness::new().await;
    test.nodes = vec![of(I4)];
    let outcome = test.ensure().await;
    refused(
        &test,
        &outcome,
        "couldn't infer any Instance Pool from cluster Nodes",
    );
    // A node that joins later settles it.
    test.nodes.push(of(I2));
    test.ensure().await.good();
    assert_eq!(test.get("service-instancepool-id"), P1);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_48_nodes_of_other_clouds_and_zones_do_not_count() {
    let mut test = Harness::new().await;
    let nowhere = "00000000-0000-4000-8000-000000000001";
    let mut by_machine = node("by-machine", "");
    by_machine.provider_id = None;
    by_machine.system_uuid = I1.to_uppercase();
    test.nodes = vec![
        node("aws", "aws:///x"),
        node("external", "exoscale://rack7-u12"),
        of(nowhere),
        by_machine,
    ];
    test.ensure().await.good();
    assert_eq!(test.listener().pool, P1);
    let lists = |it: &&Entry| it.operation == "list-instances";
    assert_eq!(test.calls().iter().filter(lists).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_49_a_nodepool_names_the_pool() {
    let mut test = Harness::new().await;
    test.set("sks-cluster-name", "prod")
        .set("service-sks-nodepool-name", "WEB")
        .set("service-instancepool-id", P1);
    test.ensure().await.good();
    assert_eq!(
        (test.get("service-instancepool-id"), &*test.listener().pool),
        (P2, P2)
    );
    test.set("service-sks-nodepool-name", "nope");
    let outcome = test.ensure().await;
    assert!(
        outcome
            .problem()
            .contains("SKS node pool with name nope not found")
    );
    test.set("sks-cluster-name", "test");
    let outcome = test.ensure().await;
    assert!(
        outcome
            .problem()
            .contains("SKS cluster with name test not found")
    );
    assert_eq!(test.listener().pool, P2);
    // Without a nodepool the name of the cluster means nothing.
    test.unset("service-sks-nodepool-name");
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_for_a_pool_that_does_not_exist_and_one_without_nodes_is_reported() {
    let mut test = Harness::new().await;
    let nowhere = "00000000-0000-4000-8000-000000000001";
    test.set("service-instancepool-id", nowhere);
    let outcome = test.ensure().await;
    assert!(outcome.problem().contains(nowhere));
    assert_eq!(test.writes(), [""; 0]);
    // A role that cannot look is enough, as for the original.
    test.sim.deny(&["get-instance-pool"]);
    test.set("service-instancepool-id", P2);
    assert_eq!(test.ensure().await.good().reasons(), [""; 0]);
    let mut test = Harness::new().await;
    test.set("service-instancepool-id", P2);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["InstancePoolWithoutNodes"]);
    assert!(outcome.notices[0].warning && outcome.notices[0].message.contains(P2));
    assert_eq!(test.listener().pool, P2);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_50_a_nodepool_needs_its_cluster() {
    let mut test = Harness::new().await;
    test.set("service-sks-nodepool-name", "web");
    let outcome = test.ensure().await;
    assert_eq!(test.calls().len(), 0);
    refused(
        &test,
        &outcome,
        "SKS node pool name specified without SKS cluster name",
    );
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_51_a_bad_duration_is_told_and_whole_seconds_are_taken() {
    let mut test = Harness::new().await;
    test.set("service-healthcheck-interval", "abc");
    let outcome = test.ensure().await;
    assert_eq!((test.calls().len(), outcome.plan.unread), (0, true));
    refused(&test, &outcome, "\"abc\"");
    assert!(outcome.problem().contains("service-healthcheck-interval"));
    test.set("service-healthcheck-interval", "15");
    test.ensure().await.good();
    assert_eq!(test.listener().healthcheck.interval, 15);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_52_the_policy_local_is_checked_at_its_own_port() {
    let mut test = Harness::new().await;
    test.service.ports.push(port("TCP", 443, 30443));
    test.service.traffic_policy = TrafficPolicy::Local;
    test.service.health_check_node_port = Some(32111);
    let outcome = test.ensure().await;
    outcome.good();
    let wanted = [
        format!("{UID}-80 80/tcp→30080 tcp:32111"),
        format!("{UID}-443 443/tcp→30443 tcp:32111"),
    ];
    assert_eq!(test.listeners(), wanted);
    assert_eq!(outcome.reasons(), ["LocalPolicyHealthCheck"]);
}

#[tokio::test(start_paused = true)]
async fn the_policy_local_can_be_checked_by_requests() {
    let mut test = Harness::with("loadBalancer: {localPolicyHealthCheck: http}").await;
    test.service.traffic_policy = TrafficPolicy::Local;
    test.service.health_check_node_port = Some(32111);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), [""; 0]);
    let check = test.listener().healthcheck;
    assert_eq!(
        (check.mode, check.uri.as_deref()),
        ("http", Some("/healthz"))
    );
    test.set("service-healthcheck-mode", "tcp");
    test.ensure().await.good();
    assert_eq!(test.listener().healthcheck.mode, "tcp");
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_53_a_port_that_is_said_wins() {
    let mut test = Harness::new().await;
    test.service.traffic_policy = TrafficPolicy::Local;
    test.service.health_check_node_port = Some(32111);
    test.set("service-healthcheck-port", "30080");
    test.ensure().await.good();
    assert_eq!(test.listener().healthcheck.port, 30080);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_84_the_pool_is_written_first_then_the_id_then_the_address() {
    let test = Harness::new().await;
    test.sim
        .set_timings(|it| it.operation = std::time::Duration::ZERO);
    let draft = test.draft(Goal::Present).await.unwrap();
    let mut run = PlanRun::new(draft);
    let keys = |run: &PlanRun| {
        let publication = run.publication();
        let keys = publication.annotations.into_keys();
        let suffix = |key: String| key.rsplit_once("loadbalancer-").unwrap().1.to_owned();
        (
            keys.map(suffix).collect::<Vec<_>>(),
            publication.ingress.len(),
        )
    };
    let pool = "service-instancepool-id".to_owned();
    assert_eq!(keys(&run), (vec![pool.clone()], 0));
    run.carry_out(0).await.unwrap();
    assert_eq!(keys(&run), (vec!["id".to_owned(), pool.clone()], 0));
    run.carry_out(1).await.unwrap();
    assert_eq!(keys(&run).1, 0);
    run.carry_out(2).await.unwrap();
    assert_eq!(keys(&run), (vec!["id".to_owned(), pool], 1));
    let writes = test.writes();
    assert_eq!(
        writes,
        ["create-load-balancer", "add-service-to-load-balancer"]
    );
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_104_an_empty_value_is_none() {
    let mut test = Harness::new().await;
    for suffix in [
        "name",
        "service-strategy",
        "service-healthcheck-port",
        "service-healthcheck-interval",
        "service-healthcheck-retries",
        "id",
        "service-instancepool-id",
    ] {
        test.set(suffix, "");
    }
    test.ensure().await.good();
    let service = test.listener();
    assert_eq!(test.balancer().name, NAME);
    assert_eq!(
        (&*service.strategy, service.healthcheck.port),
        ("round-robin", 30080)
    );
    assert_eq!(
        (service.healthcheck.interval, service.healthcheck.retries),
        (10, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_106_udp_is_checked_at_the_tcp_port_of_its_number() {
    let mut test = Harness::new().await;
    test.service.ports = vec![port("UDP", 53, 30053), port("TCP", 53, 30153)];
    assert_eq!(test.ensure().await.good().reasons(), [""; 0]);
    assert_eq!(
        test.listeners(),
        [
            format!("{UID}-53-udp 53/udp→30053 tcp:30153"),
            format!("{UID}-53 53/tcp→30153 tcp:30153")
        ]
    );
    test.service.ports.pop();
    assert_eq!(test.ensure().await.good().reasons(), ["UdpHealthCheck"]);
    assert_eq!(test.listener().healthcheck.port, 30053);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_107_the_pool_that_was_found_out_is_kept() {
    let mut test = Harness::new().await;
    test.fault("create-load-balancer", 9, super::harness::status(500));
    assert!(test.ensure().await.error.is_some());
    assert_eq!(test.get("service-instancepool-id"), P1);
    test.world.faults.clear();
    test.calls();
    test.nodes = vec![of(I3)];
    test.ensure().await.good();
    assert_eq!(test.listener().pool, P1);
    assert!(
        test.calls()
            .iter()
            .all(|it| it.operation != "list-instances")
    );
}
