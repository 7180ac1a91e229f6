//! From a new Service to its address.

use std::time::Duration;

use bowline_scenarios::objects::{entrances, finalizers, service};
use bowline_scenarios::scenario;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_cloudscale::{BalancerTimings, MachineSpec};
use serde_json::{Value, json};

use super::service_harness::{
    C, CONFIG_VERSION, FINALIZER, ServiceHarness, UUID, ZONE, annotation, uid,
};

#[scenario]
async fn cloudscale_case_20_a_new_service_gets_the_originals_load_balancer_and_its_addresses(
    test: ServiceHarness,
) {
    let shown = test.serve().await;
    let (balancer, port) = (test.balancer(), test.node_port());
    assert_eq!(balancer.name, format!("k8s-service-{}", uid(&shown)));
    assert_eq!(
        (&*balancer.flavor, &*balancer.zone),
        ("lb-standard", "rma1")
    );
    assert_eq!(balancer.tags["k8s-service-uid"], uid(&shown));
    let [pool] = balancer.pools.as_slice() else {
        panic!("{:?}", balancer.pools);
    };
    assert_eq!(
        (&*pool.name, &*pool.algorithm, &*pool.protocol),
        ("tcp/http", "round_robin", "tcp")
    );
    let members = test.members();
    assert_eq!(
        members,
        [format!("10.20.0.11:{port}"), format!("10.20.0.12:{port}")]
    );
    for member in &pool.members {
        assert_eq!(member.monitor_port.map(u64::from), Some(port));
        assert_eq!(member.subnet, "7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d");
    }
    let [listener] = pool.listeners.as_slice() else {
        panic!("{:?}", pool.listeners);
    };
    assert_eq!((&*listener.name, listener.protocol_port), ("tcp/80", 80));
    let timeouts = (
        listener.timeout_client_data_ms,
        listener.timeout_member_connect_ms,
        listener.timeout_member_data_ms,
    );
    assert_eq!(timeouts, (50_000, 5_000, 50_000));
    assert_eq!(listener.allowed_cidrs, [""; 0]);
    let monitor = pool.monitor.as_ref().unwrap();
    let times = (monitor.delay_s, monitor.timeout_s);
    let thresholds = (monitor.up_threshold, monitor.down_threshold);
    assert_eq!(monitor.kind, "tcp");
    assert_eq!((times, thresholds), ((2, 1), (2, 3)));
    assert_eq!(annotation(&shown, UUID), balancer.uuid);
    assert_eq!(annotation(&shown, CONFIG_VERSION), "1");
    assert_eq!(annotation(&shown, ZONE), "rma1");
    assert_eq!(finalizers(&shown), [FINALIZER]);
    let addresses = balancer.vip_addresses.iter();
    let addresses: Vec<String> = addresses.map(|it| format!("{it} Proxy")).collect();
    assert_eq!(addresses.len(), 2);
    assert_eq!(entrances(&shown), addresses);
}

#[scenario]
async fn cloudscale_case_21_a_second_look_and_a_restart_write_nothing(mut test: ServiceHarness) {
    let before = test.serve().await;
    let mark = test.mark();
    // It counts as a change, and nothing follows from it.
    test.annotate("web", "example.org/note", Some("one")).await;
    test.until_looked(mark).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.written_from(mark), []);
    let mark = test.mark();
    test.restart().await;
    test.until_looked(mark).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.written_from(mark), []);
    assert_eq!(test.service("web")["status"], before["status"]);
}

/// The manager is reported that the API server has that version.
fn version(minor: &str) -> Rule {
    let body = json!({
        "major": "1", "minor": minor, "gitVersion": format!("v1.{minor}.4"), "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "", "goVersion": "", "compiler": "", "platform": "",
    });
    let action = Action::Status {
        code: 200,
        headers: [("Content-Type".to_owned(), "application/json".to_owned())].into(),
        body: Some(body),
    };
    Rule::new(action).server("kubernetes").on("GET", "/version")
}

#[scenario]
async fn cloudscale_case_39_an_old_api_server_is_told_no_ip_mode_and_a_plus_is_no_obstacle() {
    let story = async |minor: &str, mode: &str| {
        let mut test = ServiceHarness::idle(&[], &[]).await;
        test.fault(version(minor));
        test.start().await;
        let shown = test.serve().await;
        let addresses = test.balancer().vip_addresses.into_iter();
        let addresses: Vec<String> = addresses
            .map(|it| format!("{it} {mode}").trim_end().to_owned())
            .collect();
        assert_eq!(entrances(&shown).len(), 2);
        let written = test.written_from(0).into_iter();
        let mut written = written.filter(|it| it.path.ends_with("/status"));
        let has_mode = |body: &Value| body.to_string().contains("ipMode");
        if mode.is_empty() {
            // A current server fills it in by itself; what counts is what it was told.
            assert!(!written.any(|it| has_mode(&it.body)), "{minor}");
        } else {
            assert!(written.any(|it| has_mode(&it.body)), "{minor}");
            assert_eq!(entrances(&shown), addresses, "{minor}");
        }
        // And nothing is written again because of it.
        let mark = test.mark();
        test.annotate("web", "example.org/note", Some("one")).await;
        test.until_looked(mark).await;
        assert_eq!(test.written_from(mark), [], "{minor}");
        test.delete_service("web").await;
        test.until_service_gone("web").await;
        assert_eq!(test.cloud.balancers(), []);
        test.end().await;
    };
    futures::join!(story("29", ""), story("33+", "Proxy"));
}

#[scenario]
async fn cloudscale_case_42_a_service_of_another_class_is_never_touched(test: ServiceHarness) {
    let mut foreign = service("foreign");
    foreign["spec"]["loadBalancerClass"] = "example.org/foo".into();
    foreign["metadata"]["finalizers"] = json!([FINALIZER]);
    test.create_service(foreign).await;
    let ingress = json!([{ "ip": "192.0.2.9", "ipMode": "VIP" }]);
    test.change_service("foreign", |it| {
        it["status"]["loadBalancer"]["ingress"] = ingress.clone();
    })
    .await;
    // One of ours beside it shows that everything was looked at.
    test.serve().await;
    test.delete_service("foreign").await;
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    test.long(600).await;
    let kept = test.service("foreign");
    assert!(kept["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(finalizers(&kept), [FINALIZER]);
    assert_eq!(kept["status"]["loadBalancer"]["ingress"], ingress);
    assert_eq!(test.service_writes("foreign"), []);
    assert_eq!(test.events("foreign"), [""; 0]);
}

#[scenario]
async fn cloudscale_case_71_a_start_with_a_service_and_nodes_makes_one_load_balancer() {
    let mut test = ServiceHarness::idle(&[], &[]).await;
    test.create_service(service("web")).await;
    test.start().await;
    test.until_ensured("web").await;
    test.until_members(&["11", "12"]).await;
    test.long(120).await;
    assert_eq!(test.count_of("POST load-balancers"), 1);
    assert_eq!(test.count_of("POST pools"), 1);
    assert_eq!(test.balancer().pools.len(), 1);
    test.end().await;
}

#[scenario]
async fn cloudscale_case_69_changes_of_nodes_and_of_the_service_together_make_one_of_each(
    test: ServiceHarness,
) {
    let slow = BalancerTimings::each(Duration::from_secs(3));
    test.cloud.set_balancer_timings(slow);
    test.add_server(
        &MachineSpec::named("worker-c")
            .uuid(C)
            .interface("k8s", Some(vec!["10.20.0.13".parse().unwrap()])),
    );
    test.create_service(service("web")).await;
    test.until_asked(0, "POST load-balancers").await;
    // While it is being made.
    test.add_node("worker-c", C, 13).await;
    test.change_service("web", |it| {
        let more = json!({ "name": "https", "protocol": "TCP", "port": 443, "targetPort": 8443 });
        it["spec"]["ports"].as_array_mut().unwrap().push(more);
    })
    .await;
    test.until_ensured("web").await;
    test.until_members(&["11", "12", "13"]).await;
    test.long(120).await;
    let balancer = test.balancer();
    let pools: Vec<&str> = balancer.pools.iter().map(|it| &*it.name).collect();
    assert_eq!(pools, ["tcp/http", "tcp/https"]);
    assert!(balancer.pools.iter().all(|it| it.members.len() == 3));
    assert_eq!(test.count_of("POST load-balancers"), 1);
    assert_eq!(test.count_of("POST pools"), 2);
}

#[scenario]
async fn cloudscale_case_80_what_changes_while_the_cloud_works_is_seen_before_the_next_step(
    test: ServiceHarness,
) {
    let slow = BalancerTimings::each(Duration::from_secs(5));
    test.cloud.set_balancer_timings(slow);
    test.create_service(service("web")).await;
    test.until_asked(0, "POST load-balancers").await;
    test.change_service("web", |it| it["spec"]["ports"][0]["port"] = 8080.into())
        .await;
    test.until_ensured("web").await;
    let listeners = test.balancer().pools[0].listeners.clone();
    let ports: Vec<u16> = listeners.iter().map(|it| it.protocol_port).collect();
    assert_eq!(ports, [8080]);
    assert_eq!(test.count_of("POST listeners"), 1);
    assert_eq!(test.count_of("DELETE listeners"), 0);
}

#[scenario]
async fn cloudscale_case_80_a_service_deleted_while_its_load_balancer_is_made_gets_no_child(
    test: ServiceHarness,
) {
    let slow = BalancerTimings::each(Duration::from_secs(5));
    test.cloud.set_balancer_timings(slow);
    test.create_service(service("web")).await;
    test.until_asked(0, "POST load-balancers").await;
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(
        test.changes(),
        ["POST load-balancers", "DELETE load-balancers"]
    );
    assert_eq!(test.cloud.balancers(), []);
}

#[scenario]
async fn cloudscale_case_88_our_own_writes_cause_no_run_and_a_users_does(test: ServiceHarness) {
    test.serve().await;
    test.seconds(3).await;
    let looks = test.cloud_calls("/v1/load-balancers*").len();
    let mark = test.mark();
    // Longer than any pause between tries, shorter than the comparison with the cloud.
    test.long(200).await;
    assert_eq!(test.cloud_calls("/v1/load-balancers*").len(), looks);
    assert_eq!(test.written_from(mark), []);
    let key = "k8s.cloudscale.ch/loadbalancer-listener-allowed-cidrs";
    test.annotate("web", key, Some(r#"["198.51.100.0/24"]"#))
        .await;
    test.until_asked(mark, "PATCH listeners").await;
    let listener = &test.balancer().pools[0].listeners[0];
    assert_eq!(listener.allowed_cidrs, ["198.51.100.0/24"]);
    test.seconds(3).await;
    assert_eq!(test.changes_from(mark), ["PATCH listeners"]);
    assert_eq!(test.written_from(mark), []);
}
