//! Cases on making load balancer machines.

use std::time::Duration;

use bowline_core::{Goal, Impact, TrafficPolicy};
use bowline_simulator::faults::Action;
use bowline_simulator_triton::{EXTERNAL, FABRIC};
use serde_json::json;

use super::harness::{ACCOUNT, CLUSTER, Harness, NAME, UID, open, port, steps};

fn nodes_name() -> String {
    format!("k8s-nodes-cccccccc.svc.{ACCOUNT}.int.eg-1.example.com")
}

#[tokio::test(start_paused = true)]
async fn triton_case_46_a_service_gets_one_machine_that_knows_its_nodes() {
    let mut test = Harness::new();
    let outcome = test.ensure().await;
    outcome.good();
    let changes = test.changes();
    let made = changes.iter().filter(|it| it.0 == "createmachine");
    let made: Vec<_> = made.collect();
    assert_eq!(made.len(), 1, "{changes:?}");
    let name = format!("my-fabric.{}", nodes_name());
    let map = format!("tcp://80:{name}:30080,tcp://443:{name}:30443");
    let image = bowline_simulator_triton::BALANCER_IMAGE;
    assert_eq!(
        made[0].1,
        json!({
            "name": NAME, "image": image, "package": "lb1.small",
            "networks": [EXTERNAL, FABRIC], "firewall_enabled": true, "deletion_protection": false,
            "allow_shared_images": true,
            "tag.bowline.clb": CLUSTER, "tag.bowline.service": "prod/web", "tag.bowline.uid": UID,
            "tag.triton.cns.services": "web.prod",
            "metadata.cloud.tritoncompute:loadbalancer": "true",
            "metadata.cloud.tritoncompute:max_rs": "32",
            "metadata.cloud.tritoncompute:portmap": map,
        })
    );
    for number in 1..=3 {
        let node = test.sim.machine(&format!("k8s-{number}")).unwrap();
        assert_eq!(node.tag("triton.cns.services"), Some("k8s-nodes-cccccccc"));
        assert_eq!(node.tag("bowline.cns"), Some("k8s-nodes-cccccccc"));
        assert_eq!(node.tag("bowline.node"), Some(CLUSTER));
    }
    let machine = test.machine();
    assert_eq!(test.shown(), format!("{} (Proxy)", machine.addresses[0]));
    assert!(machine.addresses[0].starts_with("203.0.113."));
    assert_eq!(test.get("instances"), machine.id);
    let status = "1 of 1 load balancer machines run: 80/TCP→30080, 443/TCP→30443";
    assert_eq!(test.get("status"), status);
    let nodes = [1, 2, 3].map(|number| format!("update machine k8s-{number}"));
    let steps = steps(&outcome.plan);
    assert_eq!(steps[..3], nodes);
    assert_eq!(steps[3], format!("create machine {NAME}"));
    assert_eq!(steps[4..], ["create firewall rule front-tcp"]);
    assert_eq!(outcome.plan.impact(), Impact::InPlace);
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
    test.wait(30).await;
    let info = test.sim.appliance(NAME).unwrap();
    assert_eq!(info.dropped, [""; 0]);
    let targets: Vec<usize> = info.entries.iter().map(|it| it.targets.len()).collect();
    assert_eq!(targets, [3, 3], "every node once");
}

#[tokio::test(start_paused = true)]
async fn without_names_of_single_networks_the_plain_name_serves() {
    let fixture = bowline_simulator_triton::Fixture {
        networks: plain_networks(),
        ..Default::default()
    };
    let mut test = Harness::staged(fixture, 2, "");
    test.ensure().await.good();
    let map = test.metadata("portmap").unwrap();
    let begin = format!("tcp://80:k8s-nodes-cccccccc.svc.{ACCOUNT}.inside.example.com:30080");
    assert!(map.starts_with(&begin), "{map}");
    assert!(test.ensure().await.good().plan.is_empty());
}

/// Networks whose zones are no wildcards, so that there are no names of single networks.
fn plain_networks() -> Vec<bowline_simulator_triton::NetworkSpec> {
    use bowline_simulator_triton::NetworkSpec;
    let outside = NetworkSpec {
        public: true,
        zones: vec!["outside.example.com".to_owned()],
        ..NetworkSpec::named("external", "203.0.113.0/24".parse().unwrap())
    };
    let inside = NetworkSpec {
        zones: vec!["inside.example.com".to_owned()],
        ..NetworkSpec::named("inside", "10.20.0.0/24".parse().unwrap())
    };
    vec![outside, inside]
}

#[tokio::test(start_paused = true)]
async fn triton_case_47_after_a_crash_the_machine_is_found_again() {
    let mut before = Vec::new();
    for looks in [1, 2, 8, 12, 14, 16] {
        let mut test = Harness::new();
        test.until_crash(Goal::Present, looks).await;
        before.extend(test.names());
        test.restart();
        test.service.annotations = None;
        test.ensure().await.good();
        let machine = test.machine();
        assert_eq!(machine.name, NAME);
        assert_eq!(test.get("instances"), machine.id);
        let writes = test.writes();
        let made = writes.iter().filter(|it| *it == "createmachine").count();
        assert_eq!(made, 1, "died after {looks} looks");
    }
    let some = (1..6).contains(&before.len());
    assert!(some, "some died before it was made, some after");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_makes_no_second_machine() {
    let mut test = Harness::new();
    test.fault("createmachine", 1, Action::LostAnswer);
    test.ensure().await.good();
    assert_eq!(test.names(), [NAME]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_48_protocols_certificates_and_checks_are_told_to_the_machine() {
    let mut test = Harness::new();
    test.set("protocols", "443=https-http");
    test.set("certificate_name", "shop.example.com");
    test.service.traffic_policy = TrafficPolicy::Local;
    test.service.health_check_node_port = Some(31000);
    test.ensure().await.good();
    let name = format!("my-fabric.{}", nodes_name());
    let check = "{check:/healthz,port:31000}";
    let map = format!("tcp://80:{name}:30080{check},https-http://443:{name}:30443{check}");
    assert_eq!(test.metadata("portmap"), Some(map));
    let certificate = test.metadata("certificate_name");
    assert_eq!(certificate.as_deref(), Some("shop.example.com"));
    test.wait(10).await;
    let info = test.sim.appliance(NAME).unwrap();
    assert_eq!(info.certificate.as_deref(), Some("shop.example.com"));
    let check = Some(("/healthz".to_owned(), Some(31000)));
    assert!(info.entries.iter().all(|it| it.check == check), "{info:?}");
}

#[tokio::test(start_paused = true)]
async fn triton_case_51_a_udp_port_stops_the_whole() {
    let mut test = Harness::new();
    test.service.ports.push(port("UDP", 53, 30053));
    let outcome = test.ensure().await;
    assert_eq!(outcome.problems(), ["UnsupportedProtocol"]);
    assert_eq!(test.machines(), []);
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_52_a_quota_is_told_as_such_and_tried_again_after_five_minutes() {
    let mut test = Harness::new();
    let body = json!({"code": "NotAuthorized",
                      "message": "Quota exceeded; to have your limits raised please contact Support"});
    let refusal = Action::Status {
        code: 403,
        headers: std::collections::BTreeMap::new(),
        body: Some(body),
    };
    test.fault("createmachine", 1, refusal);
    let outcome = test.ensure().await;
    assert_eq!(outcome.reasons(), ["QuotaExceeded"]);
    let message = &outcome.notices[0].message;
    let words = "Quota exceeded; to have your limits raised";
    assert!(message.contains(words), "{message}");
    assert_eq!(test.shown(), "");
    // Rules and labels do not wait for it.
    assert_eq!(test.rules().len(), 1);
    test.calls();
    let outcome = test.ensure().await;
    let left = outcome.hint.unwrap();
    let secs = Duration::from_secs;
    assert!(left <= secs(300) && left > secs(290), "{left:?}");
    assert!(outcome.error.unwrap().contains("Quota exceeded"));
    assert_eq!(test.writes(), [""; 0]);
    tokio::time::sleep(left).await;
    test.ensure().await.good();
    assert_eq!(test.names(), [NAME]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_53_machines_that_fail_are_replaced_but_not_without_end() {
    let mut test = Harness::new();
    test.sim.fail_provisions(4);
    let mut failures = 0;
    let outcome = loop {
        let outcome = test.ensure().await;
        match (&outcome.error, outcome.hint) {
            (Some(error), Some(hint)) => {
                assert!(error.contains("another one is made"), "{error}");
                failures += 1;
                tokio::time::sleep(hint).await;
            }
            _ => break outcome,
        }
    };
    assert_eq!(failures, 2);
    assert_eq!(outcome.reasons(), ["CLBProvisionFailed"]);
    // The next plan destroys the last one.
    let outcome = test.ensure().await;
    assert_eq!(outcome.problems(), ["CLBProvisionFailed"]);
    assert_eq!((test.shown(), test.machines().len()), (String::new(), 0));
    let writes = test.writes();
    let count = |name: &str| writes.iter().filter(|it| *it == name).count();
    assert_eq!((count("createmachine"), count("deletemachine")), (3, 3));
    let begun = tokio::time::Instant::now();
    let later = test.ensure().await;
    tokio::time::sleep(later.hint.unwrap()).await;
    assert!(begun.elapsed() >= Duration::from_secs(290));
    // One try, and again a pause.
    let outcome = test.ensure().await;
    assert_eq!(outcome.reasons(), ["CLBProvisionFailed"]);
    assert_eq!(test.ensure().await.problems(), ["CLBProvisionFailed"]);
    let later = test.ensure().await;
    tokio::time::sleep(later.hint.unwrap()).await;
    test.ensure().await.good();
    assert_eq!(test.names(), [NAME]);
}

#[tokio::test(start_paused = true)]
async fn proof_case_45_a_machine_that_failed_is_destroyed_by_a_step_of_its_own() {
    let mut test = Harness::new();
    test.sim.fail_provisions(1);
    let outcome = test.ensure().await;
    let error = outcome.error.unwrap();
    assert!(error.contains("has failed; it is destroyed"), "{error}");
    let writes = test.writes();
    assert!(!writes.contains(&"deletemachine".to_owned()), "{writes:?}");
    let outcome = test.ensure().await;
    outcome.good();
    let destroying = |step: &&bowline_core::Step| step.impact == Impact::Destroys;
    let destroyed: Vec<_> = outcome.plan.steps.iter().filter(destroying).collect();
    assert_eq!(destroyed.len(), 1);
    assert_eq!(destroyed[0].object.name, NAME);
    assert_eq!(destroyed[0].reason.as_deref(), Some("it has failed"));
    assert_eq!(test.names(), [NAME]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_does_not_run_in_time_is_replaced() {
    let mut test = Harness::with("provision-timeout = 30s");
    test.sim
        .set_timings(|it| it.provision = Duration::from_secs(100));
    let error = test.ensure().await.error.unwrap();
    assert!(error.contains("did not run in time"), "{error}");
    test.sim
        .set_timings(|it| it.provision = Duration::from_secs(3));
    test.ensure().await.good();
    assert_eq!(test.names(), [NAME]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_56_forty_nodes_need_64_slots_and_they_are_never_taken_back() {
    let fixture = bowline_simulator_triton::Fixture::default();
    let mut test = Harness::staged(fixture, 40, "");
    test.ensure().await.good();
    assert_eq!(test.metadata("max_rs").as_deref(), Some("64"));
    test.nodes.truncate(3);
    test.reconcile().await.good();
    assert_eq!(test.metadata("max_rs").as_deref(), Some("64"));
}

#[tokio::test(start_paused = true)]
async fn triton_case_82_timeouts_are_in_braces_and_what_does_not_parse_changes_nothing() {
    let mut test = Harness::new();
    test.set("timeouts", "connect:5000");
    test.ensure().await.good();
    assert_eq!(test.metadata("timeouts").as_deref(), Some("{connect:5000}"));
    test.calls();
    for (name, value) in [("timeouts", "connect:5s"), ("health_check", "path=/a,b")] {
        test.unset("timeouts")
            .unset("health_check")
            .set(name, value);
        let outcome = test.ensure().await;
        assert_eq!(outcome.problems(), ["InvalidAnnotation"], "{name}");
        assert_eq!(test.writes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn triton_case_83_a_package_that_is_not_shown_yet_is_no_other_package() {
    let mut test = Harness::new();
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().notices, []);
    test.sim.set_package(NAME, "").unwrap();
    test.wait(10).await;
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.names(), [NAME]);
}

#[tokio::test(start_paused = true)]
async fn what_the_operator_forgot_is_reported() {
    let mut test = Harness::with("clb-package = nonesuch");
    // With every plan.
    for _ in 0..2 {
        assert_eq!(test.ensure().await.problems(), ["CLBPackageNotFound"]);
    }
    let mut test = Harness::with("clb-image = nonesuch");
    assert_eq!(test.ensure().await.problems(), ["CLBImageNotFound"]);
    let mut test = open().await;
    let shown = test.shown();
    test.set("image", "nonesuch");
    assert_eq!(test.ensure().await.problems(), ["CLBImageNotFound"]);
    assert_eq!((test.names(), test.shown()), (vec![NAME.to_owned()], shown));
    assert_eq!(test.writes(), [""; 0], "what is there serves");
}
