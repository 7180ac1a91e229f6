//! `--use-service-account-credentials`: one service account for each controller.

use bowline_controllers::manager::ManagerError;
use bowline_scenarios::{LEASE, Setup, Sharing, TestCluster, is_real, scenario};
use bowline_simulator::journal::Filter;
use bowline_simulator_kubernetes::auth::framework;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use tokio::time::Instant;

use crate::process::{check, join, stop};

const FLAGS: &[&str] = &["--use-service-account-credentials"];
const ROOT: &str = "system:serviceaccount:kube-system:manager";
const NODE: &str = "system:serviceaccount:kube-system:node-controller";

/// A bench whose account has the framework's roles, and its configuration. The accounts of the
/// controllers have fixed names, so nobody else can be on that server.
async fn with_roles(seed: u64, accounts: bool) -> (TestCluster, kube::Config) {
    let bench = TestCluster::set_up(Setup {
        seed,
        sharing: Sharing::Alone,
        ..Setup::default()
    })
    .await;
    let objects = framework("manager", accounts);
    let granted = bench.cluster.grant("manager", &objects).await;
    assert_eq!(granted.user, ROOT);
    (bench, granted.config)
}

#[scenario]
async fn framework_case_143_nodes_are_written_by_the_controllers_own_account() {
    let (bench, config) = with_roles(1, true).await;
    join(&bench, "n1").await;
    // Long terms, so that two hours are not all about renewals.
    let terms = [
        "--leader-elect-lease-duration=60s",
        "--leader-elect-renew-deadline=50s",
        "--leader-elect-retry-period=40s",
    ];
    let flags = [FLAGS, &terms].concat();
    let manager = bench.replica_as(ROOT, &config, &flags);
    bench.until_initialized("n1").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(bench.admin(), "kube-system");
    accounts.get("node-controller").await.unwrap();
    // Tokens last for an hour and are renewed before that; the real clock has no time for it.
    if !is_real() {
        bench.seconds(7200).await;
    }
    join(&bench, "n2").await;
    bench.until_initialized("n2").await;
    stop(&bench, manager).await;
    assert_eq!(bench.count(&Filter::any().status(401)), 0);
    assert_eq!(bench.count(&Filter::any().status(403)), 0);
    for call in bench.matching(&Filter::any().mutating().path("/api/v1/nodes*")) {
        assert_eq!(call.caller, NODE, "{call:?}");
    }
    for call in bench.matching(
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
        // Besides the scenario's own look.
        Filter::any().path("*/serviceaccounts/node-controller/token"),
    ] {
        let calls = bench.matching(&filter);
        assert!(!calls.is_empty(), "{filter:?}");
        for call in calls {
            assert_eq!(call.caller, ROOT, "{call:?}");
        }
    }
    let tokens = Filter::any()
        .method("POST")
        .path("*/serviceaccounts/node-controller/token");
    // Two controllers, renewed twice.
    let least = if is_real() { 2 } else { 2 * 3 };
    assert!(bench.count(&tokens) >= least);
}

#[scenario]
async fn framework_case_143_without_the_right_to_make_accounts_the_start_fails() {
    let (bench, config) = with_roles(2, false).await;
    let manager = bench.replica_as(ROOT, &config, FLAGS);
    let ended = manager.ended().await.unwrap_err();
    assert!(matches!(ended, ManagerError::Account(_)), "{ended:?}");
    assert_eq!(
        ended.to_string(),
        "cannot read or create service account kube-system/node-controller"
    );
    let why = std::error::Error::source(&ended).unwrap().to_string();
    assert!(why.contains("forbidden"), "{why}");
    bench.catch_up().await;
    assert_eq!(bench.holder(LEASE), "", "the lease is given back at once");
    let nodes = Filter::any().path("/api/v1/nodes*");
    assert_eq!(bench.count(&nodes), 0);
}

#[scenario]
async fn the_clients_own_limit_slows_node_writes_and_never_the_lease() {
    let bench = TestCluster::for_replicas(3).await;
    for number in 0..20 {
        join(&bench, &format!("n{number}")).await;
    }
    let flags = ["--kube-api-qps=1", "--kube-api-burst=1"];
    let from = Instant::now();
    let manager = bench.replica("a", &flags).await;
    for number in 0..20 {
        bench.until_initialized(&format!("n{number}")).await;
    }
    // Two writes for each node, one in a second.
    check(&bench, from.elapsed(), 38..=120);
    assert!(manager.is_running(), "renewals have a limit of their own");
    let writes = Filter::any().mutating().path("/api/v1/nodes*");
    let writes = bench.matching(&writes);
    for pair in writes.windows(2) {
        let apart = pair[1].arrived.duration_since(pair[0].arrived);
        // A call that left in time may arrive late on the real clock, and the next one not.
        let least = if is_real() { 500 } else { 990 };
        assert!(apart.as_millis() >= least, "{apart:?}");
    }
    stop(&bench, manager).await;
}
