//! Settings of single ports.

use super::harness::{Harness, members, monitor, open, port, steps};
use crate::harness::{A, node};
use bowline_test_kit::begins;

const INVALID: &str = "InvalidLoadBalancerConfig";

/// A test with two ports, whose load balancer is there, and whose calls are forgotten.
async fn two_ports() -> Harness {
    let mut test = open().await;
    test.service.ports.push(port("https", "TCP", 443, 31443));
    test.ensure().await.good();
    test.settle().await;
    test.calls();
    test
}

#[tokio::test(start_paused = true)]
async fn what_the_original_made_is_taken_over_as_it_is_where_single_ports_say_nothing_new() {
    for text in [
        "{}",
        r#"{"http": {}}"#,
        r#"{"80": {"pool-algorithm": "round_robin", "timeout-client-data-ms": 50000,
                   "health-monitor-type": "tcp", "listener-allowed-cidrs": []}}"#,
    ] {
        let mut test = Harness::with(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")]);
        test.place_originals();
        test.calls();
        test.set("port-settings", text);
        assert!(test.ensure().await.good().plan.is_empty(), "{text}");
        assert_eq!(test.writes(), [""; 0], "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_setting_of_one_port_changes_that_port_and_goes_with_the_annotation() {
    let mut test = two_ports().await;
    let before = test.balancer().pools;
    test.set(
        "port-settings",
        r#"{"https": {"timeout-member-data-ms": 9, "health-monitor-delay-s": 5,
                      "listener-allowed-cidrs": ["198.51.100.7"]}}"#,
    );
    test.ensure().await.good();
    let listener = |body: &str| format!("PATCH load-balancers/listeners {body}");
    let monitors = |body: &str| format!("PATCH load-balancers/health-monitors {body}");
    assert_eq!(
        test.changes(),
        [
            listener(r#"{"allowed_cidrs":["198.51.100.7/32"]}"#),
            listener(r#"{"timeout_member_data_ms":9}"#),
            monitors(r#"{"delay_s":5}"#),
        ]
    );
    let after = test.balancer().pools;
    assert_eq!(after[0], before[0]);
    assert_eq!(monitor(&after[1]), "tcp 5/1/2/3");
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
    test.unset("port-settings").ensure().await.good();
    assert_eq!(
        test.changes(),
        [
            listener(r#"{"allowed_cidrs":[]}"#),
            listener(r#"{"timeout_member_data_ms":50000}"#),
            monitors(r#"{"delay_s":2}"#),
        ]
    );
    assert_eq!(test.balancer().pools, before);
}

#[tokio::test(start_paused = true)]
async fn a_protocol_of_one_port_replaces_only_its_pool() {
    let mut test = two_ports().await;
    let before = test.balancer().pools;
    test.set("port-settings", r#"{"443": {"pool-protocol": "proxyv2"}}"#);
    let outcome = test.ensure().await;
    let steps = steps(&outcome.good().plan);
    assert!(
        steps
            .iter()
            .all(|step| !step.contains("tcp/80") && !step.contains("in tcp/http ")),
        "{steps:?}"
    );
    let after = test.balancer().pools;
    assert_eq!(after[0], before[0]);
    assert_eq!(
        (&*after[1].name, &*after[1].protocol),
        ("tcp/https", "proxyv2")
    );
    assert_ne!(after[1].uuid, before[1].uuid);
    assert_eq!(members(&after[1]), members(&before[1]));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_concerns_its_setting_and_members_follow_the_nodes() {
    for (text, reported) in [
        (
            r#"{"8080": {}}"#,
            &[r#"port "8080""#, "80/tcp (http), 443/tcp (https)"][..],
        ),
        (
            r#"{"http": {"pool-algorithmus": "source_ip"}}"#,
            &[
                r#"port "http": pool-algorithmus: "source_ip""#,
                "did you mean pool-algorithm?",
            ],
        ),
        (
            r#"{"80": {"timeout-client-data-ms": "5s"}}"#,
            &[
                r#"port "80": timeout-client-data-ms: "5s""#,
                "a whole number above 0",
            ],
        ),
        (
            r#"{"80": {"health-monitor-type": "udp-connect"}}"#,
            &[r#"port "80": health-monitor-type: "udp-connect""#, "UDP"],
        ),
    ] {
        let mut test = two_ports().await;
        // Neither this one, which is good, is carried out.
        test.set("pool-algorithm", "source_ip")
            .set("port-settings", text);
        test.nodes = vec![node("worker-a", Some(A))];
        let outcome = test.ensure().await;
        let problem = outcome.problem_of(INVALID);
        assert!(problem.contains("k8s.cloudscale.ch/loadbalancer-port-settings"));
        for part in reported {
            assert!(problem.contains(part), "{problem}\nlacks {part}");
        }
        assert_eq!(
            steps(&outcome.plan),
            [
                "delete member 10.20.0.12:31080 in tcp/http",
                "delete member 10.20.0.12:31443 in tcp/https"
            ]
        );
        for pool in test.balancer().pools {
            assert_eq!((&*pool.algorithm, pool.members.len()), ("round_robin", 1));
        }
        test.set("port-settings", "{}").ensure().await.good();
        for pool in test.balancer().pools {
            assert_eq!(&*pool.algorithm, "source_ip");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_made_as_long_as_a_setting_of_a_port_cannot_be_used() {
    let mut test = Harness::new();
    test.set("port-settings", r#"{"http": {"pool-protocol": "proxyv3"}}"#);
    test.ensure().await.problem_of(INVALID);
    assert_eq!(test.writes(), [""; 0]);
    assert_eq!(test.all(), []);
}

#[tokio::test(start_paused = true)]
async fn source_ranges_are_reported_for_the_ports_that_they_filter() {
    let mut test = Harness::new();
    test.service.ports.push(port("https", "TCP", 443, 31443));
    test.service.source_ranges = vec!["192.0.2.0/24".into()];
    test.set(
        "port-settings",
        r#"{"https": {"listener-allowed-cidrs": []}}"#,
    );
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["SourceRangesApplied"]);
    let message = &outcome.notices[0].message;
    begins(message, "only 192.0.2.0/24 may connect to tcp/80, as");
    let pools = test.balancer().pools;
    assert_eq!(pools[0].listeners[0].allowed_cidrs, ["192.0.2.0/24"]);
    assert_eq!(pools[1].listeners[0].allowed_cidrs, [""; 0]);
    // A port's own setting is not the Service's.
    test.set(
        "port-settings",
        r#"{"https": {"listener-allowed-cidrs": ["10.0.0.0/8"]}}"#,
    );
    assert_eq!(test.ensure().await.good().reasons(), [""; 0]);
    // Without it, all ports are filtered, and that is reported.
    test.unset("port-settings");
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["SourceRangesApplied"]);
    let message = &outcome.notices[0].message;
    begins(message, "only 192.0.2.0/24 may connect, as");
}
