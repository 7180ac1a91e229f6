//! What ends a start, and in which order it is found out.

use bowline_controllers::manager::ManagerError;
use bowline_simulator::journal::Filter;

use crate::cloud::{Answer, Demo};
use crate::stage::{Replica, Stage, parse};

#[tokio::test(start_paused = true)]
async fn framework_case_124_a_cloud_without_a_cluster_id_needs_the_flag() {
    let mut stage = Stage::on_pipe(1);
    stage.cloud = Demo::untagged(&stage.world.clock);
    let ended = stage
        .start("a", &["--secure-port=0"])
        .ended()
        .await
        .unwrap_err();
    assert!(matches!(ended, ManagerError::NoClusterId(_)), "{ended:?}");
    assert!(
        ended.to_string().starts_with("no ClusterID found."),
        "{ended}"
    );
    assert_eq!(stage.mark(), 0, "nothing was called before");

    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let manager = stage.start("a", &["--secure-port=0", "--allow-untagged-cloud"]);
    stage.until_initialized("n1").await;
    manager.stop().await.0.unwrap();
}

#[test]
fn framework_case_134_problems_are_told_together_in_their_order() {
    let flags = [
        "--controllers=bogus,-foo",
        "--leader-elect-resource-lock=endpoints",
    ];
    assert_eq!(
        parse(&flags).validate().unwrap_err().to_string(),
        "[resourceLock value must be \"leases\", \"bogus\" is not in the list of known \
         controllers, \"foo\" is not in the list of known controllers]"
    );
}

#[tokio::test(start_paused = true)]
async fn framework_case_113_all_but_service_means_all_that_the_clouds_can_serve() {
    let stage = Stage::on_pipe(2);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let manager = stage.start("a", &["--secure-port=0", "--controllers=*,-service"]);
    stage.until_initialized("n1").await;
    for (name, expected) in [
        ("cloud-node", true),
        ("cloud-node-lifecycle", true),
        ("service", false),
    ] {
        let text = manager.metrics.text();
        let running = text.lines().any(|line| {
            line.starts_with("running_managed_controllers{")
                && line.contains(&format!("name=\"{name}\""))
                && line.ends_with(" 1")
        });
        assert_eq!(running, expected, "{name}");
    }
    manager.stop().await.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn framework_case_112_a_controller_that_was_not_named_does_nothing() {
    let stage = Stage::on_pipe(3);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let flags = ["--secure-port=0", "--controllers=cloud-node-lifecycle"];
    let manager = stage.start("a", &flags);
    let watch = Filter::any().path("/api/v1/nodes").query("*watch=true*");
    stage.until_called("the watch of nodes", &watch).await;
    crate::stage::pass(600).await;
    let node = stage.node("n1").unwrap();
    assert!(crate::stage::has_taint(&node, crate::stage::UNINITIALIZED));
    manager.stop().await.0.unwrap();
}

#[tokio::test]
async fn a_port_that_is_taken_ends_the_start() {
    let stage = Stage::on_socket().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let flags = crate::https::serving_flags(port);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let manager = stage.manager(&stage.administrator("a"), &flags);
    let ended = Replica::of(manager).ended().await.unwrap_err();
    assert!(matches!(ended, ManagerError::Serving(_)), "{ended:?}");
    let leases = Filter::any().path("*/leases*");
    assert_eq!(stage.world.journal.count(&leases), 0, "before it competes");
}
