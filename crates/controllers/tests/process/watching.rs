//! Connections that are cut while the manager works, on real sockets.

use bowline_simulator::faults::{Action, Rule};

use crate::cloud::Answer;
use crate::stage::Stage;

/// Joins a node that the cloud knows, and waits for its initialisation.
async fn initialize(stage: &Stage, name: &'static str) {
    stage.cloud.say(name, Answer::Runs("10.0.0.1"));
    stage.join(name);
    stage.until_initialized(name).await;
}

#[tokio::test]
async fn a_manager_survives_a_restart_of_the_api_server_on_real_sockets() {
    let stage = Stage::on_socket().await;
    let manager = stage.start("a", &["--secure-port=0", "--leader-elect=false"]);
    initialize(&stage, "n1").await;
    // Every connection is cut, as when the process goes away.
    let away = Rule::new(Action::Reset).named("away").on("*", "*").times(3);
    stage.world.faults.add(away).unwrap();
    stage.world.faults.cut_streams("kubernetes");
    initialize(&stage, "n2").await;
    manager.stop().await.0.unwrap();
}
