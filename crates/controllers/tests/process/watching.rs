//! Connections that are cut while the manager works, on real sockets.

use bowline_simulator::faults::{Action, Rule};

use crate::cloud::Answer;
use crate::harness::Harness;

/// Joins a node that the cloud knows, and waits for its initialisation.
async fn initialize(test: &Harness, name: &'static str) {
    test.cloud.say(name, Answer::Runs("10.0.0.1"));
    test.join(name);
    test.until_initialized(name).await;
}

#[tokio::test]
async fn a_manager_survives_a_restart_of_the_api_server_on_real_sockets() {
    let test = Harness::on_socket().await;
    let manager = test.start("a", &["--secure-port=0", "--leader-elect=false"]);
    initialize(&test, "n1").await;
    // Every connection is cut, as when the process goes away.
    let away = Rule::new(Action::Reset).named("away").on("*", "*").times(3);
    test.world.faults.add(away).unwrap();
    test.world.faults.cut_streams("kubernetes");
    initialize(&test, "n2").await;
    manager.stop().await.0.unwrap();
}
