//! Cases on what goes wrong, and on the end of load balancers.

use bowline_test_kit::says;
use std::time::Duration;

use bowline_core::Goal;
use bowline_simulator::faults::Action;
use bowline_simulator_cloudscale::{BalancerStatus, BalancerTimings};
use serde_json::{Value, json};

use super::harness::{Harness, NAME, members, monitor, steps};
use crate::harness::node;

fn refused(body: Value) -> Action {
    bowline_test_kit::answer(400, body)
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_36_a_lost_answer_makes_no_second_load_balancer() {
    for action in [Action::LostAnswer, Action::Html { code: 502 }] {
        let mut test = Harness::new();
        test.fault("POST", "/v1/load-balancers", 1, action.clone());
        let outcome = test.ensure().await;
        if action == Action::LostAnswer {
            outcome.good();
        } else {
            assert!(outcome.error.as_deref().unwrap().contains("502"));
            test.ensure().await.good();
        }
        assert_eq!(test.get("uuid"), test.balancer().uuid);
        assert_eq!(test.pool().members.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answers_make_nothing_twice() {
    for path in [
        "/v1/load-balancers/pools",
        "/v1/load-balancers/pools/*/members",
        "/v1/load-balancers/listeners",
        "/v1/load-balancers/health-monitors",
    ] {
        let mut test = Harness::new();
        test.fault("POST", path, 1, Action::LostAnswer);
        test.ensure().await.good();
        let pool = test.pool();
        assert_eq!((pool.members.len(), pool.listeners.len()), (2, 1), "{path}");
        assert!(test.ensure().await.good().plan.is_empty(), "{path}");
        // Cut before the API hears of it: an error, and the next try makes it.
        let mut test = Harness::new();
        test.fault("POST", path, 1, Action::Reset);
        assert!(test.ensure().await.error.is_some(), "{path}");
        test.ensure().await.good();
        let pool = test.pool();
        assert_eq!((pool.members.len(), pool.listeners.len()), (2, 1), "{path}");
        assert!(test.ensure().await.good().plan.is_empty(), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_a_change_is_no_failure_if_the_change_was_made() {
    for action in [Action::LostAnswer, Action::Silence] {
        let mut test = Harness::new();
        test.ensure().await.good();
        test.set("health-monitor-delay-s", "7")
            .set("listener-timeout-client-data-ms", "40000");
        test.fault("PATCH", "*", 9, action.clone());
        test.ensure().await.good();
        assert!(monitor(&test.pool()).contains(" 7/"), "{action:?}");
        assert!(test.ensure().await.good().plan.is_empty(), "{action:?}");
    }
    // One that was not made is.
    let mut test = Harness::new();
    test.ensure().await.good();
    test.set("health-monitor-delay-s", "7");
    test.fault("PATCH", "*", 9, Action::Reset);
    assert!(test.ensure().await.error.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_refused_because_it_is_there_is_no_warning() {
    let mut test = Harness::new();
    let second = test.nodes.pop().unwrap();
    test.ensure().await.good();
    test.nodes.push(second);
    let draft = test.draft(Goal::Present).await.unwrap();
    // Somebody, perhaps a request whose answer got lost, is faster.
    test.ensure().await.good();
    let exists = refused(json!({"detail": "address and port exist already"}));
    test.fault("POST", "/v1/load-balancers/pools/*/members", 1, exists);
    let outcome = test.carry_out(draft).await;
    assert_eq!(outcome.good().reasons(), [""; 0]);
    assert_eq!(test.pool().members.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_63_deletion_waits_while_the_load_balancer_changes() {
    let mut test = Harness::new();
    let uuid = test.place_originals();
    test.sim.freeze_balancer(&uuid).unwrap();
    let draft = test.draft(Goal::Absent).await.unwrap();
    let sim = test.sim.clone();
    let frozen = uuid.clone();
    let thaw = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        sim.thaw_balancer(&frozen).unwrap();
    });
    let before = test.world.clock.now();
    test.fault("DELETE", "*", 2, refused(json!({"detail": "not now"})));
    test.carry_out(draft).await.good();
    thaw.await.unwrap();
    let calls = test.calls();
    let deletes: Vec<_> = calls.iter().filter(|it| it.is_mutating()).collect();
    let statuses: Vec<u16> = deletes.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [400, 400, 204]);
    assert!(deletes[0].arrived.duration_since(before).as_secs() >= 30);
    assert_eq!(test.all(), []);
    // Gone meanwhile is as good.
    let mut test = Harness::new();
    let uuid = test.place_originals();
    let draft = test.draft(Goal::Absent).await.unwrap();
    test.sim.remove(&uuid).unwrap();
    test.carry_out(draft).await.good();
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_65_deletion_reads_no_annotations() {
    let mut test = Harness::new();
    test.place_originals();
    test.set("floating-ips", "[")
        .set("ip-mode", "vip")
        .set("vip-addresses", "nothing")
        .set("node-selector", "===")
        .set("name", "");
    let outcome = test.delete().await;
    assert_eq!(
        steps(&outcome.good().plan),
        [format!("delete load balancer {NAME}")]
    );
    assert_eq!(test.all(), []);
    assert!(test.delete().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_66_http_options_that_are_none_are_an_error() {
    for bad in [
        "null",
        "",
        "[]",
        r#"{"version":"1.0","host":"a"}"#,
        r#"{"method":"get"}"#,
    ] {
        let mut test = Harness::new();
        test.place_originals();
        test.set("health-monitor-http", bad);
        test.refused("health-monitor-http").await;
        assert_eq!(test.writes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_67_a_node_of_another_cloud_disturbs_nobody() {
    let mut test = Harness::new();
    let mut foreign = node("elsewhere", None);
    foreign.provider_id = Some("bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e".into());
    test.nodes.insert(0, foreign);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), [""; 0]);
    assert_eq!(test.pool().members.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_68_members_of_a_server_that_is_gone_go() {
    let mut test = Harness::new();
    test.ensure().await.good();
    test.sim.destroy("worker-b").unwrap();
    test.settle().await;
    test.nodes.push(node("stranger", None));
    let mut odd = node("odd", None);
    odd.provider_id = Some("cloudscale://invalid".into());
    test.nodes.push(odd);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["NodeSkipped"; 3]);
    for (notice, words) in outcome.notices.iter().zip(["404", "no server", "invalid"]) {
        says(&notice.message, words);
    }
    assert_eq!(members(&test.pool()), ["10.20.0.11:31080"]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_70_a_monitor_is_made_when_the_old_one_has_made_room() {
    let mut test = Harness::new();
    test.ensure().await.good();
    let timings = BalancerTimings {
        removal: Duration::from_secs(8),
        ..BalancerTimings::default()
    };
    test.sim.set_balancer_timings(timings);
    test.calls();
    test.set("health-monitor-type", "http")
        .ensure()
        .await
        .good();
    let tries: Vec<u16> = test
        .calls()
        .iter()
        .filter(|it| it.method == "POST")
        .map(|it| it.status)
        .collect();
    assert_eq!(tries, [400, 400, 400, 400, 201]);
    assert_eq!(monitor(&test.pool()), "http 2/1/2/3");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_75_only_changing_is_waited_for() {
    for status in [
        BalancerStatus::Degraded,
        BalancerStatus::Stopped,
        BalancerStatus::Unknown,
    ] {
        let mut test = Harness::new();
        let uuid = test.place_originals();
        test.sim.set_balancer_status(&uuid, Some(status)).unwrap();
        test.nodes.pop();
        test.ensure().await.good();
        assert_eq!(test.pool().members.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_79_listeners_without_a_pool_make_room_only_where_they_must() {
    let mut test = Harness::new();
    test.place(
        json!({"name": NAME, "listeners": [{"protocol_port": 80}, {"protocol_port": 9999}]}),
    );
    test.ensure().await.good();
    let balancer = test.balancer();
    let loose: Vec<u16> = balancer
        .loose_listeners
        .iter()
        .map(|it| it.protocol_port)
        .collect();
    assert_eq!(loose, [9999]);
    assert_eq!(test.pool().listeners[0].protocol_port, 80);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_82_errors_name_the_key_the_value_and_what_the_cloud_said() {
    let mut test = Harness::new();
    test.set("timeout-client-data-ms", "5s");
    let outcome = test.ensure().await;
    let problem = outcome.problem_of("InvalidLoadBalancerConfig");
    says(
        problem,
        "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms",
    );
    says(problem, "5s");
    test.unset("timeout-client-data-ms");
    let no = refused(json!({"allowed_cidrs": "nobody is allowed"}));
    test.fault("POST", "/v1/load-balancers/listeners", 1, no);
    let error = test.ensure().await.error.unwrap();
    for word in ["400", "allowed_cidrs", "nobody is allowed"] {
        says(&error, word);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_87_an_empty_name_is_an_error() {
    for with_uuid in [false, true] {
        let mut test = Harness::new();
        if with_uuid {
            test.place_originals();
        }
        test.set("name", "");
        test.refused("loadbalancer-name").await;
        assert_eq!(test.writes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_90_another_host_in_a_link_replaces_no_member() {
    let mut test = Harness::new();
    test.place_originals();
    test.ensure().await.good();
    test.calls();
    // The links of the members' subnets and of the servers' name another host than before.
    let body =
        {
            let draft = test.draft(Goal::Present).await.unwrap();
            assert!(draft.plan.is_empty());
            let calls = test.calls();
            assert!(calls.iter().any(|call| call.path.ends_with("/members")));
            let members = test.pool().members;
            json!(members.iter().map(|it| json!({
            "uuid": it.uuid, "name": it.name, "enabled": true, "address": it.address,
            "protocol_port": it.protocol_port, "monitor_port": it.monitor_port,
            "subnet": {"href": "https://other.example.org/v1/subnets/x", "uuid": it.subnet,
                       "cidr": "10.20.0.0/24"},
        })).collect::<Vec<_>>())
        };
    let action = bowline_test_kit::answer(200, body);
    test.fault("GET", "/v1/load-balancers/pools/*/members", 1, action);
    assert!(test.ensure().await.good().plan.is_empty());
}
