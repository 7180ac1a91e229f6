//! What a manager starts, and what ends a start.

use bowline_controllers::manager::ManagerError;
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator::journal::Filter;

use crate::process::{PLAIN, join, stop};

#[scenario]
async fn framework_case_124_a_cloud_without_a_cluster_id_needs_the_flag() {
    let bench = TestCluster::for_replicas(1).await;
    bench.cloud().forget_cluster_id();
    let ended = bench.replica("a", PLAIN).await.ended().await;
    let ended = ended.unwrap_err();
    assert!(matches!(ended, ManagerError::NoClusterId(_)), "{ended:?}");
    assert!(
        ended.to_string().starts_with("no ClusterID found."),
        "{ended}"
    );
    assert_eq!(bench.mark(), 0, "nothing was called before");

    join(&bench, "n1").await;
    let manager = bench.replica("a", &["--allow-untagged-cloud"]).await;
    bench.until_initialized("n1").await;
    stop(&bench, manager).await;
}

#[scenario]
async fn framework_case_113_all_but_service_means_all_that_the_clouds_can_serve() {
    let bench = TestCluster::for_replicas(2).await;
    join(&bench, "n1").await;
    let manager = bench.replica("a", &["--controllers=*,-service"]).await;
    bench.until_initialized("n1").await;
    for (name, expected) in [
        ("cloud-node", true),
        ("cloud-node-lifecycle", true),
        ("service", false),
    ] {
        let text = manager.metrics();
        let running = text.lines().any(|line| {
            line.starts_with("running_managed_controllers{")
                && line.contains(&format!("name=\"{name}\""))
                && line.ends_with(" 1")
        });
        assert_eq!(running, expected, "{name}");
    }
    stop(&bench, manager).await;
}

#[scenario]
async fn framework_case_112_a_controller_that_was_not_named_does_nothing() {
    let bench = TestCluster::for_replicas(3).await;
    join(&bench, "n1").await;
    let flags = ["--controllers=cloud-node-lifecycle"];
    let manager = bench.replica("a", &flags).await;
    let watch = Filter::any().path("/api/v1/nodes").query("*watch=true*");
    bench.until_called("the watch of nodes", &watch).await;
    bench.long(600).await;
    assert!(!bench.is_initialized("n1"));
    stop(&bench, manager).await;
}
