//! Leader migration: two leases, and controllers that move.

use std::io::Write as _;

use bowline_controllers::manager::ManagerError;
use bowline_scenarios::cloud::{Script, stopped};
use bowline_scenarios::objects::{SHUTDOWN, taints};
use bowline_scenarios::{LEASE, Replica, Setup, Sharing, TestCluster, scenario};
use bowline_simulator::journal::Filter;
use serde_json::Value;

use crate::process::{join, stop};

const SECOND: &str = "cloud-provider-extraction-migration";
const OTHER: &str = "kube-controller-manager_1";

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

async fn start(bench: &TestCluster, file: Option<&tempfile::NamedTempFile>) -> Replica {
    let path = file.map(|file| format!("--leader-migration-config={}", file.path().display()));
    let mut flags = vec!["--enable-leader-migration"];
    flags.extend(path.as_deref());
    bench.replica("a", &flags).await
}

/// A migration of the life cycle, as the built-in one, under a lease of the scenario.
fn own_migration(bench: &TestCluster) -> tempfile::NamedTempFile {
    let second = bench.cluster.names().own(SECOND);
    file(&format!(
        "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n\
         leaderName: {second}\ncontrollerLeaders:\n\
         - {{name: cloud-node-lifecycle-controller, component: '*'}}\n",
    ))
}

/// One node that both node controllers have something to do with.
async fn cluster(seed: u64, sharing: Sharing) -> TestCluster {
    let bench = TestCluster::set_up(Setup {
        seed,
        sharing,
        ..Setup::default()
    })
    .await;
    join(&bench, "n1").await;
    bench
}

async fn shut_down(bench: &TestCluster) {
    bench
        .cloud()
        .say("n1", Script::Machine(stopped("demo://n1")));
    bench.set_ready("n1", "Unknown").await;
}

fn is_tainted(bench: &TestCluster) -> bool {
    let taints = taints(&bench.node("n1"));
    taints.iter().any(|taint| taint.starts_with(SHUTDOWN))
}

#[scenario]
async fn the_built_in_migration_puts_the_life_cycle_under_a_second_lease() {
    // The second lease has a fixed name.
    let bench = cluster(1, Sharing::Alone).await;
    bench.give_lease(SECOND, OTHER).await;
    let manager = start(&bench, None).await;
    bench.until_initialized("n1").await;
    shut_down(&bench).await;
    for _ in 0..20 {
        bench.give_lease(SECOND, OTHER).await;
        bench.seconds(3).await;
    }
    assert!(
        !is_tainted(&bench),
        "the other component still has the second lease"
    );
    let running =
        "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"cloud-node\"}";
    assert_eq!(manager.metric(running), Some(1.0));
    bench.until_held(SECOND, OTHER).await;
    bench.until("the shutdown taint", is_tainted).await;
    stop(&bench, manager).await;
    for lease in [LEASE, SECOND] {
        assert_eq!(bench.holder(lease), "", "{lease} is given back");
    }
    let events = bench.events_of("LeaderElection");
    let about = |lease: &str| -> usize {
        let of = |event: &&Value| event["involvedObject"]["name"] == lease;
        events.iter().filter(of).count()
    };
    assert_eq!((about(LEASE), about(SECOND)), (2, 2), "{events:?}");
}

#[scenario]
async fn a_second_lease_is_not_touched_before_the_first_is_held() {
    let bench = cluster(2, Sharing::Shared).await;
    let file = own_migration(&bench);
    bench.give_lease(LEASE, "another").await;
    let manager = start(&bench, Some(&file)).await;
    for _ in 0..10 {
        bench.give_lease(LEASE, "another").await;
        bench.seconds(5).await;
    }
    let second = Filter::any().path("*/leases/cloud-provider-extraction-migration");
    assert_eq!(bench.count(&second), 0);
    stop(&bench, manager).await;
}

#[scenario]
async fn a_migration_file_moves_controllers_and_leaves_some_to_others() {
    let bench = cluster(3, Sharing::Shared).await;
    let moving = bench.cluster.names().own("moving");
    let file = file(&format!(
        "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n\
             leaderName: {moving}\ncontrollerLeaders:\n\
             - {{name: cloud-node-controller, component: cloud-controller-manager}}\n\
             - {{name: cloud-node-lifecycle-controller, component: kube-controller-manager}}\n",
    ));
    let manager = start(&bench, Some(&file)).await;
    bench.until_initialized("n1").await;
    assert_ne!(
        bench.holder("moving"),
        "",
        "initialised under the second lease"
    );
    shut_down(&bench).await;
    bench.long(120).await;
    assert!(!is_tainted(&bench), "the life cycle runs elsewhere");
    stop(&bench, manager).await;
    assert_eq!(bench.holder("moving"), "");
}

#[scenario]
async fn losing_the_second_lease_ends_everything() {
    let bench = cluster(4, Sharing::Shared).await;
    let file = own_migration(&bench);
    let manager = start(&bench, Some(&file)).await;
    bench.until_held(SECOND, "").await;
    bench.until_initialized("n1").await;
    bench.give_lease(SECOND, OTHER).await;
    let ended = manager.ended().await;
    let Err(ManagerError::Lost(lost)) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(lost.lease.name, bench.cluster.names().own(SECOND));
    let mark = bench.mark();
    join(&bench, "n2").await;
    bench.long(600).await;
    assert_eq!(bench.transcript_from(mark), "");
}

#[scenario]
async fn a_bad_migration_file_ends_the_start_before_anything_is_called() {
    let bench = cluster(5, Sharing::Shared).await;
    let bad = file(
        "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n\
             controllerLeaders: [{name: a}]\n",
    );
    let ended = start(&bench, Some(&bad)).await.ended().await.unwrap_err();
    let path = bad.path().display();
    assert_eq!(
        ended.to_string(),
        format!(
            "failed to parse leader migration configuration: {path}: leaderName must be set, \
                 controllerLeaders[0].component must be set"
        )
    );
    assert_eq!(bench.mark(), 0);
}
