//! Metrics are fetched from the service and shown.

use std::time::Duration;

use tokio::time::sleep;

use super::harness::{Harness, id};

const PAGE: &str = "/metrics/triton";

fn up(test: &Harness, number: u32, is_up: u8) -> bool {
    let (node, machine) = (format!("k8s-{number}"), id(number));
    let line = format!(r#"triton_cmon_up{{node="{node}",machine="{machine}"}} {is_up}"#);
    let page = test.page(PAGE).unwrap_or_default();
    page.lines().any(|it| it == line)
}

async fn until_all(test: &Harness, count: u32, is_up: u8) {
    let all = |it: &Harness| (1..=count).all(|number| up(it, number, is_up));
    test.until(&format!("all are {is_up}"), all).await;
}

#[tokio::test(start_paused = true)]
async fn all_series_are_shown_with_their_owners() {
    let mut test = Harness::new(3);
    test.open_cmon();
    test.start("export");
    let nothing = test.page(PAGE).unwrap();
    assert!(nothing.starts_with("# ") && nothing.lines().count() == 1);
    until_all(&test, 3, 1).await;
    let page = test.page(PAGE).unwrap();
    let node = test.sim.machine(&id(1)).unwrap();
    let server = node.compute_node.clone().unwrap();
    let line = format!(
        r#"triton_mem_limit{{node="k8s-1",machine="{}",brand="bhyve",compute_node="{server}"}} 1073741824"#,
        id(1)
    );
    assert!(page.lines().any(|it| it == line), "{line} in\n{page}");
    for family in [
        "triton_mem_limit gauge",
        "triton_cpu_user_usage counter",
        "triton_cmon_up gauge",
    ] {
        let count = page.matches(&format!("# TYPE {family}\n")).count();
        assert_eq!(count, 1, "{page}");
    }
    // Every half a minute, each machine once.
    let before = test.asked_cmon();
    sleep(Duration::from_secs(300)).await;
    assert_eq!(test.asked_cmon() - before, 30);
    // The rest is as in the other mode.
    assert_eq!(test.discovered().len(), 3);
    let group = test.tag(1, "bowline.cmon");
    assert_eq!(group.as_deref(), Some("k8s-kubernetes"));
    assert_eq!(test.cluster.reported(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn machines_that_cannot_be_read_are_down_and_those_that_do_not_run_are_not_there() {
    let mut test = Harness::new(3);
    test.open_cmon();
    test.start("export");
    until_all(&test, 3, 1).await;
    test.sim.stop(&id(3)).unwrap();
    test.until("one is not asked", |it| !up(it, 3, 1)).await;
    assert!(up(&test, 1, 1));
    test.close_cmon();
    until_all(&test, 2, 0).await;
    assert!(!test.page(PAGE).unwrap().contains("triton_mem_limit"));
    test.open_cmon();
    until_all(&test, 2, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_the_accounts_any_more_is_reported() {
    let mut test = Harness::new(1);
    test.open_cmon();
    test.start("export");
    test.until("it is up", |it| up(it, 1, 1)).await;
    test.sim.remove_keys("acme").unwrap();
    test.until("it is down", |it| up(it, 1, 0)).await;
    sleep(Duration::from_secs(300)).await;
    let reported = test.cluster.reported();
    assert_eq!(reported.len(), 1, "{reported:?}");
    let expected = "CMONKeyNotUsable Secret triton-cmon-client: ";
    assert!(reported[0].starts_with(expected), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_never_answers_holds_up_nobody_for_long() {
    use bowline_simulator::faults::{Action, Rule};
    let mut test = Harness::new(25);
    test.open_cmon();
    let rule = Rule::new(Action::Hang).server("cmon");
    test.world.faults.add(rule).unwrap();
    test.start("export");
    until_all(&test, 25, 0).await;
    // Ten at a time, five seconds each: three lots, well within the half minute.
    let asked = test.asked_cmon();
    sleep(Duration::from_secs(300)).await;
    let asked = test.asked_cmon() - asked;
    assert_eq!(asked, 250, "a round every half a minute");
    test.world.faults.clear();
    until_all(&test, 25, 1).await;
}
