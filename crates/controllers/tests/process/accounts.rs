//! `--use-service-account-credentials`: one service account for each controller.

use std::time::Duration;

use bowline_controllers::manager::ManagerError;
use bowline_simulator::journal::Filter;
use bowline_simulator::kubernetes::auth::originals;
use tokio::time::Instant;

use crate::cloud::Answer;
use crate::stage::{LEASE, Stage, kind, pass};

const FLAGS: &[&str] = &["--secure-port=0", "--use-service-account-credentials"];
const ROOT: &str = "system:serviceaccount:kube-system:bowline";
const NODE: &str = "system:serviceaccount:kube-system:node-controller";

#[tokio::test(start_paused = true)]
async fn framework_case_143_nodes_are_written_by_the_controllers_own_account() {
    let stage = Stage::on_pipe(1);
    stage
        .cluster
        .install(originals::framework("bowline", true))
        .unwrap();
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    // Long terms, so that two hours are not all about renewals.
    let terms = [
        "--leader-elect-lease-duration=60s",
        "--leader-elect-renew-deadline=50s",
        "--leader-elect-retry-period=40s",
    ];
    let flags = [FLAGS, &terms].concat();
    let manager = stage.start_as(&stage.account("bowline"), &flags);
    stage.until_initialized("n1").await;
    let account = stage
        .cluster
        .api()
        .get(kind("ServiceAccount"), "kube-system", "node-controller");
    assert!(account.is_some());
    // Tokens last for an hour and are renewed before that.
    pass(7200).await;
    stage.cloud.say("n2", Answer::Runs("10.0.0.2"));
    stage.join("n2");
    stage.until_initialized("n2").await;
    manager.stop().await.0.unwrap();
    let journal = &stage.world.journal;
    assert_eq!(journal.count(&Filter::any().status(401)), 0);
    assert_eq!(journal.count(&Filter::any().status(403)), 0);
    for call in journal.matching(&Filter::any().mutating().path("/api/v1/nodes*")) {
        assert_eq!(call.caller, NODE, "{call:?}");
    }
    for call in journal.matching(
        &Filter::any()
            .mutating()
            .path("*/namespaces/default/events*"),
    ) {
        assert_eq!(call.caller, NODE, "{call:?}");
    }
    for filter in [
        Filter::any().path("*/leases*"),
        Filter::any().method("GET").path("/api/v1/nodes"),
        Filter::any().path("*/namespaces/kube-system/events*"),
        Filter::any().path("*/serviceaccounts*"),
    ] {
        let calls = journal.matching(&filter);
        assert!(!calls.is_empty(), "{filter:?}");
        for call in calls {
            assert_eq!(call.caller, ROOT, "{call:?}");
        }
    }
    let tokens = Filter::any()
        .method("POST")
        .path("*/serviceaccounts/node-controller/token");
    assert!(
        journal.count(&tokens) >= 2 * 3,
        "two controllers, renewed twice"
    );
}

#[tokio::test(start_paused = true)]
async fn framework_case_143_without_the_right_to_make_accounts_the_start_fails() {
    let stage = Stage::on_pipe(2);
    stage
        .cluster
        .install(originals::framework("bowline", false))
        .unwrap();
    let manager = stage.start_as(&stage.account("bowline"), FLAGS);
    let ended = manager.ended().await.unwrap_err();
    assert!(matches!(ended, ManagerError::Account(_)), "{ended:?}");
    assert_eq!(
        ended.to_string(),
        "cannot read or create service account kube-system/node-controller"
    );
    let why = std::error::Error::source(&ended).unwrap().to_string();
    assert!(why.contains("forbidden"), "{why}");
    assert_eq!(stage.holder(LEASE), "", "the lease is given back at once");
    let nodes = Filter::any().path("/api/v1/nodes*");
    assert_eq!(stage.world.journal.count(&nodes), 0);
}

#[tokio::test(start_paused = true)]
async fn the_clients_own_limit_slows_node_writes_and_never_the_lease() {
    let stage = Stage::on_pipe(3);
    for number in 0..20 {
        let name: &'static str = format!("n{number}").leak();
        stage.cloud.say(name, Answer::Runs("10.0.0.1"));
        stage.join(name);
    }
    let flags = ["--secure-port=0", "--kube-api-qps=1", "--kube-api-burst=1"];
    let from = Instant::now();
    let manager = stage.start("a", &flags);
    for number in 0..20 {
        stage.until_initialized(&format!("n{number}")).await;
    }
    // Two writes for each node, one in a second.
    let took = from.elapsed();
    assert!(took >= Duration::from_secs(38), "{took:?}");
    assert!(took <= Duration::from_secs(120), "{took:?}");
    assert!(manager.is_running(), "renewals have a limit of their own");
    let writes = Filter::any().mutating().path("/api/v1/nodes*");
    let writes = stage.world.journal.matching(&writes);
    for pair in writes.windows(2) {
        let apart = pair[1].arrived.duration_since(pair[0].arrived);
        assert!(apart.as_millis() >= 990, "{apart:?}");
    }
    manager.stop().await.0.unwrap();
}
