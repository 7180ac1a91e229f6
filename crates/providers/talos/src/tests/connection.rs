//! Endpoints, connections and credentials.

use bowline_test_kit::{ends, says};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudErrorKind, CloudName, Lookup};
use bowline_http::{Connector, ProxyRules, Tls};
use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_talos::{Access, Config, MachineSpec, Talos};
use tokio::time::Instant;

use crate::testing::cluster::{FIRST, Harness, cannot_tell, found, id, look};
use crate::{Environment, Need, Seams, Setup, build};

#[tokio::test(start_paused = true)]
async fn talos_case_54_an_endpoint_that_refuses_is_passed_over() {
    let harness = Harness::with_worker();
    harness.give(&Access::reader(&["10.0.0.7", FIRST]));
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    for _ in 0..10 {
        found(&cloud, &node).await;
    }
    let errors = r#"talosccm_api_request_errors_total{request="platformmetadata"}"#;
    assert_eq!(harness.metric(errors), 0);
}

#[tokio::test(start_paused = true)]
async fn talos_case_55_a_renewed_certificate_is_used_before_and_after_the_old_one_ends() {
    let harness = Harness::with_worker();
    let short = Access::reader(&[FIRST]).lifetime(Duration::from_secs(600));
    harness.give(&short);
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    for minute in 0..180 {
        // Renewed a minute before its end, every nine minutes.
        if minute % 9 == 8 {
            harness.give(&short);
        }
        if minute % 7 == 0 {
            harness.talos.drop_connections();
        }
        found(&cloud, &node).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(cloud.ready(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn talos_case_55_a_refused_certificate_is_exchanged_within_the_call() {
    let harness = Harness::with_worker();
    let short = Access::reader(&[FIRST]).lifetime(Duration::from_secs(600));
    harness.give(&short);
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    found(&cloud, &node).await;
    tokio::time::sleep(Duration::from_secs(700)).await;
    let error = cloud.ready().unwrap_err();
    says(&error, "ended at");
    found(&cloud, &node).await;
    harness.talos.drop_connections();
    let error = cannot_tell(&cloud, &node).await;
    assert!(error.to_lowercase().contains("certificate"), "{error}");
    // Nobody has looked at the file since: the call itself does.
    harness.give(&short);
    found(&cloud, &node).await;
    assert_eq!(cloud.ready(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn talos_case_56_a_worker_as_an_endpoint_fails_no_call() {
    let mut harness = Harness::with_worker();
    harness.metal("w2", &["eth0/10.8.0.12/24"]);
    harness.serve("w2", "10.8.0.12");
    harness.give(&Access::reader(&["10.8.0.12", FIRST]));
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    for _ in 0..20 {
        found(&cloud, &node).await;
    }
    let errors = r#"talosccm_api_request_errors_total{request="platformmetadata"}"#;
    assert_eq!(harness.metric(errors), 0);
    let forwarding = harness.world.journal.entries();
    // The journal shows gRPC's own refusals as what HTTP would call them.
    let refused = forwarding.iter().filter(|it| it.status == 403).count();
    assert_eq!(refused, 1, "it is remembered");

    harness.give(&Access::reader(&["10.8.0.12"]));
    let cloud = harness.cloud("");
    let error = cannot_tell(&cloud, &node).await;
    ends(&error, "no request forwarding");
}

#[tokio::test(start_paused = true)]
async fn talos_case_57_a_certificate_for_another_name_is_not_trusted() {
    let harness = Harness::with_worker();
    harness.talos.set_server_names(Some(&["other.example"]));
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    let error = cannot_tell(&cloud, &node).await;
    says(
        &error,
        "certificate of 10.0.0.1:50000 is not trusted: it was issued for another",
    );
    let errors = r#"talosccm_api_request_errors_total{request="platformmetadata"}"#;
    assert_eq!(harness.metric(errors), 1);
    harness.talos.set_server_names(None);
    found(&cloud, &node).await;
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_says_nothing_is_given_up_in_time_to_ask_another() {
    let harness = Harness::with_worker();
    // Accepts, and never says a word.
    let _silent = harness.world.pipes.listen("10.0.0.7:50000");
    harness.give(&Access::reader(&["10.0.0.7", FIRST]));
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    let begun = Instant::now();
    for _ in 0..4 {
        found(&cloud, &node).await;
    }
    assert_eq!(
        begun.elapsed().as_secs(),
        1,
        "one connection was waited for, and another one asked meanwhile"
    );
    let event = cloud.next_event().await;
    assert_eq!(event.reason, "EndpointSetAside");
    let error = "the endpoint 10.0.0.7:50000 of the Talos API is set aside: it does not answer; \
                10.0.0.1:50000 answers";
    assert_eq!(event.message, error);
    // A minute later it is asked again, and it was reported before.
    tokio::time::sleep(Duration::from_secs(61)).await;
    for _ in 0..4 {
        found(&cloud, &node).await;
    }
    let more = tokio::time::timeout(Duration::from_secs(1), cloud.next_event());
    assert!(more.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_answers_as_a_proxy_does_is_passed_over_and_set_aside() {
    for code in [500, 502, 503] {
        let mut harness = Harness::with_worker();
        harness.add(&MachineSpec::named("cp2", &["eth0/10.0.0.2/24"]).control_plane());
        harness.serve("cp2", "10.0.0.2");
        harness.give(&Access::reader(&["10.0.0.2", FIRST]));
        let rule = Rule::new(Action::Html { code }).server("talos").times(1);
        harness.world.faults.add(rule).unwrap();
        let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
        let begun = Instant::now();
        found(&cloud, &node).await;
        assert_eq!(begun.elapsed().as_secs(), 0, "{code}");
        let event = cloud.next_event().await;
        assert!(event.message.contains(&format!("HTTP {code}")), "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_names_everybody_who_was_asked() {
    let mut harness = Harness::with_worker();
    harness.add(&MachineSpec::named("cp2", &["eth0/10.0.0.2/24"]).control_plane());
    harness.serve("cp2", "10.0.0.2");
    harness.give(&Access::reader(&["10.0.0.7", "10.0.0.8"]));
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    let error = cannot_tell(&cloud, &node).await;
    for asked in ["10.0.0.7:50000", "10.0.0.8:50000"] {
        says(&error, asked);
    }
    // A machine that hangs makes nobody else suspect.
    harness.give(&Access::reader(&["10.0.0.2", FIRST]));
    let cloud = harness.cloud("");
    harness.talos.hang("w1", true).unwrap();
    let error = cannot_tell(&cloud, &node).await;
    let about = "from 10.0.0.1:50000, 10.0.0.2:50000 about the machine at 10.8.0.11";
    let turned = "from 10.0.0.2:50000, 10.0.0.1:50000 about the machine at 10.8.0.11";
    assert!(error.contains(about) || error.contains(turned), "{error}");
    let event = tokio::time::timeout(Duration::from_secs(1), cloud.next_event());
    assert!(event.await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_cut_is_made_anew_within_the_call() {
    let harness = Harness::with_worker();
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    for _ in 0..3 {
        found(&cloud, &node).await;
        harness.talos.drop_connections();
    }
    harness.talos.cut_next_list("w1", 0).unwrap();
    found(&cloud, &node).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_authority_is_trusted_beside_the_old_one_and_then_alone() {
    let harness = Harness::with_worker();
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    found(&cloud, &node).await;
    harness.talos.rotate_authority().unwrap();
    harness.give(&Access::reader(&[FIRST]));
    harness.talos.drop_connections();
    tokio::time::sleep(Duration::from_secs(6)).await;
    found(&cloud, &node).await;
    assert!(harness.talos.finish_rotation());
    harness.talos.drop_connections();
    found(&cloud, &node).await;
}

#[tokio::test(start_paused = true)]
async fn the_control_plane_is_learnt_and_asked_when_no_named_endpoint_answers() {
    let mut harness = Harness::with_worker();
    harness.add(&MachineSpec::named("cp2", &["eth0/10.0.0.2/24"]).control_plane());
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    found(&cloud, &node).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(harness.asked_for("Members"), 1);
    harness.silence().await;
    harness.talos.drop_connections();
    harness.serve("cp2", "10.0.0.2");
    for _ in 0..3 {
        assert_eq!(id(&found(&cloud, &node).await), "talos://metal/10.8.0.11");
    }
}

#[tokio::test(start_paused = true)]
async fn a_role_that_is_too_small_is_reported_as_denied() {
    let harness = Harness::with_worker();
    harness.give(&Access::reader(&[FIRST]).roles(&["os:nobody"]));
    let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
    let Lookup::CannotTell(error) = look(&cloud, &node).await else {
        panic!("nothing can be told");
    };
    assert_eq!(error.kind(), CloudErrorKind::Denied);
    says(&error.chain(), "not authorized");
}

#[tokio::test(start_paused = true)]
async fn talos_case_53_endpoints_of_the_environment_are_called() {
    let mut harness = Harness::with_worker();
    harness.add(&MachineSpec::named("cp2", &["eth0/10.0.0.2/24"]).control_plane());
    harness.silence().await;
    harness.serve("cp2", "10.0.0.2");
    let cloud = harness.build("", &["10.0.0.2"], Need::Machines).unwrap();
    found(&cloud, &harness.node("w1", "10.8.0.11")).await;
    let old = "global: {endpoints: [10.0.0.2]}";
    let cloud = harness.build(old, &[], Need::Machines).unwrap();
    found(&cloud, &harness.node("w1", "10.8.0.11")).await;
}

#[tokio::test(start_paused = true)]
async fn two_runs_of_one_seed_are_the_same() {
    async fn run() -> String {
        let mut harness = Harness::with_worker();
        harness.add(&MachineSpec::named("cp2", &["eth0/10.0.0.2/24"]).control_plane());
        harness.serve("cp2", "10.0.0.2");
        harness.give(&Access::reader(&[FIRST, "10.0.0.2", "10.0.0.3"]));
        let (cloud, node) = (harness.cloud(""), harness.node("w1", "10.8.0.11"));
        for _ in 0..5 {
            found(&cloud, &node).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        harness.world.journal.transcript()
    }
    let (first, second) = (run().await, run().await);
    assert!(!first.is_empty());
    // The second begins later by the paused clock's own count, not by the world's.
    assert_eq!(first, second);
}

#[tokio::test]
async fn over_real_sockets_and_tls_it_is_the_same() {
    let world = World::real();
    let talos = Talos::new(&world, Config::default()).unwrap();
    let own = ["eth0/10.0.0.1/24"];
    let first = MachineSpec::named("cp1", &own).control_plane();
    talos.add_machine(&first).unwrap();
    let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let server = talos.listen("cp1", any).await.unwrap();
    let endpoint = server.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let text = talos.talosconfig(&Access::reader(&[&endpoint])).unwrap();
    std::fs::write(&path, text).unwrap();
    let setup = Setup {
        environment: Environment {
            endpoints: Vec::new(),
            candidates: vec![path],
        },
        config_file: String::new(),
        config_text: None,
        need: Need::Machines,
    };
    let tls = Tls::new().build().unwrap();
    let seams = Seams {
        name: CloudName::parse("talos").unwrap(),
        connector: Connector::real(tls, ProxyRules::default()),
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: None,
    };
    let cloud = build(setup, seams, None).unwrap();
    let mut node = crate::testing::node("cp1", "10.0.0.1");
    node.created = world.clock.now();
    let instance = found(&cloud, &Arc::new(node)).await;
    assert_eq!(id(&instance), "talos://metal/10.0.0.1");
    cloud.instances().unwrap().canary().await.unwrap();
}
