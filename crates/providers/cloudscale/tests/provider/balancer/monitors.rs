//! Cases on health monitors.

use super::harness::{Harness, monitor, open};
use bowline_test_kit::begins;

#[tokio::test(start_paused = true)]
async fn cloudscale_case_48_each_number_of_a_monitor_is_one_change() {
    let mut test = Harness::new();
    let numbers = |test: &mut Harness, delay: &str, timeout: &str, up: &str, down: &str| {
        test.set("health-monitor-delay-s", delay)
            .set("health-monitor-timeout-s", timeout)
            .set("health-monitor-up-threshold", up)
            .set("health-monitor-down-threshold", down);
    };
    numbers(&mut test, "6", "3", "2", "4");
    test.ensure().await.good();
    test.calls();
    numbers(&mut test, "5", "2", "3", "4");
    test.ensure().await.good();
    let patch = |body: &str| format!("PATCH load-balancers/health-monitors {body}");
    assert_eq!(
        test.changes(),
        [
            patch(r#"{"delay_s":5}"#),
            patch(r#"{"timeout_s":2}"#),
            patch(r#"{"up_threshold":3}"#)
        ]
    );
    // The cloud takes no check that lasts longer than the pause, not even between two changes.
    for (delay, timeout) in [("1", "1"), ("9", "8"), ("20", "15"), ("3", "2")] {
        numbers(&mut test, delay, timeout, "3", "4");
        test.ensure().await.good();
        assert_eq!(monitor(&test.pool()), format!("tcp {delay}/{timeout}/3/4"));
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_49_a_method_is_changed_and_a_type_replaced() {
    let mut test = open().await;
    let before = test.pool().monitor.unwrap().uuid;
    test.set("health-monitor-type", "http")
        .ensure()
        .await
        .good();
    let writes = test.writes();
    begins(&writes[0], "DELETE /v1/load-balancers/health-monitors/");
    assert!(
        writes[1..]
            .iter()
            .all(|it| it == "POST /v1/load-balancers/health-monitors")
    );
    let pool = test.pool();
    assert_ne!(pool.monitor.as_ref().unwrap().uuid, before);
    assert_eq!(monitor(&pool), "http 2/1/2/3");
    test.set("health-monitor-http", r#"{"Method":"HEAD"}"#)
        .ensure()
        .await
        .good();
    assert_eq!(
        test.changes(),
        [r#"PATCH load-balancers/health-monitors {"http":{"method":"HEAD"}}"#]
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_50_a_host_is_set_once_and_can_be_taken_away() {
    let mut test = Harness::new();
    test.set("health-monitor-type", "http")
        .ensure()
        .await
        .good();
    test.calls();
    test.set("health-monitor-http", r#"{"host":"app.example.org"}"#)
        .ensure()
        .await
        .good();
    assert_eq!(
        test.changes(),
        [r#"PATCH load-balancers/health-monitors {"http":{"host":"app.example.org"}}"#]
    );
    assert!(test.ensure().await.good().plan.is_empty());
    test.set("health-monitor-http", r#"{"host":null}"#)
        .ensure()
        .await
        .good();
    assert_eq!(test.pool().monitor.unwrap().http.unwrap().host, None);
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_76_http_options_of_a_tcp_monitor_are_left_out() {
    let mut test = Harness::new();
    test.set("health-monitor-http", r#"{"version":"1.0"}"#)
        .ensure()
        .await
        .good();
    assert_eq!(monitor(&test.pool()), "tcp 2/1/2/3");
    assert_eq!(test.pool().monitor.unwrap().http, None);
    test.calls();
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_77_removed_http_options_are_taken_back() {
    let mut test = Harness::new();
    test.set("health-monitor-type", "http")
        .set(
            "health-monitor-http",
            r#"{"url_path":"/ready","method":"HEAD"}"#,
        )
        .ensure()
        .await
        .good();
    test.calls();
    test.unset("health-monitor-http").ensure().await.good();
    assert_eq!(
        test.changes(),
        [
            r#"PATCH load-balancers/health-monitors {"http":{"url_path":"/"}}"#,
            r#"PATCH load-balancers/health-monitors {"http":{"method":"GET"}}"#,
        ]
    );
}
