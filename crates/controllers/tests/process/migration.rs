//! Leader migration: two leases, and controllers that move.

use std::io::Write as _;

use bowline_controllers::manager::ManagerError;
use bowline_simulator::journal::Filter;
use serde_json::Value;

use crate::cloud::Answer;
use crate::stage::{LEASE, Replica, Stage, has_taint, pass, set_ready};

const SECOND: &str = "cloud-provider-extraction-migration";
const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn start(stage: &Stage, file: Option<&tempfile::NamedTempFile>) -> Replica {
    let path = file.map(|file| format!("--leader-migration-config={}", file.path().display()));
    let mut flags = vec!["--secure-port=0", "--enable-leader-migration"];
    flags.extend(path.as_deref());
    stage.start("a", &flags)
}

/// One node that both node controllers have something to do with.
fn cluster(seed: u64) -> Stage {
    let stage = Stage::on_pipe(seed);
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    stage
}

async fn shut_down(stage: &Stage) {
    stage.cloud.say("n1", Answer::IsOff("10.0.0.1"));
    stage.change_node("n1", |node| set_ready(node, "Unknown"));
}

fn is_tainted(stage: &Stage) -> bool {
    has_taint(&stage.node("n1").unwrap(), SHUTDOWN)
}

#[tokio::test(start_paused = true)]
async fn the_built_in_migration_puts_the_life_cycle_under_a_second_lease() {
    let stage = cluster(1);
    stage.give_lease(SECOND, "kube-controller-manager_1");
    let manager = start(&stage, None);
    let keep = || stage.give_lease(SECOND, "kube-controller-manager_1");
    stage.until_initialized("n1").await;
    shut_down(&stage).await;
    for _ in 0..20 {
        keep();
        pass(3).await;
    }
    assert!(
        !is_tainted(&stage),
        "the other component still has the second lease"
    );
    assert_eq!(manager.metric("running_managed_controllers{manager=\"cloud-controller-manager\",name=\"cloud-node\"}").as_deref(), Some("1"));
    stage.until_held(SECOND, "kube-controller-manager_1").await;
    stage
        .until("the shutdown taint", || is_tainted(&stage).then_some(()))
        .await;
    manager.stop().await.0.unwrap();
    for lease in [LEASE, SECOND] {
        assert_eq!(stage.holder(lease), "", "{lease} is given back");
    }
    let events = stage.events("LeaderElection");
    let about = |lease: &str| -> usize {
        let of = |event: &&Value| event["involvedObject"]["name"] == lease;
        events.iter().filter(of).count()
    };
    assert_eq!((about(LEASE), about(SECOND)), (2, 2), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn a_second_lease_is_not_touched_before_the_first_is_held() {
    let stage = cluster(2);
    stage.give_lease(LEASE, "another");
    let manager = start(&stage, None);
    for _ in 0..10 {
        stage.give_lease(LEASE, "another");
        pass(5).await;
    }
    let second = Filter::any().path("*/leases/cloud-provider-extraction-migration");
    assert_eq!(stage.world.journal.count(&second), 0);
    manager.stop().await.0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_migration_file_moves_controllers_and_leaves_some_to_others() {
    let stage = cluster(3);
    let file = file(
        "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n\
         leaderName: moving\ncontrollerLeaders:\n\
         - {name: cloud-node-controller, component: cloud-controller-manager}\n\
         - {name: cloud-node-lifecycle-controller, component: kube-controller-manager}\n",
    );
    let manager = start(&stage, Some(&file));
    stage.until_initialized("n1").await;
    assert_ne!(
        stage.holder("moving"),
        "",
        "initialised under the second lease"
    );
    shut_down(&stage).await;
    pass(120).await;
    assert!(!is_tainted(&stage), "the life cycle runs elsewhere");
    manager.stop().await.0.unwrap();
    assert_eq!(stage.holder("moving"), "");
}

#[tokio::test(start_paused = true)]
async fn losing_the_second_lease_ends_everything() {
    let stage = cluster(4);
    let manager = start(&stage, None);
    stage.until_held(SECOND, "").await;
    stage.until_initialized("n1").await;
    stage.give_lease(SECOND, "kube-controller-manager_1");
    let ended = manager.ended().await;
    assert!(
        matches!(&ended, Err(ManagerError::Lost(lost)) if lost.lease.name == SECOND),
        "{ended:?}"
    );
    let mark = stage.mark();
    stage.cloud.say("n2", Answer::Runs("10.0.0.2"));
    stage.join("n2");
    pass(600).await;
    assert_eq!(stage.transcript_from(mark), "");
}

#[tokio::test(start_paused = true)]
async fn a_bad_migration_file_ends_the_start_before_anything_is_called() {
    let stage = cluster(5);
    let bad = file(
        "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n\
         controllerLeaders: [{name: a}]\n",
    );
    let ended = start(&stage, Some(&bad)).ended().await.unwrap_err();
    assert_eq!(
        ended.to_string(),
        format!(
            "failed to parse leader migration configuration: {}: leaderName must be set, \
             controllerLeaders[0].component must be set",
            bad.path().display()
        )
    );
    assert_eq!(stage.mark(), 0);
}
